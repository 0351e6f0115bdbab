"""Policies are loaded beside the event loop, and workers have them before they are in force."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from gangctl.client.pacing import Clock
from gangctl.judge import judge as judging
from gangctl.judge.messages import Question
from gangctl.judge.policyset import PolicySet, docket
from gangctl.policy.load import load_policy
from gangctl.policy.verdict import Result
from tests.judge.world import FAST, FINE, document, jobset_review, judge_of, until_warm
from tests.runtime.test_workers import children

pytestmark = pytest.mark.usefixtures("nobody_is_left")


async def test_policies_are_loaded_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def noted(load: Callable[..., object]) -> Callable[..., object]:
        def loading(*arguments: object) -> object:
            threads.append(threading.current_thread())
            return load(*arguments)

        return loading

    async with judge_of(FAST, FINE) as judge:
        for name in ("load_policy", "load_native"):
            monkeypatch.setattr(judging, name, noted(getattr(judging, name)))
        await judge.load(document("p", "true"))
        await judge.load_native([])
    assert len(threads) == 2
    assert threading.current_thread() not in threads


async def test_workers_learn_many_policies_before_they_are_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [f"object.spec.replicatedJobs.all(j, j.replicas != {n} || size(j.name) > {n})" for n in range(-40, 0)]
    sent: list[object] = []
    # However long it takes.
    options = replace(FAST, ahead_seconds=300, lesson_seconds=300)
    async with judge_of(options, FINE) as judge:
        many = PolicySet(2, tuple([await judge.load(document(f"p{n}", *rules)) for n in range(30)]))
        await judge.prepare(many)
        [before] = await judge.judge(jobset_review())
        assert before.policy == FINE["metadata"]["name"], "what is only being learned is not in force"
        [learned] = [worker for worker, known in judge._school._known.items() if docket(many).keys <= known]
        send = learned.send

        async def noted(request: object) -> None:
            sent.append(request)
            await send(request)

        monkeypatch.setattr(learned, "send", noted)
        await judge.install(many)
        outcomes = await judge.judge(jobset_review())
    # It is the one that is asked, and nothing is left to teach it.
    assert [type(each) for each in sent] == [Question]
    assert {each.findings[0].result for each in outcomes} == {Result.PASS}


async def test_nobody_waits_for_ever_until_workers_have_learned() -> None:
    async with judge_of(replace(FAST, ahead_seconds=0.0), FINE) as judge:
        await judge.prepare(PolicySet(2, (await judge.load(document("p", "true")),)))
    async with judge_of(replace(FAST, ahead=False), FINE) as judge:
        await judge.prepare(PolicySet(2, (await judge.load(document("p", "true")),)))
        assert not children()


class RestsCounted(Clock):
    """Counts what is slept on it, and sleeps no time."""

    def __init__(self) -> None:
        self.rests: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.rests.append(seconds)
        await asyncio.sleep(0)


async def test_those_in_reserve_learn_with_rests_and_in_none_of_the_time_of_who_waits_for_one() -> None:
    """All of them at once kept both cores for a second: requests took ten times as long meanwhile."""
    clock = RestsCounted()
    async with judge_of(FAST, FINE, clock=clock) as judge:
        await until_warm(judge)
        clock.rests.clear()
        first, many = [
            tuple([await judge.load(each) for each in (*(document(f"{name}{n}", "true") for n in range(8)), FINE)])
            for name in "pq"
        ]
        await judge.install(PolicySet(2, first))
        await until_warm(judge)
        assert len(clock.rests) == len(judge._workers) * len(many)
        assert all(0 < rest <= 0.2 for rest in clock.rests)

        clock.rests.clear()
        await judge.install(PolicySet(3, many))
        fast = judge._workers["fast"]
        waiting = asyncio.create_task(fast.take())
        await fast.discard(await waiting)
        await until_warm(judge)
        assert len(clock.rests) <= len(many), "only the slow lane's: the other was waited for, and its successor is new"


def test_policies_load_the_same_from_their_source() -> None:
    policy = load_policy(FINE)
    assert load_policy(policy.source).source == policy.source
