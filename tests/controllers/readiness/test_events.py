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
from gangctl.readiness.phases import GangPhase
from gangctl.readiness.result import Cause, Counts, Readiness
from tests.client.clock import EPOCH, VirtualClock
from tests.jobsets import jobset, rj
from tests.readiness.standings import cause, standing

BIRTH = int(EPOCH.timestamp())


class Room:
    """The events that are recorded, in virtual time."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.recorded: list[tuple[str, Reason, str, float]] = []
        self.jobsets: dict[str, JobSet] = {}
        self.last: dict[str, Readiness] = {}
        self.events = ReadinessEvents(self._say, lambda key: self.jobsets.get(key[1]), clock=self.clock)

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
def room() -> Room:
    return Room()


def test_a_gang_that_starts_at_once_gets_only_a_ready_event(room: Room) -> None:
    room.stands(phase=GangPhase.PENDING)
    room.clock.tick(3)
    room.stands(cause(Reason.STARTING, blocking=False), phase=GangPhase.STARTING)
    room.clock.tick(2)
    room.ready()
    assert [(reason, message) for _, reason, message, _ in room.recorded] == [
        (Reason.GANG_READY, "All 4 pods are ready, 5s after it was created")
    ]
    room.reasons()
    assert room.wait(3600) == []


def test_the_ready_event_has_the_time_in_the_queue_separately(room: Room) -> None:
    room.stands()
    room.ready(3700, admitted_at=BIRTH + 3600)
    assert room.recorded[0][2] == "All 4 pods are ready, 1h1m after it was created and 1m40s after it was admitted"


def test_a_short_cause_is_not_recorded(room: Room) -> None:
    room.stands(Reason.UNSCHEDULABLE)
    assert room.wait(LASTING_SECONDS - 1) == []
    room.stands(cause(Reason.STARTING, blocking=False))
    assert room.wait(600) == []


def test_a_lasting_cause_is_recorded_once(room: Room) -> None:
    room.stands(Reason.UNSCHEDULABLE)
    assert room.wait(LASTING_SECONDS) == [Reason.UNSCHEDULABLE]
    for _ in range(20):
        room.stands(Reason.UNSCHEDULABLE, cause(Reason.STARTING, blocking=False), counts=Counts(created=_))
        assert room.wait(60) == []


def test_a_new_cause_restarts_the_delay_and_events_are_a_minute_apart(room: Room) -> None:
    room.stands(Reason.UNSCHEDULABLE)
    assert room.wait(20) == []
    room.stands(Reason.IMAGE_PULL)
    assert room.wait(LASTING_SECONDS - 1) == []
    assert room.wait(1) == [Reason.IMAGE_PULL]
    room.stands(Reason.CRASH_LOOP)
    assert room.wait(EVENT_INTERVAL_SECONDS - 1) == []
    assert room.wait(1) == [Reason.CRASH_LOOP]


def test_an_intermittent_cause_is_recorded_once(room: Room) -> None:
    recorded = []
    for _ in range(10):
        for reason in (Reason.UNSCHEDULABLE, Reason.IMAGE_PULL):
            room.stands(reason)
            recorded += room.wait(120)
    assert recorded == [Reason.UNSCHEDULABLE, Reason.IMAGE_PULL]


def test_a_cause_is_recorded_again_after_readiness(room: Room) -> None:
    room.stands(Reason.NODE_LOST)
    assert room.wait(100) == [Reason.NODE_LOST]
    room.ready(100)
    assert room.wait(100) == [Reason.GANG_READY]
    room.stands(Reason.NODE_LOST, phase=GangPhase.DEGRADED)
    assert room.reasons() == [Reason.GANG_DEGRADED]
    assert room.wait(EVENT_INTERVAL_SECONDS) == [Reason.NODE_LOST]


def test_a_degraded_gang_is_recorded_at_once_with_its_cause(room: Room) -> None:
    room.stands()
    room.ready()
    room.clock.tick(100)
    lost = Cause(Reason.NODE_LOST, "node n1 is lost", remedy="see the node")
    room.stands(lost, phase=GangPhase.DEGRADED)
    assert room.recorded[-1][1:3] == (
        Reason.GANG_DEGRADED,
        "It was ready and is not any more: node n1 is lost; see the node",
    )


def test_readiness_is_recorded_once_per_attempt(room: Room) -> None:
    room.stands()
    room.ready()
    room.stands(phase=GangPhase.DEGRADED)
    room.clock.tick(300)
    room.ready(200)
    assert room.wait(300) == [Reason.GANG_READY, Reason.GANG_DEGRADED]
    room.stands(phase=GangPhase.RESTARTING, attempt=1)
    room.ready(700, attempt=1)
    assert room.recorded[-1][2] == "All 4 pods are ready, in restart 1, 11m40s after it was created"
    assert room.wait(300) == [Reason.GANG_READY]


def test_a_new_leader_does_not_repeat_what_was_ready_long_ago(room: Room) -> None:
    room.clock.tick(3600)
    room.ready(5)
    assert room.wait(300) == []
    room.stands(phase=GangPhase.DEGRADED)
    assert room.wait(300) == [Reason.GANG_DEGRADED]
    room.ready(4000)
    assert room.wait(300) == [], "the same attempt"


def test_a_new_leader_records_recent_readiness(room: Room) -> None:
    room.clock.tick(60)
    room.ready(10)
    assert room.reasons() == [Reason.GANG_READY]


@pytest.mark.parametrize("reason", sorted(RECORDED_ELSEWHERE))
def test_causes_recorded_elsewhere_are_not_recorded_again(room: Room, reason: Reason) -> None:
    room.stands(reason)
    assert room.wait(600) == []


def test_a_deleted_jobset_gets_no_event(room: Room) -> None:
    room.stands(Reason.UNSCHEDULABLE)
    room.events.on_status_change(room.last["js"], None)
    room.stands(Reason.IMAGE_PULL, name="deleted")
    del room.jobsets["deleted"]
    room.stands(Reason.IMAGE_PULL, name="another")
    room.jobsets["another"] = replace(room.jobsets["another"], uid="second")
    room.stands(Reason.IMAGE_PULL, name="going")
    room.jobsets["going"] = replace(room.jobsets["going"], deleting=True)
    assert room.wait(600) == []
    assert room.clock.pending == []


def test_a_replica_that_lost_leadership_records_nothing(room: Room) -> None:
    room.stands(Reason.UNSCHEDULABLE)
    room.events.forget()
    assert room.wait(600) == []
    assert room.clock.pending == []


def test_events_of_a_thousand_blocked_gangs_are_spread_out(room: Room) -> None:
    for index in range(1000):
        room.stands(Reason.UNSCHEDULABLE, name=f"js-{index}")
    assert len(room.wait(LASTING_SECONDS)) == BURST
    second = len(room.wait(1))
    assert second == pytest.approx(1 / PACE_SECONDS, abs=1)
    assert len(room.wait(60)) == 1000 - BURST - second


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
    room = Room()
    for reason, phase, attempt, seconds in steps:
        causes = [reason] if reason is not None and not phase.settled else []
        room.stands(*causes, phase=phase, attempt=attempt, ready_at=BIRTH)
        room.clock.tick(seconds)
    room.clock.tick(600)
    times = [at for _, _, _, at in room.recorded]
    assert all(later - earlier >= EVENT_INTERVAL_SECONDS for earlier, later in pairwise(times))
    assert not {reason for _, reason, _, _ in room.recorded} & RECORDED_ELSEWHERE


def test_durations_in_events_are_those_of_the_gang() -> None:
    def reported(delay: timedelta) -> str:
        room = Room()
        room.stands()
        room.clock.tick(delay.total_seconds())
        room.ready(42)
        return room.recorded[0][2]

    same: Callable[[], set[str]] = lambda: {reported(timedelta(seconds=s)) for s in (42, 100, 3600)}  # noqa: E731
    assert len(same()) == 1
