"""Gangs that MultiKueue runs on a worker cluster: what their own cluster knows, and what the worker cluster adds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gangctl.cli.gangs.watching import _Printer
from gangctl.cli.output import Listing
from tests.cli import run
from tests.cli.gangs.dump import NAMESPACE, RUNS, WAITS, Object, objects
from tests.cli.gangs.place import place
from tests.cli.kueueobjects import cluster, condition, local_queue, workload
from tests.cli.kueueserver import serving
from tests.cli.manifests import write
from tests.cli.run import Answer
from tests.jobsets import jobset, rj
from tests.readiness.standings import standing
from tests.rows import each

Ask = Callable[..., Any]
QUEUE: Final = "kueue.x-k8s.io/queue-name"
MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"
ORIGIN: Final = "kueue.x-k8s.io/multikueue-origin"
GOING: Final = f"gangctl describe {RUNS} -n {NAMESPACE} --context west"


def dispatched(name: str, *, ready: int = 0, ended: str = "") -> Object:
    """A JobSet of one Job with four pods as the cluster has it that dispatched it, with the status that was copied."""
    made = jobset(name, rj("w", 1, 4, 4), mode="Gang", uid=f"uid-{name}", managedBy=MULTIKUEUE, suspend=False)
    made["metadata"] |= {"namespace": NAMESPACE, "labels": {QUEUE: "q"}, "creationTimestamp": "2026-01-01T00:00:00Z"}
    made["status"] = {"replicatedJobsStatus": [{"name": "w", "ready": ready}]}
    if ended:
        made["status"] = {"terminalState": ended, "conditions": [condition(ended)]}
    return made


def held(name: str, *, over: bool = False, **status: Any) -> Object:
    """Kueue's Workload of it in its own cluster."""
    made = workload(name, "q", namespace=NAMESPACE, pods=4, held={"f": {"cpu": "4"}})
    made["status"] |= status
    if over:
        made["status"]["conditions"].append(condition("Finished", reason="Succeeded"))
    return made


WEST: Final = (dispatched(RUNS), held(RUNS, clusterName="west"))


def copies(*names: str) -> list[Object]:
    """The dump of a worker cluster, in which JobSets of these names are MultiKueue's."""
    found = objects()
    for each_ in found:
        if each_["kind"] == "JobSet" and each_["metadata"]["name"] in names:
            each_["metadata"].setdefault("labels", {})[ORIGIN] = "multikueue"
    return found


def config(directory: Path, url: str, worker: Path | None) -> str:
    """A kubeconfig with the context of each: ``manager``, which is the current one, and ``west-of-here``."""
    contexts: list[Object] = [{"name": "manager", "context": {"cluster": "m", "user": "m", "namespace": NAMESPACE}}]
    clusters: list[Object] = [{"name": "m", "cluster": {"server": url}}]
    users: list[Object] = [{"name": "m", "user": {}}]
    if worker is not None:
        theirs = yaml.safe_load(worker.read_text())
        contexts.append({**theirs["contexts"][0], "name": "west-of-here"})
        clusters += theirs["clusters"]
        users += theirs["users"]
    else:
        contexts.append({"name": "west-of-here", "context": {"cluster": "gone", "user": "m"}})
        clusters.append({"name": "gone", "cluster": {"server": "http://127.0.0.1:1"}})
    whole = {"apiVersion": "v1", "kind": "Config", "current-context": "manager"}
    return write(directory / "both", {**whole, "clusters": clusters, "users": users, "contexts": contexts})


@asynccontextmanager
async def clusters(
    directory: Path, manager: Sequence[Object] = WEST, worker: Sequence[Object] | None = ()
) -> AsyncIterator[Ask]:
    """The cluster that dispatches and its worker cluster, which is unreachable for None; yields how to ask them."""
    queues = [*cluster("8"), local_queue("q", "cq", NAMESPACE)]
    async with serving(*queues, *manager) as (_, url), place(directory, worker or ()) as there:
        path = config(directory, url, there.kubeconfig if worker is not None else None)

        async def ask(*arguments: str) -> Answer:
            return await run.ask(*arguments, "--kubeconfig", path)

        yield ask


def row(answer: Answer, header: str) -> str:
    """The cell of the only row under a header."""
    head, line = answer.out.splitlines()
    start = head.index(header)
    return line[start:].split()[0]


async def test_the_cluster_of_a_dispatched_gang_is_a_column(tmp_path: Path) -> None:
    async with clusters(tmp_path) as ask:
        answer = await ask("get")
        wide = await ask("get", "-o", "wide")
        document = await ask("get", RUNS, "-o", "json")
    assert answer.out.splitlines()[0].split() == [
        "NAMESPACE",
        "NAME",
        "PHASE",
        "READY",
        "REASON",
        "QUEUE",
        "SINCE",
        "AGE",
        "CLUSTER",
    ]
    assert [row(answer, header) for header in ("PHASE", "READY", "CLUSTER")] == ["Pending", "0/4", "west"]
    assert (row(wide, "CLUSTER "), row(wide, "CLUSTERQUEUE")) == ("west", "cq")
    assert document.json["status"]["cluster"] == "west"


async def test_without_a_dispatched_gang_there_is_no_such_column(tmp_path: Path) -> None:
    async with clusters(tmp_path, [dispatched(RUNS), held(RUNS, nominatedClusterNames=["west", "east"])]) as ask:
        assert "CLUSTER" not in (await ask("get")).out
        assert "CLUSTERQUEUE" in (await ask("get", "-o", "wide")).out


async def test_the_phase_is_that_of_the_copied_status(tmp_path: Path) -> None:
    async with clusters(tmp_path, [dispatched(RUNS, ready=1), WEST[1]]) as ask:
        answer = await ask("describe", RUNS)
        why = await ask("why", RUNS)
    assert "Ready" in answer.out.splitlines()[0]
    assert "MultiKueue runs it on worker cluster west." in answer.out
    assert f"  $ {GOING} --kubeconfig " in answer.out
    assert "missing" not in answer.out, "its Jobs are not here"
    assert "Nothing blocks it." in why.out


async def test_why_names_the_command_for_its_cluster(tmp_path: Path) -> None:
    async with clusters(tmp_path) as ask:
        why = await ask("why", RUNS)
    assert why.code == 0
    assert f"  $ gangctl why {RUNS} -n {NAMESPACE} --context west --kubeconfig " in why.out


async def test_the_groups_of_the_worker_cluster_are_shown(tmp_path: Path) -> None:
    async with clusters(tmp_path, worker=copies(RUNS)) as ask:
        listed = await ask("get", "--worker", "west=west-of-here")
        described = await ask("describe", RUNS, "--worker", "west=west-of-here")
        document = await ask("describe", RUNS, "--worker", "west=west-of-here", "-o", "json")
    assert (listed.err, described.err) == ("", "")
    assert (row(listed, "READY"), row(listed, "CLUSTER")) == ("5/5", "west")
    assert f"group {RUNS}-" in described.out
    assert "MultiKueue runs it on worker cluster west." in described.out
    assert sum(each_["pods"] for each_ in document.json["details"]["nodes"]) == 5
    assert document.json["status"]["cluster"] == "west"


async def test_why_explains_what_the_worker_cluster_has(tmp_path: Path) -> None:
    manager = [dispatched(WAITS), held(WAITS, clusterName="west")]
    async with clusters(tmp_path, manager, copies(WAITS)) as ask:
        why = await ask("why", WAITS, "--worker", "west=west-of-here")
    assert why.code == 1
    assert "MultiKueue runs it on worker cluster west." in why.out
    assert "(Unschedulable" in why.out
    commands = [line.strip() for line in why.out.splitlines() if line.strip().startswith("$ ")]
    assert commands
    assert all(
        each_.startswith("$ kubectl --context west-of-here ") or " --context west-of-here --kubeconfig " in each_
        for each_ in commands
    )


async def test_commands_that_are_suggested_are_for_the_cluster_that_was_asked(tmp_path: Path) -> None:
    """Pasted without its context, ``kubectl delete`` would be about the JobSet of the name in another cluster."""
    async with clusters(tmp_path, worker=objects()) as ask:
        for arguments in (["why", WAITS], ["why"], ["describe", WAITS]):
            answer = await ask(*arguments, "--context", "west-of-here")
            commands = [line for line in answer.out.splitlines() if line.strip().startswith("$ ")]
            assert commands
            assert all("--context west-of-here" in each_ and "--kubeconfig" in each_ for each_ in commands), commands
        late = await ask("wait", WAITS, "--timeout", "0", "--context", "west-of-here")
    assert f"gangctl why {WAITS} -n {NAMESPACE} --context west-of-here" in late.err


async def test_a_jobset_of_the_name_that_multikueue_did_not_make_is_another(tmp_path: Path) -> None:
    async with clusters(tmp_path, worker=objects()) as ask:
        answer = await ask("get", RUNS, "--worker", "west=west-of-here")
    assert (row(answer, "PHASE"), row(answer, "READY")) == ("Pending", "0/4")


async def test_a_worker_cluster_that_does_not_answer_is_noted(tmp_path: Path) -> None:
    async with clusters(tmp_path, worker=None) as ask:
        answer = await ask("get", "--worker", "west=west-of-here")
        unknown = await ask("get", "--worker", "west")
    assert (answer.code, row(answer, "CLUSTER")) == (0, "west")
    assert answer.err.startswith("note: worker cluster west cannot be read: ")
    assert (unknown.code, unknown.out) == (2, "")
    assert "no context named 'west'" in unknown.err


async def test_clusters_that_run_none_of_the_gangs_are_not_asked(tmp_path: Path) -> None:
    async with clusters(tmp_path, worker=None) as ask:
        answer = await ask("get", "--worker", "east=nowhere")
    assert (answer.code, answer.err) == (0, "")


async def test_a_finished_gang_has_the_cluster_on_which_it_ran(tmp_path: Path) -> None:
    manager = [dispatched(RUNS, ended="Completed"), held(RUNS, over=True, clusterName="west")]
    async with clusters(tmp_path, manager) as ask:
        answer = await ask("describe", RUNS, "--worker", "west=west-of-here")
    assert "MultiKueue ran it on worker cluster west." in answer.out
    assert "--context" not in answer.out, "MultiKueue has deleted its copy"


@each(("cluster_of_first", "column"), [("west", True), ("", False)])
def test_a_watch_has_the_column_if_one_of_the_first_gangs_has_it(
    cluster_of_first: str, column: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    printer = _Printer(Listing("wide"))
    printer.show([(None, standing("first", cluster=cluster_of_first)), (None, standing("second"))])
    printer.show([(standing("second"), standing("second", cluster="east"))])
    header, *_, last = capsys.readouterr().out.splitlines()
    assert ("CLUSTER" in header.split(), "east" in last.split()) == (column, column)
    assert last.split()[-4:] == ["cluster", "0", "0", "-"]


@each(
    ("arguments", "words"),
    [
        (("get", "--worker", "west="), "neither NAME nor NAME=CONTEXT"),
        (("get", "--worker", "=x"), "neither NAME nor NAME=CONTEXT"),
        (("get", "--worker", "a", "--worker", "a=b"), "named twice"),
        (("get", "--worker", "a", "--watch"), "--watch follows one cluster"),
        (("get", "--worker", "a", "-f", "x.yaml"), "-f stands in for clusters"),
        (("fit", "-f", "x.yaml", "--queues", "y.yaml", "--worker", "a"), "--worker needs the cluster that dispatches"),
    ],
)
def test_options_that_contradict_each_other_are_refused(arguments: tuple[str, ...], words: str, tmp_path: Path) -> None:
    for name in ("x.yaml", "y.yaml"):
        write(tmp_path / name, dispatched(RUNS))
    answer = run.gangctl(*(str(tmp_path / each_) if each_.endswith(".yaml") else each_ for each_ in arguments))
    assert answer.code == 2
    assert words in answer.err
