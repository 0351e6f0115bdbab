"""Every metric family that a ``gangctl controller`` can export, without running one.

Rules, dashboards and the page about metrics are checked against it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from gangctl.client.client import Client
from gangctl.client.transport import Transport
from gangctl.manager.gangs import Clients, Dependencies
from gangctl.manager.parts import compose
from gangctl.manager.processmetrics import register_process_metrics
from gangctl.manager.settings import load_settings
from gangctl.runtime.events import EventRecorder
from gangctl.runtime.metrics import Catalogue, Family, RuntimeMetrics
from tests.credentials import StaticCredentials

NOWHERE: Final = "http://127.0.0.1:1"
EVERYTHING: Final[Mapping[str, Any]] = {
    "kueue_gate": True,
    "kueue_check": True,
    "gang_objects": True,
    "pathways": True,
}
"""Flags that enable optional parts that have metrics."""


def families() -> tuple[Family, ...]:
    """All of them, in the order of their names; must not be called in an event loop."""
    return asyncio.run(composed_families())


async def composed_families() -> tuple[Family, ...]:
    """All of them, within an event loop. Starts nothing and sends no request."""
    catalogue = Catalogue()
    settings = load_settings(EVERYTHING, None)
    register_process_metrics(catalogue, settings)
    client = Client(Transport(StaticCredentials(NOWHERE)))
    compose(
        Dependencies(
            Clients(client, client),
            settings,
            own_namespace="gangctl-system",
            recorder=EventRecorder(client, instance="none"),
            metrics=RuntimeMetrics(catalogue),
            registry=catalogue,
            may_register=lambda: False,
            applier=client,
        )
    )
    known = {family.name: family for family in catalogue.families()}
    return tuple(known[name] for name in sorted(known))
