"""The namespaces that gangctl serves: by their names, and with ``--namespace-selector`` by their labels.

A JobSet elsewhere is none of gangctl's business: API servers do not ask about it, so it never becomes a gang, and that
is no fault to report. One that is stamped was made where gangctl served it, and is still followed: Jobs created since
get no group, which is reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from gangctl.api.jobset import JobSet
from gangctl.api.labelselector import NAMESPACE_NAME, all_hold
from gangctl.api.objects import object_at
from gangctl.client.client import Client
from gangctl.client.resources import NAMESPACES
from gangctl.controllers.caches import Observer
from gangctl.controllers.source import RETRY_SECONDS
from gangctl.readiness.facts import is_followed, is_stamped
from gangctl.runtime.informer import Informer, InformerObserver, InformerOptions

Labels = Mapping[str, str]

_NO_LABELS: Final[Labels] = {}


def _labels(raw: dict[str, Any]) -> Labels:
    return {**object_at(object_at(raw, "metadata"), "labels"), NAMESPACE_NAME: str(raw["metadata"]["name"])}


class ServedNamespaces:
    """Whether gangctl serves a namespace."""

    def __init__(
        self,
        client: Client,
        terms: Sequence[Mapping[str, Any]],
        *,
        observer: Observer = lambda _: InformerObserver(),
    ) -> None:
        """``terms`` are the ``matchExpressions`` of the served namespaces."""
        self._terms = terms
        self.on_change: list[Callable[[Collection[str]], None]] = []
        """Called with the namespaces that gangctl has begun or ceased to serve."""
        self._changed: set[str] = set()
        self.informer: Informer[Labels] | None = None
        """The labels; None where names decide."""
        if any(term["key"] != NAMESPACE_NAME for term in terms):
            self.informer = Informer(
                client,
                NAMESPACES,
                _labels,
                observer=observer(NAMESPACES),
                options=InformerOptions(cap_delay_seconds=RETRY_SECONDS),
            )
            self.informer.subscribe(self._on_namespace)

    def serves(self, namespace: str) -> bool:
        """Whether gangctl serves it; where labels decide, no namespace before it is seen."""
        if self.informer is None:
            return all_hold(self._terms, {NAMESPACE_NAME: namespace})
        return self._selects(self.informer.store.get("", namespace))

    def concerns(self, jobset: JobSet) -> bool:
        """Whether gangctl looks after a JobSet: in these namespaces, and everywhere if it is stamped."""
        return is_stamped(jobset) or self.serves(jobset.namespace)

    def follows(self, jobset: JobSet) -> bool:
        """The same, of those that asked for a gang."""
        return is_followed(jobset) and self.concerns(jobset)

    def unready(self) -> str | None:
        """What is not known yet."""
        return None if self.informer is None or self.informer.synced.is_set() else "waiting for namespaces"

    async def known(self) -> None:
        """Wait until it is known which namespaces are served."""
        if self.informer is not None:
            await self.informer.synced.wait()

    def _selects(self, labels: Labels | None) -> bool:
        return labels is not None and all_hold(self._terms, labels)

    def _on_namespace(self, old: Labels | None, new: Labels | None) -> None:
        if self._selects(old) is self._selects(new):
            return
        if not self._changed:
            # Together: a list has thousands, and each call goes through all JobSets.
            asyncio.get_running_loop().call_soon(self._notify)
        self._changed.add((new or old or _NO_LABELS)[NAMESPACE_NAME])

    def _notify(self) -> None:
        changed, self._changed = self._changed, set()
        for call in self.on_change:
            call(changed)
