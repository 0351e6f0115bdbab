"""The plan against an oracle: what Kubernetes' own library, workloadbuilder, builds for the same gang.

The oracle (``tests/controlplane/gomod/workloadbuilder``) reads a JobSet with ``spec.scheduling``, as ``gangctl
convert`` writes it, and puts pods into groups by the rules of KEP-969. So the notations, the plan and the objects of
v1beta1 are compared at once. What differs on purpose is in :data:`DIFFERENCES`, each with a JobSet that shows it.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from gangctl.api.meta import GANGS
from gangctl.api.scheduling import NEWEST
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.gang.config import is_label_key, read_config
from gangctl.gang.native import write_scheduling
from gangctl.gang.plan import build_objects, is_sequenced, job_pods, make_plan, replicated_job_pods
from tests.docpages import ROOT
from tests.gang.pipeline import read, resolved
from tests.jobsets import FIXTURE_UID, MODE, OPTIONS, jobset, rj
from tests.rows import each
from tests.strategies import PROPERTY, gangs, gangs_with_classes, options

Object = dict[str, Any]
CLAIM: Final = {"name": "net", "resourceClaimTemplateName": "channel"}


class Oracle:
    """The program, which answers a line with a line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, raw: Object, scheduling: Object) -> Side:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({**raw, "spec": {**raw["spec"], "scheduling": scheduling}}) + "\n")
        self._process.stdin.flush()
        answer = _without_nulls(json.loads(self._process.stdout.readline()))
        return Side(
            answer.get("workload", {}), answer.get("podGroups", []), answer.get("jobs", {}), answer.get("errors", [])
        )


@pytest.fixture(scope="module")
def oracle(workloadbuilder_binary: Path) -> Iterator[Oracle]:
    with subprocess.Popen(
        [workloadbuilder_binary], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield Oracle(process)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


@dataclass(frozen=True)
class Side:
    """What one of the two builds for a JobSet."""

    workload: Object
    groups: list[Object]
    jobs: Mapping[str, str]
    """The group of a Job's pods, by the Job's name; a Job without one is absent."""
    errors: list[str]

    @property
    def templates(self) -> dict[str, Object]:
        """The spec of each template by name."""
        listed = self.workload.get("spec", {}).get("podGroupTemplates", [])
        specs = {entry["name"]: {key: entry[key] for key in entry if key != "name"} for entry in listed}
        assert len(specs) == len(listed)
        return specs

    def gangs(self) -> list[tuple[list[str], Object]]:
        """Jobs and spec of each group. Each copies one template of the Workload, and each template has a group.

        gangctl's templates have no priority class where their groups have several.
        """
        several = len({group["spec"].get("priorityClassName") for group in self.groups}) > 1
        found, used = [], set()
        names = {group["metadata"]["name"] for group in self.groups}
        assert len(names) == len(self.groups)
        assert names.issuperset(self.jobs.values())
        for group in self.groups:
            spec = dict(group["spec"])
            reference = spec.pop("workloadRef")
            used.add(reference["templateName"])
            assert reference["workloadName"] == self.workload["metadata"]["name"]
            own = {"priorityClassName": spec["priorityClassName"]} if several and "priorityClassName" in spec else {}
            assert spec == self.templates[reference["templateName"]] | own
            name = group["metadata"]["name"]
            found.append((sorted(job for job, named in self.jobs.items() if named == name), spec))
        assert used == self.templates.keys()
        return sorted(found, key=lambda gang: gang[0])

    def policies(self) -> list[tuple[str, Any]]:
        """The Jobs of each group with its minCount, or with the name of another policy."""
        gangs = [(" ".join(jobs), spec["schedulingPolicy"]) for jobs, spec in self.gangs()]
        return [
            (jobs, policy["gang"]["minCount"] if "gang" in policy else next(iter(policy))) for jobs, policy in gangs
        ]

    def owner(self) -> Object:
        """The owner of all objects, with their namespace and the Workload's controllerRef."""
        owners = [
            (each["metadata"]["namespace"], each["metadata"]["ownerReferences"])
            for each in (self.workload, *self.groups)
        ]
        namespace, [reference] = owners[0]
        assert all(owner == owners[0] for owner in owners)
        return {**reference, "namespace": namespace, "controllerRef": self.workload["spec"]["controllerRef"]}


def planned_by_gangctl(raw: Object) -> Side:
    """What gangctl builds on Kubernetes 1.37."""
    resolution, projection = resolved(raw), read(raw)
    plan = make_plan(projection, resolution.stamps, resolution.config)
    errors = [str(error) for error in resolution.errors]
    if plan is None:
        return Side({}, [], {}, errors)
    workload, *groups = build_objects(plan, NEWEST)
    field = ADAPTERS[NEWEST].reference
    jobs = {job.name: field(job.reference)["podGroupName"] for job in plan.jobs() if job.reference is not None}
    return Side(workload, groups, jobs, errors)


def as_scheduling(raw: Object) -> tuple[Object | None, list[str]]:
    """``spec.scheduling`` with the same meaning, and why gangctl refuses to write it."""
    projection = read(raw)
    scheduling, errors = write_scheduling(projection, read_config(projection)[0])
    return scheduling, [error.detail for error in errors]


def missing_pods(raw: Object) -> dict[str, int]:
    """How many pods of each Job parallelism counts and completions never let exist."""
    missing = {}
    for entry in raw["spec"]["replicatedJobs"]:
        job = entry["template"]["spec"]
        parallelism = job.get("parallelism", 1)
        for index in range(entry.get("replicas", 1)):
            name = f"{raw['metadata']['name']}-{entry['name']}-{index}"
            missing[name] = max(0, parallelism - job.get("completions", parallelism))
    return missing


def as_gangctl_does(raw: Object, theirs: Side) -> list[tuple[list[str], Object]]:
    """The oracle's gangs without what DIFFERENCES says of groups."""
    missing = missing_pods(raw)
    kept = []
    for jobs, spec in theirs.gangs():
        gang = spec["schedulingPolicy"].get("gang")
        if gang is None:
            continue
        count = gang.get("minCount", 0) - sum(missing[job] for job in jobs)
        if count > 0:
            kept.append((jobs, {**spec, "schedulingPolicy": {"gang": {"minCount": count}}}))
    return kept


@st.composite
def intents(draw: st.DrawFn) -> Object:
    """Gangs with options, and priority classes as gangctl admits them: one in each gang."""
    if draw(st.booleans()):
        return _listed(draw, draw(gangs()))
    raw: Object = draw(gangs_with_classes())
    raw["metadata"]["annotations"][OPTIONS] = json.dumps(draw(options))
    return raw


def _listed(draw: st.DrawFn, raw: Object) -> Object:
    """Gangs over some of its ReplicatedJobs, each with options of its own."""
    raw["metadata"]["annotations"] = {}
    raw["spec"].pop("gangConfig", None)
    for entry in raw["spec"]["replicatedJobs"]:
        entry.pop("gangConfig", None)
        entry["template"]["metadata"]["annotations"].pop(MODE, None)
        entry["template"]["spec"].pop("completions", None)
        entry["template"]["spec"]["template"]["spec"]["resourceClaims"] = [CLAIM]
    projection = read(raw)
    pods = {found.name: (job_pods(found), replicated_job_pods(found)) for found in projection.replicated_jobs}
    apart = is_sequenced(projection, projection.replicated_jobs)
    members: dict[int, list[str]] = {}
    for position, found in enumerate(projection.replicated_jobs):
        if (number := draw(st.integers(-1, 3))) >= 0:
            members.setdefault(position if apart else number, []).append(found.name)
    listed = []
    for number, names in members.items():
        gang: Object = {
            "name": f"g{number}",
            "replicatedJobs": names,
            "perReplica": len(names) == 1 and number % 2 == 0,
        }
        size = pods[names[0]][0] if gang["perReplica"] else sum(pods[name][1] for name in names)
        optional = {
            "topologyKey": st.sampled_from(["rack", "zone"]),
            "disruption": st.sampled_from(["single", "all"]),
            "resourceClaims": st.just([CLAIM]),
            **({"minCount": st.integers(1, size)} if size else {}),
        }
        listed.append({**gang, **draw(st.fixed_dictionaries({}, optional=optional))})
    if listed:
        raw["metadata"]["annotations"][GANGS] = json.dumps(listed)
    return raw


@given(raw=intents())
@settings(PROPERTY, max_examples=200)
def test_gangctl_plans_what_workloadbuilder_builds(raw: Object, oracle: Oracle) -> None:
    scheduling, refused = as_scheduling(raw)
    assume(scheduling is not None)
    assert scheduling is not None
    ours, theirs = planned_by_gangctl(raw), oracle.ask(raw, scheduling)
    assert ours.errors == []
    # A newer revision of JobSet than the oracle's takes these for the gang of one Job only.
    newer = [detail for detail in refused if "for the gang of one Job only" in detail]
    assert bool(theirs.errors) == (len(refused) > len(newer)), theirs.errors
    assert ours.gangs() == as_gangctl_does(raw, theirs)
    if ours.groups:
        assert {**ours.owner(), "blockOwnerDeletion": True} == theirs.owner()


@given(key=st.text("aZ0-_./é", max_size=12))
@example(key="a" * 63)
@example(key="a" * 64)
@example(key="a/" + "b" * 63)
@example(key=".".join(["a" * 63] * 3 + ["a" * 61]) + "/b")
@example(key=".".join(["a" * 63] * 3 + ["a" * 62]) + "/b")
@example(key="a" * 64 + "/b")
@PROPERTY
def test_both_take_the_same_topology_keys(key: str, oracle: Oracle) -> None:
    scheduling = {"schedulingConstraints": {"topology": [{"key": key}]}}
    theirs = oracle.ask(jobset("js", rj("w"), uid=FIXTURE_UID), scheduling)
    assert is_label_key(key) == (theirs.errors == []), theirs.errors


@dataclass(frozen=True)
class Difference:
    """What the two make of one JobSet, as seen by ``look``."""

    what: str
    """The first column of the table in docs/migration.md, which has the reason."""
    jobset: Object
    look: Callable[[Side], object]
    gangctl: object
    upstream: object


def _names(side: Side) -> list[str]:
    """The kinds of names, with the UID and hashes replaced."""
    names = [*side.templates, side.workload["metadata"]["name"], *(each["metadata"]["name"] for each in side.groups)]
    return [re.sub(r"\b[0-9a-f]{10}\b", "HASH", name.replace(FIXTURE_UID[:13], "UID")) for name in names]


def _limits(side: Side) -> tuple[int, int, list[str]]:
    return len(side.templates), len(side.groups), side.errors


_MANY: Final = ["spec.scheduling: Too many: 9: must have at most 8 items"]

DIFFERENCES: Final = (
    Difference(
        "names",
        jobset("js", rj("w", 2, 2, 2), mode="Gang", uid=FIXTURE_UID),
        _names,
        ["jobset", "js-UID", "js-UID-0"],
        ["js-HASH", "js-HASH", "js-HASH"],
    ),
    Difference(
        "pods in no gang",
        jobset("js", rj("leader"), rj("workers", 2, 4, 4, mode="Gang")),
        Side.policies,
        [("js-workers-0 js-workers-1", 8)],
        [("js-leader-0", "basic"), ("js-workers-0 js-workers-1", 8)],
    ),
    Difference(
        "the limit of eight templates",
        jobset("js", *(rj(f"r{index}", mode="Gang" if index == 0 else None) for index in range(9))),
        _limits,
        (1, 1, []),
        (9, 9, _MANY),
    ),
    Difference(
        "`ReplicatedGang`",
        jobset("js", rj("w", 9, 4, 4, mode="ReplicatedGang")),
        _limits,
        (1, 9, []),
        (9, 9, _MANY),
    ),
    Difference(
        "`completions` below `parallelism`",
        jobset("js", rj("w", 2, 8, 3, mode="Gang")),
        Side.policies,
        [("js-w-0 js-w-1", 6)],
        [("js-w-0 js-w-1", 16)],
    ),
    Difference(
        "a gang without pods",
        jobset("js", rj("a", 2, 2, 2, mode="Gang"), rj("b", 1, 0, mode="Gang")),
        Side.policies,
        [("js-a-0 js-a-1", 4)],
        [("js-a-0 js-a-1", 4), ("js-b-0", 0)],
    ),
    Difference(
        "priority classes that differ in a gang",
        jobset(
            "js",
            rj("a", pod={"priorityClassName": "high"}),
            rj("b", pod={"priorityClassName": "low"}),
            rj("c", mode="Off"),
            mode="Gang",
        ),
        lambda side: (len(side.errors), [spec.get("priorityClassName") for _, spec in side.gangs()]),
        (1, []),
        (0, ["high", None]),
    ),
    Difference(
        "gangs with different priority classes",
        jobset("js", rj("a", mode="Gang", pod={"priorityClassName": "high"}), rj("b", mode="Gang")),
        lambda side: (
            [spec.get("priorityClassName") for spec in side.templates.values()],
            [spec.get("priorityClassName") for _, spec in side.gangs()],
        ),
        ([None, None], ["high", None]),
        (["high", None], ["high", None]),
    ),
    Difference(
        "`blockOwnerDeletion`",
        jobset("js", rj("w", mode="Gang")),
        lambda side: side.owner()["blockOwnerDeletion"],
        False,
        True,
    ),
)


@each("difference", DIFFERENCES, ids=[each.what for each in DIFFERENCES])
def test_a_difference_is_as_documented(difference: Difference, oracle: Oracle) -> None:
    scheduling, refused = as_scheduling(difference.jobset)
    assert scheduling is not None
    ours, theirs = planned_by_gangctl(difference.jobset), oracle.ask(difference.jobset, scheduling)
    assert (difference.look(ours), difference.look(theirs)) == (difference.gangctl, difference.upstream)
    assert bool(theirs.errors) == bool(refused)


def test_the_docs_list_the_differences() -> None:
    page = (ROOT / "docs/migration.md").read_text(encoding="utf-8")
    table = page.partition("### Differences from JobSet's objects")[2]
    assert re.findall(r"^\| (.*?) \|", table, flags=re.MULTILINE)[1:] == [each.what for each in DIFFERENCES]
