"""Policies are loaded beside the event loop, and workers have them before they are in force."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from gangctl.client.pacing import Clock
from gangctl.evaluation import evaluator as module
from gangctl.evaluation.loader import WorkerLoader
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import PolicySet, snapshot_of
from gangctl.policy.verdict import Result
from gangctl.runtime.workerprocess import WorkerProcess
from tests.evaluation.evaluators import FINE, PATIENT, document, evaluator_of, jobset_review
from tests.runtime.workerprocesses import children

pytestmark = pytest.mark.usefixtures("nobody_is_left")


async def test_policies_are_loaded_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def noted(load: Callable[..., object]) -> Callable[..., object]:
        def loading(*arguments: object) -> object:
            threads.append(threading.current_thread())
            return load(*arguments)

        return loading

    async with evaluator_of(PATIENT, FINE) as evaluator:
        monkeypatch.setattr(module, "load_policy", noted(load_policy))
        await evaluator.load(document("p", "true"))
    assert len(threads) == 1
    assert threading.current_thread() not in threads


async def test_workers_load_many_policies_before_they_are_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    rules = [f"object.spec.replicatedJobs.all(j, j.replicas != {n} || size(j.name) > {n})" for n in range(-40, 0)]
    sent: dict[WorkerProcess, list[str]] = {}
    send = WorkerProcess.send

    async def noted(worker: WorkerProcess, request: list[Any]) -> None:
        sent.setdefault(worker, []).append(request[0])
        await send(worker, request)

    # However long it takes.
    options = replace(PATIENT, ahead_seconds=300, load_seconds=300)
    async with evaluator_of(options, FINE) as evaluator:
        many = PolicySet(2, tuple([await evaluator.load(document(f"p{n}", *rules)) for n in range(30)]))
        await evaluator.prepare(many)
        [before] = await evaluator.evaluate(jobset_review())
        assert before.policy == FINE["metadata"]["name"], "what is only being loaded is not in force"
        monkeypatch.setattr(WorkerProcess, "send", noted)
        await evaluator.install(many)
        outcomes = await evaluator.evaluate(jobset_review())
    # A spare may still be loading.
    assert [each for each in sent.values() if "evaluate" in each] == [["evaluate"]], "nothing is left to load"
    assert {each.findings[0].result for each in outcomes} == {Result.PASS}


async def test_policies_are_in_force_even_if_workers_have_not_loaded_them() -> None:
    async with evaluator_of(replace(PATIENT, ahead_seconds=0.0), FINE) as evaluator:
        await evaluator.prepare(PolicySet(2, (await evaluator.load(document("p", "true")),)))
    async with evaluator_of(replace(PATIENT, ahead=False), FINE) as evaluator:
        await evaluator.prepare(PolicySet(2, (await evaluator.load(document("p", "true")),)))
        assert not children()


def test_policies_load_the_same_from_their_source() -> None:
    policy = load_policy(FINE)
    assert load_policy(policy.source).source == policy.source


class Queueing:
    """A worker that gets the processor only after three looks at its CPU time, each ``seconds`` more than the last."""

    def __init__(self, seconds: float) -> None:
        self.exited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._seconds = seconds
        self._looks = 0
        self._runs = asyncio.Event()

    def cpu_seconds(self) -> float:
        self._looks += 1
        if self._looks > 3:
            self._runs.set()
        return self._looks * self._seconds

    async def send(self, _: object) -> None:
        pass

    async def receive(self, read: Callable[[Any], None]) -> None:
        await self._runs.wait()
        read(None)


async def loaded_by(worker: Queueing) -> None:
    loader = WorkerLoader(replace(PATIENT, load_seconds=0.02), Clock())
    await loader.load(cast("WorkerProcess", worker), snapshot_of(PolicySet()), ())


async def test_a_worker_that_waits_for_a_busy_machine_is_not_given_up() -> None:
    await loaded_by(Queueing(seconds=0.0))


async def test_a_worker_that_uses_too_much_cpu_time_is_given_up() -> None:
    with pytest.raises(TimeoutError):
        await loaded_by(Queueing(seconds=0.02))
