"""Reads each fact once, and records errors with the missing right."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from gangctl.cli.doctor.facts import Unseen, UnseenError, right
from gangctl.client.client import EVERYTHING, Client, Selection
from gangctl.client.resources import Resource
from gangctl.errors import ApiError, ForbiddenError, UnauthorizedError, UnavailableError

T = TypeVar("T")

_DENIED: Final = re.compile(
    r'cannot (?P<verb>\w{1,40}) resource "(?P<plural>[\w./-]{1,100})" in API group "(?P<group>[\w.-]{0,253})"'
    r'(?: in the namespace "(?P<namespace>[\w-]{1,63})")?'
)


def denied(message: str) -> str:
    """The missing right in an RBAC error, empty for other errors.

    >>> denied('x is forbidden: User "u" cannot list resource "jobs" in API group "batch" in the namespace "t"')
    'list jobs.batch in namespace t'
    """
    found = _DENIED.search(message)
    if found is None:
        return ""
    resource = f"{found['plural']}.{found['group']}" if found["group"] else found["plural"]
    # For a Namespace, the API server reports its own name as the namespace.
    return right(found["verb"], resource, found["namespace"] if resource != "namespaces" else None)


def unseen(error: ApiError) -> Unseen:
    """Why a fact could not be read."""
    return Unseen(error.message, denied(error.message))


async def all_of(requests: Iterable[Awaitable[T]]) -> list[T]:
    """Results of all, run concurrently to completion; of several failures the first in order is raised.

    So repeated runs report the same missing right, not that of the fastest call.
    """
    ends = await asyncio.gather(*requests, return_exceptions=True)
    for each in ends:
        if isinstance(each, BaseException):
            raise each
    return [each for each in ends if not isinstance(each, BaseException)]


@dataclass(slots=True)
class Gatherer:
    """Facts by name, each read by its reader on first use, and cached.

    ``namespace`` is for dry runs, ``gangctl_namespace`` None to discover it.
    """

    client: Client
    namespace: str
    gangctl_namespace: str | None
    kueue_namespace: str
    readers: Mapping[str, Callable[[Gatherer], Awaitable[Any]]]
    _tasks: dict[str, asyncio.Task[Any]] = field(default_factory=dict)

    async def gather(self, names: Iterable[str]) -> dict[str, Any]:
        """Facts by name; :class:`ApiError` only if the cluster is unreachable."""
        wanted = list(names)
        return dict(zip(wanted, await asyncio.gather(*map(self.fact, wanted)), strict=True))

    async def fact(self, name: str) -> Any:
        """One fact, or :class:`Unseen`."""
        if name not in self._tasks:
            self._tasks[name] = asyncio.create_task(self._read(name), name=f"read-{name}")
        return await self._tasks[name]

    async def seen(self, name: str) -> Any:
        """One fact that another one needs, or UnseenError."""
        found = await self.fact(name)
        if isinstance(found, Unseen):
            raise UnseenError(found)
        return found

    async def list_widely(self, resource: Resource, selection: Selection = EVERYTHING) -> list[dict[str, Any]]:
        """Objects of all namespaces, else of the selected one; ForbiddenError if neither may be read."""
        try:
            page = await self.client.list(resource, selection=selection)
        except ForbiddenError:
            page = await self.client.list(resource, self.namespace, selection=selection)
        return page.items

    async def _read(self, name: str) -> Any:
        try:
            return await self.readers[name](self)
        except UnseenError as error:
            return error.unseen
        except (UnavailableError, UnauthorizedError):
            raise
        except ApiError as error:
            return unseen(error)
