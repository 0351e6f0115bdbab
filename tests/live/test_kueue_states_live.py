"""gangctl reports the same for a situation with the older and the newer reasons of a real Kueue (K18, K20)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from gangctl.gang.reasons import Reason
from gangctl.kueue.blocked import Blockage, JobFacts, stuck_workload, without_workload
from gangctl.kueue.queues import find_head, in_order
from gangctl.kueue.states import QueuePhase
from tests.controlplane.api import Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import JOBSETS
from tests.live.gangctl import shared
from tests.live.queued import QUEUE, Queued

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(900)]

OLDER, NEWER = "older", "newer"
PRIORITY = "kueue.x-k8s.io/priority-class"
RARE = pytest.mark.full("a state that is rarer than those of the first tier")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(
            OLDER,
            marks=[
                pytest.mark.xdist_group(f"kueue-{OLDER}"),
                pytest.mark.full("the same situations in the other words"),
            ],
            id=OLDER,
        ),
        pytest.param(NEWER, marks=pytest.mark.xdist_group(f"kueue-{NEWER}"), id=NEWER),
    ],
)
def vocabulary(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def speaking(vocabulary: str) -> Iterator[ControlPlane]:
    """A plane whose Kueue speaks this vocabulary."""

    async def start() -> ControlPlane:
        gates = {"UnadmittedWorkloadsObservability": vocabulary == NEWER}
        return await ControlPlane.start("1.37", ("jobset", "kueue"), scheduler=False, kueue_gates=gates)

    yield from shared(start)


@pytest.fixture
async def queued(speaking: ControlPlane, request: pytest.FixtureRequest) -> Queued:
    slug = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())
    return await Queued.make(speaking, slug.removeprefix("test-"))


async def test_a_workload_waits_for_quota(queued: Queued, vocabulary: str) -> None:
    await queued.queue("4")
    await queued.submit("first", "3")
    await queued.until("first", QueuePhase.ADMITTED, "Admitted")
    await queued.submit("second", "3")
    reason = {OLDER: "Pending", NEWER: "WaitingForQuota"}[vocabulary]
    status = await queued.until("second", QueuePhase.PENDING, reason)
    assert status.label == "Pending"
    assert "insufficient unused quota" in status.message
    assert await queued.blocked() is None
    await queued.delete("first")
    await queued.until("second", QueuePhase.ADMITTED)


async def test_a_workload_above_the_maximum_quota_is_pending(queued: Queued, vocabulary: str) -> None:
    await queued.queue("4")
    await queued.submit("big", "5")
    await queued.until("big", QueuePhase.PENDING, {OLDER: "Pending", NEWER: "ExceedsMaxQuota"}[vocabulary])


@RARE
async def test_a_workload_without_a_matching_flavor_is_pending(queued: Queued, vocabulary: str) -> None:
    await queued.apply("ResourceFlavor", f"{queued.namespace}-a", {"nodeLabels": {"type": "a"}})
    await queued.queue("4", flavor=f"{queued.namespace}-a")
    body = jobset("b", rj("w", 1, 1, 1, pod={"nodeSelector": {"type": "b"}}), namespace=queued.namespace)
    await queued.submit("b", body=body)
    await queued.until("b", QueuePhase.PENDING, {OLDER: "Pending", NEWER: "NoMatchingFlavor"}[vocabulary])


async def stop_local(queued: Queued) -> None:
    await queued.door(stopPolicy="Hold")


async def delete_cluster_queue(queued: Queued) -> None:
    await queued.plane.api.delete(queued.path("ClusterQueue", queued.namespace))

    await read_until(queued.cluster_queue, lambda queue: queue is None, "the ClusterQueue to be gone")


async def delete_local_queue(queued: Queued) -> None:
    await queued.plane.api.delete(queued.path("LocalQueue", "main", queued.namespace))
    # Kueue's watch has LocalQueues in their order: after this one it knows that the other is gone.
    await queued.door("later")


async def stop_cluster(queued: Queued) -> None:
    await queued.queue("4", stopPolicy="Hold")


async def select_nobody(queued: Queued) -> None:
    await queued.queue("4", namespaceSelector=None)


async def select_others(queued: Queued) -> None:
    await queued.queue("4", namespaceSelector={"matchLabels": {"team": "other"}})


async def lose_the_flavor(queued: Queued) -> None:
    await queued.queue("4", flavor=f"{queued.namespace}-gone")


async def need_a_check(queued: Queued) -> None:
    await queued.queue("4", admissionChecksStrategy={"admissionChecks": [{"name": "not-there"}]})


@pytest.mark.parametrize(
    ("close", "reason"),
    [
        (delete_local_queue, Blockage.LOCAL_QUEUE_MISSING),
        (stop_local, Blockage.LOCAL_QUEUE_STOPPED),
        (delete_cluster_queue, Blockage.CLUSTER_QUEUE_MISSING),
        (stop_cluster, Blockage.CLUSTER_QUEUE_STOPPED),
        (select_nobody, Blockage.NAMESPACE_NOT_SELECTED),
        (select_others, Blockage.NAMESPACE_NOT_SELECTED),
        (lose_the_flavor, Blockage.CLUSTER_QUEUE_INACTIVE),
        (need_a_check, Blockage.CLUSTER_QUEUE_INACTIVE),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
async def test_a_stopped_queue_is_reported_the_same_with_older_and_newer_reasons(
    close: object, reason: Blockage, queued: Queued
) -> None:
    await queued.queue("4")
    assert callable(close)
    await close(queued)

    await read_until(
        queued.blocked, lambda blocked: blocked is not None and blocked.reason is reason, f"the objects to say {reason}"
    )
    await queued.submit("js")
    status = await queued.until("js", QueuePhase.BLOCKED)
    assert status.label == "Blocked"
    assert (await queued.status("js", queue_open=False)).phase is QueuePhase.BLOCKED
    stuck = stuck_workload(await queued.workload("js"), JobFacts(), datetime.now(UTC), blocked=await queued.blocked())
    assert stuck is not None
    assert stuck.reason is Reason.QUEUE_BLOCKED
    # What opens is open at once, whatever the Workload still says.
    await queued.queue("4", stopPolicy="None")
    await queued.door(stopPolicy="None")
    await queued.until("js", QueuePhase.ADMITTED)


@RARE
async def test_hold_and_drain_evicts_and_resuming_readmits(queued: Queued) -> None:
    await queued.queue("4")
    await queued.submit("js")
    await queued.until("js", QueuePhase.ADMITTED)
    await queued.queue("4", stopPolicy="HoldAndDrain")
    status = await queued.until("js", QueuePhase.BLOCKED)
    assert status.detail == "evicted because its ClusterQueue was stopped"
    await queued.queue("4", stopPolicy="None")
    status = await queued.until("js", QueuePhase.ADMITTED)
    assert status.detail == ""


@RARE
async def test_hold_does_not_evict_running_workloads(queued: Queued) -> None:
    await queued.queue("4")
    await queued.submit("js")
    await queued.until("js", QueuePhase.ADMITTED)
    await queued.queue("4", stopPolicy="Hold")
    await queued.submit("late")
    await queued.until("late", QueuePhase.BLOCKED)
    assert (await queued.status("js", queue_open=False)).phase is QueuePhase.ADMITTED


async def classes(queued: Queued) -> tuple[str, str]:
    for name, value in (("low", 1), ("high", 9)):
        await queued.apply("WorkloadPriorityClass", f"{queued.namespace}-{name}", {}, value=value)
    return f"{queued.namespace}-low", f"{queued.namespace}-high"


@RARE
async def test_a_preempted_workload_waits_again(queued: Queued) -> None:
    low, high = await classes(queued)
    await queued.queue("4", preemption={"withinClusterQueue": "LowerPriority"})
    await queued.submit("low", "3", labels={PRIORITY: low})
    await queued.until("low", QueuePhase.ADMITTED)
    await queued.submit("high", "3", labels={PRIORITY: high})
    await queued.until("high", QueuePhase.ADMITTED)
    status = await queued.until("low", QueuePhase.PENDING)
    assert status.detail == "evicted to free quota for another Workload of the same ClusterQueue that goes before it"


@RARE
async def test_a_gated_workload_is_not_queued(queued: Queued) -> None:
    await queued.queue("4")
    await queued.submit("js", annotations={"kueue.x-k8s.io/admission-gated-by": "test.example/a,test.example/b"})
    status = await queued.until("js", QueuePhase.GATED, "AdmissionGated")
    assert status.detail == "gated by test.example/a, test.example/b"
    path = path_of(JOBSETS, "jobsets", namespace=queued.namespace, name="js")
    await queued.plane.api.patch(path, {"metadata": {"annotations": {"kueue.x-k8s.io/admission-gated-by": None}}})
    await queued.until("js", QueuePhase.ADMITTED)


async def check_says(queued: Queued, name: str, state: str, **rest: object) -> None:
    """Answer as the controller of the namespace's AdmissionCheck."""
    workload = await queued.workload(name)
    path = f"{queued.path('Workload', workload.name, queued.namespace)}/status"
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    entry = {"name": queued.namespace, "state": state, "lastTransitionTime": now, "message": "as told", **rest}
    body: Object = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": workload.name, "uid": workload.uid},
        "status": {"admissionChecks": [entry]},
    }
    await queued.plane.api.patch(path, body, kind="apply", fieldManager="check", force=True)


async def checked_queue(queued: Queued) -> None:
    """A queue with a check that the test answers for."""
    await queued.apply("AdmissionCheck", queued.namespace, {"controllerName": "test.example/check"})
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    condition = {"type": "Active", "status": "True", "reason": "Active", "message": "", "lastTransitionTime": now}
    path = f"{queued.path('AdmissionCheck', queued.namespace)}/status"
    await queued.plane.api.patch(path, {"status": {"conditions": [condition]}})
    await queued.queue("4", admissionChecksStrategy={"admissionChecks": [{"name": queued.namespace}]})


@RARE
async def test_a_workload_waits_for_checks_with_reserved_quota(queued: Queued) -> None:
    await checked_queue(queued)
    await queued.submit("js")
    await queued.until("js", QueuePhase.QUOTA_RESERVED)

    async def named() -> bool:
        if not (detail := (await queued.status("js")).detail).startswith(
            f"waits for check {queued.namespace} (Pending"
        ):
            raise NotYet(detail)
        return True

    await wait_for(named, "the check to be named")
    await check_says(queued, "js", "Ready")
    await queued.until("js", QueuePhase.ADMITTED)


@RARE
async def test_a_check_with_an_immediate_retry_evicts_and_requeues(queued: Queued) -> None:
    await checked_queue(queued)
    await queued.submit("js")
    await queued.until("js", QueuePhase.QUOTA_RESERVED)
    await check_says(queued, "js", "Retry")

    async def reset() -> bool:
        # Kueue takes the quota back, says what was said before, and reserves quota again.
        workload = await queued.workload("js")
        (check,) = workload.checks
        if check.state != "Pending" or "Previously: Retry" not in check.message or not workload.holds("QuotaReserved"):
            raise NotYet(f"{check} {workload.conditions}")
        return True

    await wait_for(reset, "the check to be pending again")


@RARE
async def test_a_check_with_a_later_retry_keeps_the_quota(queued: Queued) -> None:
    await checked_queue(queued)
    await queued.submit("js")
    await queued.until("js", QueuePhase.QUOTA_RESERVED)
    await check_says(queued, "js", "Retry", requeueAfterSeconds=86_400)

    async def timed() -> bool:
        status = await queued.status("js")
        assert status.phase is QueuePhase.QUOTA_RESERVED
        if not re.search(r"\(Retry: as told\); it is evicted in \S+$", status.detail):
            raise NotYet(status.detail)
        return True

    await wait_for(timed, "the time of the eviction")


@RARE
async def test_a_rejecting_check_deactivates_the_workload(queued: Queued) -> None:
    await checked_queue(queued)
    await queued.submit("rejected")
    await queued.until("rejected", QueuePhase.QUOTA_RESERVED)
    await check_says(queued, "rejected", "Rejected")
    await queued.until("rejected", QueuePhase.DEACTIVATED, "DeactivatedDueToAdmissionCheck")
    stuck = stuck_workload(await queued.workload("rejected"), JobFacts(), datetime.now(UTC))
    assert stuck is not None
    assert stuck.reason is Reason.DEACTIVATED


@RARE
async def test_a_workload_deactivated_by_a_user_is_reported(queued: Queued) -> None:
    await queued.queue("4")
    await queued.submit("js")
    await queued.until("js", QueuePhase.ADMITTED)
    workload = await queued.workload("js")
    path = queued.path("Workload", workload.name, queued.namespace)
    await queued.plane.api.patch(path, {"spec": {"active": False}})
    await queued.until("js", QueuePhase.DEACTIVATED, "Deactivated")
    assert stuck_workload(await queued.workload("js"), JobFacts(), datetime.now(UTC)) is None
    await queued.plane.api.patch(path, {"spec": {"active": True}})
    await queued.until("js", QueuePhase.ADMITTED)


async def test_a_conflicting_key_fails_the_start_permanently(queued: Queued) -> None:
    await queued.queue("4")
    body = jobset("js", rj("w", 1, 1, 1), namespace=queued.namespace)
    template = body["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["metadata"] = {"labels": {"kueue.x-k8s.io/podset": "another"}}
    await queued.submit("js", body=body)
    status = await queued.until("js", QueuePhase.FAILED, "FailedToStart")
    stuck = stuck_workload(await queued.workload("js"), JobFacts(), datetime.now(UTC))
    assert stuck is not None
    assert stuck.reason is Reason.FAILED_TO_START
    assert status.message in stuck.message


@RARE
async def test_jobsets_without_a_workload_are_reported(queued: Queued) -> None:
    await queued.queue("4")
    many = jobset("many", *(rj(f"w{index}", 1, 1, 1) for index in range(19)), namespace=queued.namespace)
    await queued.submit("many", body=many)
    await queued.submit("classless", labels={PRIORITY: "no-such-class"})
    # Kueue's default selector leaves this namespace out; its webhook suspends what names a queue all the same.
    elsewhere = jobset(f"js-{queued.namespace}"[:40].strip("-"), rj("w", 1, 1, 1), namespace="kube-system")
    await queued.submit("elsewhere", body=elsewhere)
    await queued.submit("good")
    await queued.until("good", QueuePhase.ADMITTED)
    owners = {workload.owner_uid for workload in await queued.workloads()}
    system = await queued.plane.api.list(queued.path("Workload", None, "kube-system"))
    assert system == []
    assert owners == {queued.uids["good"]}
    path = path_of(JOBSETS, "jobsets", namespace="kube-system", name=elsewhere["metadata"]["name"])
    found = await queued.plane.api.get(path)
    assert found["spec"]["suspend"] is True
    assert found["metadata"]["labels"] == {QUEUE: "main"}
    hour = timedelta(hours=1)
    for stuck, reason in (
        (without_workload(hour, podsets=19, podset_limit=18), Reason.TOO_MANY_PODSETS),
        (
            without_workload(hour, podsets=1, missing_priority_class="no-such-class"),
            Reason.PRIORITY_CLASS_MISSING,
        ),
        (without_workload(hour, podsets=1, managed=False), Reason.NAMESPACE_NOT_MANAGED),
    ):
        assert stuck is not None
        assert stuck.reason is reason


@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
async def test_kueue_admits_in_the_reported_order(strategy: str, queued: Queued) -> None:
    low, high = await classes(queued)
    await queued.queue("2", queueingStrategy=strategy, stopPolicy="Hold")
    for name, priority in (("a", low), ("b", high), ("c", low), ("d", high), ("e", "")):
        await queued.submit(name, "2", labels={PRIORITY: priority} if priority else {})
        await queued.until(name, QueuePhase.BLOCKED)
    queue = await queued.cluster_queue()
    assert queue is not None
    line = [workload.owner_name for workload in in_order(await queued.workloads(), queue)]
    assert sorted(line) == ["a", "b", "c", "d", "e"]
    assert set(line[:2]) == {"b", "d"}
    assert line[-1] == "e"
    for index, name in enumerate(line):
        await queued.queue("2", queueingStrategy=strategy, stopPolicy="None")
        await queued.until(name, QueuePhase.ADMITTED)
        left = [workload.owner_name for workload in in_order(await queued.workloads(), queue)]
        assert left == line[index + 1 :]
        # Of an open BestEffortFIFO queue, whichever Kueue is just about to try takes the quota that comes back.
        await queued.queue("2", queueingStrategy=strategy, stopPolicy="Hold")
        await queued.delete(name)
        await queued.unused()


async def test_the_head_of_a_strict_queue_blocks_it(queued: Queued) -> None:
    await queued.queue("4", queueingStrategy="StrictFIFO")
    # Created within the same second, the two would be in the order of their UIDs.
    await queued.apply("WorkloadPriorityClass", queued.namespace, {}, value=10)
    await queued.submit("big", "5", labels={PRIORITY: queued.namespace})
    await queued.until("big", QueuePhase.PENDING)
    await queued.submit("small", "1")
    queue = await queued.cluster_queue()
    assert queue is not None

    async def reported() -> str:
        line = in_order(await queued.workloads(), queue)
        head = find_head(queue, line, datetime.now(UTC))
        stuck = None if head is None else head.effect(None, impossible=head.workload.uid == queued.uids["big"])
        if head is None or head.workload.owner_name != "big" or len(line) != 2 or stuck is None:
            raise NotYet(f"{head} {line} {stuck}")
        assert stuck.reason is Reason.HEAD_BLOCKS_QUEUE
        return stuck.message

    assert "1 behind it wait" in await wait_for(reported, "the head to be reported")
    assert (await queued.workload("small")).cluster_queue == ""
    await queued.queue("4", queueingStrategy="StrictFIFO", cohortName=None)
    await queued.delete("big")
    await queued.until("small", QueuePhase.ADMITTED)


@RARE
@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
async def test_a_later_try_starts_at_the_next_flavor(strategy: str, queued: Queued) -> None:
    """Within one try Kueue never turns back, but the next begins where the first podset stopped looking."""
    flavors = [f"{queued.namespace}-{index}" for index in (1, 2)]
    for flavor in flavors:
        await queued.apply("ResourceFlavor", flavor, {})
    quotas = [
        {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": cpu}]}
        for flavor, cpu in zip(flavors, ("10", "6"), strict=True)
    ]
    groups = [{"coveredResources": ["cpu"], "flavors": quotas}]
    await queued.queue(queueingStrategy=strategy, resourceGroups=groups)
    body = jobset("js", rj("a", 1, 1, 1, cpu="6"), rj("b", 1, 1, 1, cpu="10"), namespace=queued.namespace)
    await queued.submit("js", body=body)
    await queued.until("js", QueuePhase.ADMITTED)
    assigned = {each.name: each.flavors["cpu"] for each in (await queued.workload("js")).assignments}
    assert assigned == {"a": flavors[1], "b": flavors[0]}
