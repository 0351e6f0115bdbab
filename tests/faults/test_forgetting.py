"""What a process keeps of objects that are gone: nothing, but in caches of a limited size."""

from __future__ import annotations

import asyncio
import re
import types
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from gangctl.pathways.status import PathwaysPhase
from gangctl.sandbox.store import StoredChange
from tests.faults import pathways, policies
from tests.faults.virtual_time import run
from tests.faults.world import NAMESPACE, World, world
from tests.jobsets import jobset, rj

NAME = re.compile(r"vanishing|\bpw\b")
GOES = re.compile(r"^(jobsets|jobs|pods|workloads|podgroups|pathwaysjobs)\b")
LIMITED = re.compile(r"(r|R)ecorder\._reported|assessments\._kept|\._exemplar|Timers\._resting|overlay\._gone")
"""``remember`` events, MOST_KEPT assessments, one for each bucket, and two until there is a next entry."""
OTHERS = re.compile(r"(asyncio|_asyncio|aiohttp|tests|gangctl\.sandbox)\b")
"""Modules whose objects lead to the sandbox, which keeps all."""
CONTAINERS = (list, tuple, set, frozenset, deque)
LEAVES = (types.ModuleType, type, int, float, bytes, type(None))


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """What an object refers to, with the name that it has there."""
    if isinstance(value, dict):
        yield from (("", key) for key in value)
        yield from (("", item) for item in value.values())
    elif isinstance(value, CONTAINERS):
        yield from (("", item) for item in list(value))
    elif isinstance(value, types.MethodType):
        yield "", value.__self__
    elif isinstance(value, types.FunctionType):
        yield from (("", cell.cell_contents) for cell in value.__closure__ or () if cell != types.CellType())
    else:
        yield from (("." + name, item) for name, item in getattr(value, "__dict__", {}).items())
        slots = (slot for kind in type(value).__mro__ for slot in getattr(kind, "__slots__", ()))
        yield from (("." + slot, getattr(value, slot)) for slot in slots if hasattr(value, slot))


def kept(roots: Iterable[Any], uids: set[str]) -> set[str]:
    """Paths of all texts that are one of these UIDs or have the name of an object, from these objects on."""
    paths: set[str] = set()
    pending = deque((type(root).__name__, root) for root in roots)
    known: dict[int, Any] = {}
    while pending:
        path, value = pending.popleft()
        if isinstance(value, str):
            if value in uids or NAME.search(value):
                paths.add(path)
        elif id(value) not in known and not isinstance(value, LEAVES) and not OTHERS.match(type(value).__module__):
            known[id(value)] = value
            pending.extend((path + name, part) for name, part in parts(value))
    return paths


def running() -> Iterator[Any]:
    """The objects whose coroutines run in gangctl's tasks."""
    for task in asyncio.all_tasks():
        coroutine: Any = task.get_coro()
        while isinstance(coroutine, types.CoroutineType):
            frame = coroutine.cr_frame
            if frame is not None and re.search(r"/gangctl/(?!sandbox/)", frame.f_code.co_filename):
                yield frame.f_locals.get("self")
            coroutine = coroutine.cr_await


async def lived(there: World) -> None:
    """JobSets that run, wait, restart and end, and PathwaysJobs that end; then none."""
    await there.start_gangctl()
    await there.create(jobset("vanishing-fits", rj("w", 2, 2, 2, mode="Gang"), failurePolicy={"maxRestarts": 3}))
    await there.create(jobset("vanishing-waits", rj("w", 1, 9, 9, mode="Gang", cpu="4")))
    await there.create(jobset("vanishing-plain", rj("w", 1, 1, 1)))
    await there.create(jobset("vanishing-ends", rj("w", 1, 2, 2, mode="Gang")))
    await there.rest()
    await there.fail("vanishing-fits")
    await there.finish("vanishing-ends")
    await there.rest()
    for name in ("fits", "waits", "plain", "ends"):
        await there.delete(f"vanishing-{name}")
    await there.submit()
    await there.rest()
    await there.finish("pw")
    await there.rest()
    assert (await there.outcome()).jobsets["pw"][0] == PathwaysPhase.COMPLETED
    await there.withdraw()
    await there.rest(1300)


def test_nothing_is_kept_of_objects_that_are_gone(tmp_path: Path) -> None:
    async def main() -> None:
        async with world("1.37", tmp_path, about=policies.ABOUT | pathways.ABOUT) as there:
            uids: set[str] = set()

            def note(storage: str, change: StoredChange) -> None:
                if GOES.match(storage):
                    uids.add(change.new.obj["metadata"]["uid"])

            there.api.store.listen(note)
            await lived(there)
            assert not (await there.api.list(there.api.kind("jobsets.jobset.x-k8s.io"), NAMESPACE)).items
            remains = kept([there._process, *running()], uids)
            assert not {path for path in remains if not LIMITED.search(path)}
            assert any("assessments._kept" in path for path in remains), "the search finds what is kept"

    run(main())
