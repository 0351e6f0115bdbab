"""Events of simulated controllers."""

from __future__ import annotations

import pytest

from gangctl.sandbox.api import SYSTEM, Api
from gangctl.sandbox.errors import StatusError, internal
from gangctl.sandbox.objects import Object
from gangctl.sandbox.requests import Attributes
from gangctl.sandbox.simulated.controller import Recorder
from tests.sandbox.asking import create
from tests.sandbox.stage import NoWebhooks


async def notes(api: Api) -> list[str]:
    return [event["note"] for event in (await api.list(api.kind("events.events.k8s.io"))).items]


async def about(api: Api) -> Object:
    return await create(api, "configmaps")


async def test_a_note_is_cut_to_the_bytes_that_the_server_takes(api: Api) -> None:
    recorder = Recorder(api, SYSTEM, "controller")
    await recorder.record(await about(api), "v1", "Reason", "ä" * 1024)
    assert await notes(api) == ["ä" * 510 + "…"]


class _DownOnce(NoWebhooks):
    """A webhook for events that is down for the first of them."""

    down = False

    async def validate(self, attributes: Attributes, obj: Object | None) -> None:
        del obj
        if attributes.kind.plural == "events" and not self.down:
            self.down = True
            raise internal("failed calling webhook")


async def test_an_event_that_was_refused_is_recorded_later_and_once() -> None:
    api = Api(admission=_DownOnce())
    recorder, subject = Recorder(api, SYSTEM, "controller"), await about(api)
    with pytest.raises(StatusError, match="failed calling webhook"):
        await recorder.record(subject, "v1", "Reason", "note")
    for _ in range(2):
        await recorder.record(subject, "v1", "Reason", "note")
    assert await notes(api) == ["note"]
