"""Read gangs from a cluster with the user's own rights: forbidden collections are left out, and reported.

Each collection has a projection, for a single list or a watch. Worker clusters on which MultiKueue runs gangs are read
as if each had been asked in its own context.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeVar

from gangctl.api.jobset import read_jobset
from gangctl.api.meta import JOBSET_NAME
from gangctl.api.names import LABEL_LENGTH
from gangctl.api.objects import Key
from gangctl.api.pods import FAILED, UNFINISHED
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.api.store import Entry, Store
from gangctl.apiserver import structural
from gangctl.apiserver.jobsets import jobset_schema
from gangctl.cli.cluster import UNPROVED, connected, no_jobsets
from gangctl.cli.gangs.asking import Asking
from gangctl.cli.gangs.onnodes import compare_with_nodes
from gangctl.cli.gangs.state import GangState, StoredJobSet, read_events, read_succeeded
from gangctl.cli.kueuecluster import has_kueue, read_kueue, read_nodes, read_pod_surroundings, why_unread
from gangctl.cli.kueuecluster import take as take_queues
from gangctl.cli.messages import note
from gangctl.cli.options import ClusterFlags, Worker
from gangctl.client.client import EVERYTHING, Client, Selection
from gangctl.client.resources import EVENTS, JOBS, JOBSETS, NODES, PODS, Resource
from gangctl.cluster import kinds
from gangctl.cluster.members import project_job, project_scheduling, scheduling_store
from gangctl.cluster.stock import Stock
from gangctl.controllers.discovery import prove, served_resources
from gangctl.controllers.readiness.gangobjects import GANGS
from gangctl.controllers.writer import scheduling_resources
from gangctl.errors import ApiError, ClusterUnavailableError, ForbiddenError, InputError, NotFoundError
from gangctl.fit.clusterstate import Held
from gangctl.gang.config import read_config
from gangctl.gang.generation import pick_generation
from gangctl.kueue.names import KUEUE_NAMESPACE, MULTIKUEUE_ORIGIN
from gangctl.kueue.objects import AdmissionCheck, Cohort, PriorityClass, ResourceFlavor, Topology
from gangctl.kueue.reading import read_cluster_queue, read_local_queue
from gangctl.kueue.topology import with_placements
from gangctl.readiness.autoscaling import REASONS, field_selector
from gangctl.readiness.facts import (
    is_followed,
    read_ended,
    read_node,
    read_pod,
    read_refusal,
    read_scale_up,
)

T = TypeVar("T")
_MOST_NAMED: Final = 50
"""Maximum of JobSets named by a field selector; for more, all are read."""
_WITHOUT: Final[Mapping[Resource, str]] = {
    JOBS: ", and count as missing",
    PODS: ", and phases follow from the status of JobSets",
}
"""What their absence means beyond causes that are not found."""
_DECISIVE: Final[Mapping[Resource, type[Held]]] = {
    kinds.COHORTS: Cohort,
    kinds.RESOURCE_FLAVORS: ResourceFlavor,
    kinds.TOPOLOGIES: Topology,
    kinds.ADMISSION_CHECKS: AdmissionCheck,
    kinds.PRIORITY_CLASSES: PriorityClass,
}
"""Kueue's, besides its queues, by which a JobSet can or cannot ever be admitted."""


@dataclass(frozen=True, slots=True)
class JobSetScope:
    """Selected JobSets: ``namespace`` None is all, without ``names`` all of them."""

    namespace: str | None
    names: tuple[str, ...] = ()
    selector: str | None = None

    def has(self, key: tuple[str, str]) -> bool:
        """Whether a JobSet of this namespace and name is selected, with any labels."""
        return self.namespace in {None, key[0]} and (not self.names or key[1] in self.names)


@dataclass(frozen=True, slots=True)
class ReadCollection(Generic[T]):
    """One collection: its resource, the projection of each object, and its store."""

    resource: Resource
    project: Callable[[dict[str, Any]], T | None]
    store: Store[T]
    namespace: str | None
    selection: Selection = EVERYTHING
    named: bool = False
    """Whether the user named what is read."""

    async def read(self, client: Client) -> None:
        """List it once. An object that gangctl cannot read is left out with a note; named, it is an InputError."""
        pages = client.pages(self.resource, self.namespace, selection=self.selection)
        async with aclosing(pages):
            async for page in pages:
                for item in page.items:
                    try:
                        take(self.store, self.project, item)
                    except InputError as error:
                        if self.named:
                            raise
                        note_left_out(error)


def take(store: Store[T], project: Callable[[dict[str, Any]], T | None], raw: dict[str, Any]) -> bool:
    """Store the projection of an object, and return whether it is relevant."""
    value = project(raw)
    if value is None:
        return False
    metadata = raw["metadata"]
    key = metadata.get("namespace") or "", metadata["name"]
    store.put(key, Entry(metadata.get("uid") or "", metadata.get("resourceVersion") or "", value))
    return True


class JobSetUnreadError(InputError):
    """A JobSet that gangctl does not read, as the controller does not, although an API server may have stored it."""


def note_left_out(error: InputError) -> None:
    """Say that an object is in no answer."""
    note(f"{error}: it is left out, and the controller makes no gang of it")


def project_stored(raw: dict[str, Any]) -> StoredJobSet:
    """A JobSet; InputError, JobSetUnreadError if its definition allows what no Job can have (``replicas: -1``)."""
    jobset, errors = read_jobset(raw)
    if errors:
        stored = not structural.validate(raw, jobset_schema())
        of_kind = JobSetUnreadError if stored else InputError
        raise of_kind(f"JobSet {jobset.namespace}/{jobset.name}: {errors[0]}")
    return StoredJobSet(jobset, raw)


def jobset_source(state: GangState, scope: JobSetScope) -> ReadCollection[StoredJobSet]:
    """The selected JobSets."""
    one = scope.names[0] if len(scope.names) == 1 else ""
    # Field selectors have no `in`: with several names all are read, and chosen here.
    selection = Selection(scope.selector, f"metadata.name={one}" if one else None)

    def project(raw: dict[str, Any]) -> StoredJobSet | None:
        metadata = raw["metadata"]
        return project_stored(raw) if scope.has((metadata["namespace"], metadata["name"])) else None

    return ReadCollection(JOBSETS, project, state.jobsets, scope.namespace, selection, bool(scope.names))


def member_sources(state: GangState, scope: JobSetScope) -> Iterator[ReadCollection[Any]]:
    """Jobs, pods, groups and refusals of these JobSets."""
    label = _label(scope.names)
    yield ReadCollection(JOBS, project_job, state.jobs, scope.namespace, Selection(label))
    yield ReadCollection(PODS, read_pod, state.pods, scope.namespace, Selection(label, UNFINISHED))
    yield ReadCollection(PODS, read_ended, state.failed, scope.namespace, Selection(label, FAILED))
    # A collection for each reason: field selectors have no `or`.
    for reason, store in state.refusals.items():
        yield ReadCollection(EVENTS, read_refusal, store, scope.namespace, Selection(field_selector=f"reason={reason}"))


def group_sources(state: GangState, scope: JobSetScope) -> Iterator[ReadCollection[Any]]:
    """Workloads and PodGroups of the generation that is served."""
    if state.api.generation is None:
        return
    adapter = ADAPTERS[state.api.generation]
    stores = {"Workload": state.workloads, "PodGroup": state.groups}
    for kind, resource in scheduling_resources(state.api.generation).items():
        yield ReadCollection(resource, project_scheduling(adapter, kind), stores[kind], scope.namespace)


def composite_sources(state: GangState, scope: JobSetScope) -> Iterator[ReadCollection[Any]]:
    """CompositePodGroups, where they are served and a JobSet asks for one."""
    generation, version = state.api.generation, state.api.composite
    asked = any(read_config(stored.jobset)[0].options.composite for stored in state.jobsets.values())
    if generation is not None and version and asked:
        state.composites = scheduling_store()
        resource = scheduling_resources(generation, composite=version)["CompositePodGroup"]
        project = project_scheduling(ADAPTERS[generation], "CompositePodGroup")
        yield ReadCollection(resource, project, state.composites, scope.namespace)


def node_source(state: GangState) -> ReadCollection[Any]:
    """All nodes."""
    return ReadCollection(NODES, read_node, state.nodes, None)


def queue_sources(state: GangState, scope: JobSetScope) -> Iterator[ReadCollection[Any]]:
    """Kueue's objects, as far as they could be read: an administrator may change any of them during a wait."""
    queues = state.queues
    # Of all namespaces where these may be read: what waits before a gang may be in another one.
    home = None if queues.heads_known else scope.namespace
    yield ReadCollection(kinds.LOCAL_QUEUES, read_local_queue, queues.local_queues, home)
    yield ReadCollection(kinds.QUEUED_WORKLOADS, with_placements, queues.workloads, home)
    if not queues.queues_known:
        return
    yield ReadCollection(kinds.CLUSTER_QUEUES, read_cluster_queue, queues.cluster_queues, None)
    for resource, kind in _DECISIVE.items():
        if not queues.trouble(resource) and (resource != kinds.TOPOLOGIES or queues.topologies_known):
            yield ReadCollection(resource, kinds.READERS[resource.group, resource.kind], queues.others[kind], None)


def _label(names: Collection[str]) -> str:
    # A longer name is of no JobSet that has Jobs, and no value of a label.
    values = sorted(name for name in names if len(name) <= LABEL_LENGTH)
    if not values or len(values) > _MOST_NAMED:
        return JOBSET_NAME
    return f"{JOBSET_NAME} in ({','.join(values)})"


class ScopeReader:
    """Reads a scope of a cluster into a state; :attr:`readable` are readable collections, which can be watched."""

    def __init__(
        self,
        client: Client,
        scope: JobSetScope,
        *,
        kueue_namespace: str = KUEUE_NAMESPACE,
        watching: bool = False,
        worker: Worker | None = None,
        flags: ClusterFlags | None = None,
    ) -> None:
        """Start empty. With ``watching``, queues without gangs are read, too.

        ``worker`` is what the cluster is; ``flags`` select it.
        """
        self.client = client
        self.scope = scope
        self.state = GangState(worker=worker, flags=flags or ClusterFlags(), queues=Stock(client.server_time))
        self.readable: list[ReadCollection[Any]] = []
        self._kueue_namespace = kueue_namespace
        self._watching = watching
        self._left_out: list[str] = []

    async def read(self) -> GangState:
        """Read all objects for the readiness of the gangs of the scope.

        Raises ClusterUnavailableError without the JobSet API, ForbiddenError if JobSets may not be read.
        """
        jobsets = jobset_source(self.state, self.scope)
        try:
            await jobsets.read(self.client)
        except NotFoundError as error:
            raise no_jobsets() from error
        self.readable = [jobsets]
        self.state.api = pick_generation(await served_resources(self.client))
        groups = list(group_sources(self.state, self.scope))
        parents = list(composite_sources(self.state, self.scope))
        members = [*member_sources(self.state, self.scope), node_source(self.state)]
        missing, *_ = await asyncio.gather(
            self._read_all([*groups, *parents, *members]), self._read_queues(), self._read_gang_objects()
        )
        self.state.groups_known = not any(missing[: len(groups)])
        if any(missing[len(groups) : len(groups) + len(parents)]):
            self.state.composites = None
        # The nodes are the last of the sources.
        self.state.nodes_known = not missing[-1]
        if self._left_out:
            where = f"worker cluster {self.state.worker.name}: " if self.state.worker is not None else ""
            note(f"{where}left out: {'; '.join(sorted(set(self._left_out)))}")
        return self.state

    async def look_closely(self, keys: Iterable[Key]) -> None:
        """Additional facts for few gangs: whether the API stores the reference, and whether pods fit, now or ever."""
        wanted = list(keys)
        await self._prove({namespace for namespace, _ in wanted})
        if not self.state.refused(wanted):
            return
        for namespace in {namespace for namespace, _ in wanted}:
            await self._read_scale_ups(namespace)
        stock = await read_pod_surroundings(self.client, {namespace for namespace, _ in wanted})
        try:
            await read_nodes(self.client, stock)
        except ForbiddenError:
            # That nodes may not be read is in the notes already.
            return
        for key in wanted:
            compare_with_nodes(self.state, key, stock)

    async def _read_scale_ups(self, namespace: str) -> None:
        """What autoscalers said of its pods, if events may be read: others are left out and named already."""
        for reason in REASONS:
            selection = Selection(field_selector=field_selector(reason))
            with suppress(ForbiddenError):
                page = await self.client.list(EVENTS, namespace, selection=selection)
                scale_ups = filter(None, map(read_scale_up, page.items))
                self.state.scale_ups += [(namespace, one) for one in scale_ups]

    async def read_succeeded(self, key: Key) -> None:
        """Read the pods of a JobSet that have succeeded, if allowed."""
        # That pods may not be read is in the notes already.
        with suppress(ForbiddenError):
            self.state.succeeded += await read_succeeded(self.client, key)

    async def read_events(self, key: Key) -> None:
        """Read the events of a JobSet and of its groups, if allowed."""
        stored = self.state.jobsets.get(*key)
        plan = self.state.assessment(stored.jobset).plan if stored is not None else None
        groups = [group.name for group in plan.groups] if plan is not None else []
        try:
            self.state.events += await read_events(self.client, key, groups)
        except ForbiddenError:
            note("events may not be read")

    async def _read_all(self, sources: Sequence[ReadCollection[Any]]) -> list[str]:
        """Why each could not be read, empty for readable ones."""
        reasons = await asyncio.gather(*(why_unread(source.read(self.client)) for source in sources))
        for source, why in zip(sources, reasons, strict=True):
            if why:
                self.state.pods_known = self.state.pods_known and source.resource != PODS
                self._left_out.append(f"{source.resource.qualified_name} {why}{_WITHOUT.get(source.resource, '')}")
            else:
                self.readable.append(source)
        return reasons

    async def _prove(self, namespaces: Iterable[str]) -> None:
        """Check by a dry run whether pods keep their group. Unknown without the right to create Jobs."""
        generation = self.state.api.generation
        for namespace in sorted(namespaces) if generation is not None else ():
            assert generation is not None  # noqa: S101 -- for mypy
            try:
                # A namespace may refuse the Job; one answer is enough, because it is the whole API server's.
                proved = await prove(self.client, generation, namespace)
            except UNPROVED:
                continue
            # One that succeeds says nothing else: what the cluster lacks is known from what it serves.
            if not proved.available:
                self.state.api = proved
            return

    async def _read_gang_objects(self) -> None:
        """What the controller knew, if it writes that here, and the user may read it."""
        one = self.scope.names[0] if len(self.scope.names) == 1 else ""
        selection = Selection(field_selector=f"metadata.name={one}" if one else None)
        with suppress(ForbiddenError, NotFoundError):
            async with aclosing(self.client.pages(GANGS, self.scope.namespace, selection=selection)) as pages:
                async for page in pages:
                    for raw in page.items:
                        self.state.remember(raw)

    async def _read_queues(self) -> None:
        """Read Kueue's objects, if any of the gangs has a queue, or is suspended, which Kueue can do without one."""
        jobsets = (jobset.jobset for jobset in self.state.jobsets.values())
        queued = any((jobset.queue or jobset.suspend) and is_followed(jobset) for jobset in jobsets)
        self.state.kueue = await has_kueue(self.client)
        # The first gang with a queue may be created during a watch.
        if not self.state.kueue or not (queued or self._watching):
            return
        home = self.scope.namespace
        namespaces: list[str] | None = [home] if home is not None else None
        try:
            self.state.queues = await read_kueue(self.client, namespaces, kueue_namespace=self._kueue_namespace)
        except ForbiddenError as refused:
            self.state.queues = await self._own_queues(namespaces)
            self._left_out.append(f"what closes queues and what never fits ({refused})")

    async def _own_queues(self, namespaces: Iterable[str] | None) -> Stock:
        """Objects of Kueue that users may usually read: LocalQueues and Workloads of a namespace."""
        stock = Stock(self.client.server_time)
        stock.note_presence(True)
        stock.heads_known = namespaces is None
        # Otherwise those that JobSets and queues name would count as missing.
        for resource in (kinds.CLUSTER_QUEUES, kinds.PRIORITY_CLASSES):
            stock.note_unread(resource, f"{resource.plural} may not be read")
        for namespace in namespaces if namespaces is not None else (None,):
            for resource in (kinds.LOCAL_QUEUES, kinds.QUEUED_WORKLOADS):
                if why := await why_unread(take_queues(self.client, stock, resource, namespace)):
                    stock.note_unread(resource, f"{resource.plural} {why}")
                    self._left_out.append(f"{resource.qualified_name} {why}")
        return stock


More = Callable[[ScopeReader, list[Key]], Awaitable[None]]


async def read_workers(
    asking: Asking, state: GangState, keys: Sequence[Key], more: More | None
) -> dict[Key, GangState]:
    """The states of the worker clusters that run these gangs, by gang; ``more`` reads further objects of each.

    A cluster that does not answer is left out, with a note. Raises ConfigError if the kubeconfig lacks a context.
    """
    clusters = await asyncio.gather(
        *(
            _read(asking, worker, own, more)
            for worker in asking.workers
            if (own := [key for key in keys if state.cluster_of(key) == worker.name])
        )
    )
    return {key: there for states in clusters for key, there in states.items()}


async def _read(asking: Asking, worker: Worker, keys: Sequence[Key], more: More | None) -> dict[Key, GangState]:
    namespaces = {namespace for namespace, _ in keys}
    scope = JobSetScope(namespaces.pop() if len(namespaces) == 1 else None, tuple({name: None for _, name in keys}))
    try:
        flags = replace(asking.cluster, context=worker.context)
        async with connected(flags) as (client, _):
            reader = ScopeReader(client, scope, kueue_namespace=asking.kueue_namespace, worker=worker, flags=flags)
            state = await reader.read()
            copies = [key for key in keys if _is_copy(state, key)]
            if more is not None:
                await more(reader, copies)
    except (ApiError, ClusterUnavailableError) as error:
        note(f"worker cluster {worker.name} cannot be read: {error}")
        return {}
    return dict.fromkeys(copies, state)


def _is_copy(state: GangState, key: Key) -> bool:
    """Whether there is a JobSet of this name that MultiKueue made."""
    stored = state.jobsets.get(*key)
    return stored is not None and MULTIKUEUE_ORIGIN in (stored.raw["metadata"].get("labels") or {})
