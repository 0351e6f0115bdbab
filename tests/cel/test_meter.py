from __future__ import annotations

import pytest

from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.meter import STEPS_PER_CLOCK_CHECK, StepMeter


class Clock:
    """A clock that a test advances; counts how often it was read."""

    def __init__(self) -> None:
        self.now = 100.0
        self.looks = 0

    def __call__(self) -> float:
        self.looks += 1
        return self.now


def kind(meter: StepMeter, count: int = 1) -> EvalKind:
    with pytest.raises(EvalError) as caught:
        meter.step(count)
    return caught.value.kind


def test_steps_are_counted_and_end() -> None:
    meter = StepMeter(10, 200.0, Clock())
    for _ in range(10):
        meter.step()
    assert meter.spent == 10
    assert kind(meter) is EvalKind.BUDGET_EXCEEDED


def test_the_clock_is_read_once_in_many_steps() -> None:
    clock = Clock()
    meter = StepMeter(10**6, 200.0, clock)
    for _ in range(10 * STEPS_PER_CLOCK_CHECK):
        meter.step()
    assert clock.looks == 10


def test_a_deadline_is_noticed_at_the_next_reading_of_the_clock() -> None:
    clock = Clock()
    meter = StepMeter(10**6, 101.0, clock)
    meter.step(STEPS_PER_CLOCK_CHECK - 1)
    clock.now = 101.0
    assert kind(meter) is EvalKind.DEADLINE_EXCEEDED


def test_a_child_spends_from_its_parents_too() -> None:
    request = StepMeter.request(Clock(), steps=100)
    policy = request.policy(steps=60)
    policy.expression(steps=50).step(50)
    assert (request.spent, policy.spent) == (50, 50)
    assert kind(policy.expression(steps=50), 11) is EvalKind.BUDGET_EXCEEDED
    other = request.policy(steps=60)
    assert kind(other.expression(steps=60), 51) is EvalKind.BUDGET_EXCEEDED


def test_an_expression_has_less_time_than_its_policy() -> None:
    clock = Clock()
    request = StepMeter.request(clock)
    slow = request.policy().expression()
    clock.now += 0.1
    assert kind(slow, STEPS_PER_CLOCK_CHECK) is EvalKind.DEADLINE_EXCEEDED
    request.policy().expression().step(STEPS_PER_CLOCK_CHECK)


def test_many_short_expressions_reach_the_deadline_of_their_request() -> None:
    clock = Clock()
    request = StepMeter.request(clock, seconds=1.0)
    policy = request.policy()
    while clock.now < 100.99:
        clock.now += 0.01
        policy.expression().step(100)
    clock.now += 0.01
    assert kind(policy.expression(), STEPS_PER_CLOCK_CHECK) is EvalKind.DEADLINE_EXCEEDED

    one_each = StepMeter.request(clock, seconds=1.0)
    for _ in range(STEPS_PER_CLOCK_CHECK - 1):
        one_each.expression().step()
    clock.now += 1.0
    assert kind(one_each.expression()) is EvalKind.DEADLINE_EXCEEDED
