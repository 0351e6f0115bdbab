"""Which namespaces gangctl serves, by their names and labels, and that a change is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, Final

from gangctl.api.meta import SKIP_LABEL
from gangctl.client.client import Client
from gangctl.controllers.namespaces import ServedNamespaces
from gangctl.webhooks.configurations import Endpoint, WebhookSettings, served_terms
from tests.client.clock import until
from tests.client.server import ScriptedServer, Stream, page

PATH: Final = "/api/v1/namespaces"
MANAGED: Final = "gangctl.dev/managed"
SELECTOR: Final = {"key": MANAGED, "operator": "In", "values": ["true"]}
NAMES: Final = ("new", "other", "team-a", "team-b", "kube-system")


def terms(*selector: dict[str, Any]) -> list[dict[str, Any]]:
    return served_terms(WebhookSettings(Endpoint(), ["gangctl-system", "kube-system"], selector))


def namespace(name: str, version: int, *labels: str) -> dict[str, Any]:
    """It has these labels with the value true."""
    metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": {**metadata, "labels": dict.fromkeys(labels, "true")}}


def test_by_default_names_decide_and_nothing_is_watched(client: Client) -> None:
    namespaces = ServedNamespaces(client, terms())
    assert namespaces.informer is None
    assert namespaces.unready() is None
    assert [name for name in (*NAMES, "gangctl-system") if not namespaces.serves(name)] == [
        "kube-system",
        "gangctl-system",
    ]


async def test_labels_decide_and_a_change_is_noticed(client: Client, server: ScriptedServer) -> None:
    """A namespace that is skipped for a while is served all the same: what is created there meanwhile is reported."""
    namespaces, changes = ServedNamespaces(client, terms(SELECTOR)), list[Collection[str]]()
    namespaces.on_change.append(changes.append)
    stream = Stream()
    there = [
        namespace("team-a", 1, MANAGED),
        namespace("team-b", 2, MANAGED, SKIP_LABEL),
        namespace("kube-system", 3, MANAGED),
        namespace("other", 4),
    ]
    server.on("GET", PATH, page(*there), stream)

    def served() -> list[str]:
        return [name for name in NAMES if namespaces.serves(name)]

    assert (served(), namespaces.unready()) == ([], "waiting for namespaces")
    assert namespaces.informer is not None
    task = asyncio.create_task(namespaces.informer.run())
    await stream.opened.wait()
    assert (served(), namespaces.unready()) == (["team-a", "team-b"], None)
    await until(lambda: changes == [{"team-a", "team-b"}])
    stream.send("ADDED", namespace("new", 11, MANAGED))
    stream.send("MODIFIED", namespace("team-a", 12))
    stream.send("MODIFIED", namespace("team-b", 13, MANAGED))
    stream.send("DELETED", namespace("other", 14))
    await until(lambda: set().union(*changes[1:]) == {"new", "team-a"})
    assert served() == ["new", "team-b"]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
