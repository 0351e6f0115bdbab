"""When a kind counts as gone from the cluster."""

from __future__ import annotations

from typing import Any

from gangctl.client.client import Client
from gangctl.client.transport import Transport
from gangctl.controllers.policy_sources import GANG_POLICIES, project_whole
from gangctl.controllers.source import InformerSource
from gangctl.runtime.informer import InformerObserver
from tests.client.clock import settle
from tests.credentials import StaticCredentials


async def test_a_kind_is_gone_after_two_denials() -> None:
    """Another failure, or a list that takes long, does not confirm the first one: policies in force stay so."""
    client = Client(Transport(StaticCredentials("http://127.0.0.1:1", token="none")))
    changes: list[bool] = []
    source: InformerSource[dict[str, Any]] = InformerSource(
        client,
        GANG_POLICIES,
        project_whole,
        observer=InformerObserver(),
        on_change=lambda: changes.append(source.missing),
        confirm_seconds=0.0,
    )
    for reason, missing in (("absent", False), ("ServerError", False), ("absent", True)):
        source.restarted(reason)
        await settle()
        assert source.missing is missing
    source._synced()
    source.restarted("absent")
    await settle()
    assert changes == [True, False], "once gone, once known again"
