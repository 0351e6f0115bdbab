"""A JobSet gets an event for what matters, once, and at most one a minute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.jobset import JobSet, read_jobset
from gangctl.controllers.readiness.events import (
    BURST,
    EVENT_INTERVAL_SECONDS,
    LASTING_SECONDS,
    PACE_SECONDS,
    RECORDED_ELSEWHERE,
    ReadinessEvents,
)
from gangctl.gang.reasons import Notice, Reason
from gangctl.readiness.result import Cause, Counts, GangPhase, Readiness
from gangctl.runtime.events import REPEAT_SECONDS
from tests.client.clock import EPOCH, VirtualClock
from tests.jobsets import jobset, rj
from tests.readiness.standings import cause, standing

BIRTH = int(EPOCH.timestamp())


class Context:
    """The events that are recorded, in virtual time."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.recorded: list[tuple[str, Reason, str, float]] = []
        self.jobsets: dict[str, JobSet] = {}
        self.last: dict[str, Readiness] = {}
        self.verdicts: dict[str, Reason] = {}
        self.events = ReadinessEvents(
            self._say,
            lambda key: self.jobsets.get(key[1]),
            decided=lambda key, reason: self.verdicts.get(key[1]) is reason,
            clock=self.clock,
        )

    def _say(self, jobset: JobSet, notice: Notice) -> None:
        self.recorded.append((jobset.name, notice.reason, notice.message, self.clock.now() - 1000))

    def stands(self, *reasons: Reason | Cause, name: str = "js", **known: Any) -> None:
        """Report the current readiness of a JobSet."""
        known = {"created_at": BIRTH, "admitted_at": BIRTH, **known}
        now = standing(name, *reasons, **known)
        raw = jobset(name, rj("w", 1, 4, 4, mode="Gang"), uid=now.uid)
        self.jobsets[name] = read_jobset(raw)[0]
        self.events.on_status_change(self.last.get(name), now)
        self.last[name] = now

    def ready(self, after: int = 5, **known: Any) -> None:
        counts = Counts(4, 4, 4, 4, 4, 4)
        self.stands(phase=GangPhase.READY, counts=counts, ready_at=BIRTH + after, since=BIRTH + after, **known)

    def reasons(self) -> list[Reason]:
        """The events since."""
        recorded, self.recorded = self.recorded, []
        return [reason for _, reason, _, _ in recorded]

    def wait(self, seconds: float) -> list[Reason]:
        self.clock.tick(seconds)
        return self.reasons()


@pytest.fixture
def context() -> Context:
    return Context()


def test_a_gang_that_starts_at_once_gets_only_a_ready_event(context: Context) -> None:
    context.stands(phase=GangPhase.PENDING)
    context.clock.tick(3)
    context.stands(cause(Reason.STARTING, blocking=False), phase=GangPhase.STARTING)
    context.clock.tick(2)
    context.ready()
    assert [(reason, message) for _, reason, message, _ in context.recorded] == [
        (Reason.GANG_READY, "All 4 pods are ready, 5s after it was created")
    ]
    context.reasons()
    assert context.wait(3600) == []


def test_the_ready_event_has_the_time_in_the_queue_separately(context: Context) -> None:
    context.stands()
    context.ready(3700, admitted_at=BIRTH + 3600, cluster_queue="research")
    assert context.recorded[0][2] == "All 4 pods are ready, 1h1m after it was created and 1m40s after Kueue admitted it"


def test_the_ready_event_of_a_resumed_gang_names_no_admission_without_kueue(context: Context) -> None:
    context.stands()
    context.ready(3700, admitted_at=BIRTH + 3600, cluster_queue="")
    assert context.recorded[0][2] == "All 4 pods are ready, 1h1m after it was created and 1m40s after it was resumed"


def test_a_gang_that_is_ready_with_its_minimum_does_not_have_all_of_its_pods(context: Context) -> None:
    context.stands(phase=GangPhase.READY, counts=Counts(4, 3, 4, 3, 3, 3), ready_at=BIRTH + 5, since=BIRTH + 5)
    assert context.recorded[0][2] == "3 of 4 pods are ready, and it needs no more, 5s after it was created"


def test_a_short_cause_is_not_recorded(context: Context) -> None:
    context.stands(Reason.UNSCHEDULABLE)
    assert context.wait(LASTING_SECONDS - 1) == []
    context.stands(cause(Reason.STARTING, blocking=False))
    assert context.wait(600) == []


def test_a_lasting_cause_is_recorded_again_because_servers_forget_events(context: Context) -> None:
    """The same text each time, so that one which the server still has is not written twice (review-2, C8)."""
    context.stands(Reason.UNSCHEDULABLE)
    assert context.wait(LASTING_SECONDS) == [Reason.UNSCHEDULABLE]
    texts: set[str] = set()
    for repetition in range(20):
        context.stands(Reason.UNSCHEDULABLE, cause(Reason.STARTING, blocking=False), counts=Counts(created=repetition))
        context.clock.tick(REPEAT_SECONDS / 2)
        texts.update(message for _, _, message, _ in context.recorded)
        assert context.reasons() == ([Reason.UNSCHEDULABLE] if repetition % 2 else [])
    assert len(texts) == 1


def test_a_new_cause_restarts_the_delay_and_events_are_a_minute_apart(context: Context) -> None:
    context.stands(Reason.UNSCHEDULABLE)
    assert context.wait(20) == []
    context.stands(Reason.IMAGE_PULL)
    assert context.wait(LASTING_SECONDS - 1) == []
    assert context.wait(1) == [Reason.IMAGE_PULL]
    context.stands(Reason.CRASH_LOOP)
    assert context.wait(EVENT_INTERVAL_SECONDS - 1) == []
    assert context.wait(1) == [Reason.CRASH_LOOP]


def test_an_intermittent_cause_is_recorded_no_more_often_than_a_lasting_one(context: Context) -> None:
    recorded = []
    for _ in range(2):
        for reason in (Reason.UNSCHEDULABLE, Reason.IMAGE_PULL):
            context.stands(reason)
            recorded += context.wait(REPEAT_SECONDS / 5)
    assert recorded == [Reason.UNSCHEDULABLE, Reason.IMAGE_PULL]


def test_a_cause_is_recorded_again_after_readiness(context: Context) -> None:
    context.stands(Reason.NODE_LOST)
    assert context.wait(100) == [Reason.NODE_LOST]
    context.ready(100)
    assert context.wait(100) == [Reason.GANG_READY]
    context.stands(Reason.NODE_LOST, phase=GangPhase.DEGRADED)
    assert context.reasons() == [Reason.GANG_DEGRADED]
    assert context.wait(EVENT_INTERVAL_SECONDS) == [Reason.NODE_LOST]


def test_a_degraded_gang_is_recorded_at_once_with_its_cause(context: Context) -> None:
    context.stands()
    context.ready()
    context.clock.tick(100)
    lost = Cause(Reason.NODE_LOST, "node n1 is lost", remedy="see the node")
    context.stands(lost, phase=GangPhase.DEGRADED)
    assert context.recorded[-1][1:3] == (
        Reason.GANG_DEGRADED,
        "It was ready and is not any more: node n1 is lost; see the node",
    )


def test_readiness_is_recorded_once_per_attempt(context: Context) -> None:
    context.stands()
    context.ready()
    context.stands(phase=GangPhase.DEGRADED)
    context.clock.tick(300)
    context.ready(200)
    assert context.wait(300) == [Reason.GANG_READY, Reason.GANG_DEGRADED]
    context.stands(phase=GangPhase.RESTARTING, attempt=1)
    context.ready(700, attempt=1)
    assert context.recorded[-1][2] == "All 4 pods are ready, in restart 1, 11m40s after it was created"
    assert context.wait(300) == [Reason.GANG_READY]


def test_a_new_leader_does_not_repeat_what_was_ready_long_ago(context: Context) -> None:
    context.clock.tick(3600)
    context.ready(5)
    assert context.wait(300) == []
    context.stands(phase=GangPhase.DEGRADED)
    assert context.wait(300) == [Reason.GANG_DEGRADED]
    context.ready(4000)
    assert context.wait(300) == [], "the same attempt"


def test_a_new_leader_records_recent_readiness(context: Context) -> None:
    context.clock.tick(60)
    context.ready(10)
    assert context.reasons() == [Reason.GANG_READY]


@pytest.mark.parametrize("reason", sorted(RECORDED_ELSEWHERE))
def test_causes_recorded_elsewhere_are_not_recorded_again(context: Context, reason: Reason) -> None:
    context.stands(reason)
    assert context.wait(600) == []


@pytest.mark.parametrize("reason", [Reason.NEVER_FITS, Reason.QUEUE_BLOCKED])
def test_what_only_kueues_message_shows_is_recorded_once(context: Context, reason: Reason) -> None:
    context.verdicts["js"] = reason
    context.stands(reason)
    assert context.wait(LASTING_SECONDS) == []
    del context.verdicts["js"]
    assert context.wait(REPEAT_SECONDS) == [reason]
    context.stands(reason, name="another")
    assert context.wait(LASTING_SECONDS) == [reason]


def test_a_deleted_jobset_gets_no_event(context: Context) -> None:
    context.stands(Reason.UNSCHEDULABLE)
    context.events.on_status_change(context.last["js"], None)
    context.stands(Reason.IMAGE_PULL, name="deleted")
    del context.jobsets["deleted"]
    context.stands(Reason.IMAGE_PULL, name="another")
    context.jobsets["another"] = replace(context.jobsets["another"], uid="second")
    context.stands(Reason.IMAGE_PULL, name="going")
    context.jobsets["going"] = replace(context.jobsets["going"], deleting=True)
    assert context.wait(600) == []
    for name in ("deleted", "another", "going"):
        context.events.on_status_change(context.last[name], None)
    assert context.clock.pending == []


def test_a_replica_that_lost_leadership_records_nothing(context: Context) -> None:
    context.stands(Reason.UNSCHEDULABLE)
    context.events.forget()
    assert context.wait(600) == []
    assert context.clock.pending == []


def test_events_of_a_thousand_blocked_gangs_are_spread_out(context: Context) -> None:
    for index in range(1000):
        context.stands(Reason.UNSCHEDULABLE, name=f"js-{index}")
    assert len(context.wait(LASTING_SECONDS)) == BURST
    second = len(context.wait(1))
    assert second == pytest.approx(1 / PACE_SECONDS, abs=1)
    assert len(context.wait(60)) == 1000 - BURST - second


STEPS = st.tuples(
    st.sampled_from([None, Reason.UNSCHEDULABLE, Reason.IMAGE_PULL, Reason.NEVER_FITS]),
    st.sampled_from([GangPhase.SCHEDULING, GangPhase.READY, GangPhase.DEGRADED, GangPhase.SUCCEEDED]),
    st.integers(0, 2),
    st.sampled_from([0.0, 5.0, 31.0, 61.0]),
)


@given(st.lists(STEPS, max_size=25))
def test_events_of_a_jobset_are_never_less_than_a_minute_apart(
    steps: list[tuple[Reason | None, GangPhase, int, float]],
) -> None:
    context = Context()
    for reason, phase, attempt, seconds in steps:
        causes = [reason] if reason is not None and not phase.settled else []
        context.stands(*causes, phase=phase, attempt=attempt, ready_at=BIRTH)
        context.clock.tick(seconds)
    context.clock.tick(600)
    times = [at for _, _, _, at in context.recorded]
    assert all(later - earlier >= EVENT_INTERVAL_SECONDS for earlier, later in pairwise(times))
    assert not {reason for _, reason, _, _ in context.recorded} & RECORDED_ELSEWHERE


def test_durations_in_events_are_those_of_the_gang() -> None:
    def reported(delay: timedelta) -> str:
        context = Context()
        context.stands()
        context.clock.tick(delay.total_seconds())
        context.ready(42)
        return context.recorded[0][2]

    same: Callable[[], set[str]] = lambda: {reported(timedelta(seconds=s)) for s in (42, 100, 3600)}  # noqa: E731
    assert len(same()) == 1
