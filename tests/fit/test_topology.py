"""Kueue's placement of pods in domains, checked against every distribution of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gangctl.fit.topology import Ask, DomainAssignment, Leaves, Tree, find
from tests.strategies import PROPERTY

LEVELS = ("block", "rack", "host")
RACKS = Tree.of(("rack", "host"), [("a", "a0"), ("a", "a1"), ("b", "b0"), ("b", "b1"), ("b", "b2")])


def alone(pods: Sequence[int]) -> Leaves:
    """Without a leader."""
    return Leaves(pods, pods, [0] * len(pods))


@dataclass(frozen=True)
class Case:
    """``room`` is what each of the lowest domains has for pods of size ``worker``, and a leader, if it is not 0."""

    tree: Tree
    room: tuple[int, ...]
    ask: Ask
    worker: int = 1
    leader: int = 0

    @property
    def leaves(self) -> Leaves:
        pods = [room // self.worker for room in self.room]
        if not self.leader:
            return alone(pods)
        leading = [room >= self.leader for room in self.room]
        beside = [
            (room - self.leader) // self.worker if leads else room // self.worker
            for room, leads in zip(self.room, leading, strict=True)
        ]
        return Leaves(pods, beside, [int(leads) for leads in leading])

    def valid(self, found: DomainAssignment) -> bool:
        """Whether an assignment is of all pods, within the room, and as it is asked for."""
        used = [found.pods.get(index, 0) * self.worker for index in range(len(self.room))]
        if self.leader:
            if found.leader is None:
                return False
            used[found.leader] += self.leader
        within = all(there >= taken for there, taken in zip(self.room, used, strict=True))
        return within and sum(found.pods.values()) == self.ask.slices * self.ask.size and self._as_asked(found)

    def _as_asked(self, found: DomainAssignment) -> bool:
        lowest, everything = self.tree.lowest, {**found.pods}
        if found.leader is not None:
            everything.setdefault(found.leader, 0)
        if self.ask.required and len(self.tree.above(self.ask.level, everything)) > 1:
            return False
        sizes = {self.ask.slice_level: self.ask.size, **(self.ask.inner or {})}
        return all(
            count % size == 0
            for level, size in sizes.items()
            for count in (self.tree.above(level, found.pods) if level < lowest else found.pods).values()
        )


def every(case: Case) -> Iterator[DomainAssignment]:
    """Every distribution of the pods."""
    pods = case.ask.slices * case.ask.size
    most = [range(min(pods, room // case.worker) + 1) for room in case.room]
    leaders: Sequence[int | None] = range(len(case.room)) if case.leader else [None]
    for counts in itertools.product(*most):
        if sum(counts) == pods:
            for leader in leaders:
                yield DomainAssignment({index: count for index, count in enumerate(counts) if count}, leader)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    depth = draw(st.integers(1, 3))
    places = st.tuples(*(st.sampled_from("ab") for _ in range(depth - 1)), st.sampled_from("abcd"))
    return Tree.of(LEVELS[-depth:], sorted(draw(st.sets(places, min_size=1, max_size=5))))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    tree = draw(trees())
    room = draw(st.tuples(*(st.integers(0, 4) for _ in tree.values[-1])))
    count = draw(st.integers(1, 6))
    mode = draw(st.sampled_from(["required", "preferred", "unconstrained", "slices"]))
    least = mode in {"unconstrained", "slices"} and draw(st.booleans())
    level = {"unconstrained": tree.lowest, "slices": 0}.get(mode, draw(st.integers(0, tree.lowest)))
    anywhere = mode in {"unconstrained", "slices"}
    plain = Ask(count, level, tree.lowest, required=mode == "required", anywhere=anywhere, least=least)
    if mode != "slices" and draw(st.booleans()):
        worker, leader = draw(st.integers(1, 2)), draw(st.integers(1, 3))
        return Case(tree, room, replace(plain, leader=True), worker, leader)
    if mode == "unconstrained" or draw(st.booleans()):
        return Case(tree, room, plain)
    slice_level = draw(st.integers(level, tree.lowest))
    size = draw(st.integers(1, count))
    inner: dict[int, int] = {}
    if slice_level < tree.lowest:
        below = draw(st.integers(slice_level + 1, tree.lowest))
        part = draw(st.sampled_from([each for each in range(1, size + 1) if size % each == 0]))
        inner = dict.fromkeys(range(slice_level + 1, below + 1), part)
    return Case(tree, room, replace(plain, slice_level=slice_level, size=size, inner=inner))


class TestAgainstEveryDistribution:
    @settings(PROPERTY, max_examples=500)
    @given(cases())
    def test_an_assignment_is_found_exactly_if_there_is_one(self, case: Case) -> None:
        found = find(case.tree, case.leaves, case.ask)
        possible = any(case.valid(each) for each in every(case))
        assert (found is not None) is possible
        assert found is None or case.valid(found), found

    @PROPERTY
    @given(cases(), st.data())
    def test_more_room_never_makes_an_assignment_impossible(self, case: Case, data: st.DataObject) -> None:
        more = data.draw(st.tuples(*(st.integers(each, 6) for each in case.room)))
        larger = Case(case.tree, more, case.ask, case.worker, case.leader)
        if find(case.tree, case.leaves, case.ask) is not None:
            assert find(larger.tree, larger.leaves, larger.ask) is not None


def placed(room: Sequence[int], ask: Ask, tree: Tree = RACKS) -> Mapping[str, int] | None:
    """Pods by the name of the lowest domain."""
    found = find(tree, alone(room), ask)
    return None if found is None else {tree.values[-1][index][-1]: pods for index, pods in sorted(found.pods.items())}


class TestWhichDomains:
    @pytest.mark.parametrize(
        ("room", "ask", "hosts"),
        [
            pytest.param([2, 2, 2, 2, 2], Ask(3, 0, 1, required=True), {"a0": 2, "a1": 1}, id="tightest"),
            pytest.param([2, 2, 2, 2, 2], Ask(5, 0, 1, required=True), {"b0": 2, "b1": 2, "b2": 1}, id="b"),
            pytest.param([2, 2, 2, 2, 2], Ask(7, 0, 1, required=True), None, id="too many for one"),
            pytest.param([2, 2, 2, 2, 2], Ask(7, 0, 1), {"a0": 2, "a1": 2, "b0": 2, "b1": 1}, id="preferred"),
            pytest.param([3, 1, 2, 2, 2], Ask(3, 1, 1, anywhere=True, least=True), {"a0": 3}, id="one host"),
            pytest.param(
                [2, 1, 2, 2, 2],
                Ask(4, 1, 1, anywhere=True, least=True),
                {"a0": 2, "a1": 1, "b0": 1},
                id="unconstrained, the least room first",
            ),
            pytest.param([3, 1, 3, 3, 1], Ask(4, 0, 1, required=True, size=2), {"b0": 2, "b1": 2}, id="x2"),
        ],
    )
    def test_pods_are_where_kueue_places_them(
        self, room: Sequence[int], ask: Ask, hosts: Mapping[str, int] | None
    ) -> None:
        assert placed(room, ask) == hosts

    def test_pods_beyond_whole_slices_get_no_domain(self) -> None:
        assert placed([2, 2, 2, 2, 2], Ask(5, 0, 1, required=True, size=2)) == {"a0": 2, "a1": 2}

    def test_a_topology_without_nodes_has_no_place(self) -> None:
        assert placed([], Ask(1, 0, 1), Tree.of(("rack", "host"), [])) is None
