"""Names as arguments: with and without a type, and what ``-o name`` of every command prints."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
import pytest

from gangctl.cli.names import GANGS, GANGS_AND_PODS, NameArgument, ObjectName, qualified
from tests.cli import reference
from tests.cli.gangs.dump import AT, NAMESPACE, RUNS, STUCK, ask, objects
from tests.cli.kueueobjects import cluster, workload
from tests.cli.manifests import gang, write
from tests.cli.run import gangctl
from tests.manifests.fieldspage import definitions
from tests.rows import each

ROOT: Final = Path(__file__).parents[2]
ENTRIES: Final = reference.entries()
GANG_VERBS: Final = ("describe", "get", "wait", "why")
POD: Final = next(pod["metadata"]["name"] for pod in objects("Pod") if RUNS in pod["metadata"]["labels"].values())


@each(
    "typed",
    [
        "train",
        "jobset/train",
        "jobsets/train",
        "JobSet/train",
        "jobset.jobset.x-k8s.io/train",
        "jobsets.jobset.x-k8s.io/train",
        "jobsets.v1alpha2.jobset.x-k8s.io/train",
        "gang/train",
        "gang.gangctl.dev/train",
        "pathwaysjob.pathways-job.pathways.domain/train",
        "trainjob/train",
        "trainjobs.v1alpha1.trainer.kubeflow.org/train",
    ],
)
def test_a_gang_is_named_with_any_of_its_types(typed: str) -> None:
    assert NameArgument(*GANGS_AND_PODS).convert(typed, None, None) == ObjectName("JobSet", "train")


@each("definition", definitions(), ids=lambda definition: str(definition["metadata"]["name"]))
def test_own_kinds_are_named_as_in_their_definitions(definition: Mapping[str, Any]) -> None:
    kind = definition["spec"]["names"]["kind"]
    if kind in GANGS:
        assert qualified(kind) == definition["metadata"]["name"]


@each(
    "typed",
    ["deployment/train", "jobset.apps/train", "jobset/", "/train", "jobset/a/b", "", "a b", "a,b", "jobset.v1/train"],
)
def test_an_invalid_name_is_refused(typed: str) -> None:
    with pytest.raises(click.BadParameter, match=r"another type|not the name of an object"):
        NameArgument(*GANGS_AND_PODS).convert(typed, None, None)


def test_another_type_is_bad_usage() -> None:
    answer = ask("describe", "deployment/train")
    assert answer.code == 2
    assert answer.err.startswith(
        "error: Invalid value for 'NAME': \"deployment/train\" has another type: write NAME, or one of jobset/NAME, "
    )


def test_every_command_takes_the_type_before_the_name() -> None:
    named = [(entry, argument) for entry in ENTRIES for argument in entry.command.params]
    seen = set()
    for entry, argument in named:
        if isinstance(argument.type, NameArgument):
            seen.add(entry.name)
            for kind in argument.type.kinds:
                for typed in ([kind.lower(), "a"], [f"{kind.lower()}/a"]):
                    value = argument.process_value(entry.context, typed)
                    assert [one.name for one in (value if isinstance(value, tuple) else (value,))] == ["a"], entry.name
    assert {f"gangctl {words}" for words in ("fit", "why", "drain", "queue describe", "pathways status")} <= seen


def test_a_single_argument_takes_one_name() -> None:
    answer = gangctl("fit", "jobset", "a", "b")
    assert (answer.code, "one at a time: a, without b" in answer.err) == (2, True)


@each("verb", ["describe", "get", "why"])
def test_a_pod_name_selects_its_gang(verb: str) -> None:
    assert ask(verb, f"pod/{POD}") == ask(verb, RUNS)


def test_an_unknown_pod_is_an_error() -> None:
    answer = ask("why", "pod/nothing", "-n", NAMESPACE)
    assert answer.code == 1
    assert f'error: pods "nothing" not found in namespace "{NAMESPACE}"\n' in answer.err


@each(
    ("typed", "command"),
    [
        ("trainjob/nothing", "kubectl describe trainjob nothing"),
        ("pathwaysjob/nothing", "gangctl pathways status nothing"),
    ],
)
def test_what_makes_a_jobset_is_named_where_there_is_no_jobset(typed: str, command: str) -> None:
    kind = {"trainjob": "TrainJob", "pathwaysjob": "PathwaysJob"}[typed.partition("/")[0]]
    answer = ask("why", typed, "-n", NAMESPACE)
    assert (answer.code, answer.out) == (1, "")
    error, hint = answer.err.splitlines()
    assert error == f'error: jobsets.jobset.x-k8s.io "nothing" not found in namespace "{NAMESPACE}"'
    assert hint.startswith(f"hint: this is the JobSet that {kind} nothing becomes; {command} -n {NAMESPACE} says ")


def printed(tmp_path: Path) -> dict[str, list[str]]:
    """What ``-o name`` of each command prints about files."""
    queues = write(tmp_path / "queues.yaml", *cluster(), workload("w", queue="q"))
    one = write(tmp_path / "jobset.yaml", gang("train"))
    no = {"validations": [{"expression": "false"}], "validationActions": ["Deny"]}
    policies = write(
        tmp_path / "policies.yaml",
        {"apiVersion": "gangctl.dev/v1alpha1", "kind": "GangPolicy", "metadata": {"name": "no"}, "spec": no},
    )
    commands = {
        "get": ("-f", str(STUCK), "--at", AT),
        "plan": ("-f", one),
        "translate": ("-f", one),
        "queue list": ("-A", "--queues", queues),
        "queue list --cluster-queues": ("--queues", queues),
        "queue describe": ("q", "-n", "t", "--queues", queues),
        "policy list": (policies,),
        "policy eval": ("-p", policies, "-f", one),
        "pathways render": ("-f", str(ROOT / "examples" / "pathways" / "01-batch.yaml")),
    }
    return {verb: gangctl(*verb.split(), *args, "-o", "name").out.split() for verb, args in commands.items()}


ELSEWHERE: Final = {
    "install": "objects for kubectl delete",
    "pathways accelerators": "keys of accelerators",
    "policy export": "objects for kubectl delete",
    "policy scan": "as policy eval",
    "wait": "as get",
}
"""Commands with ``-o name`` that are not in the table above."""

TAKEN_BY: Final[Mapping[str, Sequence[str]]] = {
    "gang.gangctl.dev": (*GANG_VERBS, "fit", "pathways status"),
    "jobset.jobset.x-k8s.io": (*GANG_VERBS, "fit", "pathways status"),
    "podgroup.scheduling.k8s.io": ("describe train --group",),
    "localqueue.kueue.x-k8s.io": ("queue describe", "fit --queue"),
    "clusterqueue.kueue.x-k8s.io": ("queue describe",),
    "workload.scheduling.k8s.io": (),
    "gangpolicy.gangctl.dev": (),
}
"""The commands that take a name by its type."""


def test_printed_names_are_accepted_as_arguments(tmp_path: Path) -> None:
    found = printed(tmp_path)
    with_names = {
        entry.name.partition(" ")[2]
        for entry in ENTRIES
        for flag, _ in entry.flags
        if re.search(r"-o, .*\bname\b", flag)
    }
    assert with_names == {verb.partition(" --")[0] for verb in found} | ELSEWHERE.keys()
    assert all(found.values()), found
    names = {name for listed in found.values() for name in listed}
    assert {name.partition("/")[0] for name in names} == TAKEN_BY.keys()
    commands = {entry.name.partition(" ")[2]: entry for entry in ENTRIES}
    for name in names:
        for taker in TAKEN_BY[name.partition("/")[0]]:
            verb = next(each for each in commands if taker == each or taker.startswith(f"{each} "))
            # Parsing alone: a usage error is raised here.
            commands[verb].command.make_context(verb, [*taker.removeprefix(verb).split(), name])


def test_every_name_argument_accepts_a_type() -> None:
    plain = {
        entry.name.partition(" ")[2]
        for entry in ENTRIES
        for param in entry.command.params
        if isinstance(param, click.Argument) and param.name in {"name", "names"} and param.type.name != "name"
    }
    assert plain == {"pathways accelerators"}
