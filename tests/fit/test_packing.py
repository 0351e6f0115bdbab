"""Pods that are placed one after the other: whether all can be, and whether all are in any way, by brute force."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from gangctl.fit.exploring import Attraction, Evenness, Exploration, Repulsion, Rules, explore
from gangctl.fit.packing import Packing
from tests.steps import steps
from tests.strategies import PROPERTY

LEAST_NODES, MOST_NODES, MOST_PODS = 1, 3, 5
Places = tuple[tuple[int, ...], ...]
"""The nodes of the pods of each kind."""


@st.composite
def packings(draw: st.DrawFn) -> Packing:
    """At most five pods of two kinds on three nodes."""
    free = draw(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), min_size=LEAST_NODES, max_size=MOST_NODES))
    first = draw(st.integers(0, MOST_PODS))
    counts = (first, draw(st.integers(0, MOST_PODS - first)))
    sizes = [(draw(st.integers(0, 3)), 1) for _ in counts]
    nodes = st.frozensets(st.integers(0, len(free) - 1))
    return Packing(sizes, counts, [draw(nodes) for _ in counts], dict(enumerate(free)))


KINDS = st.frozensets(st.integers(0, 1))


@st.composite
def domains(draw: st.DrawFn) -> dict[int, str]:
    """The domain of some of the nodes."""
    found = draw(st.lists(st.sampled_from(["a", "b", ""]), min_size=MOST_NODES, max_size=MOST_NODES))
    return {node: value for node, value in enumerate(found) if value}


@st.composite
def rules(draw: st.DrawFn) -> Rules:
    """At most one rule of each sort."""
    repulsions = [Repulsion(draw(KINDS), draw(KINDS), draw(domains()))] * draw(st.integers(0, 1))
    there = draw(st.frozensets(st.sampled_from("ab"), max_size=1))
    kind = draw(st.integers(0, 1))
    attractions = [Attraction(kind, draw(KINDS), (draw(domains()),), (there,))] * draw(st.integers(0, 1))
    counted = draw(domains())
    counts = {value: draw(st.integers(0, 2)) for value in counted.values()}
    skew, least = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    evennesses = [Evenness(kind, draw(KINDS), counted, counts, skew, least)] * draw(st.integers(0, 1))
    return Rules(tuple(repulsions), tuple(attractions), tuple(evennesses))


def room(packing: Packing, places: Places, kind: int, node: int) -> bool:
    used = [
        sum(packing.sizes[other][index] * nodes.count(node) for other, nodes in enumerate(places)) for index in range(2)
    ]
    there = packing.free[node]
    return all(
        size == 0 or size + taken <= amount
        for size, taken, amount in zip(packing.sizes[kind], used, there, strict=True)
    )


def within(places: Places, kinds: frozenset[int], of: dict[int, str], value: str | None) -> int:
    return sum(of.get(node) == value for kind in kinds for node in places[kind] if value is not None)


def allows(rule: Rules, places: Places, kind: int, node: int) -> bool:
    """The filters, as the scheduler's plugins have them, without any short cut."""
    for repulsion in rule.repulsions:
        of = dict(repulsion.domains)
        value = of.get(node)
        if kind in repulsion.owners and within(places, repulsion.matches, of, value):
            return False
        if kind in repulsion.matches and within(places, repulsion.owners, of, value):
            return False
    for attraction in rule.attractions:
        of, (there,) = dict(attraction.domains[0]), attraction.there
        value = of.get(node)
        anywhere = {of[at] for other in attraction.matches for at in places[other] if at in of} | there
        first = not anywhere and kind in attraction.matches
        if kind == attraction.kind and (value is None or not (first or value in anywhere)):
            return False
    for evenness in rule.evennesses:
        of = dict(evenness.domains)
        counts = {value: count + within(places, evenness.matches, of, value) for value, count in evenness.there.items()}
        least = min(counts.values(), default=0) if len(counts) >= evenness.least else 0
        if kind == evenness.kind and not (
            node in of and counts[of[node]] + (kind in evenness.matches) - least <= evenness.skew
        ):
            return False
    return True


def brute_force(packing: Packing, rule: Rules) -> Exploration:
    """Every order, and every node with room for each pod."""

    @cache
    def follow(places: Places) -> tuple[bool, bool]:
        left = [kind for kind, count in enumerate(packing.counts) if len(places[kind]) < count]
        ends = [end for kind in left for end in choices(places, kind)]
        return (any(done for done, _ in ends), all(sure for _, sure in ends)) if left else (True, True)

    def choices(places: Places, kind: int) -> Sequence[tuple[bool, bool]]:
        nodes = [node for node in packing.allowed[kind] if room(packing, places, kind, node)]
        nodes = [node for node in nodes if allows(rule, places, kind, node)]
        return [follow(with_one(places, kind, node)) for node in nodes] or [(False, False)]

    possible, certain = follow(((), ()))
    return Exploration(possible, certain)


def with_one(places: Places, kind: int, node: int) -> Places:
    return tuple(tuple(sorted((*nodes, node))) if other == kind else nodes for other, nodes in enumerate(places))


def answers(packing: Packing, rule: Rules) -> Iterator[tuple[bool | None, bool | None]]:
    found, expected = explore(packing, rule), brute_force(packing, rule)
    yield found.possible, expected.possible
    yield found.certain, expected.certain


@PROPERTY
@given(packings())
def test_pods_without_rules_are_placed_as_by_brute_force(packing: Packing) -> None:
    assert all(found is expected for found, expected in answers(packing, Rules()))


@PROPERTY
@given(packings(), rules())
def test_pods_with_rules_are_placed_as_by_brute_force(packing: Packing, rule: Rules) -> None:
    assert all(found is expected for found, expected in answers(packing, rule))


def test_a_large_gang_has_an_answer() -> None:
    nodes = range(1000)
    packing = Packing([(8, 1), (1, 1)], [800, 20], [nodes, nodes], dict.fromkeys(nodes, (9, 110)))
    assert explore(packing, Rules()) == Exploration(possible=True, certain=True)
    zones = {node: str(node % 3) for node in nodes}
    even = Rules(evennesses=(Evenness(0, frozenset({0}), zones, dict.fromkeys("012", 0), 1, 1),))
    alone = Packing([(8, 1)], [300], [nodes], dict.fromkeys(nodes, (9, 110)))
    assert explore(alone, even) == Exploration(possible=True, certain=True)


def test_the_work_of_a_spread_over_nodes_grows_linearly_with_them() -> None:
    def work(count: int) -> int:
        nodes = range(count)
        hosts = {node: str(node) for node in nodes}
        even = Rules(evennesses=(Evenness(0, frozenset({0}), hosts, dict.fromkeys(hosts.values(), 0), 1, 1),))
        packing = Packing([(8, 1)], [2], [nodes], dict.fromkeys(nodes, (9, 110)))
        return steps(lambda: explore(packing, even))

    assert work(600) < 2.5 * work(300)
