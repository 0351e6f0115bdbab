"""What the Pathways controller asks of the cluster: whether the upstream controller runs, and the nodes for a head.

The upstream leader holds a Lease, in any namespace, and leads while it renews it. gangctl decides that as upstream's
own standby replicas do: by the time, on its own clock, since it last saw the Lease change. Before it considers the
leader dead it reads the Lease once more, since a watch may be stale.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, Final

import structlog

from gangctl.client.client import Client, Selection
from gangctl.client.pacing import Clock
from gangctl.client.resources import LEASES, NODES
from gangctl.errors import ApiError
from gangctl.fit.floor import NodeShape, read_node
from gangctl.pathways.words import UPSTREAM_LEASE
from gangctl.runtime.election import SeenLease
from gangctl.runtime.informer import Informer, InformerObserver

MOST_NODES: Final = 5000
"""Read for one query; beyond this many, nothing is known."""
FRESH_SECONDS: Final = 30.0
"""How long an answer is cached: many PathwaysJobs may be created at once."""
_MOST_ANSWERS: Final = 100

_log = structlog.get_logger(__name__)


class HeadNodes:
    """Reads nodes, and caches answers for a moment."""

    def __init__(self, client: Client, *, clock: Clock | None = None) -> None:
        """Start with an empty cache."""
        self._client = client
        self._clock = clock or Clock()
        self._answers: dict[str, tuple[float, list[NodeShape]]] = {}

    async def of(self, pod_spec: Mapping[str, Any]) -> list[NodeShape]:
        """Nodes with the labels that a pod selects; none where they may not be read, or are too many."""
        selector = ",".join(f"{key}={value}" for key, value in sorted((pod_spec.get("nodeSelector") or {}).items()))
        answer = self._answers.get(selector)
        if answer is not None and self._clock.now() - answer[0] < FRESH_SECONDS:
            return answer[1]
        nodes = await self._ask(selector)
        if len(self._answers) >= _MOST_ANSWERS:
            self._answers.clear()
        self._answers[selector] = self._clock.now(), nodes
        return nodes

    async def _ask(self, selector: str) -> list[NodeShape]:
        nodes: list[NodeShape] = []
        try:
            async with aclosing(self._client.pages(NODES, selection=Selection(selector or None))) as pages:
                async for page in pages:
                    nodes += map(read_node, page.items)
                    # With a selector the API server does not count what is left: then the pages are counted.
                    if len(nodes) > MOST_NODES or len(nodes) + page.remaining > MOST_NODES:
                        return []
        except ApiError as error:
            _log.debug("nodes for heads not read", error=str(error))
            return []
        return nodes


DEFAULT_LEASE_SECONDS: Final = 15.0
"""The default of controllers built like upstream's, where the Lease has none."""
AGAIN_SECONDS: Final = 2.0
_OF_UPSTREAM: Final = Selection(field_selector=f"metadata.name={UPSTREAM_LEASE}")


_RENEWAL: Final = ("holderIdentity", "acquireTime", "renewTime")
"""Fields of a Lease that change when it is renewed."""


class Upstream:
    """Follows the Lease while :meth:`run` runs; ``on_change`` is called when the answer changes."""

    def __init__(
        self,
        client: Client,
        on_change: Callable[[], None],
        *,
        clock: Clock | None = None,
        observer: InformerObserver | None = None,
    ) -> None:
        """Know nothing yet."""
        self._client = client
        self._on_change = on_change
        self._clock = clock or Clock()
        self._seen: dict[str, SeenLease] = {}
        """By namespace."""
        self._dead: set[str] = set()
        """Namespaces of the seen ones whose holder has stopped renewing them."""
        self._reported: bool | None = None
        self._held = asyncio.Event()
        self.informer: Informer[dict[str, Any]] = Informer(
            client,
            LEASES,
            lambda raw: raw,
            selection=_OF_UPSTREAM,
            on_synced=self._update,
            observer=observer,
            clock=self._clock,
        )
        self.informer.subscribe(self._changed)

    @property
    def known(self) -> bool:
        """Whether the Lease has been read."""
        return self.informer.synced.is_set()

    @property
    def leads(self) -> bool:
        """Whether the Lease has a holder that has not been seen to stop renewing it."""
        return not self._seen.keys() <= self._dead

    @property
    def absent(self) -> bool:
        """Whether it is known that no controller leads: only then may gangctl write."""
        return self.known and not self.leads

    async def run(self) -> None:
        """Follow until cancelled, and then forget everything."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.informer.run(), name="upstream-lease")
                group.create_task(self._await_deaths(), name="upstream-deaths")
        finally:
            self.informer.forget()
            self._seen.clear()
            self._dead.clear()
            self._held.clear()
            self._reported = None

    def _changed(self, old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
        if new is not None:
            self._note(new)
        elif old is not None:
            self._seen.pop(old["metadata"].get("namespace", ""), None)
        self._update()

    def _note(self, lease: dict[str, Any]) -> None:
        namespace, now = lease["metadata"].get("namespace", ""), SeenLease(lease, self._clock.now())
        seen = self._seen.get(namespace)
        if not now.holder:
            self._seen.pop(namespace, None)
        # Another change of the Lease is no renewal, and does not prolong it.
        elif seen is None or any(seen.spec.get(key) != now.spec.get(key) for key in _RENEWAL):
            self._seen[namespace] = now
            self._dead.discard(namespace)

    def _update(self) -> None:
        """Notify the first time, and on every change."""
        leads = self.leads
        if leads:
            self._held.set()
        else:
            self._held.clear()
        if not self.known or leads is self._reported:
            return
        if leads:
            _log.warning(
                "PathwaysJobs are left to the upstream controller, which runs",
                lease=UPSTREAM_LEASE,
                namespaces=sorted(self._seen.keys() - self._dead),
                hint="scale its Deployment to 0, and gangctl takes over",
            )
        elif self._reported is not None:
            _log.info("the upstream controller of PathwaysJobs does not run any more: gangctl takes over")
        self._reported = leads
        self._on_change()

    async def _await_deaths(self) -> None:
        while True:
            await self._held.wait()
            alive = (self._seen[namespace] for namespace in self._seen.keys() - self._dead)
            expire = min((seen.expires(DEFAULT_LEASE_SECONDS) for seen in alive), default=math.inf)
            left = expire - self._clock.now()
            if left == math.inf:
                # Released at this moment.
                continue
            if left > 0:
                await self._clock.sleep(left)
            # Asked of the API server, because the watch may be late.
            elif not await self._read_again():
                await self._clock.sleep(AGAIN_SECONDS)

    async def _read_again(self) -> bool:
        """Read the Leases once more; those that are unchanged have no live holder. False without an answer."""
        try:
            page = await self._client.list(LEASES, selection=_OF_UPSTREAM)
        except ApiError as error:
            _log.debug("upstream lease not read", error=str(error))
            return False
        for gone in self._seen.keys() - {lease["metadata"].get("namespace", "") for lease in page.items}:
            del self._seen[gone]
        for lease in page.items:
            self._note(lease)
        now = self._clock.now()
        self._dead |= {name for name, seen in self._seen.items() if seen.expires(DEFAULT_LEASE_SECONDS) <= now}
        self._update()
        return True
