"""Simulated kubelets whose writes the API server refuses."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.day.kubelets import Kubelets
from tests.benchmarks.day.replays import demand, replay
from tests.controlplane.api import ApiClient, ApiFailure, Object, Parameter


class NeverAnswering(ApiClient):
    """An API server that never answers."""

    def __init__(self) -> None:
        pass

    async def get(self, path: str, **parameters: Parameter) -> Object:
        del path, parameters
        await asyncio.Event().wait()
        return {}


async def refused() -> None:
    raise ApiFailure(422, {"message": "status is invalid"})


async def test_a_refused_write_ends_the_run_with_its_error() -> None:
    async def run() -> None:
        async with Kubelets(NeverAnswering(), replay(demand("a", 1))) as kubelets:
            kubelets._write(refused)
            await kubelets.all_done.wait()

    with pytest.raises(ApiFailure, match="status is invalid"):
        await run()
