"""A review's turn on the event loop."""

import pytest

from gangctl.judge.turn import STEPS_PER_LOOK, Turn, TurnOverError
from gangctl.policy.cel.faults import EvalError
from gangctl.policy.cel.meter import REQUEST_STEPS


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def test_a_turn_ends_with_its_time_and_decides_nothing() -> None:
    clock = Hand()
    turn = Turn(1.0, clock)
    meter = turn.meter()
    meter.step(STEPS_PER_LOOK)
    before, clock.time = turn.over, 1.0
    assert (before, turn.over) == (False, True)
    with pytest.raises(TurnOverError):
        meter.step(STEPS_PER_LOOK)


def test_what_is_left_of_the_turn_is_that_of_all_policies() -> None:
    clock = Hand()
    turn = Turn(1.0, clock)
    turn.meter().step(STEPS_PER_LOOK)
    clock.time = 2.0
    with pytest.raises(TurnOverError):
        turn.meter().step(STEPS_PER_LOOK)


def test_an_expression_ends_the_turn_of_its_policy() -> None:
    clock = Hand()
    expression = Turn(0.05, clock).meter().expression()
    clock.time = 0.06
    with pytest.raises(TurnOverError):
        expression.step(STEPS_PER_LOOK)


def test_steps_of_an_expression_are_its_own() -> None:
    with pytest.raises(EvalError):
        Turn(1.0, Hand()).meter().expression(steps=10).step(11)


def test_no_turn_is_without_end() -> None:
    with pytest.raises(TurnOverError):
        Turn(1.0, Hand()).meter().step(REQUEST_STEPS + 1)
