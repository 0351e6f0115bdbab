"""What one reads when a test fails: log tails that leave room for the assertion, waits that count what could happen."""

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.controlplane import wait
from tests.controlplane.process import Process
from tests.controlplane.wait import NotYet, wait_for


async def _ready() -> bool:
    return True


def test_a_tail_is_the_last_lines_cut_to_a_width(tmp_path: Path) -> None:
    log = tmp_path / "etcd.log"
    process = Process("etcd", ["true"], log, ready=_ready)
    assert process.tail().splitlines() == [f"--- etcd: last 30 lines of {log}"]
    log.write_text("first\n" + "x" * 5_000 + "\nlast\n")
    _, long, last = process.tail(2).splitlines()
    assert (len(long), long[-4:], last) == (240, "x...", "last")


class _Clock:
    """Seconds as a machine shows them that stands still for ten minutes before the third look."""

    def __init__(self) -> None:
        self._readings: Iterator[float] = itertools.chain([0.0, 0.1, 0.1, 600.0], itertools.count(600.1, 0.1))

    def monotonic(self) -> float:
        return next(self._readings)


async def test_a_machine_that_was_suspended_has_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait, "time", _Clock())
    looks = 0

    async def at_the_fourth() -> bool:
        nonlocal looks
        looks += 1
        if looks < 4:
            raise NotYet(f"look {looks}")
        return True

    assert await wait_for(at_the_fourth, interval=0)
    with pytest.raises(TimeoutError, match=r"waited 300 s for rain; last seen: False"):
        await wait_for(_never, what="rain", interval=0)


async def test_it_looks_less_often_the_longer_it_has_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, pauses = itertools.count(0, 0.5), list[float]()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(wait, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(TimeoutError, match="waited 8 s for rain"):
        await wait_for(_never, what="rain", hung=8)
    assert pauses[:4] == pytest.approx([0.05, 0.05, 0.1, 0.15])
    assert pauses[-1] == 0.5


async def _never() -> bool:
    return False
