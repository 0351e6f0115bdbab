"""Carries changes out, one by one and in order, and reports what was done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

from gangctl.api import scheduling_versions
from gangctl.api.scheduling import GROUP, CompositePodGroup, Generation, Observed, PodGroup, Workload, observe
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.client.client import Client, JsonPatch
from gangctl.client.resources import Resource
from gangctl.errors import AlreadyExistsError, ConflictError, NotFoundError, OwnershipConflictError
from gangctl.gang.diff import Change, Create, Delete, Kind, SetMinCounts

TTL_SECONDS = 30.0
Key = tuple[Kind, str, str]


@dataclass(frozen=True, slots=True)
class _Written:
    observed: Observed
    expires: float


def _version(observed: Observed) -> int:
    """ResourceVersions of one resource grow (guaranteed to be comparable since Kubernetes 1.35)."""
    return int(observed.resource_version) if observed.resource_version.isdigit() else 0


def _supersedes(cached: Observed, written: Observed) -> bool:
    """Whether the cache is newer than a write; an accepted delete is only superseded when the cache shows it."""
    if _version(cached) < _version(written):
        return False
    return cached.uid != written.uid or cached.deleting or not written.deleting


class Overlay:
    """Objects as gangctl's last write left them, by kind, namespace and name.

    Between a write and its watch event the cache is stale, and a reconcile would write again. An entry is dropped when
    the cache has caught up, or after :data:`TTL_SECONDS`. A watch event may arrive before the response to the write, so
    deletions that the informer has seen are remembered for as long.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Use ``clock`` (monotonic seconds) for expiry."""
        self._clock = clock
        self._entries: dict[Key, _Written] = {}
        self._gone: dict[str, float] = {}
        """UIDs of deleted objects, oldest first, and until when they are remembered."""

    def wrote(self, kind: Kind, observed: Observed) -> None:
        """Remember the result of a create or patch."""
        key: Key = (kind, observed.namespace, observed.name)
        if observed.uid in self._gone:
            self._entries.pop(key, None)
        else:
            self._entries[key] = _Written(observed, self._clock() + TTL_SECONDS)

    def deleted(self, kind: Kind, observed: Observed) -> None:
        """Remember that a delete was accepted."""
        self.wrote(kind, replace(observed, deleting=True))

    def observed_change(self, kind: Kind, old: Observed | None, new: Observed | None) -> None:
        """Handle the informer's event: a deletion, or the object at some version, settles older entries."""
        if new is not None:
            # For its effect: it drops an entry that this event supersedes.
            self.view(kind, new.namespace, new.name, new)
        elif old is not None:
            self._remember_gone(old.uid)
            entry = self._entries.get((kind, old.namespace, old.name))
            # Another object may have been created under this name since.
            if entry is not None and entry.observed.uid == old.uid:
                del self._entries[kind, old.namespace, old.name]

    def view(self, kind: Kind, namespace: str, name: str, cached: Observed | None) -> Observed | None:
        """The later of the cached and the written object."""
        key = (kind, namespace, name)
        entry = self._entries.get(key)
        if entry is None:
            return cached
        if entry.expires < self._clock() or (cached is not None and _supersedes(cached, entry.observed)):
            del self._entries[key]
            return cached
        return entry.observed

    def _remember_gone(self, uid: str) -> None:
        now = self._clock()
        while self._gone and next(iter(self._gone.values())) < now:
            del self._gone[next(iter(self._gone))]
        self._gone[uid] = now + TTL_SECONDS

    def clear(self) -> None:
        """Forget everything: the cluster serves another generation now."""
        self._entries.clear()

    def written(self, kind: Kind) -> list[Observed]:
        """The objects of a kind that are remembered now."""
        return [entry.observed for (other, _, _), entry in self._entries.items() if other == kind]


CONCURRENT_WRITES: Final = 8
"""Concurrent writes for one JobSet, among changes whose order does not matter."""

_PLURALS: Final[dict[Kind, str]] = {
    "Workload": "workloads",
    "PodGroup": "podgroups",
    "CompositePodGroup": "compositepodgroups",
}


def scheduling_resource(generation: Generation, kind: Kind) -> Resource:
    """The resource of Workloads or PodGroups where the cluster serves a generation."""
    return scheduling_resources(generation)[kind]


def scheduling_resources(generation: Generation, *, composite: str = "") -> dict[Kind, Resource]:
    """The resources of what gangctl makes in a generation; ``composite``: the version of CompositePodGroups, if any."""
    kinds: list[Kind] = ["Workload", "PodGroup"] if generation.capabilities.pod_groups else ["Workload"]
    versions = dict.fromkeys(kinds, generation.value) | ({"CompositePodGroup": composite} if composite else {})
    return {kind: Resource(GROUP, version, _PLURALS[kind], kind) for kind, version in versions.items()}


def min_count_patch(change: SetMinCounts) -> JsonPatch:
    """JSON patch that changes minCounts and fails if the object is not the observed one.

    A Workload's template list cannot be merge-patched (that would remove the others), and its entries are named, so
    each change tests the name first.
    """
    patch: JsonPatch = [{"op": "test", "path": "/metadata/uid", "value": change.observed.uid}]
    for index, template, _, new in change.counts:
        above = "/compositePodGroupTemplates/0" if change.observed.composite else ""
        base = f"/spec{above}/podGroupTemplates/{index}" if change.kind == "Workload" else "/spec"
        if change.kind == "Workload":
            patch.append({"op": "test", "path": f"{base}/name", "value": template})
        patch.append({"op": "replace", "path": f"{base}/schedulingPolicy/gang/{change.field}", "value": new})
    return patch


class Writer:
    """Writes objects of one generation; every accepted write is added to the overlay of the cache."""

    def __init__(self, client: Client, generation: Generation, overlay: Overlay, composite: str = "") -> None:
        """Write through ``client``, whose guard stops a replica that lost the lease.

        ``composite`` is the version of CompositePodGroups, empty if there are none.
        """
        self._client = client
        self._adapter = ADAPTERS[generation]
        self._resources = scheduling_resources(generation, composite=composite)
        self._overlay = overlay

    async def carry_out(self, changes: Sequence[Change], done: list[Change]) -> None:
        """Carry out all changes in order; consecutive ones of one type and kind go together.

        ``done`` gets each that succeeded, also when a later one fails.
        """
        for _, run in groupby(changes, key=lambda change: (type(change), change.kind)):
            batch = list(run)
            for start in range(0, len(batch), CONCURRENT_WRITES):
                part = batch[start : start + CONCURRENT_WRITES]
                # Without cancelling the others at the first error: ``done`` must have every write that succeeded.
                results = await asyncio.gather(*(self._one(change) for change in part), return_exceptions=True)
                done += [change for change, error in zip(part, results, strict=True) if error is None]
                for error in results:
                    if error is not None:
                        raise error

    async def _one(self, change: Change) -> None:
        match change:
            case Create():
                await self._create(change)
            case SetMinCounts():
                resource, observed = self._resources[change.kind], change.observed
                raw = await self._client.json_patch(
                    resource, observed.name, min_count_patch(change), observed.namespace
                )
                self._overlay.wrote(change.kind, self._observe(change.kind, raw))
            case Delete():
                await self._delete(change)

    def _observe(self, kind: Kind, raw: dict[str, Any]) -> Observed:
        return observe(self._adapter, kind, raw)

    async def _create(self, change: Create) -> None:
        resource = self._resources[change.kind]
        wanted = change.wanted
        match wanted:
            case Workload():
                body = self._adapter.workload(wanted)
            case PodGroup():
                body = self._adapter.pod_group(wanted)
            case CompositePodGroup():
                body = scheduling_versions.composite_pod_group(wanted, resource.version)
        try:
            raw = await self._client.create(resource, body, wanted.namespace)
        except AlreadyExistsError:
            raw = await self._existing(change.kind, wanted)
            if self._observe(change.kind, raw).min_counts != self._observe(change.kind, body).min_counts:
                # In the overlay it would pass for what was wanted, and its watch event for no news.
                return
        self._overlay.wrote(change.kind, self._observe(change.kind, raw))

    async def _existing(self, kind: Kind, wanted: Workload | PodGroup | CompositePodGroup) -> dict[str, Any]:
        """The holder of a name that was taken: ours from before a crash, or another owner's."""
        raw = await self._client.get(self._resources[kind], wanted.name, wanted.namespace)
        holder = self._observe(kind, raw)
        if holder.owner_uid != wanted.owner.uid:
            raise OwnershipConflictError(f"{kind} {wanted.namespace}/{wanted.name} exists and has another owner")
        return raw

    async def _delete(self, change: Delete) -> None:
        observed = change.observed
        try:
            await self._client.delete(
                self._resources[change.kind],
                observed.name,
                observed.namespace,
                uid=observed.uid,
                propagation="Background",
            )
        except (NotFoundError, ConflictError):
            # A conflict is the UID precondition: the object is gone, and another one has its name.
            return
        self._overlay.deleted(change.kind, observed)
