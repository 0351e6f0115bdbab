"""Gangs a second: when a gang counts as placed, and what its rate is held against."""

from __future__ import annotations

import pytest

from benchmarks.burst import Way
from benchmarks.gangs import Binds, Run, Shape, figure_of
from tests.controlplane.kubelet import JOBSET_NAME


def test_a_gang_is_placed_with_its_last_pod() -> None:
    binds = Binds(2)
    # The second time is that of a watch that was begun again.
    for gang, name in (("a", "a-0"), ("b", "b-0"), ("b", "b-0"), ("a", "a-1")):
        binds.saw({"metadata": {"name": name, "labels": {JOBSET_NAME: gang}}})
    assert set(binds.complete) == {"a"}
    assert binds.bound == {"a": {"a-0", "a-1"}, "b": {"b-0"}}


def test_rates_are_held_against_bare_groups_of_the_same_shape() -> None:
    shapes = [Shape(10, 4, 5), Shape(9, 100, 50)]
    runs = [
        {way: Run([], seconds, {}) for way, seconds in ((Way.GANGCTL, own), (Way.FLOOR, bare), (Way.NONE, 1.0))}
        for own, bare in ((2.0, 1.0), (9.0, 4.5))
    ]
    figure = figure_of(shapes, runs)
    assert figure.rounds == (5.0, 1.0)
    assert figure.ratios == pytest.approx((0.5, 0.5))
