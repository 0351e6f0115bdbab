"""The time slice of a small review on the event loop, and which reviews are small."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gangctl.cel.faults import EvalError
from gangctl.cel.meter import REQUEST_STEPS
from gangctl.evaluation.evaluator import STEPS_PER_CLOCK_CHECK, SliceOverError, TimeSlice, size_of
from gangctl.evaluation.options import EvaluatorOptions
from tests.evaluation.scripted import review
from tests.rows import each


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def test_a_time_slice_that_ends_gives_no_outcome() -> None:
    clock = Hand()
    time_slice = TimeSlice(1.0, clock)
    meter = time_slice.meter()
    meter.step(STEPS_PER_CLOCK_CHECK)
    before, clock.time = time_slice.over, 1.0
    assert (before, time_slice.over) == (False, True)
    with pytest.raises(SliceOverError):
        meter.step(STEPS_PER_CLOCK_CHECK)


def test_the_time_slice_is_shared_by_all_policies() -> None:
    clock = Hand()
    time_slice = TimeSlice(1.0, clock)
    time_slice.meter().step(STEPS_PER_CLOCK_CHECK)
    clock.time = 2.0
    with pytest.raises(SliceOverError):
        time_slice.meter().step(STEPS_PER_CLOCK_CHECK)


def test_a_slow_expression_ends_the_time_slice() -> None:
    clock = Hand()
    expression = TimeSlice(0.05, clock).meter().expression()
    clock.time = 0.06
    with pytest.raises(SliceOverError):
        expression.step(STEPS_PER_CLOCK_CHECK)


def test_steps_are_counted_per_expression() -> None:
    with pytest.raises(EvalError):
        TimeSlice(1.0, Hand()).meter().expression(steps=10).step(11)


def test_every_time_slice_is_bounded() -> None:
    with pytest.raises(SliceOverError):
        TimeSlice(1.0, Hand()).meter().step(REQUEST_STEPS + 1)


def nested(levels: int) -> Any:
    deep: Any = []
    for _ in range(levels):
        deep = [deep]
    return deep


OPTIONS = EvaluatorOptions(local_text=8, local_values=100)


@each(
    ("obj", "size"),
    [
        ({}, "small"),
        ({"a": ["x" * 8] * 50, "b": {str(n): n for n in range(30)}}, "small"),
        ({"a": "x" * 9}, "large"),
        ({"a": list(range(100))}, "large"),
        ({"a": {str(n): n for n in range(100)}}, "large"),
        ({"a": [[n] for n in range(50)]}, "large"),
        ({"a": nested(100)}, "large"),
        ({"a": [{"b": ["x" * 9]}]}, "large"),
    ],
)
def test_the_size_of_a_review_is_estimated(obj: Any, size: str) -> None:
    assert size_of(replace(review(), object=obj, request={}), OPTIONS) == size


def test_old_objects_and_params_count_for_the_size() -> None:
    assert size_of(replace(review(), old_object={"a": "x" * 9}, request={}), OPTIONS) == "large"
    params = {"p": ({"data": {str(n): "v" for n in range(100)}},)}
    assert size_of(replace(review(params=params), request={}), OPTIONS) == "large"
