"""Whether the cluster has Kueue, checked periodically: it may be installed, upgraded and removed while gangctl runs.

Absence is normal, and not logged. It counts only after several checks in a row: a starting API server does not list all
its resources at once, and a replacement of Kueue's definitions removes them for a moment. Presence counts at once.
Until either is established the answer is unknown, and gangctl deletes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from gangctl.client.client import Client
from gangctl.client.pacing import Backoff
from gangctl.controllers.queues.kinds import ESSENTIAL
from gangctl.errors import ApiError
from gangctl.kueue.names import GROUP, VERSION

PERIOD_SECONDS: Final = 30.0
ABSENT_CHECKS: Final = 3
"""Absence counts after this many checks in a row."""
_AGAIN_SECONDS: Final = 0.5
_DOCUMENT: Final = f"apis/{GROUP}/{VERSION}"

log = structlog.get_logger(__name__)


class Presence:
    """Keeps :attr:`present` current; ``on_change`` is called when it, or the set of served kinds, changes."""

    def __init__(
        self, client: Client, on_change: Callable[[], None], *, period_seconds: float = PERIOD_SECONDS
    ) -> None:
        """Check every ``period_seconds``, and at once when :meth:`trigger` is called."""
        self._client = client
        self._on_change = on_change
        self._period = period_seconds
        self._trigger = asyncio.Event()
        self._missed = 0
        self._trouble = ""
        self._limit_read = ""
        self.answered = asyncio.Event()
        """Set once the API server has answered."""
        self.present: bool | None = None
        """None while it is not known."""
        self.served: frozenset[str] = frozenset()
        """Plural names of the resources that were served at the last check."""
        self.podset_limit: int | None = None
        """How many podsets a Workload of Kueue may have, by its definition."""

    def trigger(self) -> None:
        """Check now: there is a sign of a change."""
        self._trigger.set()

    async def run(self) -> None:
        """Check until cancelled; without an answer of the server the state stays, and the next try comes soon."""
        again = Backoff(_AGAIN_SECONDS, self._period)
        while True:
            self._trigger.clear()
            try:
                await self._check()
                again.reset()
                pause, self._trouble = self._period, ""
            except ApiError as error:
                if str(error) != self._trouble:
                    log.warning("cannot look for Kueue", error=str(error), status=error.status)
                pause, self._trouble = min(again.next(), self._period), str(error)
            try:
                await asyncio.wait_for(self._trigger.wait(), pause)
            except TimeoutError:
                continue

    async def _check(self) -> None:
        resources = await self._client.discovery.resources(GROUP, VERSION)
        self.answered.set()
        served = frozenset(name for each in resources if "/" not in (name := str(each.get("name", "/"))))
        if served >= ESSENTIAL:
            self._missed = 0
            self._settle(True, served)
            await self._read_limit()
            return
        self._missed += 1
        if self._missed >= ABSENT_CHECKS and self.present is not False:
            self._settle(False, frozenset())

    def _settle(self, present: bool, served: frozenset[str]) -> None:
        if (present, served) == (self.present, self.served):
            return
        if present != bool(self.present):
            log.info("Kueue found" if present else "Kueue is gone")
        self.present, self.served = present, served
        self._on_change()

    async def _read_limit(self) -> None:
        """The size limit is in the definition's schema, whose URL changes with it."""
        index = (await self._client.discovery.openapi_v3()).get("paths")
        entry = index.get(_DOCUMENT) if isinstance(index, dict) else None
        address = str(entry.get("serverRelativeURL", "")) if isinstance(entry, dict) else ""
        if address and address != self._limit_read:
            self.podset_limit = podset_limit(await self._client.discovery.openapi_v3(_DOCUMENT))
            self._limit_read = address


def podset_limit(document: Mapping[str, Any]) -> int | None:
    """``maxItems`` of ``spec.podSets`` in the OpenAPI document of Kueue's version; None if absent."""
    components = document.get("components")
    schemas = components.get("schemas") if isinstance(components, dict) else None
    for schema in schemas.values() if isinstance(schemas, dict) else ():
        kinds = schema.get("x-kubernetes-group-version-kind") if isinstance(schema, dict) else None
        if {"group": GROUP, "version": VERSION, "kind": "Workload"} not in (kinds if isinstance(kinds, list) else ()):
            continue
        found: Any = schema
        for step in ("properties", "spec", "properties", "podSets", "maxItems"):
            found = found.get(step) if isinstance(found, dict) else None
        return found if isinstance(found, int) else None
    return None
