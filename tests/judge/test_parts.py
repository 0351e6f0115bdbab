"""The small parts of the judge, without any worker."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from gangctl.judge.hearing import Hearing
from gangctl.judge.line import Line
from gangctl.judge.policyset import PolicySet, docket
from gangctl.judge.quarantine import Quarantine
from gangctl.judge.size import MOST_VALUES, size_of
from gangctl.policy.cel.faults import EvalKind
from gangctl.policy.exemptions import load_exception
from gangctl.policy.verdict import Action, Outcome, Result
from tests.judge.scripted import NOW, docket_of, policy, review
from tests.rows import each


def test_quarantine_grows_with_each_strike_and_decays() -> None:
    quarantine = Quarantine(base=10, cap=35)
    assert not quarantine.holds("a", 0)
    assert quarantine.strike("a", 0) == 10
    assert quarantine.holds("a", 9.9)
    assert not quarantine.holds("a", 10)
    assert quarantine.strike("a", 12) == 20, "again, soon after it was free"
    assert quarantine.strike("a", 20) == 35, "no longer than the cap"
    assert quarantine.holds("a", 54)
    assert not quarantine.holds("a", 55)
    assert not quarantine.holds("b", 20)
    assert quarantine.strike("a", 91) == 10, "it has been good for as long again"


def test_quarantine_forgets_policies_that_are_gone() -> None:
    quarantine = Quarantine(base=10, cap=20)
    quarantine.strike("a", 0)
    quarantine.strike("b", 0)
    quarantine.retain({"b"})
    assert not quarantine.holds("a", 1)
    assert quarantine.holds("b", 1)


@dataclass
class Item:
    name: str
    over: bool = False


async def test_a_line_lets_groups_take_turns() -> None:
    line: Line[Item] = Line(3)
    for name in ("a1", "a2", "a3"):
        assert line.put(Item(name), "a")
    assert line.put(Item("b1"), "b")
    assert len(line) == 4
    assert [(await line.get()).name for _ in range(4)] == ["a1", "b1", "a2", "a3"]
    assert len(line) == 0


async def test_a_line_is_bounded_and_drops_whom_nobody_waits_for() -> None:
    line: Line[Item] = Line(2)
    gone, kept = Item("gone"), Item("kept")
    assert line.put(gone)
    assert line.put(kept)
    assert not line.put(Item("third"))
    assert line.put(Item("other"), "of another group")
    gone.over = True
    assert line.put(Item("fourth"))
    assert not line.put(Item("fifth"))
    kept.over = True
    assert [(await line.get()).name for _ in range(2)] == ["other", "fourth"]


async def test_whoever_was_taken_already_may_stand_first() -> None:
    line: Line[Item] = Line(1)
    line.put(Item("waits"))
    line.put_first(Item("was there"))
    assert [(await line.get()).name for _ in range(2)] == ["was there", "waits"]


async def test_a_line_wakes_every_taker() -> None:
    line: Line[Item] = Line(5)
    takers = [asyncio.create_task(line.get()) for _ in range(3)]
    await asyncio.sleep(0)
    takers[0].cancel()
    for name in ("x", "y"):
        line.put(Item(name))
    assert {taken.name for taken in await asyncio.gather(*takers[1:])} == {"x", "y"}


@each(
    ("obj", "expected"),
    [
        ({}, (1, 0, 0)),
        ({"a": [1, 2, 3], "b": "xyz"}, (6, 3, 3)),
        ({"a": {str(n): "x" * n for n in range(10)}}, (12, 10, 9)),
    ],
)
def test_sizes(obj: Any, expected: tuple[int, int, int]) -> None:
    sized = size_of(replace(review(), object=obj, request={}))
    # The other objects and the request, all of them null or empty.
    assert sized == (expected[0] + 5, *expected[1:])


def test_a_large_review_is_large_in_every_way_however_its_lists_lie() -> None:
    deep: Any = []
    for _ in range(MOST_VALUES):
        deep = [deep]
    sized = size_of(replace(review(), object={"deep": deep}))
    assert sized.values == sized.elements == sized.text == MOST_VALUES


def test_params_count_for_the_size() -> None:
    sized = size_of(review(params={"p": ({"data": {str(n): "v" for n in range(50)}},)}))
    assert sized.elements == 50


def test_the_same_content_has_the_same_key() -> None:
    one, other = docket_of("a", "b"), docket_of("a", "b")
    assert one.keys == other.keys
    assert docket_of("a").entries[0].key == one.entries[0].key != one.entries[1].key
    changed = docket(PolicySet(2, (policy("a", failurePolicy="Ignore"),)))
    assert changed.entries[0].key != one.entries[0].key


def test_a_status_does_not_change_the_key() -> None:
    document = {"metadata": {"name": "a", "generation": 1, "resourceVersion": "1"}, "spec": {}}
    again = {"metadata": {"name": "a", "generation": 1, "resourceVersion": "2"}, "spec": {}, "status": {"x": 1}}
    first = docket(PolicySet(1, (replace(policy("a"), source=document),)))
    second = docket(PolicySet(2, (replace(policy("a"), source=again),)))
    assert first.keys == second.keys


async def test_a_hearing_takes_the_first_outcome_of_each_policy() -> None:
    found = docket_of("a", "b")
    hearing = Hearing(review(), found, found.entries, deadline=0)
    a, b = found.entries
    hearing.settle(a, Outcome("a", matched=False))
    hearing.settle(a, Outcome("a", matched=True))
    waiting = asyncio.create_task(hearing.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    hearing.fail(b, EvalKind.DEADLINE_EXCEEDED, "too slow")
    await waiting
    assert not hearing.outcomes[a.key].matched
    [finding] = hearing.outcomes[b.key].violations
    assert (finding.policy, finding.result, finding.message) == ("b", Result.ERROR, "too slow")
    assert finding.error == "DeadlineExceeded"
    assert hearing.outcomes[b.key].actions == {Action.DENY}


async def test_a_closed_hearing_takes_none() -> None:
    found = docket_of("a")
    hearing = Hearing(review(), found, found.entries, deadline=0)
    hearing.close()
    hearing.settle(found.entries[0], Outcome("a", matched=True))
    assert hearing.over
    assert not hearing.outcomes


def test_failure_policy_and_exceptions_decide_what_no_answer_means() -> None:
    exception = load_exception(
        {
            "apiVersion": "gangctl.dev/v1alpha1",
            "kind": "GangPolicyException",
            "metadata": {"name": "until-easter"},
            "spec": {
                "policies": [{"name": "excused"}],
                "owner": "team",
                "reason": "tried",
                "expiresAt": NOW.replace(year=2027).isoformat(),
            },
        }
    )
    policies = (policy("open", failurePolicy="Ignore"), policy("excused"))
    found = docket(PolicySet(1, policies, exceptions=(exception,)))
    hearing = Hearing(review(), found, found.entries, deadline=0)
    for entry in found.entries:
        hearing.fail(entry, EvalKind.BUDGET_EXCEEDED, "too much")
    assert [hearing.outcomes[entry.key].violations for entry in found.entries] == [(), ()]
    [excused] = hearing.outcomes[found.entries[1].key].findings
    assert (excused.result, excused.exception) == (Result.EXEMPT, "until-easter")
