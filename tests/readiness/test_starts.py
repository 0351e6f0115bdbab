"""Durations of starts and attempts: each is measured once, by the leader that sees it end."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gangctl.readiness.result import GangPhase, Readiness
from gangctl.readiness.starts import STAGES, Attempts, Measured, Starts, StartSpan
from tests.readiness.standings import standing

READY = {"phase": GangPhase.READY, "placed_at": 1_010, "first_ready_at": 1_020, "ready_at": 1_030, "been_ready": True}


def ready(**known: Any) -> Readiness:
    return standing(**{**READY, **known})


def all_of(starts: Starts, *story: Readiness) -> list[Measured]:
    """Without the stages."""
    found = [measured for now in story for measured in starts.stands(now)]
    return [measured for measured in found if measured.span not in STAGES]


def test_a_start_is_measured_from_creation_admission_and_first_ready_pod() -> None:
    placed = standing(placed_at=1_010, admitted_at=1_005)
    assert all_of(Starts(0), standing(admitted_at=1_005), placed, ready(admitted_at=1_005)) == [
        Measured(StartSpan.TO_SCHEDULED, 10),
        Measured(StartSpan.TO_READY, 30),
        Measured(StartSpan.ADMITTED_TO_READY, 25),
        Measured(StartSpan.SPREAD, 10),
    ]


def test_the_run_of_a_part_that_ends_before_the_last_starts_is_no_time_of_a_start() -> None:
    spans = [measured.span for measured in all_of(Starts(0), standing(), ready(runs_between=True))]
    assert spans == [StartSpan.TO_SCHEDULED, StartSpan.TO_READY]


def test_a_recovered_gang_is_not_measured_again() -> None:
    degraded = ready(phase=GangPhase.DEGRADED, ready_at=0)
    starts = Starts(0)
    assert len(all_of(starts, standing(), ready())) == 4
    assert all_of(starts, ready(), degraded, ready(ready_at=2_000), ready(ready_at=2_000)) == []


def test_a_gang_that_was_ready_before_this_leader_is_not_measured() -> None:
    starts = Starts(1_030.9)
    assert all_of(starts, ready(name="in that second")) == [
        Measured(StartSpan.TO_READY, 30),
        Measured(StartSpan.ADMITTED_TO_READY, 30),
        Measured(StartSpan.SPREAD, 10),
    ]
    starts = Starts(1_031)
    assert all_of(starts, ready(), ready(phase=GangPhase.DEGRADED, ready_at=0), ready(ready_at=5_000)) == []


def test_a_gang_first_seen_degraded_is_not_measured_when_it_recovers() -> None:
    degraded = ready(phase=GangPhase.DEGRADED, ready_at=0)
    assert all_of(Starts(2_000), degraded, ready(ready_at=2_100)) == []


def test_a_gang_placed_before_this_leader_is_measured_when_it_becomes_ready() -> None:
    spans = [measured.span for measured in all_of(Starts(1_020), standing(placed_at=1_010), ready())]
    assert spans == [StartSpan.TO_READY, StartSpan.ADMITTED_TO_READY, StartSpan.SPREAD]


def test_a_restart_is_not_measured_from_creation_unless_it_was_never_ready() -> None:
    again = ready(attempt=1, placed_at=9_000, first_ready_at=9_010, ready_at=9_050)
    restarting = standing(attempt=1, phase=GangPhase.RESTARTING)
    starts = Starts(0)
    all_of(starts, standing(), ready())
    assert all_of(starts, restarting, again) == [Measured(StartSpan.SPREAD, 40)]
    assert Measured(StartSpan.TO_READY, 8_050) in all_of(Starts(0), standing(), restarting, again)
    assert all_of(Starts(5_000), restarting, again) == [Measured(StartSpan.SPREAD, 40)]


def test_each_admission_is_measured() -> None:
    starts = Starts(0)
    all_of(starts, standing(), ready())
    evicted = standing(phase=GangPhase.QUEUED, admitted_at=0)
    again = ready(admitted_at=3_000, placed_at=3_005, first_ready_at=3_010, ready_at=3_012)
    assert all_of(starts, evicted, again) == [Measured(StartSpan.ADMITTED_TO_READY, 12), Measured(StartSpan.SPREAD, 2)]


def test_a_gang_ready_before_its_last_admission_is_not_measured_for_it() -> None:
    starts = Starts(0)
    all_of(starts, standing(), ready())
    assert [each.span for each in all_of(starts, ready(admitted_at=3_000))] == [StartSpan.SPREAD]


def test_a_new_jobset_of_the_same_name_is_measured_again() -> None:
    starts = Starts(0)
    assert len(all_of(starts, ready())) == 4
    assert len(all_of(starts, ready(uid="another"))) == 4
    starts.forget(ready().key)
    assert len(all_of(starts, ready(uid="another"))) == 4


def test_a_measured_duration_is_never_negative() -> None:
    assert Measured(StartSpan.TO_READY, 0) in all_of(Starts(0), ready(created_at=1_031))


TIMES = st.integers(0, 100)


@given(TIMES, TIMES, TIMES, TIMES)
def test_the_stages_of_a_start_add_up_to_it(created: int, admitted: int, placed: int, became: int) -> None:
    times: dict[str, Any] = {"created_at": created, "admitted_at": admitted, "placed_at": placed, "ready_at": became}
    measured = Starts(0).stands(standing(phase=GangPhase.READY, first_ready_at=became, **times))
    whole = [one.seconds for one in measured if one.span is StartSpan.TO_READY]
    stages = [one.seconds for one in measured if one.span in STAGES]
    assert len(stages) == len(STAGES) * len(whole)
    assert all(seconds >= 0 for seconds in stages)
    assert sum(stages) == sum(whole)


def test_the_stages_of_a_start_end_with_admission_node_and_readiness() -> None:
    measured = Starts(0).stands(ready(admitted_at=1_005))
    stages = [(one.span, one.seconds) for one in measured if one.span in STAGES]
    assert stages == [(StartSpan.ADMISSION, 5), (StartSpan.SCHEDULING, 5), (StartSpan.CONTAINERS, 20)]


def test_an_attempt_is_counted_once_when_its_pods_have_nodes() -> None:
    attempts = Attempts(0)
    story = [
        (standing(), False),
        (standing(placed_at=1_010), True),
        (ready(), False),
        (standing(attempt=1, phase=GangPhase.RESTARTING), False),
        (standing(attempt=1, placed_at=1_500), True),
        (standing(attempt=1, placed_at=1_500, phase=GangPhase.DEGRADED), False),
        (standing(uid="another", placed_at=1_600), True),
    ]
    assert [attempts.stands(now) for now, _ in story] == [expected for _, expected in story]


def test_an_attempt_that_began_before_this_leader_is_not_counted() -> None:
    attempts = Attempts(1_200.5)
    assert not attempts.stands(ready())
    assert attempts.stands(ready(attempt=1, placed_at=1_201))
    attempts.forget(ready().key)
    assert attempts.stands(ready(attempt=1, placed_at=1_201))
