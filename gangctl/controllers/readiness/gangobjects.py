"""The Gang object of each followed JobSet: its status reports the JobSet's readiness.

Only differences are written: the cluster's objects are the memory, so a restarted gangctl writes nothing that is
already there. There may be 10,000 of them with hundreds of groups each, so of an object only its owner is kept, and
enough of its status to detect a difference. Of changes in quick succession the last one is written. An object is
deleted with its owner, the JobSet; gangctl itself deletes one only when an existing JobSet no longer asks for a gang.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import structlog

from gangctl.api.jobset import JobSet
from gangctl.api.meta import API_VERSION, JOBSET_GROUP
from gangctl.api.objects import Key, condition_of
from gangctl.api.scheduling import Owner, metadata
from gangctl.client.pacing import Clock
from gangctl.client.resources import Resource
from gangctl.controllers.readiness.controller import ReadinessObserver
from gangctl.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    OwnershipConflictError,
)
from gangctl.readiness.report import KIND, gang_status
from gangctl.readiness.result import Readiness
from gangctl.runtime.controller import Action, await_change, default_error_policy, requeue
from gangctl.runtime.controller import retry as again
from gangctl.runtime.election import unwrapped_leadership_loss
from gangctl.runtime.informer import Informer
from gangctl.runtime.manager import Manager

PLURAL: Final = "gangs"
_GROUP, _, _VERSION = API_VERSION.partition("/")
GANGS: Final = Resource(_GROUP, _VERSION, PLURAL, KIND)

_DIGEST_BYTES: Final = 16
_MOMENTS: Final = frozenset({"since", "lastTransitionTime"})
"""A difference in these fields alone is not written: after a restart, some hold the time of gangctl's first check."""


@dataclass(frozen=True, slots=True)
class GangCopy:
    """A Gang object as the API server has it, or as gangctl's last write left it."""

    uid: str
    version: int
    """Its resourceVersion, which grows; 0 for one that is not a number."""
    owner: str
    """UID of its controller, empty without one."""
    of_jobset: bool
    """Whether its controller is a JobSet of its own name."""
    gist: tuple[str, str]
    """Phase and ready pods."""
    digest: bytes
    """Digest of its status, see :func:`digest`."""
    condition: tuple[str, str]
    """Status of its condition Ready, and since when."""


def project_gang(raw: dict[str, Any]) -> GangCopy:
    """Read a Gang object; a status of another shape matters only as different."""
    metadata = raw["metadata"]
    references = metadata.get("ownerReferences") or []
    owner: Mapping[str, Any] = next((reference for reference in references if reference.get("controller")), {})
    status = raw.get("status")
    status = status if isinstance(status, dict) else {}
    version, ready = str(metadata.get("resourceVersion", "")), condition_of(raw, "Ready")
    return GangCopy(
        uid=str(metadata.get("uid", "")),
        version=int(version) if version.isdigit() else 0,
        owner=str(owner.get("uid", "")),
        of_jobset=(_kind(owner), owner.get("name")) == ((JOBSET_GROUP, "JobSet"), metadata["name"]),
        gist=(str(status.get("phase", "")), str(status.get("ready", ""))),
        digest=digest(status),
        condition=(str(ready.get("status", "")), str(ready.get("lastTransitionTime", ""))),
    )


def status_after(status: dict[str, Any], before: GangCopy) -> dict[str, Any]:
    """The status with the stored transition time of Ready, where Ready is unchanged."""
    (ready,) = status["conditions"]
    if before.condition[0] != ready["status"] or not before.condition[1]:
        return status
    return {**status, "conditions": [{**ready, "lastTransitionTime": before.condition[1]}]}


def digest(status: Mapping[str, Any]) -> bytes:
    """Equal for statuses with equal content."""
    text = json.dumps(_timeless(status), sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest()


def gist(readiness: Readiness) -> tuple[str, str]:
    """The fields whose changes are written soon: phase and ready pods, as a copy has them."""
    return readiness.phase.value, f"{readiness.counts.ready}/{readiness.counts.wanted}"


def _timeless(value: Any) -> Any:
    if isinstance(value, list):
        return [_timeless(item) for item in value]
    if isinstance(value, dict):
        return {key: _timeless(entry) for key, entry in value.items() if key not in _MOMENTS}
    return value


def _kind(owner: Mapping[str, Any]) -> tuple[str, str]:
    return str(owner.get("apiVersion", "")).partition("/")[0], str(owner.get("kind", ""))


NAME: Final = "gangobjects"
CHANGE_SECONDS: Final = 1.0
"""The least time between two writes of one object."""
DETAIL_SECONDS: Final = 10.0
"""The same where neither phase nor ready pods have changed."""
REFUSED_SECONDS: Final = 10.0
WORKERS: Final = 8
"""Few, so that creates of JobSets do not wait: with 32 they took twice as long, and Gangs were current no sooner."""

_log = structlog.get_logger(__name__)


class GangObjects(ReadinessObserver):
    """Writes the readiness that it is notified of; :meth:`run` does, on the leader."""

    def __init__(
        self, manager: Manager, *, jobset: Callable[[Key], JobSet | None], follows: Callable[[JobSet], bool]
    ) -> None:
        """Do nothing yet.

        ``jobset`` finds an existing JobSet in the cache; ``follows`` returns whether it has a Gang.
        """
        self._writer = manager.writer
        self._jobset = jobset
        self._follows = follows
        self._clock = Clock()
        self._wanted: dict[Key, Readiness] = {}
        self._own: dict[Key, GangCopy] = {}
        """Own writes that the informer has not shown yet."""
        self._written: dict[Key, float] = {}
        """When each was last written, in seconds of the clock."""
        self._foreign: dict[Key, str] = {}
        """UIDs of objects of other owners that were reported."""
        self._refusal = ""
        self.informer: Informer[tuple[Key, GangCopy]] = Informer(
            manager.reader,
            GANGS,
            manager.share.within(_project),
            on_absent=self._absent,
            on_synced=self._check_all,
            observer=manager.metrics.informer_observer(GANGS),
            clock=self._clock,
        )
        self.informer.subscribe(self._seen)
        # Refusals are handled in ``_reconcile``. What is left, such as a foreign object, waits for a change.
        self._controller = manager.controller(
            NAME, self._reconcile, WORKERS, admits=manager.share.admits, error_policy=default_error_policy
        )

    def on_status_change(self, before: Readiness | None, now: Readiness | None) -> None:
        """Schedule the write."""
        if now is not None:
            self._wanted[now.key] = now
            self._controller.enqueue(now.key)
        elif before is not None:
            self._wanted.pop(before.key, None)
            self._controller.enqueue(before.key)

    def jobset_changed(self, key: Key) -> None:
        """Handle a change of a JobSet: it may no longer be one that has a Gang."""
        if key not in self._wanted and key in self.informer.store:
            self._controller.enqueue(key)

    async def run(self) -> None:
        """Follow the objects and write them until cancelled; then forget everything. On the leader only."""
        try:
            with unwrapped_leadership_loss():
                async with asyncio.TaskGroup() as group:
                    group.create_task(self.informer.run(), name="gangs")
                    group.create_task(self._controller.run(), name=NAME)
        finally:
            self.informer.forget()
            for records in (self._wanted, self._own, self._written, self._foreign):
                records.clear()

    def _absent(self) -> None:
        _log.warning(
            "no Gang objects: the cluster does not have their definition",
            hint="kubectl apply -k manifests/gang-objects/crds",
        )

    def _check_all(self) -> None:
        # Also those that are not wanted: what was seen on an earlier page of the list was not handled yet.
        for key in (*self._wanted, *self.informer.store.keys()):
            self._controller.enqueue(key)

    def _seen(self, old: tuple[Key, GangCopy] | None, new: tuple[Key, GangCopy] | None) -> None:
        """Check what another client may have changed; own writes of a deleted one no longer count."""
        seen = new or old
        if seen is None:
            return
        key, copy = seen
        own = self._own.get(key)
        if own is not None and (own.uid == copy.uid if new is None else own.version <= copy.version):
            del self._own[key]
        self._controller.enqueue(key)

    def _current(self, key: Key) -> GangCopy | None:
        """The object as cached, or as our last write left it if that is newer."""
        cached = self.informer.store.get(*key)
        return self._own.get(key) or (cached[1] if cached is not None else None)

    async def _reconcile(self, key: Key) -> Action:
        if not self.informer.synced.is_set():
            # The informer reports when it is synced, and then everything is checked.
            return await_change()
        wanted, current = self._wanted.get(key), self._current(key)
        try:
            return await (self._withdraw(key, current) if wanted is None else self._bring(key, wanted, current))
        except (AlreadyExistsError, ConflictError, NotFoundError):
            # Another client wrote first, and the informer has not shown it yet.
            self._own.pop(key, None)
            return again()
        except (ForbiddenError, InvalidError) as error:
            return self._report_refused(key, error)

    async def _bring(self, key: Key, wanted: Readiness, current: GangCopy | None) -> Action:
        """Write what is known to the object, unless it was written a moment ago."""
        if current is not None and current.owner != wanted.uid:
            if self._own.pop(key, None) is not None:
                # It was written for an earlier JobSet, and the watch may have missed its deletion.
                return again()
            return self._report_foreign(key, current)
        status = gang_status(wanted)
        if current is not None and digest(status) == current.digest:
            return await_change()
        if (wait := self._wait(key, wanted, current)) > 0:
            return requeue(wait)
        await self._apply(key, wanted, current, status)
        return await_change()

    def _wait(self, key: Key, wanted: Readiness, current: GangCopy | None) -> float:
        """Seconds until the object may be written again; details may wait longer."""
        pause = DETAIL_SECONDS if current is not None and gist(wanted) == current.gist else CHANGE_SECONDS
        return self._written.get(key, -math.inf) + pause - self._clock.now()

    async def _apply(self, key: Key, wanted: Readiness, current: GangCopy | None, status: dict[str, Any]) -> None:
        # Before the write: retries of a refused one keep the pace, too.
        self._written[key] = self._clock.now()
        namespace, name = key
        if current is None:
            # Without status: it is a subresource, and the API server drops it from a create.
            owned = metadata(namespace, name, Owner(name, wanted.uid))
            body = {"apiVersion": GANGS.api_version, "kind": GANGS.kind, "metadata": owned}
            current = self._wrote(key, await self._writer.create(GANGS, body, namespace))
        patch = {
            # Never over another client's write, and never into another object of the same name.
            "metadata": {"resourceVersion": str(current.version)},
            "status": status_after(status, current),
        }
        self._wrote(key, await self._writer.merge_patch(GANGS, name, patch, namespace, subresource="status"))
        self._refusal = ""

    async def _withdraw(self, key: Key, current: GangCopy | None) -> Action:
        """Delete the object of an existing JobSet that is not followed."""
        for records in (self._written, self._foreign):
            records.pop(key, None)
        jobset = self._jobset(key)
        if current is None or jobset is None or jobset.uid != current.owner or self._follows(jobset):
            return await_change()
        namespace, name = key
        # By UID: meanwhile the name may be that of another client's object.
        await self._writer.delete(GANGS, name, namespace, uid=current.uid)
        return await_change()

    def _wrote(self, key: Key, raw: dict[str, Any]) -> GangCopy:
        copy = project_gang(raw)
        cached = self.informer.store.get(*key)
        # The watch event may have arrived before the response.
        if cached is None or cached[1].version < copy.version:
            self._own[key] = copy
        return copy

    def _report_foreign(self, key: Key, current: GangCopy) -> Action:
        """Report another owner's object once and leave it alone; one of an earlier JobSet is being deleted."""
        if current.of_jobset or self._foreign.get(key) == current.uid:
            return await_change()
        self._foreign[key] = current.uid
        namespace, name = key
        raise OwnershipConflictError(
            f"Gang {namespace}/{name} is not owned by the JobSet of its name, so it is left alone: "
            "delete it, and gangctl writes its own"
        )

    def _report_refused(self, key: Key, error: ApiError) -> Action:
        """Report once why no object can be written, and retry."""
        if error.namespace_terminating:
            return await_change()
        refusal = f"{error.status} {error.reason}"
        if refusal != self._refusal:
            self._refusal = refusal
            _log.warning("Gang objects cannot be written", namespace=key[0], name=key[1], error=str(error))
        return again(REFUSED_SECONDS)


def _project(raw: dict[str, Any]) -> tuple[Key, GangCopy]:
    metadata = raw["metadata"]
    return (metadata["namespace"], metadata["name"]), project_gang(raw)
