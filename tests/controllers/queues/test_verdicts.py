"""A waiting JobSet gets one event for each cause, is counted by verdict, and evaluated again after changes only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from gangctl.api.jobset import JobSet
from gangctl.client.pacing import Clock, Timer
from gangctl.cluster.kinds import CONFIG_NAME
from gangctl.controllers.queues.verdicts import (
    DEBOUNCE_SECONDS,
    EVENT_INTERVAL_SECONDS,
    MOST_QUEUES,
    UNKNOWN_SECONDS,
    VerdictMetrics,
    Verdicts,
    WaitStatus,
)
from gangctl.gang.reasons import Notice, Reason
from gangctl.kueue.configuration import CONFIG_KEY
from gangctl.readiness.facts import is_followed
from gangctl.runtime.controller import Action
from gangctl.runtime.events import REPEAT_SECONDS
from gangctl.runtime.families import OTHERS
from tests.cli.kueueobjects import of_trainjob
from tests.controllers.queues.ground import CONFIGURATION, Ground

Key = tuple[str, str]


class Alarm:
    """A timer of the clock below."""

    def __init__(self, at: float, ring: Callable[[], None]) -> None:
        self.at, self.ring = at, ring

    def cancel(self) -> None:
        raise AssertionError("nothing cancels here")


class HandClock(Clock):
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.alarms: list[Alarm] = []

    def now(self) -> float:
        return self.time

    def wall(self) -> datetime:
        return datetime.now(UTC)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        alarm = Alarm(self.time + seconds, callback)
        self.alarms.append(alarm)
        return alarm

    def move(self, seconds: float) -> None:
        self.time += seconds
        due = [alarm for alarm in self.alarms if alarm.at <= self.time]
        self.alarms = [alarm for alarm in self.alarms if alarm not in due]
        for alarm in due:
            alarm.ring()


class Context:
    """Verdicts on the JobSets of a ground, with their events and requests."""

    def __init__(self) -> None:
        self.ground = Ground()
        self.clock = HandClock()
        self.registry = CollectorRegistry()
        self.recorded: list[tuple[str, Reason]] = []
        self.enqueued: list[Key] = []
        self.meanwhile: Callable[[], object] = lambda: None
        """What happens while a JobSet is read."""
        self.verdicts = Verdicts(
            self.ground.jobsets,
            self.ground.view,
            self._read,
            self._say,
            lambda key, _seconds: self.enqueued.append(key),
            follows=is_followed,
            metrics=VerdictMetrics(self.registry),
            clock=self.clock,
        )

    async def _read(self, key: Key) -> Mapping[str, Any] | None:
        raw = await self.ground.reader()(key)
        self.meanwhile()
        return raw

    def _say(self, jobset: JobSet, notice: Notice) -> None:
        self.recorded.append((jobset.name, notice.reason))

    async def evaluate(self, name: str) -> Action:
        return await self.verdicts.reconcile(("t", name))

    def settled(self) -> list[str]:
        """Names that were asked for since, once the changes have been seen."""
        self.clock.move(DEBOUNCE_SECONDS)
        found, self.enqueued = self.enqueued, []
        return sorted({name for _, name in found})

    def counts(self) -> dict[tuple[str, str, str], float]:
        """The gauge by LocalQueue, ClusterQueue and verdict."""
        samples = [sample for family in self.registry.collect() for sample in family.samples]
        return {
            (each.labels["local_queue"], each.labels["cluster_queue"], each.labels["verdict"]): each.value
            for each in samples
        }


@pytest.fixture
def context() -> Context:
    return Context()


async def test_the_event_of_a_waiting_jobset_is_decided_by_its_verdict(context: Context) -> None:
    context.ground.jobset("large", 8)
    context.ground.jobset("small", 2)
    never, key = Reason.NEVER_FITS, ("t", "large")
    assert context.verdicts.decided(key, never), "its verdict is still to come"
    assert not context.verdicts.decided(key, Reason.UNSCHEDULABLE)
    assert not context.verdicts.decided(("t", "nothing"), never)
    await context.evaluate("large")
    await context.evaluate("small")
    assert context.recorded == [("large", never)]
    assert [context.verdicts.decided(key, reason) for reason in (never, Reason.QUEUE_BLOCKED)] == [True, False]
    assert not context.verdicts.decided(("t", "small"), never)


async def test_never_is_reported_while_it_lasts_and_counted_until_the_quota_is_raised(context: Context) -> None:
    context.ground.jobset("big", 5)
    assert context.settled() == ["big"]
    for _ in range(2):
        assert (await context.evaluate("big")).after_seconds == pytest.approx(REPEAT_SECONDS)
    assert context.recorded == [("big", Reason.NEVER_FITS)]
    assert context.counts() == {("q", "cq", "never"): 1}
    context.ground.queue("cq", 5)
    assert context.settled() == ["big"]
    await context.evaluate("big")
    assert context.counts() == {("q", "cq", "waiting"): 1}
    assert context.recorded == [("big", Reason.NEVER_FITS)]


async def test_what_lasts_is_recorded_again_before_api_servers_forget_it(context: Context) -> None:
    """The recorder writes it once the event has expired: with one record an hour, it was missing for the next one."""
    context.ground.jobset("big", 5)
    for _ in range(3):
        context.clock.move((await context.evaluate("big")).after_seconds or 0.0)
    assert context.recorded == [("big", Reason.NEVER_FITS)] * 3
    assert context.clock.time == pytest.approx(1000.0 + 3 * 600)


async def test_another_cause_is_reported_but_rate_limited(context: Context) -> None:
    context.ground.jobset("big", 5)
    await context.evaluate("big")
    context.ground.queue("cq", 3)
    action = await context.evaluate("big")
    assert action.after_seconds == pytest.approx(EVENT_INTERVAL_SECONDS)
    assert len(context.recorded) == 1
    context.clock.move(EVENT_INTERVAL_SECONDS)
    await context.evaluate("big")
    assert context.recorded == [("big", Reason.NEVER_FITS)] * 2


async def test_a_new_jobset_of_the_same_name_is_reported_at_once(context: Context) -> None:
    raw = context.ground.jobset("big", 5)
    await context.evaluate("big")
    raw["metadata"]["uid"] = "another"
    context.ground.jobsets._upsert(raw)
    await context.evaluate("big")
    assert len(context.recorded) == 2


async def test_a_blocked_queue_is_reported_and_counted_as_blocked(context: Context) -> None:
    context.ground.jobset("js", 1, "nowhere")
    await context.evaluate("js")
    assert context.recorded == [("js", Reason.QUEUE_BLOCKED)]
    assert context.counts() == {("nowhere", "", "blocked"): 1}
    context.ground.queue_key("nowhere", "cq")
    assert context.settled() == ["js"]
    await context.evaluate("js")
    assert context.counts() == {("nowhere", "cq", "waiting"): 1}


async def test_followers_are_notified_when_the_reason_changes(context: Context) -> None:
    reported: list[str] = []
    context.verdicts.follow(lambda key: reported.append(key[1]))
    context.ground.jobset("big", 5)
    for _ in range(2):
        await context.evaluate("big")
    why = context.verdicts.never(("t", "big"))
    assert why is not None
    assert "cpu" in why.message
    assert reported == ["big"]
    context.ground.queue("cq", 5)
    await context.evaluate("big")
    assert context.verdicts.never(("t", "big")) is None
    assert reported == ["big", "big"]
    context.ground.queue("cq", 4)
    await context.evaluate("big")
    context.ground.jobset("big", 5, suspend=False)
    await context.evaluate("big")
    assert context.verdicts.never(("t", "big")) is None
    context.ground.jobset("big", 5)
    await context.evaluate("big")
    context.verdicts.forget()
    assert context.verdicts.never(("t", "big")) is None


async def test_an_unknown_verdict_is_requeued(context: Context) -> None:
    context.ground.sources.cohorts.informer.synced.clear()
    context.ground.jobset("big", 5)
    assert (await context.evaluate("big")).after_seconds == UNKNOWN_SECONDS
    assert context.recorded == []
    assert context.counts() == {("q", "cq", "unknown"): 1}


@pytest.mark.parametrize(
    "fields",
    [
        {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]},
        # The controller does not follow the PriorityClasses of Kubernetes.
        {"priorityClassName": "high"},
    ],
    ids=["claims", "priority"],
)
async def test_a_jobset_that_may_fit_waits_like_any_other(fields: dict[str, Any], context: Context) -> None:
    """What no quota decides, such as the devices of its claims, is not asked again every minute."""
    raw = context.ground.jobset("claims", 2)
    raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"].update(fields)
    assert context.ground.view.ever(raw, "t", new=False)["reason"] == "MayFit"
    assert (await context.evaluate("claims")).after_seconds is None
    assert context.counts() == {("q", "cq", "waiting"): 1}


async def test_only_jobsets_affected_by_a_change_are_evaluated_again(context: Context) -> None:
    context.ground.queue("other", 4)
    context.ground.queue_key("r", "other")
    context.ground.jobset("here", 1)
    context.ground.jobset("there", 1, "r")
    context.settled()
    context.ground.queue("other", 5)
    assert context.settled() == ["there"]
    context.ground.queue("cq", 5)
    context.ground.queue("cq", 6)
    assert context.settled() == ["here"]
    context.ground.workload("stranger", reserved=True)
    assert context.settled() == ["stranger"]


@pytest.mark.parametrize(
    "spec",
    [{"suspend": False}, {"managedBy": "kueue.x-k8s.io/multikueue"}, {"queue": ""}, {"mode": None}],
    ids=["unsuspended", "multikueue", "no-queue", "no-gang"],
)
async def test_a_jobset_that_does_not_wait_is_neither_reported_nor_counted(
    context: Context, spec: dict[str, str]
) -> None:
    context.ground.jobset("js", 5, **spec)
    assert context.settled() == []
    await context.evaluate("js")
    assert (context.recorded, context.counts()) == ([], {})


async def test_a_jobset_of_an_object_that_kueue_queues_is_neither_reported_nor_counted(context: Context) -> None:
    context.ground.jobsets._upsert(of_trainjob(context.ground.jobset("js", 5)))
    text = CONFIGURATION.replace("jobset.x-k8s.io/jobset", "jobset.x-k8s.io/jobset, trainer.kubeflow.org/trainjob")
    context.ground.put(context.ground.sources.configuration, CONFIG_NAME, "kueue-system", data={CONFIG_KEY: text})
    await context.evaluate("js")
    assert (context.recorded, context.counts()) == ([], {})
    context.ground.workload("js", reserved=False)
    await context.evaluate("js")
    assert (context.recorded, len(context.counts())) == ([("js", Reason.NEVER_FITS)], 1)


async def test_an_admitted_or_deleted_jobset_is_no_longer_counted(context: Context) -> None:
    context.ground.jobset("js", 5)
    context.ground.jobset("gone", 5)
    for name in ("js", "gone"):
        await context.evaluate(name)
    assert context.counts() == {("q", "cq", "never"): 2}
    context.ground.workload("js", reserved=True)
    context.ground.jobsets._forget(context.ground.raws["t", "gone"])
    assert context.settled() == ["gone", "js"]
    for name in ("js", "gone"):
        await context.evaluate(name)
    assert context.counts() == {}
    context.ground.workload("js", reserved=False)
    assert context.settled() == ["js"]


async def test_a_deactivated_jobset_waits_for_nothing(context: Context) -> None:
    context.ground.jobset("js", 5)
    await context.evaluate("js")
    for active, counted in ((False, {}), (True, {("q", "cq", "never"): 1})):
        context.ground.workload("js", reserved=False, active=active)
        assert context.settled() == ["js"]
        await context.evaluate("js")
        assert context.counts() == counted


@pytest.mark.parametrize("resumed", [True, False])
async def test_a_jobset_that_waits_no_longer_once_it_is_read_is_not_counted(context: Context, resumed: bool) -> None:
    """Before its first verdict no change of it asks for another one."""
    raw = context.ground.jobset("js", 5)
    jobsets = context.ground.jobsets

    def end() -> None:
        if resumed:
            jobsets._upsert({**raw, "spec": {**raw["spec"], "suspend": False}})
        else:
            jobsets._forget(raw)

    assert context.settled() == ["js"]
    context.meanwhile = end
    await context.evaluate("js")
    assert context.settled() == []
    assert (context.recorded, context.counts()) == ([], {})
    assert context.verdicts.never(("t", "js")) is None


async def test_a_replica_that_lost_leadership_counts_nothing(context: Context) -> None:
    context.ground.jobset("js", 5)
    await context.evaluate("js")
    context.verdicts.forget()
    assert context.counts() == {}
    assert context.verdicts.waiting() == [("t", "js")]


def test_queues_beyond_the_limit_are_counted_together() -> None:
    registry = CollectorRegistry()
    metrics = VerdictMetrics(registry)
    standings = [WaitStatus("t", f"q{number}", "cq", "never") for number in range(MOST_QUEUES + 3)]
    for standing in standings:
        metrics.on_status_change(None, standing)

    def shown() -> Counter[str]:
        samples = [sample for family in registry.collect() for sample in family.samples]
        return Counter({each.labels["local_queue"]: int(each.value) for each in samples})

    assert len(shown()) == MOST_QUEUES + 1
    assert shown()[OTHERS] == 3
    for standing in standings:
        metrics.on_status_change(standing, None)
    assert shown() == Counter()
