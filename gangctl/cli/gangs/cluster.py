"""Reading gangs from a cluster with the person's own rights: what may not be read is left out, and that is said."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, Final

from gangctl.api.objects import Key
from gangctl.cli.gangs.asking import UnknownNameError
from gangctl.cli.gangs.census import Census
from gangctl.cli.gangs.events import read_events
from gangctl.cli.gangs.room import find_room
from gangctl.cli.gangs.sources import (
    Scope,
    Source,
    group_sources,
    jobset_source,
    member_sources,
    node_source,
)
from gangctl.cli.kueuecluster import has_kueue, read_kueue, read_nodes, read_pod_surroundings
from gangctl.cli.kueuesnapshot import Stock
from gangctl.cli.messages import note
from gangctl.client.client import Client
from gangctl.client.resources import JOBSETS
from gangctl.controllers.discovery import prove, served_resources
from gangctl.controllers.queues import kinds
from gangctl.errors import ClusterUnavailableError, ForbiddenError, InvalidError, NotFoundError
from gangctl.gang.generation import pick_generation
from gangctl.kueue.names import KUEUE_NAMESPACE
from gangctl.readiness.assembly import is_followed

NO_JOBSETS: Final = "the cluster does not serve JobSets (jobset.x-k8s.io/v1alpha2)"


class Reader:
    """Reads a scope of a cluster into a census; :attr:`readable` is what could be, and can be watched."""

    def __init__(
        self, client: Client, scope: Scope, *, kueue_namespace: str = KUEUE_NAMESPACE, watching: bool = False
    ) -> None:
        """Nothing is read yet. Who is ``watching`` wants queues that nobody is in yet, too."""
        self.client = client
        self.scope = scope
        self.census = Census()
        self.readable: list[Source[Any]] = []
        self._kueue_namespace = kueue_namespace
        self._watching = watching
        self._left_out: list[str] = []

    async def read(self) -> Census:
        """Everything that says how far the gangs of the scope are.

        Raises ClusterUnavailableError where there are no JobSets, ForbiddenError where these may not be read.
        """
        jobsets = jobset_source(self.census, self.scope)
        try:
            await jobsets.read(self.client)
        except NotFoundError as error:
            raise ClusterUnavailableError(NO_JOBSETS, hint="see https://jobset.sigs.k8s.io") from error
        self.readable = [jobsets]
        self.census.api = pick_generation(await served_resources(self.client))
        groups = list(group_sources(self.census, self.scope))
        members = [*member_sources(self.census, self.scope), node_source(self.census)]
        told, _ = await asyncio.gather(self._read_all([*groups, *members]), self._read_queues())
        self.census.groups_known = not any(told[: len(groups)])
        self.census.nodes_known = not told[-1]
        if self._left_out:
            note(f"left out: {'; '.join(sorted(set(self._left_out)))}")
        return self.census

    async def look_closely(self, keys: Iterable[Key]) -> None:
        """What is wanted of few gangs: whether the API keeps what pods say, and whether there is room for them now."""
        wanted = list(keys)
        await self._prove({namespace for namespace, _ in wanted})
        if not any(pod.refused for key in wanted for pod in self.census.pods.by_index("jobset", key)):
            return
        stock = await read_pod_surroundings(self.client, {namespace for namespace, _ in wanted})
        try:
            await read_nodes(self.client, stock)
        except ForbiddenError:
            return
        for key in wanted:
            self.census.room[key] = find_room(self.census, key, stock)

    async def hear(self, key: Key) -> None:
        """The events of a JobSet and of its groups, where they may be read."""
        found = self.census.jobsets.get(*key)
        plan = self.census.assessment(found.jobset).plan if found is not None else None
        groups = [group.name for group in plan.groups] if plan is not None else []
        try:
            self.census.events += await read_events(self.client, key, groups)
        except ForbiddenError:
            note("events may not be read")

    async def with_suggestion(self, unknown: UnknownNameError) -> UnknownNameError:
        """The same with names that are close: only what was asked for has been read."""
        page = await self.client.list(JOBSETS, unknown.namespace)
        names = [str(item["metadata"].get("name")) for item in page.items]
        return UnknownNameError(unknown.namespace, unknown.name, names)

    async def _read_all(self, sources: Sequence[Source[Any]]) -> list[str]:
        """Why each could not be read, empty for those that could."""
        told = await asyncio.gather(*(source.try_read(self.client) for source in sources))
        for source, trouble in zip(sources, told, strict=True):
            if trouble:
                self._left_out.append(trouble)
            else:
                self.readable.append(source)
        return list(told)

    async def _prove(self, namespaces: Iterable[str]) -> None:
        """Ask by a dry run whether pods keep their group. Who may not create Jobs is not answered."""
        generation = self.census.api.generation
        for namespace in sorted(namespaces) if generation is not None else ():
            assert generation is not None  # noqa: S101 -- for mypy
            try:
                self.census.api = await prove(self.client, generation, namespace)
            except (ForbiddenError, InvalidError, NotFoundError):
                continue
            return

    async def _read_queues(self) -> None:
        """Kueue, where any of the gangs has a queue."""
        jobsets = (each.jobset for each in self.census.jobsets.values())
        places = {jobset.namespace for jobset in jobsets if jobset.queue and is_followed(jobset)}
        queues = self.census.queues
        queues.present = await has_kueue(self.client)
        if not queues.present or not (places or self._watching):
            return
        home = self.scope.namespace
        namespaces: list[str] | None = [home] if home is not None else None
        try:
            queues.stock = await read_kueue(self.client, namespaces, kueue_namespace=self._kueue_namespace)
            queues.queues_known = True
        except ForbiddenError as refused:
            queues.stock = await self._own_queues(namespaces)
            self._left_out.append(f"what closes queues and what never fits ({refused})")

    async def _own_queues(self, namespaces: Iterable[str] | None) -> Stock:
        """What a person may usually read of Kueue: the doors and the Workloads of a namespace."""
        stock = Stock()
        for namespace in namespaces if namespaces is not None else (None,):
            for resource in (kinds.LOCAL_QUEUES, kinds.QUEUED_WORKLOADS):
                try:
                    page = await self.client.list(resource, namespace)
                except ForbiddenError:
                    self._left_out.append(f"{resource.qualified_name} may not be read")
                    continue
                for item in page.items:
                    stock.take({**item, "apiVersion": resource.api_version, "kind": resource.kind})
        return stock
