"""Which fault befalls which request: every request of a scenario, as the run without a fault shows them.

A request is named by what it is and how often that was asked before (:class:`Point`), because two runs may ask the same
things in another order.

Most requests only look, while nothing changes, whether anything has: they come again every few seconds, and a cluster
that takes seconds to live through once would be lived through a thousand times for them. Several such looks, with
others between them that nothing befalls, have their faults in one run.
"""

from __future__ import annotations

import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.faults.scenarios import Scenario
from tests.faults.virtual_time import run
from tests.faults.world import USER, Outcome, World, world
from tests.sandbox import faults
from tests.sandbox.faults import WRITES, Action, Match, Record

_PASSING: Final = frozenset({"FailedCreate", "PodGroupCreated", "AdmissionDenied", "JobSetCreateFailed"})
"""Reasons of events that a fault may add: a write failed, and what was missing then came later."""

_ON_THE_WAY: Final = frozenset({"said", "created"})
"""The parts of an outcome that describe the way to the end."""

_APART: Final = 5
"""How many requests at rest there are from one that meets a fault to the next in the same run."""

_LOOKS: Final = frozenset({"get", "list"})

_ANY: Final[dict[str, Action]] = {
    "error": faults.error(500),
    "unavailable": faults.error(503, "ServiceUnavailable", "the server is currently unable to handle the request"),
    "throttled": faults.throttle(2),
    "forbidden": faults.error(403, "Forbidden", "not now"),
    "cut-before": faults.CutBefore(),
    "cut-after": faults.CutAfter(),
    "slow": faults.Delay(40),
    "silent": faults.Silence(),
}
_WRITE: Final[dict[str, Action]] = {**_ANY, "conflict": faults.conflict()}
_REFUSALS: Final = frozenset({"error", "unavailable", "forbidden", "conflict"})
_GET: Final[dict[str, Action]] = {**_ANY, "stale": faults.Stale(3)}
_LIST: Final[dict[str, Action]] = {**_GET, "gone": faults.gone()}
_WATCH: Final[dict[str, Action]] = {
    **_ANY,
    "ended": faults.EndWatch(),
    "ended-later": faults.EndWatch(2),
    "cut-later": faults.CutAfter(1),
    "gone": faults.ExpireWatch(),
    "gone-later": faults.ExpireWatch(1),
    "silent-later": faults.Silence(1),
}


@dataclass(frozen=True, order=True)
class Point:
    """The ``nth`` request (from 1) of its kind."""

    verb: str
    resource: str
    dry_run: bool
    nth: int

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{' (dry run)' if self.dry_run else ''} #{self.nth}"

    @property
    def match(self) -> Match:
        """Counts the requests of this kind."""
        return Match(USER, verbs=frozenset({self.verb}), resource=self.resource, dry_run=self.dry_run)

    @property
    def kinds(self) -> dict[str, Action]:
        """The faults that can befall it."""
        if self.resource == "events.events.k8s.io":
            # A forbidden event is not retried: RBAC does not change within seconds.
            return {name: action for name, action in _WRITE.items() if name != "forbidden"}
        if self.resource == "policyreports.wgpolicyk8s.io":
            # A report that is refused for any reason is left to the next scan, ten minutes later.
            kinds, left = (_WRITE, _REFUSALS) if self.verb in WRITES else (_LIST, {"forbidden"})
            return {name: action for name, action in kinds.items() if name not in left}
        if self.verb in WRITES:
            return _WRITE
        return {"get": _GET, "list": _LIST}.get(self.verb, _WATCH)


def points(records: Iterable[Record]) -> list[Point]:
    """The requests of a run, each with its place."""
    seen: Counter[tuple[str, str, bool]] = Counter()
    found = []
    for record in records:
        key = (record.verb, record.resource, record.dry_run)
        seen[key] += 1
        found.append(Point(*key, seen[key]))
    return found


Fault = tuple[Point, str]
"""What befalls which request."""


@dataclass(frozen=True)
class Result:
    """One run: its outcome, what is left once all JobSets are deleted, what was asked, and which faults struck."""

    outcome: Outcome
    left: tuple[str, ...]
    asked: list[Point]
    at_rest: frozenset[Point]
    """Looks and dry runs while nothing happened."""
    struck: frozenset[Fault]


Choice = Callable[[Result], Iterable[Sequence[Fault]]]
"""The faults of every run, by what the run without any has shown."""


def in_turn(calm: Result) -> Iterator[Sequence[Fault]]:
    """One fault for every request, the kinds taking turns."""
    alone: list[Fault] = []
    at_rest: list[Fault] = []
    for index, point in enumerate(calm.asked):
        names = list(point.kinds)
        (at_rest if point in calm.at_rest else alone).append((point, names[index % len(names)]))
    yield from ([fault] for fault in alone)
    yield from (at_rest[first::_APART] for first in range(min(_APART, len(at_rest))))


def one_of_each(calm: Result) -> Iterator[Sequence[Fault]]:
    """One fault for the first request of each kind that is not made at rest."""
    met = set[tuple[str, str, bool]]()
    for index, point in enumerate(calm.asked):
        kind = (point.verb, point.resource, point.dry_run)
        if point not in calm.at_rest and kind not in met:
            met.add(kind)
            names = list(point.kinds)
            yield [(point, names[index % len(names)])]


def every(calm: Result) -> Iterator[Sequence[Fault]]:
    """Every fault for every request, each in a run of its own."""
    for point in calm.asked:
        for name in point.kinds:
            yield [(point, name)]


async def _play(scenario: Scenario, minor: str, directory: Path, faults: Sequence[Fault]) -> Result:
    async with world(minor, directory, about=scenario.about) as here:
        rules = {}

        def arm() -> None:
            for point, kind in faults:
                rules[point, kind] = here.sandbox.faults.add(point.match, point.kinds[kind], first=point.nth)

        if scenario.from_the_start:
            arm()
        await here.start_gangctl()
        begun = 0 if scenario.from_the_start else here.sandbox.audit.total
        if not scenario.from_the_start:
            arm()
        await scenario.steps(here)
        # A request without an answer is given up after half a minute, and what it was for comes later.
        await here.rest()
        outcome = await here.outcome()
        asked, at_rest = _points(scenario, here, begun)
        left = await here.empty()
        return Result(outcome, left, asked, at_rest, frozenset(fault for fault, rule in rules.items() if rule.fired))


def _points(scenario: Scenario, here: World, begun: int) -> tuple[list[Point], frozenset[Point]]:
    """What gangctl has asked since so many requests that the scenario is about, and what of that at rest."""
    numbered = [
        (number, record)
        for number, record in enumerate(here.sandbox.audit.since(begun), begun)
        if record.user == USER and scenario.is_about(record.verb, record.resource)
    ]
    asked = points(record for _, record in numbered)
    at_rest = (
        point
        for (number, _), point in zip(numbered, asked, strict=True)
        if (point.verb in _LOOKS or point.dry_run) and any(number in quiet for quiet in here.quiet)
    )
    return asked, frozenset(at_rest)


def play(scenario: Scenario, minor: str, faults: Sequence[Fault] = ()) -> Result:
    """Run a scenario once, with some faults or none."""
    with tempfile.TemporaryDirectory() as directory:
        return run(_play(scenario, minor, Path(directory), faults))


def complaints(scenario: Scenario, expected: Result, seen: Result) -> list[str]:
    """What a fault changed that it must not change."""
    found = [f"left over: {seen.left}"] if seen.left else []
    wanted, got = vars(expected.outcome), vars(seen.outcome)
    got = {**got, "said": {reported: n for reported, n in got["said"].items() if reported.split()[1] not in _PASSING}}
    found += [
        f"{name}: {got[name]} instead of {wanted[name]}"
        for name in wanted
        if wanted[name] != got[name] and not (scenario.racing and name in _ON_THE_WAY)
    ]
    return found


def verdict(scenario: Scenario, minor: str, choose: Choice) -> list[str]:
    """Run a scenario with each choice of faults; what went wrong, one line a run."""
    expected = play(scenario, minor)
    assert not expected.left, f"without any fault: {expected.left} left over"
    assert expected.asked, "gangctl asked for nothing: there is nothing that could fail"
    wrong, played, struck = [], 0, 0
    runs = deque(choose(expected))
    while runs:
        faults = runs.popleft()
        named = "; ".join(f"{point}, {kind}" for point, kind in faults)
        try:
            seen = play(scenario, minor, faults)
        except (AssertionError, TimeoutError, ExceptionGroup) as error:
            played += len(faults)
            wrong.append(f"{named}: {error!r}")
            continue
        missed = [fault for fault in faults if fault not in seen.struck]
        if len(faults) > 1:
            # A fault that makes gangctl wait leaves it fewer requests for the others.
            runs.extend([fault] for fault in missed)
            played -= len(missed)
        played += len(faults)
        struck += len(seen.struck)
        found = complaints(scenario, expected, seen)
        if found:
            wrong.append(f"{named}: {'; '.join(found)}")
    # The last periodic check may fall behind the end of a run, but a fault that hits no request proves nothing.
    if struck < played * 0.9:
        wrong.append(f"only {struck} of {played} faults struck")
    return wrong
