"""What a pod costs, and that many gangs cost each change no more: a tenth of what a controller must bear.

``python -m tests.controllers.readiness.test_scale`` does it with 10,000 JobSets and 100,000 pods, and says how long it
takes.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import orjson

from gangctl.client.pacing import Clock
from gangctl.controllers.readiness.controller import ReadinessController
from tests.cases import object_name
from tests.client.clock import until
from tests.controllers.readiness.ground import Ground
from tests.gang.pipeline import stored
from tests.jobsets import jobset, rj

JOBSETS = 1_000
PODS = 10
"""Of each JobSet, in two Jobs."""
BYTES_OF_A_POD = 1_000
CODE = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType)
SINCE = "2026-01-01T00:00:05Z"


def jobset_of(number: int) -> dict[str, Any]:
    """A JobSet as the API server has it."""
    name = f"train-{number}"
    raw = jobset(
        name, rj("w", 2, PODS // 2, PODS // 2, mode="Gang"), uid=f"uid-{name}", namespace=f"team-{number % 50}"
    )
    raw["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return stored(raw)


def pods_of(number: int, *, ready: bool = True) -> Iterator[dict[str, Any]]:
    """Its pods, as a watch brings them: nothing that they have in common is one object yet."""
    name = f"train-{number}"
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": SINCE},
        {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": SINCE},
    ]
    for index in range(PODS):
        labels = {
            "jobset.sigs.k8s.io/jobset-name": name,
            "jobset.sigs.k8s.io/replicatedjob-name": "w",
            "jobset.sigs.k8s.io/job-index": str(index * 2 // PODS),
            "jobset.sigs.k8s.io/restart-attempt": "0",
        }
        metadata = {
            "name": f"{name}-w-{index * 2 // PODS}-{index}-x7k2p",
            "namespace": f"team-{number % 50}",
            "uid": f"{number:08d}-0000-4000-8000-{index:012d}",
            "resourceVersion": str(10_000_000 + number * PODS + index),
            "creationTimestamp": SINCE,
            "labels": labels,
        }
        spec = {
            "nodeName": f"node-{(number * PODS + index) // 8}",
            "schedulerName": "default-scheduler",
            "priority": 1_000,
            "schedulingGroup": {"podGroupName": object_name(name, f"uid-{name}", "rj/w")},
        }
        running = {"ready": ready, "restartCount": 0, "state": {"running": {}}}
        status = {"phase": "Running", "conditions": conditions, "containerStatuses": [running]}
        yield orjson.loads(orjson.dumps({"metadata": metadata, "spec": spec, "status": status}))


def fill(ground: Ground, jobsets: int) -> None:
    """The pods of so many JobSets that are there already."""
    for number in range(jobsets):
        for raw in pods_of(number):
            ground.put(ground.sources.pods.informer, raw)


def in_real_time(ground: Ground) -> ReadinessController:
    """The same controller, by the clock of the event loop."""
    clock = Clock()
    ground.controller._clock = ground.controller._requeue_timers._clock = clock
    return ground.controller


def bytes_of(*roots: object) -> int:
    """Everything that can be reached from here, each object once, without code: the same in every process."""
    seen: set[int] = set()
    size, waiting = 0, list(roots)
    while waiting:
        each = waiting.pop()
        if id(each) not in seen and not isinstance(each, CODE):
            seen.add(id(each))
            size += sys.getsizeof(each)
            waiting += gc.get_referents(each)
    return size


def test_a_pod_costs_less_than_a_kilobyte() -> None:
    async def run() -> float:
        ground = Ground()
        for number in range(JOBSETS):
            ground.put(ground.caches.jobsets, jobset_of(number))
        empty = bytes_of(ground)
        fill(ground, JOBSETS)
        return (bytes_of(ground) - empty) / (JOBSETS * PODS)

    assert asyncio.run(run()) < BYTES_OF_A_POD


async def measured(jobsets: int) -> dict[str, float]:
    """A start with so many JobSets, then changes of a hundred of them."""
    ground = Ground()
    for number in range(jobsets):
        ground.put(ground.caches.jobsets, jobset_of(number))
    fill(ground, jobsets)
    controller = in_real_time(ground)

    async def known() -> None:
        return

    task = asyncio.create_task(controller.run(known))
    began = time.perf_counter()
    turns = 0
    while len(ground.looked) < jobsets:
        await asyncio.sleep(0.001)
        turns += 1
    start = time.perf_counter() - began
    assert sorted(ground.looked) == sorted(f"train-{number}" for number in range(jobsets))
    ground.looked.clear()
    ground.notes.lags.clear()
    for number in range(100):
        for raw in pods_of(number, ready=False):
            ground.put(ground.sources.pods.informer, raw)
    await until(lambda: len(ground.looked) >= 100)
    lags = [lag for lag in ground.notes.lags if lag is not None]
    assert len(lags) == len(ground.looked) == 100, "a thousand changes, a hundred gangs"
    assert {now.phase.value for _, now in ground.notes.reported[-100:] if now is not None} == {"Degraded"}
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return {"start": start, "turns": turns, "lag": max(lags)}


async def test_of_a_thousand_gangs_only_the_changed_are_evaluated_and_other_tasks_run() -> None:
    found = await measured(JOBSETS)
    # The start takes a second or so, in slices of 2 ms. How late a change is reported: benchmarks/readiness.
    assert found["turns"] > 10


if __name__ == "__main__":
    sys.stdout.write(f"{asyncio.run(measured(10 * JOBSETS))}\n")
