"""The status of a JobSet in Kueue that readiness gets: what blocks it while it waits, and what it has then."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gangctl.api.jobset import JobSet, read_jobset
from gangctl.cluster.kinds import CONFIG_NAME
from gangctl.controllers.readiness.sources import QueueStatuses
from gangctl.gang.reasons import Reason
from gangctl.kueue.blocked import Blockage
from gangctl.kueue.configuration import CONFIG_KEY
from gangctl.kueue.objects import ELSEWHERE, Condition, QueuedWorkload
from gangctl.kueue.queues import Never, current
from tests.controllers.queues.ground import CONFIGURATION, Ground
from tests.controllers.readiness.ground import Ground as Followed

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
EARLIER = "2026-01-01T00:00:00Z"


class Context:
    """Kueue's objects in the caches, and the status of JobSets in their queues."""

    def __init__(self) -> None:
        self.ground = Ground()
        self.never: dict[tuple[str, str], Never] = {}
        self.heads: list[str] = []
        self.ground.view.heads.subscribe(self.heads.append)
        self.standings = QueueStatuses(self.ground.view, self.never.get)

    def jobset(self, name: str, queue: str = "q", *, suspend: bool = True) -> JobSet:
        raw = self.ground.jobset(name, 2, queue, suspend=suspend)
        raw["metadata"]["creationTimestamp"] = EARLIER
        return read_jobset(raw)[0]

    def waiting(self, name: str, since: str, reason: str = "Pending", namespace: str = "t", queue: str = "q") -> JobSet:
        """A JobSet whose Workload Kueue has tried."""
        found = replace(self.jobset(name), namespace=namespace)
        informer = self.ground.sources.workloads.informer
        condition = {"type": "QuotaReserved", "status": "False", "reason": reason, "message": "does not fit"}
        owner = {"controller": True, "kind": "JobSet", "name": name, "uid": f"uid-{name}"}
        owner["apiVersion"] = "jobset.x-k8s.io/v1alpha2"
        metadata = {"name": f"jobset-{name}", "namespace": namespace, "uid": f"w-{name}", "creationTimestamp": since}
        informer._upsert(
            {
                "metadata": {**metadata, "ownerReferences": [owner]},
                "spec": {"queueName": queue, "podSets": [{"name": "w", "count": 2}]},
                "status": {"conditions": [{**condition, "lastTransitionTime": since}]},
            }
        )
        return found


@pytest.fixture
def context() -> Context:
    return Context()


def test_without_a_queue_or_kueue_there_is_no_status(context: Context) -> None:
    assert context.standings.of(context.jobset("js", ""), 0, NOW) is None
    context.ground.sources.presence.present = False
    assert context.standings.of(context.jobset("js"), 0, NOW) is None


def test_an_admitted_jobset_has_its_admission_times(context: Context) -> None:
    jobset = context.jobset("js", suspend=False)
    context.ground.workload("js", reserved=True)
    context.never[jobset.key] = Never("NeverExceedsQuota", "of an earlier quota")
    found = context.standings.of(jobset, 2, NOW)
    assert found is not None
    assert found.workload is not None
    assert (found.local_queue, found.cluster_queue) == ("q", "cq")
    assert (found.blocked, found.stuck, found.never) == (None, None, None)


def test_a_jobset_that_never_fits_has_the_reason(context: Context) -> None:
    jobset = context.waiting("js", EARLIER)
    context.never[jobset.key] = never = Never("NeverExceedsQuota", "9 CPUs of 4")
    found = context.standings.of(jobset, 0, NOW)
    assert found is not None
    assert found.never == never


def test_a_stopped_queue_blocks_waiting_jobsets(context: Context) -> None:
    waits = context.waiting("js", EARLIER)
    runs = context.jobset("runs", suspend=False)
    context.ground.workload("runs", reserved=True)
    context.ground.queue("cq", 4, stopPolicy="Hold")
    for jobset, reason in ((waits, Blockage.CLUSTER_QUEUE_STOPPED), (runs, None)):
        found = context.standings.of(jobset, 2, NOW)
        assert found is not None
        assert (found.blocked.reason if found.blocked is not None else None) == reason


def test_a_missing_queue_blocks_its_jobsets(context: Context) -> None:
    found = context.standings.of(context.jobset("js", "typo"), 0, NOW)
    assert found is not None
    assert found.blocked is not None
    assert (found.blocked.reason, found.cluster_queue) == (Blockage.LOCAL_QUEUE_MISSING, "")


def test_an_unreadable_source_blocks_no_jobset(context: Context) -> None:
    context.ground.sources.cluster_queues.informer.synced.clear()
    found = context.standings.of(context.jobset("js", "typo"), 0, NOW)
    assert found is not None
    assert found.blocked is None


def test_a_jobset_without_a_workload_is_stuck(context: Context) -> None:
    jobset = context.jobset("js")
    found = context.standings.of(jobset, 0, NOW)
    assert found is not None
    assert found.stuck is not None
    assert found.stuck.reason is Reason.WORKLOAD_MISSING
    assert EARLIER in found.stuck.evidence
    later = context.standings.of(jobset, 0, NOW + timedelta(hours=1))
    assert later is not None
    assert later.stuck == found.stuck, "what is written down is true at every moment"
    fresh = context.standings.of(jobset, 0, datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC))
    assert fresh is not None
    assert fresh.stuck is None


def test_the_head_of_a_strict_queue_blocks_those_behind_it(context: Context) -> None:
    context.ground.queue("cq", 4, queueingStrategy="StrictFIFO")
    first, second = context.waiting("first", EARLIER), context.waiting("second", "2026-01-01T00:10:00Z")
    behind = context.standings.of(second, 0, NOW)
    head = context.standings.of(first, 0, NOW)
    assert behind is not None
    assert behind.stuck is not None
    assert head is not None
    assert (behind.stuck.reason, head.stuck) == (Reason.HEAD_BLOCKS_QUEUE, None)
    assert "t/first" in behind.stuck.evidence
    assert f"since {EARLIER}" in behind.stuck.evidence, "what is written down is true at every moment"


def test_the_head_of_another_namespace_is_not_named(context: Context) -> None:
    """Gangs and events are read by all who may read their namespace."""
    context.ground.queue("cq", 4, queueingStrategy="StrictFIFO")
    context.ground.queue_key("q", "cq", "secret")
    context.waiting("first", EARLIER, namespace="secret")
    behind = context.standings.of(context.waiting("second", "2026-01-01T00:10:00Z"), 0, NOW)
    assert behind is not None
    assert behind.stuck is not None
    assert behind.stuck.evidence.startswith(f'"{ELSEWHERE}" does not fit now, and is the head of')
    assert "secret" not in str(behind)


def test_those_behind_a_head_are_evaluated_again_when_it_begins_to_block(context: Context) -> None:
    context.ground.queue("cq", 4, queueingStrategy="StrictFIFO")
    second = context.waiting("second", "2026-01-01T00:10:00Z", reason="PendingEvaluation")
    context.standings.of(second, 0, NOW)
    context.waiting("first", EARLIER, reason="PendingEvaluation")
    assert context.heads == ["cq"], "it goes before the other one"
    assert getattr(context.standings.of(second, 0, NOW), "stuck", "") is None
    context.waiting("second", "2026-01-01T00:10:00Z")
    assert context.heads == ["cq"], "it is not the head"
    context.waiting("first", EARLIER)
    assert context.heads == ["cq", "cq"], "Kueue has tried it"
    assert getattr(context.standings.of(second, 0, NOW), "stuck", None) is not None
    context.ground.drop(context.ground.sources.workloads, "jobset-first", "t")
    assert context.heads == ["cq", "cq", "cq"]
    assert getattr(context.standings.of(second, 0, NOW), "stuck", "") is None


def test_those_behind_a_head_are_evaluated_again_when_it_is_found_that_it_never_fits(context: Context) -> None:
    context.ground.queue("cq", 4, queueingStrategy="StrictFIFO")
    context.waiting("first", EARLIER)
    second = context.waiting("second", "2026-01-01T00:10:00Z")
    before = context.standings.of(second, 0, NOW)
    context.never["t", "first"] = Never("NeverExceedsQuota", "it is too large")
    for name, notified in (("second", []), ("first", ["cq"])):
        context.ground.view.heads.note_verdict(("t", name))
        assert context.heads == notified
    after = context.standings.of(second, 0, NOW)
    waits = [found.stuck.waits for found in (before, after) if found is not None and found.stuck is not None]
    assert waits == [True, False]


def test_the_head_is_found_again_when_queues_change(context: Context) -> None:
    context.ground.queue("cq", 4, queueingStrategy="StrictFIFO")
    context.ground.queue_key("other", "cq")
    context.waiting("first", EARLIER, queue="other")
    second = context.waiting("second", "2026-01-01T00:10:00Z")
    assert getattr(context.standings.of(second, 0, NOW), "stuck", None) is not None
    context.ground.queue_key("other", "cq", stopPolicy="Hold")
    assert context.heads == ["cq"], "that LocalQueue is not the one in which the other waits"
    assert getattr(context.standings.of(second, 0, NOW), "stuck", "") is None
    context.ground.queue_key("other", "cq")
    context.ground.drop(context.ground.sources.local_queues, "other", "t")
    assert context.heads == ["cq", "cq", "cq"]


def test_those_behind_a_head_are_evaluated_again_when_kueue_refuses_it(context: Context) -> None:
    context.ground.queue("cq", 4, queueingStrategy="StrictFIFO")
    context.waiting("first", EARLIER)
    context.standings.of(context.waiting("second", "2026-01-01T00:10:00Z"), 0, NOW)
    context.heads.clear()
    context.waiting("first", EARLIER, reason="Misconfigured")
    assert context.heads == ["cq"]


def test_those_behind_a_head_are_evaluated_again_when_it_moves_to_another_queue(context: Context) -> None:
    context.ground.queue("cq", 4, queueingStrategy="StrictFIFO")
    context.ground.queue("aside", 4, queueingStrategy="StrictFIFO")
    context.ground.queue_key("other", "aside")
    context.waiting("first", EARLIER)
    second = context.waiting("second", "2026-01-01T00:10:00Z")
    assert getattr(context.standings.of(second, 0, NOW), "stuck", None) is not None
    context.waiting("first", EARLIER, queue="other")
    assert context.heads == ["cq"]
    assert getattr(context.standings.of(second, 0, NOW), "stuck", "") is None


def test_the_head_is_found_again_when_another_order_applies(context: Context) -> None:
    by_usage = f"{CONFIGURATION}admissionFairSharing: {{usageHalfLifeTime: 1h, usageSamplingInterval: 1m}}\n"
    context.ground.queue("cq", 4, queueingStrategy="StrictFIFO")
    context.waiting("first", EARLIER)
    second = context.waiting("second", "2026-01-01T00:10:00Z")

    def waits() -> bool:
        return getattr(context.standings.of(second, 0, NOW), "stuck", None) is not None

    assert waits()
    context.ground.queue(
        "cq", 4, queueingStrategy="StrictFIFO", admissionScope={"admissionMode": "UsageBasedAdmissionFairSharing"}
    )
    assert waits()
    configuration = context.ground.sources.configuration
    context.ground.put(configuration, CONFIG_NAME, "kueue-system", data={CONFIG_KEY: by_usage})
    assert not waits()
    context.ground.queue("cq", 4, queueingStrategy="StrictFIFO")
    assert waits()


def test_heads_of_other_queues_do_not_block(context: Context) -> None:
    context.waiting("first", EARLIER)
    found = context.standings.of(context.waiting("second", "2026-01-01T00:10:00Z"), 0, NOW)
    assert found is not None
    assert found.stuck is None


def test_of_several_workloads_the_relevant_one_is_used() -> None:
    quota = {"QuotaReserved": Condition(status=True)}
    old = QueuedWorkload("t", "old", "1", created="2026-01-01T00:00:00Z", conditions=quota)
    new = QueuedWorkload("t", "new", "2", created="2026-01-02T00:00:00Z")
    going = QueuedWorkload("t", "going", "3", created="2026-01-03T00:00:00Z", deleting=True)
    assert current([old, new, going]) is old
    assert current([new, going]) is new
    assert current([going]) is going
    assert current([]) is None


async def test_the_controller_reports_jobsets_that_kueue_suspends_without_a_queue(context: Context) -> None:
    text = f"{CONFIGURATION}manageJobsWithoutQueueName: true\n"
    here = Followed(queues=lambda _: context.standings)
    here.controller.follow(context.ground.view, context.ground.sources.workloads.informer)
    here.jobset("js", suspend=True)
    async with here.leading():
        before = here.controller.readiness(("t", "js"))
        context.ground.put(context.ground.sources.configuration, CONFIG_NAME, "kueue-system", data={CONFIG_KEY: text})
        await here.later()
        after = here.controller.readiness(("t", "js"))
    assert before is not None
    assert after is not None
    assert (before.reason, after.reason) == (Reason.SUSPENDED, Reason.QUEUE_BLOCKED)
