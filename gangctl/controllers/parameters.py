"""Parameter objects: one informer for each set of objects that a policy reads, for as long as it reads them.

A policy that names its object has only that one watched; one that names a namespace has only that namespace watched.
Kinds are discovered, so any CustomResourceDefinition is supported, also one that is installed later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from gangctl.api.objects import Object
from gangctl.client.client import Client, Selection
from gangctl.client.resources import Resource
from gangctl.controllers.caches import Observer
from gangctl.controllers.policy_sources import typed
from gangctl.controllers.source import RETRY_SECONDS
from gangctl.errors import ApiError
from gangctl.policy.constraints import LabelSelector
from gangctl.policy.match import labels_of
from gangctl.policy.model import GangPolicySpec
from gangctl.policy.params import ParamsError, Scope
from gangctl.runtime.informer import Informer, InformerObserver, InformerOptions, Store

SETTLE_SECONDS: Final = 5.0
"""How long a new policy waits for its parameters before it takes effect."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The objects that a policy reads: a kind, optionally limited to a namespace, a name or labels."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    labels: str = ""
    """A label selector as the API writes it."""

    def __str__(self) -> str:
        return f"{self.kind} of {self.api_version}"


def wanted_by(spec: GangPolicySpec) -> Wanted | None:
    """The objects that a policy reads; None without parameters."""
    kind, reference = spec.param_kind, spec.param_ref
    if kind is None or reference is None:
        return None
    return Wanted(kind.api_version, kind.kind, reference.namespace, reference.name, written(reference.selector))


def written(selector: LabelSelector | None) -> str:
    """A label selector as a query parameter; empty for everything."""
    if selector is None:
        return ""
    terms = [f"{key}={value}" for key, value in selector.match_labels.items()]
    for each in selector.match_expressions:
        match each.operator:
            case "In" | "NotIn":
                terms.append(f"{each.key} {each.operator.lower()} ({','.join(each.values)})")
            case "Exists":
                terms.append(each.key)
            case "DoesNotExist":
                terms.append(f"!{each.key}")
    return ",".join(terms)


class Parameters:
    """The :class:`~gangctl.policy.params.ParamCatalogue` of a cluster."""

    def __init__(
        self,
        client: Client,
        on_change: Callable[[], None] = lambda: None,
        *,
        observer: Observer = lambda _: InformerObserver(),
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """Watch nothing yet; ``on_change`` is called when objects become readable or unreadable."""
        self._client = client
        self._on_change = on_change
        self._observer = observer
        self._retry_seconds = retry_seconds
        self._sources: dict[Wanted, _Source] = {}

    async def follow(self, wanted: Iterable[Wanted]) -> None:
        """Watch exactly these from now on; returns when each is synced or has failed, or after a timeout."""
        keep = set(wanted)
        gone = [self._sources.pop(each) for each in list(self._sources) if each not in keep]
        await asyncio.gather(*(source.stop() for source in gone))
        for each in keep - self._sources.keys():
            source = _Source(self._client, each, self._on_change, self._observer, self._retry_seconds)
            self._sources[each] = source
            source.start()
        tasks = {asyncio.create_task(source.settled.wait()) for source in self._sources.values()}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=SETTLE_SECONDS)
            for task in late:
                task.cancel()

    async def stop(self) -> None:
        """Watch nothing any more."""
        await self.follow(())

    def trouble(self, wanted: Wanted) -> str:
        """Why objects cannot be read, empty when they can."""
        source = self._sources.get(wanted)
        return "not looked for yet" if source is None else source.trouble()

    def scope(self, api_version: str, kind: str) -> Scope | None:
        """Whether objects of this kind have a namespace; None while that is not known."""
        for wanted, source in self._sources.items():
            if (wanted.api_version, wanted.kind) == (api_version, kind) and source.resource is not None:
                return "Namespaced" if source.resource.namespaced else "Cluster"
        return None

    def find(
        self, api_version: str, kind: str, namespace: str, *, name: str = "", selector: LabelSelector | None = None
    ) -> Sequence[Object]:
        """The object of that name, or all that the selector matches; ParamsError while they are not known."""
        labels = written(selector)
        # Where paramRef has no namespace, all are watched.
        places = [Wanted(api_version, kind, place, name, labels) for place in (namespace, "")]
        source = next((self._sources[each] for each in places if each in self._sources), None)
        trouble = f"{kind} of {api_version} is not looked for yet" if source is None else source.trouble()
        if source is None or trouble:
            raise ParamsError(trouble)
        if name:
            return source.named(namespace, name)
        return [each for each in source.objects(namespace) if selector is None or selector.matches(labels_of(each))]


class _Source(InformerObserver):
    """One kind's informer, once the kind is discovered."""

    def __init__(
        self, client: Client, wanted: Wanted, on_change: Callable[[], None], observer: Observer, retry_seconds: float
    ) -> None:
        self._client = client
        self._wanted = wanted
        self._on_change = on_change
        self._observer = observer
        self._retry_seconds = retry_seconds
        self._task: asyncio.Task[None] | None = None
        self._informer: Informer[dict[str, Any]] | None = None
        self._trouble = "not looked for yet"
        self._informer_observer: InformerObserver | None = None
        self.resource: Resource | None = None
        self.settled = asyncio.Event()
        """Set when it is synced or has failed."""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"params-{self._wanted.kind}")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def trouble(self) -> str:
        if self._informer is not None and self._informer.synced.is_set():
            return ""
        return self._trouble

    def named(self, namespace: str, name: str) -> list[dict[str, Any]]:
        found = self._informer.store.get(namespace, name) if self._informer is not None else None
        return [] if found is None else [found]

    def objects(self, namespace: str) -> list[dict[str, Any]]:
        return [] if self._informer is None else self._informer.store.by_index("namespace", namespace)

    def restarted(self, reason: str) -> None:
        """Record why the informer starts again."""
        if self._informer_observer is not None:
            self._informer_observer.restarted(reason)
        if self._informer is not None and not self._informer.synced.is_set():
            absent = reason == "absent"
            self._set_trouble(f"{self._wanted} {'is not served' if absent else f'cannot be read: {reason}'}")
            if absent:
                self.resource = None

    def broken(self, what: str) -> None:
        """Record an object that the informer does not understand."""
        if self._informer_observer is not None:
            self._informer_observer.broken(what)

    def _set_trouble(self, trouble: str) -> None:
        changed = trouble != self._trouble or not self.settled.is_set()
        self._trouble = trouble
        self.settled.set()
        if changed:
            _log.warning("parameters cannot be read", problem=trouble)
            self._on_change()

    async def _run(self) -> None:
        resource = await self._discovered()
        self._informer_observer = self._observer(resource)
        namespace = self._wanted.namespace if resource.namespaced else ""
        name = self._wanted.name
        self._informer = Informer(
            self._client,
            resource,
            typed(resource),
            store=Store({"namespace": lambda each: [each["metadata"].get("namespace") or ""]}),
            namespace=namespace or None,
            selection=Selection(self._wanted.labels or None, f"metadata.name={name}" if name else None),
            on_synced=self._on_synced,
            observer=self,
            options=InformerOptions(cap_delay_seconds=self._retry_seconds),
        )
        self.resource = resource
        await self._informer.run()

    def _on_synced(self) -> None:
        if self._informer is not None:
            self.resource = self._informer.resource
        self._trouble = ""
        self.settled.set()
        self._on_change()

    async def _discovered(self) -> Resource:
        """Wait until the server serves the kind."""
        group, _, version = self._wanted.api_version.rpartition("/")
        while True:
            try:
                for each in await self._client.discovery.resources(group, version):
                    if each.get("kind") == self._wanted.kind and "/" not in str(each.get("name", "/")):
                        namespaced = bool(each.get("namespaced"))
                        return Resource(group, version, str(each["name"]), self._wanted.kind, namespaced=namespaced)
                self._set_trouble(f"{self._wanted} is not served")
            except ApiError as error:
                self._set_trouble(f"{self._wanted} cannot be discovered: {type(error).__name__}")
            await asyncio.sleep(self._retry_seconds)
