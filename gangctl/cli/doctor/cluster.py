"""The cluster that is checked. Each fact of it is read once, with the user's own rights; only dry runs are sent."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Final, TypeVar

from gangctl.api.objects import object_at
from gangctl.api.scheduling import Generation
from gangctl.client.client import EVERYTHING, Client, Selection
from gangctl.client.resources import NAMESPACES, Resource
from gangctl.controllers.discovery import served_resources
from gangctl.errors import ApiError, ForbiddenError, UnauthorizedError, UnavailableError
from gangctl.gang.generation import ServedVersion, pick_generation

T = TypeVar("T")
D = TypeVar("D")

# As forbiddenMessage of k8s.io/apiserver writes it (pkg/endpoints/handlers/responsewriters/errors.go).
_DENIED: Final = re.compile(
    r'cannot (?P<verb>\w{1,40}) resource "(?P<plural>[\w./-]{1,100})" in API group "(?P<group>[\w.-]{0,253})"'
    r'(?: in the namespace "(?P<namespace>[\w-]{1,63})")?'
)


class UnseenError(Exception):
    """A fact could not be read: why, and the missing right, if any."""

    def __init__(self, why: str, right: str = "") -> None:
        """Store both."""
        super().__init__(why)
        self.why = why
        self.right = right


def right(verb: str, resource: str, namespace: str | None = None) -> str:
    """A right in words.

    >>> right("list", "pods", "t"), right("list", "nodes")
    ('list pods in namespace t', 'list nodes cluster-wide')
    """
    return f"{verb} {resource} in namespace {namespace}" if namespace else f"{verb} {resource} cluster-wide"


def denied(message: str) -> str:
    """The missing right in an RBAC error, empty for other errors.

    >>> denied('x is forbidden: User "u" cannot list resource "jobs" in API group "batch" in the namespace "t"')
    'list jobs.batch in namespace t'
    """
    match = _DENIED.search(message)
    if match is None:
        return ""
    resource = f"{match['plural']}.{match['group']}" if match["group"] else match["plural"]
    # For a Namespace, the API server reports its own name as the namespace.
    return right(match["verb"], resource, match["namespace"] if resource != "namespaces" else None)


@dataclass(eq=False, slots=True)
class Cluster:
    """``namespace`` is for dry runs, ``gangctl_namespace`` None to discover it.

    ``now`` is when the run began, in Unix seconds of the cluster's clock; ``facts`` are those that are read or being
    read, by their readers.
    """

    client: Client
    namespace: str
    gangctl_namespace: str | None
    kueue_namespace: str
    # One time for the whole run: a Lease must not look old because other facts were slow to read.
    now: float = field(default_factory=time.time)
    facts: dict[Callable[[Cluster], Awaitable[Any]], Awaitable[Any]] = field(default_factory=dict)
    _lists: dict[tuple[Resource, Selection], asyncio.Task[list[dict[str, Any]]]] = field(default_factory=dict)

    async def widely(self, read: Callable[[str | None], Awaitable[T]]) -> T:
        """What is read of all namespaces, else of the selected one; ForbiddenError if neither may be read."""
        try:
            return await read(None)
        except ForbiddenError:
            return await read(self.namespace)

    async def list_widely(self, resource: Resource, selection: Selection = EVERYTHING) -> list[dict[str, Any]]:
        """The same of a list, which is read once."""
        known = self._lists.get((resource, selection))
        if known is None:
            name = f"list-{resource.plural}"
            known = self._lists[resource, selection] = asyncio.create_task(self._list(resource, selection), name=name)
        return await known

    async def _list(self, resource: Resource, selection: Selection) -> list[dict[str, Any]]:
        return (await self.widely(lambda namespace: self.client.list(resource, namespace, selection=selection))).items


Fact = Callable[[Cluster], Coroutine[Any, Any, T]]


def fact(read: Fact[T]) -> Fact[T]:
    """Decorate a function that reads a fact: it reads on first use, and raises :class:`UnseenError` if it cannot."""

    @wraps(read)
    async def once(cluster: Cluster) -> T:
        if once not in cluster.facts:
            # A task: several checks await one fact, and a coroutine can be awaited only once.
            cluster.facts[once] = asyncio.create_task(_see(read, cluster), name=f"read-{read.__name__}")
        known: T = await cluster.facts[once]
        return known

    return once


async def _see(read: Fact[T], cluster: Cluster) -> T:
    try:
        return await read(cluster)
    except (UnavailableError, UnauthorizedError):
        # No fact of this cluster can be read: that is an exit code, and no report.
        raise
    except ApiError as error:
        raise UnseenError(error.message, denied(error.message)) from error


async def seen_or(fact: Awaitable[T], default: D) -> T | D:
    """The fact, or ``default`` where it could not be read."""
    try:
        return await fact
    except UnseenError:
        return default


async def all_of(requests: Iterable[Awaitable[T]]) -> list[T]:
    """Results of all, run concurrently to completion; of several failures the first in order is raised.

    So repeated runs report the same missing right, not that of the fastest call.
    """
    results = []
    for end in await asyncio.gather(*requests, return_exceptions=True):
        if isinstance(end, BaseException):
            raise end
        results.append(end)
    return results


@fact
async def version(cluster: Cluster) -> str:
    """Of Kubernetes, as the server says it."""
    return str((await cluster.client.discovery.version()).get("gitVersion", ""))


@fact
async def served(cluster: Cluster) -> dict[str, ServedVersion]:
    """What is served, by version of scheduling.k8s.io."""
    return await served_resources(cluster.client)


@fact
async def namespace_labels(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """Labels of all namespaces, or of the selected one, by its name."""

    async def read(namespace: str | None) -> list[dict[str, Any]]:
        if namespace is None:
            return (await cluster.client.list(NAMESPACES)).items
        return [await cluster.client.get(NAMESPACES, namespace)]

    metadatas = [item["metadata"] for item in await cluster.widely(read)]
    return {str(metadata.get("name")): object_at(metadata, "labels") for metadata in metadatas}


async def generation(cluster: Cluster) -> Generation | None:
    """The generation that gangs are made in."""
    return pick_generation(await served(cluster)).generation
