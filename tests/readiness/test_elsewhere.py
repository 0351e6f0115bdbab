"""A JobSet that MultiKueue runs on a worker cluster: its readiness by the status that MultiKueue copies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from gangctl.api.jobset import read_jobset
from gangctl.api.meta import GANGS
from gangctl.gang.reasons import Reason
from gangctl.readiness.evaluate import evaluate
from gangctl.readiness.facts import Snapshot
from gangctl.readiness.report import gang_status
from gangctl.readiness.result import GangPhase, Readiness
from tests.gang.pipeline import stored
from tests.jobsets import jobset, rj
from tests.kueue.workloads import yes
from tests.readiness.causes.finding import refused_job
from tests.readiness.snapshots import (
    CREATED,
    NOW,
    READY,
    RUNNING,
    Context,
    condition,
    initially_scheduled,
    rfc3339,
    waits_in,
)
from tests.rows import each

MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"
ADMITTED: Final = CREATED + 42
P = GangPhase
GANG: Final = jobset("js", rj("a", 1, 2, 2), rj("b", 2, 4, 4), mode="Gang", managedBy=MULTIKUEUE)


def there(cluster: str = "west", **jobs: tuple[int, int]) -> Snapshot:
    """On a worker cluster, with so many ready and succeeded Jobs."""
    context = Context(GANG, queue="main")
    context.jobset = replace(context.jobset, reported=jobs)
    queue = replace(waits_in(Admitted=yes(since=rfc3339(ADMITTED))), cluster=cluster)
    return context.snapshot(queue=queue)


def gist(found: Readiness) -> tuple[GangPhase, int, int]:
    return found.phase, found.counts.ready, found.counts.wanted


def test_the_status_of_a_jobset_is_read_only_where_it_runs_elsewhere() -> None:
    raw: dict[str, Any] = {**GANG, "status": {"replicatedJobsStatus": [{"name": "a", "ready": 1}, {"name": "b"}, 7]}}
    assert read_jobset(raw)[0].reported == {"a": (1, 0), "b": (0, 0)}
    here = {**raw, "spec": {key: value for key, value in raw["spec"].items() if key != "managedBy"}}
    assert read_jobset(here)[0].reported == {}
    assert read_jobset({**raw, "status": {"replicatedJobsStatus": "no"}})[0].reported == {}


@each(
    ("jobs", "expected"),
    [
        ({}, (P.PENDING, 0, 10)),
        ({"a": (1, 0)}, (P.PARTIALLY_READY, 2, 10)),
        ({"a": (1, 0), "b": (1, 0)}, (P.PARTIALLY_READY, 6, 10)),
        ({"a": (1, 0), "b": (2, 0)}, (P.READY, 10, 10)),
        ({"a": (0, 1), "b": (2, 0)}, (P.READY, 8, 8)),
        ({"a": (0, 1), "b": (0, 2)}, (P.READY, 0, 0)),
    ],
)
def test_the_phase_follows_the_copied_status(
    jobs: dict[str, tuple[int, int]], expected: tuple[GangPhase, int, int]
) -> None:
    found = evaluate(there("west", **jobs), NOW)
    assert gist(found) == expected
    assert (found.since, found.cluster, found.admitted_at) == (ADMITTED, "west", ADMITTED)
    assert (found.placed_at, found.ready_at) == (0, 0), "these times are those of pods"
    assert gang_status(found)["cluster"] == "west"


@each(
    ("jobs", "expected", "groups"),
    [
        ({}, (P.PENDING, 0, 10), [P.PENDING, P.PENDING]),
        ({"a": (1, 0)}, (P.PARTIALLY_READY, 2, 10), [P.READY, P.PENDING]),
        ({"a": (0, 1), "b": (1, 0)}, (P.PARTIALLY_READY, 4, 8), [P.READY, P.PARTIALLY_READY]),
        ({"a": (1, 0), "b": (2, 0)}, (P.READY, 10, 10), [P.READY, P.READY]),
    ],
)
def test_the_phase_follows_the_status_where_pods_may_not_be_read(
    jobs: dict[str, tuple[int, int]], expected: tuple[GangPhase, int, int], groups: list[GangPhase]
) -> None:
    here = Context(jobset("js", rj("a", 1, 2, 2, mode="Gang"), rj("b", 2, 4, 4, depends_on="a", mode="Gang")))
    here.jobset = replace(here.jobset, reported=jobs)
    found = evaluate(here.snapshot(jobs=here.jobs(only="a"), pods_known=False), NOW)
    assert found.since == 0, "only pods have the time"
    assert (gist(found), [group.phase for group in found.groups]) == (expected, groups)


def test_causes_that_follow_from_missing_pods_are_not_found_where_pods_may_not_be_read() -> None:
    here = Context(jobset("js", rj("a", 1, 2, 2, mode="Gang"), rj("b", 2, 4, 4, depends_on="a", mode="Gang")))
    denied = [refused_job("js-a-0", "no")]
    snapshot = here.snapshot(jobs=here.jobs(only="a"), refused=denied, pods_known=False)
    stage, unknown = evaluate(snapshot, NOW).causes
    assert (stage.reason, unknown.reason, unknown.blocking) == (Reason.WAITING_FOR_STAGE, Reason.UNKNOWN, False)
    assert stage.evidence == ("b waits for a (dependsOn)",)
    assert unknown.evidence == ("the status of the JobSet counts 0 of 10 pods in Jobs that are ready",)


def test_a_gang_that_was_ready_there_is_degraded() -> None:
    ready = evaluate(there(a=(1, 0), b=(2, 0)), NOW)
    found = evaluate(there(a=(1, 0), b=(1, 0)), NOW + 10, ready)
    assert (gist(found), found.since) == ((P.DEGRADED, 6, 10), NOW + 10)
    same = evaluate(there(a=(1, 0), b=(1, 0)), NOW + 20, found)
    assert (same.phase, same.since) == (P.DEGRADED, NOW + 10)


def test_a_gang_that_was_ready_there_and_has_no_ready_pod_is_degraded() -> None:
    ready = evaluate(there(a=(1, 0), b=(2, 0)), NOW)
    assert gist(evaluate(there(), NOW + 10, ready)) == (P.DEGRADED, 0, 10)


def test_a_gang_is_ready_with_its_minimum_whether_or_not_its_pods_may_be_read() -> None:
    """The controller reads them, and a user may not: both have one phase."""
    here = Context(jobset("js", rj("w", 2, 4, 4), annotations={GANGS: "[{name: w, replicatedJobs: [w], minCount: 4}]"}))
    pods = [*here.pods(READY, index=0), *here.pods(RUNNING, index=1)]
    here.jobset = replace(here.jobset, reported={"w": (1, 0)})
    read, unread = here.snapshot(pods, groups=here.groups(initially_scheduled())), here.snapshot(pods_known=False)
    assert evaluate(read, NOW).phase is evaluate(unread, NOW).phase is P.READY


def test_kueue_knows_since_when_it_is_ready() -> None:
    snapshot = there(a=(1, 0), b=(2, 0))
    queue = waits_in(Admitted=yes(since=rfc3339(ADMITTED)), PodsReady=yes(since=rfc3339(NOW - 7)))
    assert evaluate(replace(snapshot, queue=queue), NOW).since == NOW - 7


def test_the_cause_names_the_worker_cluster_and_the_command_for_it() -> None:
    (cause,) = evaluate(there("it's"), NOW).causes
    assert (cause.reason, cause.blocking) == (Reason.UNKNOWN, False)
    assert "on worker cluster it's" in cause.message
    assert cause.command == """gangctl why js -n t --context 'it'"'"'s'"""
    (nowhere,) = evaluate(there(""), NOW).causes
    assert "another controller runs it" in nowhere.message
    assert "--context" not in nowhere.command


def test_the_scheduling_api_of_this_cluster_does_not_matter() -> None:
    context = Context(GANG, None, queue="main")
    (cause,) = evaluate(context.snapshot(queue=replace(waits_in(Admitted=yes()), cluster="west")), NOW).causes
    assert cause.reason is Reason.UNKNOWN


def test_the_end_is_that_of_the_copied_status() -> None:
    context = Context(GANG, queue="main", end=condition("Completed", NOW - 5))
    found = evaluate(context.snapshot(queue=replace(waits_in(), cluster="west")), NOW)
    assert (found.phase, found.since, found.cluster) == (P.SUCCEEDED, NOW - 5, "west")


def test_stamps_of_a_jobset_that_is_deleted_are_no_groups_here() -> None:
    """gangctl's webhook writes them before Kueue's sets managedBy."""
    raw = stored({**GANG, "spec": {**GANG["spec"], "managedBy": ""}})
    raw["spec"]["managedBy"] = MULTIKUEUE
    context = Context(raw, stamped=False, deleting=True)
    assert [group.template for group in evaluate(context.snapshot(), NOW).groups] == [""]
