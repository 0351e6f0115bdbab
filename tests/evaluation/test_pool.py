"""The pool with real workers that run scripted policies: only the policy that misbehaves is penalized."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from gangctl.client.pacing import Clock
from gangctl.evaluation.options import EvaluatorOptions, Size
from gangctl.evaluation.pool import EvaluationRequest, Pool
from gangctl.policy.loaded import KeyedSet
from gangctl.policy.review import Review
from gangctl.policy.verdict import Outcome, Result
from tests.controlplane.wait import wait_for
from tests.evaluation.evaluators import Seen
from tests.evaluation.scripted import review, snapshot_with
from tests.rows import each
from tests.runtime.workerprocesses import children

OPTIONS = EvaluatorOptions(
    slow_seconds=0.3, policy_seconds=0.6, request_seconds=600.0, load_seconds=300.0, waiting=2, workers=1
)
"""What hangs ends with its CPU time, which a busy machine does not use up. Reviews and loading may take any time."""


class Bench:
    """A pool, and what it reported."""

    def __init__(self, options: EvaluatorOptions) -> None:
        self.options = options
        self.seen = Seen()
        self.pool = Pool(options, self.seen)

    def submit(self, snapshot: KeyedSet, about: Review | None = None, *, size: Size = "large") -> EvaluationRequest:
        deadline = asyncio.get_running_loop().time() + self.options.request_seconds
        request = EvaluationRequest(about or review(), snapshot, snapshot.entries, deadline)
        request.size = size
        self.pool.submit(request, snapshot.entries)
        return request

    async def outcomes(self, request: EvaluationRequest) -> list[Outcome]:
        await asyncio.wait_for(request.wait(), 600)
        return [request.outcomes[entry.key] for entry in request.snapshot.entries]

    async def evaluate(self, *names: str, about: Review | None = None, size: Size = "large") -> list[Outcome]:
        return await self.outcomes(self.submit(snapshot_with(*names), about, size=size))

    def penalized(self, name: str, size: Size = "large") -> bool:
        return (snapshot_with(name).entries[0].key, size) in self.pool.slow


class Leap(Clock):
    """Is past the deadline of a review once "longer" is evaluated."""

    def __init__(self, here: Bench) -> None:
        self.here = here

    def now(self) -> float:
        over = ("longer", "large") in self.here.seen.queues
        return super().now() + (2 * self.here.options.request_seconds if over else 0.0)


@pytest.fixture(autouse=True)
def _scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangctl.evaluation.loader.SERVICE", "tests.evaluation.scripted:Service")


@asynccontextmanager
async def bench(options: EvaluatorOptions = OPTIONS) -> AsyncIterator[Bench]:
    made = Bench(options)
    async with made.pool:
        yield made
    assert not children()


def kinds(outcomes: list[Outcome]) -> list[str]:
    """Pass, or the kind of the error, of each."""
    return [outcome.findings[0].error if outcome.findings else "pass" for outcome in outcomes]


async def test_policies_of_a_review_are_evaluated_by_one_worker() -> None:
    async with bench() as here:
        outcomes = await here.evaluate("a", "b", "c")
        assert [outcome.policy for outcome in outcomes] == ["a", "b", "c"]
        assert len({outcome.steps for outcome in outcomes}) == 1, "one process"
        assert here.seen.queues == [(name, "large") for name in "abc"]


@each(
    ("name", "kind", "why"),
    [
        ("hang", "DeadlineExceeded", ["time", "time"]),
        ("abort", "BudgetExceeded", ["memory"]),
        ("memory", "BudgetExceeded", ["memory"]),
        ("crash", "Other", ["crash"]),
        ("unloadable", "Other", []),
    ],
)
async def test_only_the_policy_that_ended_a_worker_is_penalized(name: str, kind: str, why: list[str]) -> None:
    async with bench() as here:
        outcomes = await here.evaluate("a", name, "b")
        assert kinds(outcomes) == ["pass", kind, "pass"]
        assert outcomes[1].violations[0].result is Result.ERROR
        assert here.seen.kills == [(name, each) for each in why]
        assert here.penalized(name) is bool(why)
        assert kinds(await here.evaluate("a", "b")) == ["pass", "pass"], "the pool goes on"


async def test_several_misbehaving_policies_of_a_review_are_penalized() -> None:
    async with bench() as here:
        outcomes = await here.evaluate("hang-1", "crash", "a", "hang-2", "abort", "b")
        expected = ["DeadlineExceeded", "Other", "pass", "DeadlineExceeded", "BudgetExceeded", "pass"]
        assert kinds(outcomes) == expected


async def test_a_slow_policy_is_killed_once_and_then_evaluated_separately(tmp_path: Path) -> None:
    slow = f"slow-{tmp_path / 'killed'}"
    async with bench(replace(OPTIONS, policy_seconds=60)) as here:
        assert kinds(await here.evaluate("a", slow, "b")) == ["pass"] * 3
        assert here.seen.kills == [(slow, "time")]
        assert sorted(here.seen.queues) == [("a", "large"), ("b", "large"), (slow, "penalized")]
        assert kinds(await here.evaluate("a", slow, "b")) == ["pass"] * 3
        assert here.seen.kills == [(slow, "time")]
        assert here.seen.queues[3:].count((slow, "penalized")) == 1


async def test_a_slow_policy_is_penalized_for_reviews_of_that_size() -> None:
    async with bench(replace(OPTIONS, slow_seconds=0)) as here:
        assert kinds(await here.evaluate("a")) == ["pass"]
        assert here.penalized("a", "large")
        assert not here.penalized("a", "small")
        assert not here.seen.kills


async def test_small_reviews_are_evaluated_while_large_ones_and_penalized_policies_hang() -> None:
    async with bench(replace(OPTIONS, slow_seconds=600, policy_seconds=600, workers=3, waiting=9)) as here:
        [first] = await here.evaluate("crash-first", size="small")
        assert kinds([first]) == ["Other"]
        assert here.penalized("crash-first", "small")
        hanging = [here.submit(snapshot_with("a", "hang")) for _ in range(3)]

        async def hang() -> bool:
            return here.seen.queues.count(("a", "large")) == 2

        await wait_for(hang, what="large reviews on both workers that take them")
        for number in range(10):
            assert kinds(await here.evaluate(f"p{number}", size="small")) == ["pass"]
        assert not any(request.over for request in hanging)


async def test_a_policy_that_got_a_penalty_meanwhile_is_not_evaluated_with_the_others(tmp_path: Path) -> None:
    slow = f"slow-{tmp_path / 'killed'}"
    async with bench(replace(OPTIONS, policy_seconds=60)) as here:
        first, second = here.submit(snapshot_with(slow)), here.submit(snapshot_with("a", slow, "b"))
        assert kinds(await here.outcomes(second)) == ["pass"] * 3
        assert kinds(await here.outcomes(first)) == ["pass"]
        assert here.seen.kills == [(slow, "time")], "by the first alone"


async def test_no_worker_is_killed_for_policies_that_were_not_started() -> None:
    async with bench(replace(OPTIONS, slow_seconds=600, policy_seconds=60)) as here:
        first = await here.evaluate("a")
        here.pool._clock = Leap(here)
        late = await here.evaluate("longer", "b")
        here.pool._clock = Clock()
        again = await here.evaluate("c")
        assert kinds(late) == ["pass", "DeadlineExceeded"]
        assert not here.seen.kills
        # Of the two processes, the first and the spare, each may have it.
        assert {each.steps for each in (first[0], late[0], again[0])} <= set(children())


async def test_an_unreadable_review_penalizes_no_policy() -> None:
    async with bench() as here:
        outcomes = await here.evaluate("a", "b", about=review("unreadable"))
        assert kinds(outcomes) == ["BudgetExceeded"] * 2
        assert not here.seen.kills
        assert kinds(await here.evaluate("a")) == ["pass"]


async def test_a_worker_that_ended_while_idle_is_replaced() -> None:
    async with bench() as here:
        [before] = await here.evaluate("a")
        os.kill(before.steps, signal.SIGKILL)
        [after] = await here.evaluate("a")
        assert kinds([after]) == ["pass"]
        assert after.steps != before.steps
        assert not here.seen.kills


async def test_a_cancelled_request_takes_no_worker() -> None:
    async with bench() as here:
        await here.evaluate("a")
        before = children()
        left = here.submit(snapshot_with("hang"))
        left.close()
        assert kinds(await here.evaluate("b")) == ["pass"]
        assert not here.seen.kills
        assert set(before) <= set(children())


async def test_the_number_of_waiting_reviews_of_a_namespace_is_limited() -> None:
    async with bench(replace(OPTIONS, slow_seconds=600, policy_seconds=600)) as here:
        here.submit(snapshot_with("a", "hang"))

        async def taken() -> bool:
            return here.seen.queues == [("a", "large")]

        await wait_for(taken, what="the first to hang")
        waiting = [here.submit(snapshot_with("b")) for _ in range(3)]
        assert [request.over for request in waiting] == [False, False, True]
        assert here.seen.missing == [("large", "full")]
        elsewhere = replace(review(), request={**review().request, "namespace": "other"})
        assert not here.submit(snapshot_with("b"), elsewhere).over


async def test_penalties_of_removed_policies_are_dropped() -> None:
    async with bench(replace(OPTIONS, spares=0)) as here:
        await here.evaluate("a", "b")
        here.pool.loader.current = snapshot_with("c")
        await here.evaluate("c")
        [loaded] = here.pool.loader._loaded.values()
        assert loaded == here.pool.loader.current.keys
        assert kinds(await here.evaluate("a")) == ["pass"], "a review that began before"


async def test_an_unexpected_error_does_not_stop_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    async with bench() as here:
        await here.evaluate("a")

        def broken(*_: object) -> None:
            raise LookupError("a bug")

        with monkeypatch.context() as patched, structlog.testing.capture_logs() as logs:
            patched.setattr(here.pool.loader, "load", broken)
            odd = here.submit(snapshot_with("b"))

            async def logged() -> bool:
                return any(each["event"] == "policy pool failed unexpectedly" for each in logs)

            await wait_for(logged, what="the error in the log")
        assert not odd.over
        assert kinds(await here.evaluate("c")) == ["pass"]


async def test_closing_a_pool_ends_hanging_reviews() -> None:
    async with bench() as here:
        await here.evaluate("a")
        here.submit(snapshot_with("hang"))
    assert not children()
