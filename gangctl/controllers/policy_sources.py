"""The inputs of policy evaluation: the policies, their exceptions, and the namespaces.

All three are few and small, so whole objects are kept. The definitions of the first two may be installed and removed
while gangctl runs; a missing one counts as an empty collection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from gangctl.api.objects import Object
from gangctl.client.client import Client
from gangctl.client.resources import NAMESPACES, Resource
from gangctl.controllers.caches import Observer
from gangctl.controllers.source import CONFIRM_SECONDS, RETRY_SECONDS, Source
from gangctl.policy.model import API_VERSION, EXCEPTION_KIND, POLICY_KIND
from gangctl.policy.reports import CATEGORY, SEVERITY
from gangctl.runtime.informer import Informer, InformerObserver, InformerOptions

_GROUP, _VERSION = API_VERSION.split("/")
GANG_POLICIES: Final = Resource(_GROUP, _VERSION, "gangpolicies", POLICY_KIND, namespaced=False)
GANG_POLICY_EXCEPTIONS: Final = Resource(_GROUP, _VERSION, "gangpolicyexceptions", EXCEPTION_KIND, namespaced=False)

NEW_NAMESPACE_SECONDS: Final = 2.0
"""How long to wait for a namespace that was created a moment ago."""


def project_whole(raw: dict[str, Any]) -> dict[str, Any]:
    """Everything except managedFields."""
    metadata = {key: value for key, value in (raw.get("metadata") or {}).items() if key != "managedFields"}
    return {**raw, "metadata": metadata}


def typed(resource: Resource) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The projection that adds apiVersion and kind: items of a list have none."""

    def project(raw: dict[str, Any]) -> dict[str, Any]:
        return {**project_whole(raw), "apiVersion": resource.api_version, "kind": resource.kind}

    return project


class PolicySources:
    """The informers; ``on_change`` is called whenever something has to be loaded again."""

    def __init__(
        self,
        client: Client,
        on_change: Callable[[], None],
        *,
        observer: Observer = lambda _: InformerObserver(),
        options: InformerOptions | None = None,
        confirm_seconds: float = CONFIRM_SECONDS,
    ) -> None:
        """Make the informers; :meth:`run` runs them."""
        self._on_change = on_change
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        settings = options or InformerOptions(cap_delay_seconds=RETRY_SECONDS)
        self._documents = {
            resource.kind: Source(
                client,
                resource,
                typed(resource),
                observer=observer(resource),
                on_change=on_change,
                confirm_seconds=confirm_seconds,
                confirm_empty=False,
                options=settings,
            )
            for resource in (GANG_POLICIES, GANG_POLICY_EXCEPTIONS)
        }
        self.namespaces: Informer[dict[str, Any]] = Informer(
            client,
            NAMESPACES,
            typed(NAMESPACES),
            on_synced=on_change,
            observer=observer(NAMESPACES),
            options=settings,
        )
        for source in self._documents.values():
            source.informer.subscribe(self._seen)
        self.namespaces.subscribe(self._on_namespace)

    @property
    def informers(self) -> list[Informer[dict[str, Any]]]:
        """Every informer."""
        return [*(source.informer for source in self._documents.values()), self.namespaces]

    def subscribe(self, on_change: Callable[[tuple[str, str]], None]) -> None:
        """Call ``on_change`` with kind and name of each policy or exception that changes, its status included."""
        for kind, source in self._documents.items():
            source.informer.subscribe(_notifier(kind, on_change))

    def keys(self) -> list[tuple[str, str]]:
        """Kind and name of every policy and exception."""
        return [
            (kind, name)
            for kind, source in self._documents.items()
            for _, name in source.store.keys()  # noqa: SIM118 - a store is not a mapping
        ]

    async def run(self) -> None:
        """Keep everything current until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self.informers:
                group.create_task(informer.run())

    def unsynced(self) -> list[str]:
        """Plural names of what is not synced yet; resources that the cluster does not serve count as complete."""
        missing = [
            source.informer.resource.plural
            for source in self._documents.values()
            if not source.known and not source.missing and not len(source.store)
        ]
        return missing + (["namespaces"] if not self.namespaces.synced.is_set() else [])

    def policies(self) -> list[Object]:
        """Every GangPolicy as last seen."""
        return self._all(POLICY_KIND)

    def exceptions(self) -> list[Object]:
        """Every GangPolicyException as last seen."""
        return self._all(EXCEPTION_KIND)

    def document(self, kind: str, name: str) -> Object | None:
        """One of them by kind and name."""
        source = self._documents[kind]
        return None if source.missing else source.store.get("", name)

    async def namespace(self, name: str) -> Object | None:
        """A namespace; waits a little for one that is not known yet, returns None when it does not appear."""
        if (found := self.namespaces.store.get("", name)) is not None:
            return found
        seen: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, set()).add(seen)
        try:
            await asyncio.wait({seen}, timeout=NEW_NAMESPACE_SECONDS)
        finally:
            waiting = self._waiting[name]
            waiting.discard(seen)
            if not waiting:
                del self._waiting[name]
        return self.namespaces.store.get("", name)

    def _all(self, kind: str) -> list[Object]:
        source = self._documents[kind]
        return [] if source.missing else list(source.store.values())

    def _seen(self, old: Object | None, new: Object | None) -> None:
        if old is None or new is None or identity(old) != identity(new):
            self._on_change()

    def _on_namespace(self, _old: Object | None, new: Object | None) -> None:
        if new is not None:
            for waiting in self._waiting.get(new["metadata"]["name"], ()):
                if not waiting.done():
                    waiting.set_result(None)


def _notifier(
    kind: str, on_change: Callable[[tuple[str, str]], None]
) -> Callable[[Object | None, Object | None], None]:
    def notify(old: Object | None, new: Object | None) -> None:
        changed = new or old
        if changed is not None:
            on_change((kind, changed["metadata"]["name"]))

    return notify


class Identity(NamedTuple):
    """Changes when something has to be loaded again: not with the status."""

    uid: str
    generation: int
    notes: frozenset[tuple[str, str]] = frozenset()
    """Annotations that reports copy, which change without a new generation."""


UNKNOWN_IDENTITY: Final = Identity("", 0)


def identity(document: Object) -> Identity:
    """The identity of a policy or an exception as it is now."""
    metadata = document["metadata"]
    annotations = metadata.get("annotations")
    notes = annotations if isinstance(annotations, dict) else {}
    copied = frozenset((key, str(notes[key])) for key in (CATEGORY, SEVERITY) if key in notes)
    return Identity(str(metadata.get("uid", "")), int(metadata.get("generation") or 0), copied)
