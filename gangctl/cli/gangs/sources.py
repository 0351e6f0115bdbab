"""What is read of a cluster for gangs: each collection with what is kept of it, to be listed once or to be watched."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from gangctl.api.jobset import read_jobset
from gangctl.api.meta import JOBSET_NAME
from gangctl.cli.gangs.census import Census, StoredJobSet
from gangctl.client.client import EVERYTHING, Client, Selection
from gangctl.client.resources import EVENTS, JOBS, JOBSETS, NODES, PODS, Resource
from gangctl.controllers.projections import project_job, project_scheduling
from gangctl.controllers.queues import kinds
from gangctl.controllers.writer import scheduling_resources
from gangctl.errors import ForbiddenError, InputError, NotFoundError
from gangctl.gang.build import ADAPTERS
from gangctl.kueue.reading import read_cluster_queue, read_local_queue, read_workload
from gangctl.readiness.reading import FAILED_CREATE, JOB_CREATION_FAILED, read_node, read_pod, read_refusal
from gangctl.runtime.store import Entry, Store

T = TypeVar("T")

_UNFINISHED: Final = "status.phase!=Succeeded,status.phase!=Failed"
_MOST_NAMED: Final = 50
"""JobSets that a selector names; of more, all are read."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Which JobSets are asked about: ``namespace`` None is all, without ``names`` all of them."""

    namespace: str | None
    names: tuple[str, ...] = ()
    selector: str | None = None

    def has(self, key: tuple[str, str]) -> bool:
        """Whether a JobSet of this namespace and name is asked about, whatever its labels."""
        return self.namespace in {None, key[0]} and (not self.names or key[1] in self.names)


@dataclass(frozen=True, slots=True)
class Source(Generic[T]):
    """One collection: where it is, what is kept of each object, and where."""

    resource: Resource
    project: Callable[[dict[str, Any]], T | None]
    store: Store[T]
    namespace: str | None
    selection: Selection = EVERYTHING

    async def read(self, client: Client) -> None:
        """Take all of it, once; what the server itself would not have let in is left out."""
        pages = client.pages(self.resource, self.namespace, selection=self.selection)
        async with aclosing(pages):
            async for page in pages:
                for item in page.items:
                    take(self.store, self.project, item)

    async def try_read(self, client: Client) -> str:
        """Take all of it if it may be read, and say in a few words why not, else nothing."""
        try:
            await self.read(client)
        except ForbiddenError:
            return f"{self.resource.qualified_name} may not be read"
        except NotFoundError:
            return f"{self.resource.qualified_name} are not served"
        return ""


def take(store: Store[T], project: Callable[[dict[str, Any]], T | None], raw: dict[str, Any]) -> bool:
    """Keep what is wanted of an object, and say whether anything is."""
    value = project(raw)
    if value is None:
        return False
    metadata = raw["metadata"]
    key = metadata.get("namespace") or "", metadata["name"]
    store.put(key, Entry(metadata.get("uid") or "", metadata.get("resourceVersion") or "", value))
    return True


def project_stored(raw: dict[str, Any]) -> StoredJobSet:
    """A JobSet; InputError for what no CRD let in."""
    jobset, errors = read_jobset(raw)
    if errors:
        raise InputError(f"JobSet {jobset.namespace}/{jobset.name}: {errors[0]}")
    return StoredJobSet(jobset, raw)


def jobset_source(census: Census, scope: Scope) -> Source[StoredJobSet]:
    """The JobSets that are asked about."""
    one = scope.names[0] if len(scope.names) == 1 else ""
    selection = Selection(scope.selector, f"metadata.name={one}" if one else None)

    def project(raw: dict[str, Any]) -> StoredJobSet | None:
        found = project_stored(raw)
        return found if scope.has(found.jobset.key) else None

    return Source(JOBSETS, project, census.jobsets, scope.namespace, selection)


def member_sources(census: Census, scope: Scope) -> Iterator[Source[Any]]:
    """Jobs, pods, groups and refusals of these JobSets."""
    label = _label(scope.names)
    yield Source(JOBS, project_job, census.jobs, scope.namespace, Selection(label))
    yield Source(PODS, read_pod, census.pods, scope.namespace, Selection(label, _UNFINISHED))
    for reason, store in ((FAILED_CREATE, census.pods_refused), (JOB_CREATION_FAILED, census.jobs_refused)):
        yield Source(EVENTS, read_refusal, store, scope.namespace, Selection(field_selector=f"reason={reason}"))


def group_sources(census: Census, scope: Scope) -> Iterator[Source[Any]]:
    """Workloads and PodGroups of the generation that is served."""
    if census.api.generation is None:
        return
    adapter = ADAPTERS[census.api.generation]
    stores = {"Workload": census.workloads, "PodGroup": census.groups}
    for kind, resource in scheduling_resources(census.api.generation).items():
        yield Source(resource, project_scheduling(adapter, kind), stores[kind], scope.namespace)


def node_source(census: Census) -> Source[Any]:
    """All nodes."""
    return Source(NODES, read_node, census.nodes, None)


def queue_sources(census: Census, scope: Scope) -> Iterator[Source[Any]]:
    """What of Kueue changes while one waits."""
    queues = census.queues
    yield Source(kinds.LOCAL_QUEUES, read_local_queue, queues.local_queues, scope.namespace)
    yield Source(kinds.QUEUED_WORKLOADS, read_workload, queues.workloads, scope.namespace)
    if queues.queues_known:
        yield Source(kinds.CLUSTER_QUEUES, read_cluster_queue, queues.cluster_queues, None)


def _label(names: Collection[str]) -> str:
    if not names or len(names) > _MOST_NAMED:
        return JOBSET_NAME
    return f"{JOBSET_NAME} in ({','.join(sorted(names))})"
