"""Where gangs stand in Kueue's queues: what may be read of them, and what watching changes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from gangctl.api.jobset import read_jobset
from gangctl.cli.gangs.cluster import JobSetScope, ScopeReader, project_stored, queue_sources, take
from gangctl.cli.gangs.state import GangState
from gangctl.cli.kueuecluster import read_kueue
from gangctl.client.client import Client
from gangctl.client.transport import Transport
from gangctl.cluster import kinds
from gangctl.cluster.stock import Stock
from gangctl.fit.started import labels_of
from gangctl.gang.reasons import Reason
from gangctl.kueue.names import MULTIKUEUE
from gangctl.kueue.queues import QueueFacts
from gangctl.readiness.evaluate import evaluate
from tests.cli.httpserver import ask
from tests.cli.kueueobjects import (
    CONFIGURATION,
    KUEUE,
    WITH_TRAINJOBS,
    Object,
    cluster,
    cluster_queue,
    condition,
    flavor,
    kueue,
    local_queue,
    of_trainjob,
    queued,
    workload,
)
from tests.cli.kueueserver import config_map, serving
from tests.credentials import StaticCredentials

NOW = datetime(2026, 1, 1, 2, tzinfo=UTC)


def queues(*objects: Object, known: bool = True) -> Stock:
    stock = Stock()
    for each in objects:
        stock.take_raw(each)
    stock.take_runtime_classes([])
    if not known:
        stock.note_unread(kinds.CLUSTER_QUEUES, "clusterqueues may not be read")
    return stock


def waiting(name: str = "train", **fields: Any) -> Object:
    return workload(name, "q", condition("QuotaReserved", False, "Pending", "insufficient quota"), pods=4, **fields)


def facts(found: Stock, name: str = "train", *, cpu: str = "1", suspend: bool = True) -> QueueFacts | None:
    raw = queued(name, cpu=cpu, uid=f"uid-{name}", suspend=suspend)
    raw["metadata"]["creationTimestamp"] = "2026-01-01T01:00:00Z"
    state = GangState(queues=found)
    take(state.jobsets, project_stored, raw)
    snapshot = state.snapshot(("t", name), NOW.timestamp())
    assert snapshot is not None
    return snapshot.queue


def test_a_waiting_gang_has_its_queue_status() -> None:
    found = facts(queues(*cluster("8", waiting())))
    assert found is not None
    assert (found.local_queue, found.cluster_queue, found.blocked, found.never) == ("q", "cq", None, None)
    assert found.workload is not None


def test_a_gang_may_have_a_workload_that_only_the_status_of_its_queue_counts() -> None:
    found = queues(*cluster("8"))
    found.take_raw({**local_queue("q", "cq"), "status": {"pendingWorkloads": 1}})
    found.note_files_end()
    reported = facts(found)
    assert reported is not None
    assert (reported.stuck, reported.workloads_known) == (None, False)


def test_queues_that_became_active_after_kueues_last_words_are_open() -> None:
    said = workload(
        "train", "q", condition("QuotaReserved", False, "Inadmissible", since="2026-01-01T01:10:00Z"), pods=4
    )
    for since, opened in (("2026-01-01T01:20:00Z", True), ("2026-01-01T01:05:00Z", False)):
        found = queues(*cluster("8", said))
        active = {"status": {"conditions": [condition("Active", since=since)]}}
        for made in (cluster_queue("cq", {"f": {"cpu": "8"}}), local_queue("q", "cq")):
            found.take_raw({**made, **active})
        reported = facts(found)
        assert reported is not None
        assert reported.opened is opened
    # What Kueue said may be of the namespace, whose labels are not known.
    queue = cluster_queue("cq", {"f": {"cpu": "8"}}, namespaceSelector={"matchLabels": {"team": "x"}})
    since = "2026-01-01T01:20:00Z"
    found = queues(*cluster("8", said))
    for made in (queue, local_queue("q", "cq")):
        found.take_raw({**made, "status": {"conditions": [condition("Active", since=since)]}})
    reported = facts(found)
    assert reported is not None
    assert reported.opened is False


def failed(name: str = "train") -> Object:
    return workload(name, "q", condition("Finished", True, "FailedToStart", "conflict for labels"), pods=4)


def test_a_deactivated_gang_is_not_reported_as_missing_its_workload() -> None:
    found = queues(*cluster("8", failed()))
    reported = facts(found)
    assert reported is not None
    assert reported.workload is not None
    assert reported.stuck is not None
    assert reported.stuck.reason == "FailedToStart"
    assert found.live_workloads() == []


def test_a_gang_deactivated_during_a_watch_is_reported() -> None:
    found = queues(*cluster("8", waiting()))
    found.take_raw(failed())
    reported = facts(found)
    assert reported is not None
    assert reported.stuck is not None
    assert reported.stuck.reason == "FailedToStart"
    found.take_raw(waiting())
    assert getattr(facts(found), "stuck", "") is None


@pytest.mark.parametrize(
    ("recovery", "words"),
    [({}, "evicts it in 10m"), ({"recoveryTimeout": "15m"}, "evicts it in 5m"), ({"recoveryTimeout": "0s"}, "")],
)
def test_kueue_evicts_what_does_not_recover_in_time(recovery: Object, words: str) -> None:
    lost = condition("PodsReady", False, "WaitForRecovery", since="2026-01-01T01:50:00Z")
    running = workload("train", "q", lost, pods=4, held={"f": {"cpu": "4"}})
    configured = config_map({**CONFIGURATION, "waitForPodsReady": {"timeout": "20m", **recovery}})
    reported = facts(queues(*cluster("8", running), configured), suspend=False)
    assert reported is not None
    assert bool(reported.stuck) is bool(words)
    assert reported.stuck is None or words in reported.stuck.message
    assert bool(reported.stuck_at) is bool(words)


def test_a_gang_whose_workload_becomes_stuck_by_time_is_looked_at_then() -> None:
    """With this defect of Kueue nothing changes any more."""
    evicted = condition("Evicted", reason="Preempted", since="2026-01-01T01:57:00Z")
    found = queues(*cluster("8", workload("train", "q", evicted, pods=4, held={"f": {"cpu": "4"}})))
    reported = facts(found)
    assert reported is not None
    assert reported.stuck is None
    state = GangState(queues=found)
    take(state.jobsets, project_stored, queued("train", uid="uid-train", suspend=True))
    snapshot = state.snapshot(("t", "train"), NOW.timestamp())
    assert snapshot is not None
    assert evaluate(snapshot, NOW.timestamp()).look_again == NOW.timestamp() + 120


@pytest.mark.parametrize(
    ("known", "fields", "stuck"), [(True, {}, True), (False, {}, False), (True, {"managedBy": MULTIKUEUE}, False)]
)
def test_pods_that_are_not_known_may_need_the_quota_of_an_evicted_gang(
    known: bool, fields: Object, stuck: bool
) -> None:
    evicted = condition("Evicted", reason="Preempted", since="2026-01-01T01:00:00Z")
    raw = queued("train", uid="uid-train", suspend=True)
    raw["spec"] |= fields
    state = GangState(queues=queues(*cluster("8", workload("train", "q", evicted, held={"f": {"cpu": "4"}}))))
    state.pods_known = known
    take(state.jobsets, project_stored, raw)
    snapshot = state.snapshot(("t", "train"), NOW.timestamp())
    assert snapshot is not None
    assert snapshot.queue is not None
    assert (snapshot.queue.stuck is not None) is stuck


def test_of_several_workloads_the_active_one_is_used() -> None:
    over = failed()
    over["metadata"]["name"] = "over"
    reported = facts(queues(*cluster("8", waiting(), over)))
    assert reported is not None
    assert reported.stuck is None


@pytest.mark.parametrize(
    ("own", "value", "suspend", "conflicts"),
    [
        pytest.param(waiting(), "mine", True, 1, id="waiting"),
        pytest.param(waiting(), "w", True, 0, id="waiting, with the value that Kueue writes"),
        pytest.param(workload("train", "q", held={"f": {"cpu": "4"}}), "mine", True, 0, id="admitted"),
        pytest.param(workload("train", "q", held={"f": {"cpu": "4"}}), "mine", False, 0, id="started"),
        pytest.param(failed(), "mine", True, 0, id="failed to start"),
    ],
)
def test_a_conflict_with_the_queue_is_found_before_the_admission_only(
    own: Object, value: str, suspend: bool, conflicts: int
) -> None:
    """Later what stands in the pod templates is Kueue's, or its own message says that it could not start."""
    raw = queued("train", uid="uid-train", suspend=suspend)
    template = raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["metadata"] = {"labels": {"kueue.x-k8s.io/podset": value}}
    state = GangState(queues=queues(*cluster("8", own)))
    take(state.jobsets, project_stored, raw)
    snapshot = state.snapshot(("t", "train"), NOW.timestamp())
    assert snapshot is not None
    assert snapshot.queue is not None
    assert len(snapshot.queue.conflicts) == conflicts
    found = [cause.reason for cause in evaluate(snapshot, NOW.timestamp()).causes]
    assert (Reason.QUEUE_CONFLICT in found) is bool(conflicts)


def test_without_a_queue_or_kueue_there_is_no_queue_status() -> None:
    raw = queued(queue="", uid="u")
    assert queues(*cluster()).facts_of(read_jobset(raw)[0], 0, NOW, never=lambda *_: None) is None
    assert facts(Stock()) is None


def test_never_is_reported_for_suspended_gangs_only() -> None:
    found = queues(*cluster("8", waiting()))
    suspended, running = facts(found, cpu="3"), facts(found, cpu="3", suspend=False)
    assert suspended is not None
    assert suspended.never is not None
    assert suspended.never.reason == "NeverExceedsQuota"
    assert "8" in suspended.never.message
    assert running is not None
    assert running.never is None


def test_without_cluster_queues_no_gang_is_blocked_or_never_fits() -> None:
    found = facts(queues(local_queue("q", "cq"), waiting(), CONFIGURATION, known=False), cpu="99")
    assert found is not None
    assert (found.cluster_queue, found.blocked, found.never, found.workload is not None) == ("cq", None, None, True)


@pytest.mark.parametrize("cpu", ["8"])
def test_a_stopped_queue_is_reported(cpu: str) -> None:
    found = facts(queues(*cluster(cpu, waiting(), stopPolicy="Hold")))
    assert found is not None
    assert found.blocked is not None
    assert "is stopped" in found.blocked.message


def test_a_gang_without_a_workload_is_reported() -> None:
    found = facts(queues(*cluster("8")))
    assert found is not None
    assert found.stuck is not None
    assert found.stuck.reason == "WorkloadMissing"


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize(
    ("made", "reason"),
    [
        pytest.param(workload("job", "q", kind="TrainJob", held={"f": {"cpu": "8"}}), "", id="queued"),
        pytest.param(waiting(), "Fits", id="without a queue"),
    ],
)
def test_kueue_queues_a_jobset_or_the_trainjob_that_controls_it(made: Object, reason: str, known: bool) -> None:
    """Its label counts where the TrainJob has none: then it has a Workload of its own."""
    raw = of_trainjob(queued("train", uid="uid-train", suspend=True))
    raw["metadata"]["creationTimestamp"] = "2026-01-01T01:00:00Z"
    objects = [one for one in cluster("8", made) if one is not CONFIGURATION]
    there = queues(*objects, *([config_map(WITH_TRAINJOBS)] if known else []))
    state = GangState(queues=there)
    take(state.jobsets, project_stored, raw)
    snapshot = state.snapshot(("t", "train"), NOW.timestamp())
    assert snapshot is not None
    causes = {cause.reason: cause.message for cause in evaluate(snapshot, NOW.timestamp()).causes}
    of_queue = causes.keys() & {Reason.WAITING_FOR_QUOTA, Reason.SUSPENDED, Reason.WORKLOAD_MISSING}
    assert of_queue == {Reason.WAITING_FOR_QUOTA if reason else Reason.SUSPENDED}
    assert ("TrainJob job" in causes.get(Reason.SUSPENDED, "")) is not bool(reason)
    assert there.unqueued(snapshot.jobset, NOW) is None
    outside = "NotQueued" if known else "MayFit"
    assert there.fit(raw, "t", new=False)["reason"] == (reason or outside)


def ref(kind: str, name: str) -> Object:
    group = "kueue.x-k8s.io" if kind == "WorkloadPriorityClass" else "scheduling.k8s.io"
    return {"priorityClassRef": {"group": group, "kind": kind, "name": name}}


def admitted(**fields: Any) -> Object:
    return workload("train", "q", pods=4, held={"f": {"cpu": "4"}}, **fields)


@pytest.mark.parametrize(
    ("made", "suspend", "missing"),
    [
        pytest.param(waiting(), True, True, id="waiting"),
        pytest.param(waiting(**ref("WorkloadPriorityClass", "low")), True, True, id="waiting, changed"),
        pytest.param(waiting(**ref("WorkloadPriorityClass", "hihg")), True, False, id="deleted since"),
        pytest.param(waiting(**ref("PriorityClass", "low")), True, False, id="by the class of its pods"),
        pytest.param(admitted(**ref("WorkloadPriorityClass", "low")), True, True, id="admitted, changed"),
        pytest.param(admitted(**ref("WorkloadPriorityClass", "low")), False, False, id="started"),
        pytest.param(admitted(), True, False, id="admitted without one"),
    ],
)
def test_a_gang_whose_label_was_changed_to_a_missing_class_is_never_started(
    made: Object, suspend: bool, missing: bool
) -> None:
    """Kueue looks the class up before it starts the gang, and admits its Workload nevertheless."""
    raw = queued("train", uid="uid-train", suspend=suspend)
    raw["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "hihg"
    there = queues(*cluster("8", made, kueue("WorkloadPriorityClass", "low", value=1)))
    state = GangState(queues=there)
    take(state.jobsets, project_stored, raw)
    snapshot = state.snapshot(("t", "train"), NOW.timestamp())
    assert snapshot is not None
    reasons = [cause.reason for cause in evaluate(snapshot, NOW.timestamp()).causes]
    assert (Reason.PRIORITY_CLASS_MISSING in reasons) is missing
    report = there.fit(raw, "t", new=False)
    assert (report["reason"], "does not start it" in report["message"]) == (
        "QueueBlocked" if missing else "Fits",
        missing,
    )


def test_a_gang_whose_workload_may_not_be_read_is_not_said_to_have_none() -> None:
    there = queues(*cluster("8"))
    there.note_unread(kinds.QUEUED_WORKLOADS, "workloads may not be read")
    found = facts(there)
    assert found is not None
    assert (found.stuck, found.workloads_known) == (None, False)


@pytest.mark.parametrize("everywhere", [(), ("-A",)])
async def test_workloads_that_may_not_be_read_are_not_missing(everywhere: tuple[str, ...], tmp_path: Path) -> None:
    stored = queued("train", uid="uid-train", suspend=True)
    stored["metadata"]["creationTimestamp"] = "2026-01-01T01:00:00Z"
    there = [item for item in cluster("8", stored, waiting()) if item is not CONFIGURATION]
    group = f"/apis/{kinds.QUEUED_WORKLOADS.api_version}"
    closed = {f"{group}/{where}workloads" for where in ("", "namespaces/t/")}
    async with serving(*there, forbidden={*closed, f"{group}/clusterqueues"}) as (_, url):
        answer = await ask(tmp_path, url, "why", *(everywhere or ("train",)), "-o", "json")
        get = await ask(tmp_path, url, "get", *everywhere, "-o", "wide")
    assert (answer.code, "WorkloadMissing" in answer.out + get.out) == (0, False), answer.out


async def test_a_wait_without_rights_to_other_namespaces_watches_the_own_one() -> None:
    """A watch of all namespaces is refused for ever: nothing that Kueue does would be seen."""
    stored = queued("train", uid="uid-train", suspend=True)
    there = [item for item in cluster("8", stored, waiting()) if item is not CONFIGURATION]
    group = f"/apis/{kinds.QUEUED_WORKLOADS.api_version}"
    closed = {f"{group}/{plural}" for plural in ("workloads", "localqueues", "clusterqueues")}
    scope = JobSetScope("t", ("train",))
    async with (
        serving(*there, forbidden=closed) as (_, url),
        Transport(StaticCredentials(url, token="none")) as transport,
    ):
        state = await ScopeReader(Client(transport), scope, watching=True).read()
    assert len(state.queues.workloads) == 1
    assert {source.namespace for source in queue_sources(state, scope)} == {"t"}


def test_the_quota_of_a_gang_that_kueue_admits_by_flavor_counts_once() -> None:
    """With a concurrentAdmissionPolicy a variant is admitted, and its parent has a copy of the admission."""
    parent = workload("train", "q", pods=4, held={"f": {"cpu": "4"}})
    parent["metadata"]["labels"] = {"kueue.x-k8s.io/concurrent-admission-parent": "true"}
    variant = workload("parent", "q", kind="Workload", pods=4, held={"f": {"cpu": "4"}})
    variant["metadata"]["ownerReferences"][0] |= {"apiVersion": KUEUE, "uid": parent["metadata"]["uid"]}
    there = queues(*cluster("8", parent, variant))
    assert there.snapshot.quotas.used("cq", "f", "cpu") == 4000
    assert there.fit(queued("other"), "t")["verdict"] == "fits"
    assert there.fit(queued("train", cpu="2", uid="uid-train"), "t", new=False)["verdict"] == "fits"


@pytest.mark.parametrize("owned", [False, True], ids=["by a user", "by a PathwaysJob"])
async def test_a_gang_that_kueue_suspends_without_a_queue_has_to_name_one(tmp_path: Path, owned: bool) -> None:
    stored = queued("train", queue="", uid="uid-train", suspend=True)
    if owned:
        owner = {"apiVersion": "pathways-job.pathways.domain/v1", "kind": "PathwaysJob", "name": "train", "uid": "u"}
        stored["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    stored["metadata"]["creationTimestamp"] = "2026-01-01T01:00:00Z"
    managing = config_map({**CONFIGURATION, "manageJobsWithoutQueueName": True})
    there = [item for item in cluster("8", stored, managing) if item is not CONFIGURATION]
    async with serving(*there) as (_, url):
        answer = await ask(tmp_path, url, "why", "train", "-o", "json")
    reasons = [cause["reason"] for cause in answer.json["status"]["causes"]]
    assert ("QueueBlocked" in reasons, "Suspended" in reasons) == (True, False)


def test_a_gang_behind_the_head_of_a_strict_queue_is_reported() -> None:
    strict = cluster("8", waiting("head", priority=5), waiting(), queueingStrategy="StrictFIFO")
    found = facts(queues(*strict))
    assert found is not None
    assert found.stuck is not None
    assert found.stuck.reason == "HeadBlocksQueue"
    head = facts(queues(*strict), "head")
    assert head is not None
    assert head.stuck is None


@pytest.mark.parametrize(("forbidden", "head"), [(set(), '"u/first" does not fit now'), ({"localqueues"}, "")])
async def test_the_head_may_be_in_another_namespace(forbidden: set[str], head: str) -> None:
    first = workload("first", "q", condition("QuotaReserved", False, "Pending"), namespace="u", priority=9)
    waits = waiting("second", priority=5), waiting(), first, local_queue("q", "cq", "u")
    there = [item for item in cluster("8", *waits, queueingStrategy="StrictFIFO") if item is not CONFIGURATION]
    closed = {f"/apis/{kinds.LOCAL_QUEUES.api_version}/{resource}" for resource in forbidden}
    async with serving(*there, forbidden=closed) as (_, url), Transport(StaticCredentials(url)) as transport:
        reported = facts(await read_kueue(Client(transport), ["t"], kueue_namespace="kueue-system"))
    assert reported is not None
    stuck = reported.stuck.evidence if reported.stuck is not None else ""
    assert (stuck.startswith(head), bool(stuck)) == (True, bool(head))


class TestChanges:
    def test_changes_update_the_queue_status(self) -> None:
        found = queues(*cluster("8", waiting()))
        found.take_raw(workload("train", "q", held={"f": {"cpu": "4"}}, pods=4))
        found.take_raw(local_queue("q", "other"))
        after = facts(found, suspend=False)
        assert after is not None
        assert after.workload is not None
        assert after.workload.holds("Admitted")
        found.take_raw(cluster_queue("cq", {"f": {"cpu": 8}}, stopPolicy="Hold"))
        found.take_raw(waiting())
        found.take_raw(local_queue("q", "cq"))
        closed = facts(found)
        assert closed is not None
        assert closed.blocked is not None

    def test_deleted_and_finished_workloads_hold_no_quota(self) -> None:
        found = queues(*cluster("8", waiting()))
        found.take_raw(workload("train", "q", condition("Finished"), held={"f": {"cpu": "4"}}))
        assert found.live_workloads() == []
        for workload_change in found.workloads.discard(("t", "jobset-train-00000")):
            found.keep(*workload_change)
        for queue_change in found.local_queues.discard(("t", "q")):
            found.keep(*queue_change)
        closed = facts(found)
        assert closed is not None
        assert closed.blocked is not None
        assert closed.blocked.reason == "LocalQueueMissing"


def test_what_the_flavors_of_a_workload_add_to_its_pods_is_known() -> None:
    holds = workload("train", "q", held={"f": {"cpu": "4"}, "g": {"nvidia.com/gpu": "4"}})
    labels = flavor("f", nodeLabels={"zone": "a"}), flavor("g", nodeLabels={"pool": "b"}), flavor("h", nodeLabels={})
    stock = queues(holds, *labels)
    (held,) = stock.workloads_of("uid-train")
    assert labels_of(held, stock.snapshot) == ("pool=b", "zone=a")
    assert labels_of(None, stock.snapshot) == ()
