"""Leader election on a Lease: at most one replica acts, and one that cannot renew stops before another may start.

A leader may act for ``renew_deadline_seconds`` from the moment it *sent* its last
successful renewal. Another candidate waits for the lease's full duration from the
moment it *saw* that renewal, which is later. Only local, monotonic time is compared,
never the timestamps of another machine.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from gangctl.api.objects import integer_at
from gangctl.client.client import Client
from gangctl.client.pacing import Clock, micro_time
from gangctl.client.resources import LEASES
from gangctl.errors import (
    AlreadyExistsError,
    ApiError,
    ConfigError,
    ConflictError,
    LeadershipLostError,
    NotFoundError,
)
from gangctl.runtime.shards import Share

_log = structlog.get_logger(__name__)


@contextmanager
def unwrapped_leadership_loss() -> Iterator[None]:
    """Wraps a TaskGroup: if its tasks failed with lost leadership alone, raises the first of these errors."""
    try:
        yield
    except BaseExceptionGroup as errors:
        lost: BaseException | None
        lost, others = errors.split(LeadershipLostError)
        # Another error beside it must not be hidden.
        if lost is None or others is not None:
            raise
        while isinstance(lost, BaseExceptionGroup):
            lost = lost.exceptions[0]
        raise lost from None


@dataclass(frozen=True, slots=True)
class ElectionOptions:
    """Times of an election, with the defaults of Kubernetes' own controllers.

    A lease lasts ``lease_seconds`` after the last renewal that others saw. The leader renews every ``retry_seconds``
    and stops acting when that has not succeeded for ``renew_deadline_seconds``. One call takes at most
    ``call_timeout_seconds``.
    """

    lease_seconds: float = 15.0
    renew_deadline_seconds: float = 10.0
    retry_seconds: float = 2.0
    call_timeout_seconds: float = 4.0

    def __post_init__(self) -> None:
        """Reject times under which two replicas could lead at once, or none for long."""
        ordered = self.lease_seconds > self.renew_deadline_seconds > self.retry_seconds > 0
        if not ordered or not 0 < self.call_timeout_seconds < self.renew_deadline_seconds:
            raise ConfigError(
                "leader election: lease, renew deadline and retry period must be in falling order, "
                "and one call must take less than the renew deadline"
            )
        if self.lease_seconds < 1:
            raise ConfigError("leader election: a Lease counts in whole seconds, at least 1")


@dataclass(frozen=True, slots=True)
class SeenLease:
    """A Lease as last read or written, and when its spec was first seen like that, on our clock."""

    lease: dict[str, Any]
    at: float

    @property
    def spec(self) -> dict[str, Any]:
        """Its spec."""
        return self.lease.get("spec") or {}

    @property
    def holder(self) -> str:
        """Who holds it; empty for no one."""
        return str(self.spec.get("holderIdentity") or "")

    def expires(self, default_seconds: float) -> float:
        """When others may take the Lease, on our clock."""
        return self.at + (integer_at(self.spec, "leaseDurationSeconds") or default_seconds)


class LeaseElection:
    """One candidate. ``identity`` must be unique among replicas and over restarts, such as pod name and a random part.

    ``client`` should be one that is not throttled and has no write guard.
    """

    def __init__(
        self,
        client: Client,
        *,
        name: str,
        namespace: str,
        identity: str,
        options: ElectionOptions | None = None,
        on_change: Callable[[bool], None] | None = None,
        clock: Clock | None = None,
        randomness: Callable[[], float] = random.random,
    ) -> None:
        """Do nothing yet; ``on_change`` is called with whether we lead, when that changes."""
        self.identity = identity
        self._client = client
        self._name = name
        self._namespace = namespace
        self._options = options or ElectionOptions()
        self._on_change = on_change or (lambda _: None)
        self._clock = clock or Clock()
        self._randomness = randomness
        self._seen: SeenLease | None = None
        self._stale = True  # whether the Lease may have changed since it was read
        self._leading = False
        self._deadline = 0.0
        self._trouble = ""
        self._log = _log.bind(lease=f"{namespace}/{name}", identity=identity)

    @property
    def is_leader(self) -> bool:
        """Whether this replica may act now."""
        # By the clock, too: where the event loop is blocked, the task that waits for the deadline is late.
        return self._leading and self._clock.now() < self._deadline

    @property
    def holder(self) -> str:
        """The holder of the Lease when it was last read; empty without one."""
        return self._seen.holder if self._seen else ""

    def ensure_leading(self) -> None:
        """Raise :class:`LeadershipLostError` unless this replica may act: the guard of a client's writes."""
        if not self.is_leader:
            raise LeadershipLostError("this replica does not lead, or could not renew its lease in time")

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait until elected, then run ``lead`` for as long as we lead.

        Returns when ``lead`` returns. Raises what ``lead`` raises, or :class:`LeadershipLostError` after ``lead`` was
        cancelled because the lease is lost. The Lease is released in every case in which it is still ours. May be
        called again to become a candidate again.
        """
        while not await self.attempt():
            await self._clock.sleep(self.pause())
        await self.hold(lead)

    async def hold(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Run ``lead`` for as long as we lead, right after an :meth:`attempt` that won; see :meth:`run`."""
        self._change(leading=True)
        try:
            await self._lead(lead)
        finally:
            # Before the release: another candidate may lead as soon as the Lease has no holder.
            self._change(leading=False)
            await self._release()

    def pause(self) -> float:
        """Seconds until the next attempt: at most the remaining lease of a leader that may have died."""
        # Candidates that wait in step would collide again and again.
        pause = self._options.retry_seconds * (1 - 0.2 * self._randomness())
        if self._seen is None or not self._seen.holder:
            return pause
        left = self._seen.expires(self._options.lease_seconds) - self._clock.now()
        return left if 0 < left < pause else pause

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        work = asyncio.ensure_future(lead())
        guards = (
            asyncio.create_task(self._renew(), name="lease-renewals"),
            asyncio.create_task(self._wait_for_deadline(), name="lease-deadline"),
        )
        loss = ""
        try:
            await asyncio.wait((work, *guards), return_when=asyncio.FIRST_COMPLETED)
            # Where both have ended, the result or error of the work counts.
            loss = "" if work.done() else self._loss()
        finally:
            if loss:
                self._change(leading=False)  # at once: the work may take a moment to stop
            # Work that was cancelled still leads until it has stopped, so the renewals end last.
            try:
                await _end(work)
            finally:
                for guard in guards:
                    await _end(guard)
        for guard in guards:
            if not guard.cancelled():
                # An unexpected error of a guard is raised, and not reported as a lost lease.
                guard.result()
        if loss:
            cause = None if work.cancelled() else work.exception()
            raise LeadershipLostError(loss) from cause
        work.result()

    def _loss(self) -> str:
        if self.holder != self.identity:
            return f"the lease {self._namespace}/{self._name} is held by {self.holder or 'no replica'}"
        seconds = self._options.renew_deadline_seconds
        return f"the lease {self._namespace}/{self._name} was not renewed within {seconds:g} s"

    async def _renew(self) -> None:
        """Renew again and again; returns when another candidate holds the Lease."""
        while True:
            await self._clock.sleep(self._options.retry_seconds)
            # After an error only the deadline ends the lead: the API server may answer again in time.
            if not await self.attempt() and self.holder not in {"", self.identity}:
                return

    async def _wait_for_deadline(self) -> None:
        # Again after each sleep: renewals move the deadline meanwhile.
        while (left := self._deadline - self._clock.now()) > 0:
            await self._clock.sleep(left)

    async def attempt(self) -> bool:
        """Take or renew the Lease unless another candidate holds it; return whether we hold it now."""
        try:
            if self._stale:
                await self._read()
            seen = self._seen
            if seen is not None and seen.holder not in {"", self.identity}:
                self._stale = True  # read again next time: its holder will have renewed it
                if self._clock.now() < seen.expires(self._options.lease_seconds):
                    return False
            # Taken before the request: for the others the lease begins when the server has stored it, which is later.
            sent = self._clock.now()
            try:
                await self._write(self.identity, self._options.lease_seconds)
            except asyncio.CancelledError:
                # No one else would: a candidate that ends here does not come to :meth:`hold`.
                if not self._leading:
                    await self._release()
                raise
        except (ConflictError, AlreadyExistsError):
            return False  # another candidate was faster, or our last write did arrive
        except ApiError as error:
            self._note_trouble(error)
            return False
        self._deadline = sent + self._options.renew_deadline_seconds
        self._trouble = ""
        return True

    async def _read(self) -> None:
        try:
            lease = await self._client.get(
                LEASES, self._name, self._namespace, timeout_seconds=self._options.call_timeout_seconds
            )
        except NotFoundError:
            self._seen = None
        else:
            self._note(lease)
        self._stale = False

    async def _write(self, holder: str, seconds: float) -> None:
        """Create or update the Lease, only if it is unchanged since it was last read."""
        now = micro_time(self._clock.wall())
        # An update replaces the object: fields that gangctl does not know stay.
        spec = dict(self._seen.spec) if self._seen else {}
        if self._seen is None or self._seen.holder != holder:
            spec["acquireTime"] = now
            # As in client-go, neither the first holder nor a release is a transition.
            taken = self._seen is not None and bool(holder)
            spec["leaseTransitions"] = integer_at(spec, "leaseTransitions") + (1 if taken else 0)
        # A Lease counts in whole seconds: rounded up, so that no other candidate is early.
        spec |= {"holderIdentity": holder, "leaseDurationSeconds": math.ceil(seconds), "renewTime": now}
        before = self._seen.lease.get("metadata") if self._seen else None
        metadata = {**(before or {}), "name": self._name, "namespace": self._namespace}
        body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}
        write = self._client.update if self._seen else self._client.create
        # Until it is answered: a write that fails or is cancelled may have arrived.
        self._stale = True
        self._note(await write(LEASES, body, timeout_seconds=self._options.call_timeout_seconds))
        self._stale = False

    async def _release(self) -> None:
        """Release the Lease, so that another replica need not wait for it to expire."""
        try:
            if self._stale:
                await self._read()
            if self.holder == self.identity:
                # As client-go releases a Lease: without a holder, for one second.
                await self._write("", 1)
                self._log.info("lease given back")
        except ApiError as error:
            self._log.warning("lease not given back, it will run out", error=error.message)

    def _note(self, lease: dict[str, Any]) -> None:
        before = self._seen
        # A change of metadata alone is no renewal.
        unchanged = before is not None and before.spec == (lease.get("spec") or {})
        self._seen = SeenLease(lease, before.at if before is not None and unchanged else self._clock.now())

    def _change(self, *, leading: bool) -> None:
        if leading != self._leading:
            self._leading = leading
            self._log.info("leading" if leading else "no longer leading")
            self._on_change(leading)

    def _note_trouble(self, error: ApiError) -> None:
        text = f"{type(error).__name__}: {error.message}"
        if text != self._trouble:
            self._trouble = text
            self._log.warning("lease not renewed", error=text, leading=self._leading)


async def _end(task: asyncio.Future[None]) -> None:
    """Cancel a task and wait until it has ended."""
    stopping = task.cancel()
    await asyncio.wait((task,))
    if not stopping or task.cancelled() or (error := task.exception()) is None:
        return
    # The guard stops a pending write: that is intended.
    if not isinstance(error, LeadershipLostError):
        _log.error("failed while stopping", exc_info=error)


class ShardElection:
    """A candidate for the Lease of every shard, in order, until it wins one; then for no other."""

    def __init__(self, elections: Sequence[LeaseElection], share: Share, *, clock: Clock | None = None) -> None:
        """``elections`` has one for each shard, in order; ``share`` is set to the won shard."""
        self._elections = tuple(elections)
        self._share = share
        self._clock = clock or Clock()

    @property
    def total(self) -> int:
        """How many shards there are."""
        return len(self._elections)

    @property
    def is_leader(self) -> bool:
        """Whether this replica may act now, for some shard."""
        return any(election.is_leader for election in self._elections)

    def leads(self, number: int) -> bool:
        """Whether it may act for this shard."""
        return self._elections[number].is_leader

    def ensure_leading(self) -> None:
        """Raise :class:`LeadershipLostError` unless this replica may act: the guard of a client's writes."""
        if not self.is_leader:
            raise LeadershipLostError("this replica leads no shard, or could not renew its lease in time")

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait until elected for a shard, then run ``lead`` for as long as it is led; see :meth:`LeaseElection.run`."""
        number = await self._elected()
        # Before the work begins, which asks for the share.
        self._share.take(number)
        try:
            await self._elections[number].hold(lead)
        finally:
            self._share.release()

    async def _elected(self) -> int:
        """Win one. The first shard must always have a leader, so every candidate tries it first."""
        while True:
            for number, shard in enumerate(self._elections):
                if await shard.attempt():
                    return number
            await self._clock.sleep(min(election.pause() for election in self._elections))
