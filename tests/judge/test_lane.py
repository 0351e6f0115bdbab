"""A lane with real workers that run scripted policies: whoever misbehaves answers for it, and nobody else."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import structlog

from gangctl.client.pacing import Clock
from gangctl.judge.hearing import Hearing
from gangctl.judge.lane import Lane
from gangctl.judge.options import JudgeObserver, JudgeOptions
from gangctl.judge.options import Lane as LaneName
from gangctl.judge.policyset import Docket, Entry
from gangctl.judge.school import School, worker_spec
from gangctl.policy.review import Review
from gangctl.policy.verdict import Outcome, Result
from gangctl.runtime.workers import Workers
from tests.controlplane.wait import wait_for
from tests.judge.scripted import docket_of, review
from tests.rows import each
from tests.runtime.test_workers import children

OPTIONS = JudgeOptions(
    patience_seconds=0.3, policy_seconds=0.6, request_seconds=600.0, lesson_seconds=300.0, waiting=4, waiting_each=2
)
"""What hangs ends with its CPU time, which a busy machine does not use up. Reviews and lessons may take any time."""


class Stand:
    """A lane, what it was told, and whom it told."""

    def __init__(self, options: JudgeOptions, *, appeals: bool) -> None:
        self.strikes: list[tuple[str, str]] = []
        self.appeals: list[str] = []
        self.apart: set[str] = set()
        self.options = options
        self.observer = JudgeObserver()
        clock = Clock()
        name: LaneName = "fast" if appeals else "slow"
        spec = replace(worker_spec(options, name), service="tests.judge.scripted:Service")
        self.school = School(options, clock)
        self.workers = Workers(spec, prepare=self.school.set_up)
        self.lane = Lane(
            name,
            self.workers,
            self.school,
            options,
            strike=self._strike,
            appeal=self._appeal if appeals else None,
            apart=lambda entry: entry.policy.name in self.apart,
            observer=self.observer,
            clock=clock,
        )

    def _strike(self, entry: Entry, _: LaneName, why: str) -> None:
        self.strikes.append((entry.policy.name, why))

    def _appeal(self, hearing: Hearing, entry: Entry) -> None:
        self.appeals.append(entry.policy.name)
        hearing.settle(entry, Outcome("heard elsewhere", matched=True))

    def put(self, docket: Docket, about: Review | None = None, seconds: float = 0.0) -> Hearing:
        deadline = asyncio.get_running_loop().time() + (seconds or self.options.request_seconds)
        hearing = Hearing(about or review(), docket, docket.entries, deadline)
        assert self.lane.put(hearing, docket.entries)
        return hearing

    async def hear(self, *names: str, about: Review | None = None, seconds: float = 0.0) -> list[Outcome]:
        hearing = self.put(found := docket_of(*names), about, seconds)
        await asyncio.wait_for(hearing.wait(), 600)
        return [hearing.outcomes[entry.key] for entry in found.entries]


@asynccontextmanager
async def stand(options: JudgeOptions = OPTIONS, *, appeals: bool = False) -> AsyncIterator[Stand]:
    made = Stand(options, appeals=appeals)
    async with made.workers:
        running = [asyncio.create_task(made.lane.run()), asyncio.create_task(made.lane.relieve())]
        try:
            yield made
        finally:
            for each in running:
                each.cancel()
            await asyncio.wait(running)
    assert all(each.cancelled() for each in running)
    assert not children()


def kinds(outcomes: list[Outcome]) -> list[str]:
    """What policies said: pass, or the error's kind."""
    return [outcome.findings[0].error if outcome.findings else "pass" for outcome in outcomes]


async def test_policies_are_judged_by_one_worker_in_one_go() -> None:
    async with stand() as here:
        outcomes = await here.hear("a", "b", "c")
        again = await here.hear("a", "b", "d")
        assert [outcome.policy for outcome in outcomes] == ["a", "b", "c"]
        assert len({outcome.steps for outcome in outcomes + again}) == 1, "one process"
        assert not here.strikes


@each(
    ("name", "kind", "why"),
    [
        ("hang", "DeadlineExceeded", "time"),
        ("abort", "BudgetExceeded", "memory"),
        ("memory", "BudgetExceeded", "memory"),
        ("crash", "Other", "crash"),
        ("unteachable", "Other", "lesson"),
    ],
)
async def test_only_who_ends_a_worker_answers_for_it(name: str, kind: str, why: str) -> None:
    async with stand() as here:
        outcomes = await here.hear("a", name, "b")
        assert kinds(outcomes) == ["pass", kind, "pass"]
        assert outcomes[1].violations[0].result is Result.ERROR
        assert here.strikes == [(name, why)]
        assert kinds(await here.hear("a", "b")) == ["pass", "pass"], "the lane goes on"


async def test_many_that_misbehave_in_one_review() -> None:
    async with stand() as here:
        outcomes = await here.hear("hang-1", "crash", "a", "hang-2", "abort", "b")
        expected = ["DeadlineExceeded", "Other", "pass", "DeadlineExceeded", "BudgetExceeded", "pass"]
        assert kinds(outcomes) == expected


async def test_the_fast_lane_hands_over_whom_it_has_no_patience_for() -> None:
    async with stand(appeals=True) as here:
        outcomes = await here.hear("a", "hang", "b")
        assert [outcome.policy for outcome in outcomes] == ["a", "heard elsewhere", "b"]
        assert here.strikes == [("hang", "time")]
        assert here.appeals == ["hang"]


async def test_nobody_waits_for_one_that_hangs_while_a_worker_is_in_reserve() -> None:
    async with stand(replace(OPTIONS, patience_seconds=600, policy_seconds=600), appeals=True) as here:
        [first] = await here.hear("a")

        async def spare() -> bool:
            return here.workers.idle == 1

        await wait_for(spare, what="a worker in reserve")
        hanging = here.put(docket_of("a", "hang", "b"))
        others = [await here.hear(f"p{number}") for number in range(10)]
        assert {outcome.steps for [outcome] in others}.isdisjoint({first.steps})
        assert [entry.policy.name for entry in hanging.pending.values()] == ["hang"]
        assert not here.strikes
        os.kill(first.steps, signal.SIGSEGV)
        await asyncio.wait_for(hanging.wait(), 600)
        assert here.strikes == [("hang", "crash")]
        assert kinds(await here.hear("a", "b")) == ["pass", "pass"]


async def test_who_is_kept_apart_by_the_time_of_its_turn_is_judged_apart() -> None:
    async with stand(appeals=True) as here:
        here.apart.add("hang")
        outcomes = await here.hear("a", "hang", "b")
        assert [outcome.policy for outcome in outcomes] == ["a", "heard elsewhere", "b"]
        assert here.appeals == ["hang"]
        assert not here.strikes


async def test_the_slow_lane_hears_it_out() -> None:
    async with stand(replace(OPTIONS, policy_seconds=60)) as here:
        assert kinds(await here.hear("a", "slow", "b")) == ["pass"] * 3
        assert not here.strikes


async def test_who_is_slow_in_the_fast_lane_is_heard_there_but_once() -> None:
    async with stand(replace(OPTIONS, patience_seconds=60, policy_seconds=60), appeals=True) as here:
        assert kinds(await here.hear("rude")) == ["pass"]
        assert here.strikes == [("rude", "slow")]


async def test_at_the_end_of_a_review_no_worker_is_killed_for_those_that_were_not_heard() -> None:
    async with stand(replace(OPTIONS, fair_seconds=600, policy_seconds=60)) as here:
        first = await here.hear("a")
        late = await here.hear("longer", "b", seconds=5)
        again = await here.hear("c")
        assert kinds(late) == ["pass", "DeadlineExceeded"]
        assert not here.strikes
        assert [each.steps for each in (first[0], late[0], again[0])] == [first[0].steps] * 3


async def test_a_review_that_cannot_be_read_is_nobodys_fault() -> None:
    async with stand() as here:
        outcomes = await here.hear("a", "b", about=review("unreadable"))
        assert kinds(outcomes) == ["BudgetExceeded"] * 2
        assert not here.strikes
        assert kinds(await here.hear("a")) == ["pass"]


async def test_a_worker_that_ended_in_between_is_replaced_unseen() -> None:
    async with stand() as here:
        [before] = await here.hear("a")
        os.kill(before.steps, signal.SIGKILL)
        [after] = await here.hear("a")
        assert kinds([after]) == ["pass"]
        assert after.steps != before.steps
        assert not here.strikes


async def test_whoever_left_is_not_judged_and_costs_no_worker() -> None:
    async with stand() as here:
        [first] = await here.hear("a")
        left = here.put(docket_of("hang"))
        left.close()
        [second] = await here.hear("b")
        assert first.steps == second.steps
        assert not here.strikes


async def test_no_more_wait_than_may() -> None:
    async with stand() as here:
        await here.hear("a")
        found = docket_of("hang")
        here.put(found)

        async def taken() -> bool:
            return not len(here.lane._line)

        await wait_for(taken, what="the first to be taken")
        for _ in range(OPTIONS.waiting_each):
            here.put(found)
        deadline = asyncio.get_running_loop().time() + 1
        assert not here.lane.put(Hearing(review(), found, found.entries, deadline), found.entries)


async def test_what_is_taught_ahead_is_known_when_it_is_asked() -> None:
    async with stand() as here:
        found = docket_of(*(f"p{number}" for number in range(30)))
        here.school.current = found
        here.lane.teach(found, lambda _: False)

        async def known() -> bool:
            return any(len(keys) == 31 for keys in here.school._known.values())

        await wait_for(known, what="30 policies and the exceptions to be known")
        assert kinds(await here.hear("p3", "p29")) == ["pass", "pass"]


async def test_what_is_not_in_force_any_more_is_forgotten() -> None:
    async with stand() as here:
        await here.hear("a", "b")
        here.school.current = docket_of("c")
        await here.hear("c")
        [known] = [keys for keys in here.school._known.values() if keys]
        assert known == here.school.current.keys
        assert kinds(await here.hear("a")) == ["pass"], "a review that began before"


async def test_one_review_that_nobody_understands_does_not_stop_the_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stand() as here:
        await here.hear("a")

        def broken(*_: object) -> None:
            raise LookupError("a bug")

        with monkeypatch.context() as patched, structlog.testing.capture_logs() as logs:
            patched.setattr(here.school, "ignorance", broken)
            odd = here.put(docket_of("b"))

            async def told() -> bool:
                return any(each["event"] == "lane failed unexpectedly" for each in logs)

            await wait_for(told, what="the error to be told")
        assert not odd.over
        assert kinds(await here.hear("c")) == ["pass"]


async def test_cancelling_a_lane_ends_what_it_was_at() -> None:
    async with stand() as here:
        await here.hear("a")
        here.put(docket_of("hang"))
    assert not children()
