"""Events of simulated controllers."""

from __future__ import annotations

from gangctl.sandbox.api import SYSTEM, Api
from gangctl.sandbox.objects import Object
from gangctl.sandbox.simulated.controller import Recorder
from tests.sandbox.asking import create


async def notes(api: Api) -> list[str]:
    return [event["note"] for event in (await api.list(api.kind("events.events.k8s.io"))).items]


async def about(api: Api) -> Object:
    return await create(api, "configmaps")


async def test_a_note_is_cut_to_the_bytes_that_the_server_takes(api: Api) -> None:
    recorder = Recorder(api, SYSTEM, "controller")
    await recorder.record(await about(api), "v1", "Reason", "ä" * 1024)
    assert await notes(api) == ["ä" * 510 + "…"]
