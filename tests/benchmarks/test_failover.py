"""What the failover benchmark holds its times against."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import failover
from tests.live.replicas import LEASE_SECONDS


async def nothing(*_: Any, **__: Any) -> None:
    return None


async def four_seconds(*_: Any, **__: Any) -> float:
    return 4.0


@pytest.mark.parametrize("asked", [{}, {"lease_seconds": 60}])
def test_the_time_of_a_killed_leader_is_compared_with_the_lease_of_the_replicas(
    monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    given: list[float] = []

    @asynccontextmanager
    async def plane(*_: Any) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace()

    @asynccontextmanager
    async def replicas(_: object, *, lease_seconds: float) -> AsyncIterator[SimpleNamespace]:
        given.append(lease_seconds)
        yield SimpleNamespace()

    monkeypatch.setattr(failover, "ControlPlane", SimpleNamespace(start=plane))
    monkeypatch.setattr(failover, "create_namespaces", nothing)
    monkeypatch.setattr(failover, "Cluster", lambda *_: SimpleNamespace())
    monkeypatch.setattr(failover, "two_replicas", replicas)
    monkeypatch.setattr(failover, "follows", four_seconds)
    found = failover.main(quick=True, **asked)
    killed = found.figures[0]
    assert given == [asked.get("lease_seconds", LEASE_SECONDS)]
    assert killed.limit == "failover-killed"
    assert killed.yardstick == tuple(given)
    assert f"a Lease of {given[0]:g} s" in found.table.remarks[0]
