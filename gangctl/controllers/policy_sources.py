"""The inputs of policy evaluation: the policies, their exceptions, the namespaces, and parameter objects.

The first three are few and small, so whole objects are kept. The definitions of policies and exceptions may be
installed and removed while gangctl runs; a missing one counts as an empty collection.

Parameters have one informer for each set of objects that a policy reads, for as long as it reads them. A policy that
names its object has only that one watched; one that names a namespace has only that namespace watched. Kinds are
discovered, so any CustomResourceDefinition is supported, also one that is installed later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import structlog

from gangctl.api.meta import API_VERSION
from gangctl.api.objects import Object
from gangctl.api.store import Store
from gangctl.client.client import Client, Selection
from gangctl.client.resources import NAMESPACES, Resource
from gangctl.controllers.caches import Observer
from gangctl.controllers.source import CONFIRM_SECONDS, RETRY_SECONDS, InformerSource
from gangctl.errors import ApiError
from gangctl.policy.model import EXCEPTION_KIND, POLICY_KIND, GangPolicySpec, LabelSelector
from gangctl.policy.reports import CATEGORY, SEVERITY
from gangctl.policy.review import labels_of
from gangctl.policy.variables import ParamsError, Scope
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
            resource.kind: InformerSource(
                client,
                resource,
                typed(resource),
                observer=observer(resource),
                on_change=on_change,
                confirm_seconds=confirm_seconds,
                # Where no policy is known, none can be lost: readiness need not wait for a confirmation.
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
            # Policies that were read stay in force while a starting API server denies their kind.
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
        if (namespace := self.namespaces.store.get("", name)) is not None:
            return namespace
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


class PolicyVersion(NamedTuple):
    """Changes when something has to be loaded again: not with the status."""

    uid: str
    generation: int
    notes: frozenset[tuple[str, str]] = frozenset()
    """Annotations that reports copy, which change without a new generation."""


UNKNOWN_IDENTITY: Final = PolicyVersion("", 0)


def identity(document: Object) -> PolicyVersion:
    """The identity of a policy or an exception as it is now."""
    metadata = document["metadata"]
    annotations = metadata.get("annotations")
    notes = annotations if isinstance(annotations, dict) else {}
    copied = frozenset((key, str(notes[key])) for key in (CATEGORY, SEVERITY) if key in notes)
    return PolicyVersion(str(metadata.get("uid", "")), int(metadata.get("generation") or 0), copied)


SETTLE_SECONDS: Final = 5.0
"""How long a new policy waits for its parameters before it takes effect."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WantedObjects:
    """The objects that a policy reads: a kind, optionally limited to a namespace, a name or labels."""

    api_version: str
    kind: str
    namespace: str = ""
    name: str = ""
    labels: str = ""
    """A label selector as the API writes it."""

    def __str__(self) -> str:
        return f"{self.kind} of {self.api_version}"


def wanted_by(spec: GangPolicySpec) -> WantedObjects | None:
    """The objects that a policy reads; None without parameters."""
    kind, reference = spec.param_kind, spec.param_ref
    if kind is None or reference is None:
        return None
    return WantedObjects(kind.api_version, kind.kind, reference.namespace, reference.name, written(reference.selector))


def written(selector: LabelSelector | None) -> str:
    """A label selector as a query parameter; empty for everything."""
    if selector is None:
        return ""
    terms = [f"{key}={value}" for key, value in selector.match_labels.items()]
    for match_expression in selector.match_expressions:
        match match_expression.operator:
            case "In" | "NotIn":
                terms.append(
                    f"{match_expression.key} {match_expression.operator.lower()} ({','.join(match_expression.values)})"
                )
            case "Exists":
                terms.append(match_expression.key)
            case "DoesNotExist":
                terms.append(f"!{match_expression.key}")
    return ",".join(terms)


class Parameters:
    """The :class:`~gangctl.policy.variables.ParamCatalogue` of a cluster."""

    def __init__(
        self,
        client: Client,
        on_change: Callable[[], None] = lambda: None,
        *,
        observer: Observer = lambda _: InformerObserver(),
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """Watch nothing yet; ``on_change`` is called when objects become readable or unreadable, appear or are gone."""
        self._client = client
        self._on_change = on_change
        self._observer = observer
        self._retry_seconds = retry_seconds
        self._sources: dict[WantedObjects, _Source] = {}

    async def follow(self, wanted: Iterable[WantedObjects]) -> None:
        """Watch these, too, from now on; returns when all are synced or have failed, or after a timeout."""
        for key in set(wanted) - self._sources.keys():
            source = _Source(self._client, key, self._on_change, self._observer, self._retry_seconds)
            self._sources[key] = source
            source.start()
        tasks = {asyncio.create_task(source.settled.wait()) for source in self._sources.values()}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=SETTLE_SECONDS)
            # Only the waiting ends: the source goes on, and its policies get a ParamsError until it is synced.
            for task in late:
                task.cancel()

    async def drop_others(self, wanted: Collection[WantedObjects]) -> None:
        """Watch nothing but these any more."""
        gone = [self._sources.pop(source) for source in list(self._sources) if source not in wanted]
        await asyncio.gather(*(source.stop() for source in gone))

    async def stop(self) -> None:
        """Watch nothing any more."""
        await self.drop_others(())

    def trouble(self, wanted: WantedObjects) -> str:
        """Why objects cannot be read, empty when they can."""
        source = self._sources.get(wanted)
        return "not looked for yet" if source is None else source.trouble()

    def missing(self, wanted: WantedObjects) -> bool:
        """Whether it is known that there are none."""
        source = self._sources.get(wanted)
        return source is not None and not source.trouble() and not source.count

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
        places = [WantedObjects(api_version, kind, place, name, labels) for place in (namespace, "")]
        source = next((self._sources[place] for place in places if place in self._sources), None)
        trouble = f"{kind} of {api_version} is not looked for yet" if source is None else source.trouble()
        if source is None or trouble:
            raise ParamsError(trouble)
        if name:
            return source.named(namespace, name)
        return [item for item in source.objects(namespace) if selector is None or selector.matches(labels_of(item))]


class _Source(InformerObserver):
    """One kind's informer, once the kind is discovered."""

    def __init__(
        self,
        client: Client,
        wanted: WantedObjects,
        on_change: Callable[[], None],
        observer: Observer,
        retry_seconds: float,
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
        self._restarted = asyncio.Event()
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
        parameter = self._informer.store.get(namespace, name) if self._informer is not None else None
        return [] if parameter is None else [parameter]

    @property
    def count(self) -> int:
        return 0 if self._informer is None else len(self._informer.store)

    def objects(self, namespace: str) -> list[dict[str, Any]]:
        return [] if self._informer is None else self._informer.store.by_index("namespace", namespace)

    def restarted(self, reason: str) -> None:
        """Record why the informer starts again."""
        self._restarted.set()
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
        while True:
            try:
                await self._read(await self._discovered())
            except Exception:  # noqa: BLE001 -- nothing awaits this task: what was true once would stay in force
                _log.exception("parameters are read again", of=str(self._wanted))
                self._informer = None
                self._set_trouble(f"{self._wanted} cannot be read: unexpected error")
                await asyncio.sleep(self._retry_seconds)

    async def _read(self, resource: Resource) -> None:
        """Follow a resource until another one replaces it."""
        # Nothing of an earlier one is read any more: its objects have another scope, or another name.
        self._trouble = "not looked for yet"
        self._informer = informer = self._follow(resource)
        self.resource = resource
        async with asyncio.TaskGroup() as group:
            running = group.create_task(informer.run(), name=f"params-{resource.plural}")
            await self._replaced(informer)
            running.cancel()

    async def _replaced(self, informer: Informer[dict[str, Any]]) -> None:
        """Wait until the kind is not served, or as another resource: its definition was deleted, and created again."""
        while True:
            # The watch of a definition that goes ends, whether the next list finds another one or none.
            self._restarted.clear()
            await self._restarted.wait()
            try:
                served = await self._found()
            except ApiError:
                continue
            # A starting API server may deny in discovery what can be listed.
            if served != informer.resource and (served is not None or not informer.synced.is_set()):
                return

    def _follow(self, resource: Resource) -> Informer[dict[str, Any]]:
        self._informer_observer = self._observer(resource)
        namespace = self._wanted.namespace if resource.namespaced else ""
        name = self._wanted.name
        informer = Informer(
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
        informer.subscribe(self._changed)
        return informer

    def _changed(self, old: Object | None, new: Object | None) -> None:
        """The first object appears, or the last one goes: the policies that read them apply otherwise."""
        synced = self._informer is not None and self._informer.synced.is_set()
        if synced and ((old is None and self.count == 1) or (new is None and not self.count)):
            self._on_change()

    def _on_synced(self) -> None:
        if self._informer is not None:
            # Again: `restarted` forgets it for as long as the kind is not served.
            self.resource = self._informer.resource
        self._trouble = ""
        self.settled.set()
        self._on_change()

    async def _discovered(self) -> Resource:
        """Wait until the server serves the kind."""
        while True:
            try:
                if (resource := await self._found()) is not None:
                    return resource
                self._set_trouble(f"{self._wanted} is not served")
            except ApiError as error:
                self._set_trouble(f"{self._wanted} cannot be discovered: {type(error).__name__}")
            await asyncio.sleep(self._retry_seconds)

    async def _found(self) -> Resource | None:
        """The resource of the kind, None where the server does not serve it."""
        group, _, version = self._wanted.api_version.rpartition("/")
        for resource in await self._client.discovery.resources(group, version):
            # A subresource, such as ``x/status``, may have the kind of its parent.
            if resource.get("kind") == self._wanted.kind and "/" not in str(resource.get("name", "/")):
                namespaced = bool(resource.get("namespaced"))
                return Resource(group, version, str(resource["name"]), self._wanted.kind, namespaced=namespaced)
        return None
