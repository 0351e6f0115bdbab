"""The queue of the pool is fair between groups, and within each between namespaces."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from gangctl.evaluation.queue import FairQueue, TaskGroup

SMALL: Final = TaskGroup("small")
LARGE: Final = TaskGroup("large")
ALL: Final = ("small", "large", "penalized")


@dataclass
class Item:
    name: str
    over: bool = False


async def taken(queue: FairQueue[Item], count: int) -> list[str]:
    return [(await queue.get(ALL))[1].name for _ in range(count)]


async def test_groups_are_served_alternately() -> None:
    queue: FairQueue[Item] = FairQueue(3)
    for name in ("s1", "s2", "s3"):
        assert queue.put(Item(name), SMALL, "a")
    assert queue.put(Item("l1"), LARGE, "a")
    assert queue.put(Item("p1"), TaskGroup("penalized", "p"), "a")
    assert queue.put(Item("q1"), TaskGroup("penalized", "q"), "a")
    assert [queue.count(each) for each in ALL] == [3, 1, 2]
    assert await taken(queue, 6) == ["s1", "l1", "p1", "q1", "s2", "s3"]
    assert [queue.count(each) for each in ALL] == [0, 0, 0]


async def test_namespaces_of_a_group_are_served_alternately() -> None:
    queue: FairQueue[Item] = FairQueue(3)
    for name in ("a1", "a2", "a3"):
        assert queue.put(Item(name), LARGE, "a")
    assert queue.put(Item("b1"), LARGE, "b")
    assert await taken(queue, 4) == ["a1", "b1", "a2", "a3"]


async def test_a_consumer_gets_only_its_classes() -> None:
    queue: FairQueue[Item] = FairQueue(3)
    queue.put(Item("large"), LARGE, "a")
    waiting = asyncio.create_task(queue.get(["small"]))
    await asyncio.sleep(0)
    assert not waiting.done()
    queue.put(Item("small"), SMALL, "a")
    assert await waiting == (SMALL, Item("small"))
    assert await queue.get(ALL) == (LARGE, Item("large"))


async def test_each_namespace_is_bounded_without_counting_cancelled_items() -> None:
    queue: FairQueue[Item] = FairQueue(2)
    gone, kept = Item("gone"), Item("kept")
    assert queue.put(gone, LARGE, "a")
    assert queue.put(kept, LARGE, "a")
    assert not queue.put(Item("third"), LARGE, "a")
    assert queue.put(Item("other"), LARGE, "b")
    gone.over = True
    assert queue.put(Item("fourth"), LARGE, "a")
    assert not queue.put(Item("fifth"), LARGE, "a")
    kept.over = True
    assert await taken(queue, 2) == ["other", "fourth"]


async def test_every_consumer_is_woken() -> None:
    queue: FairQueue[Item] = FairQueue(5)
    consumers = [asyncio.create_task(queue.get(ALL)) for _ in range(3)]
    await asyncio.sleep(0)
    consumers[0].cancel()
    for name in ("x", "y"):
        queue.put(Item(name), SMALL, "a")
    assert {item.name for _, item in await asyncio.gather(*consumers[1:])} == {"x", "y"}
