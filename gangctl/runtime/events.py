"""Records Kubernetes Events without ever blocking the caller.

An event's name is derived from its content, so that the same text about the same object is written once, across
replicas and restarts.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

import structlog

from gangctl.client.client import Client
from gangctl.client.pacing import Backoff, Clock, micro_time
from gangctl.client.resources import EVENTS
from gangctl.errors import AlreadyExistsError, ApiError, NotFoundError, is_transient

EventType = Literal["Normal", "Warning"]

RESULTS: Final = ("created", "existing", "dropped", "refused", "unwelcome")
"""Results of events; an event is unwelcome where its namespace is terminating."""

KEPT_SECONDS: Final = 3600.0
"""API servers keep an event for so long (``--event-ttl``)."""
REPEAT_SECONDS: Final = 600.0
"""What lasts is recorded again so often; what API servers still have is not written twice."""

# Limits of events.k8s.io/v1 (pkg/apis/core/validation/events.go).
NOTE_BYTES = 1024
_WORD_LENGTH = 128
# An object's name may have 253 characters, and so may the event's, which ends in a hash.
_NAME_PREFIX_LENGTH = 200

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """The object an event is about; ``namespace`` is empty for cluster-scoped ones."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str

    def as_dict(self) -> dict[str, str]:
        """Return it as the API writes it."""
        pairs = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }
        return {key: value for key, value in pairs.items() if value}


@dataclass(frozen=True, slots=True)
class Event:
    """One event about an object: ``reason`` and ``action`` are single words, ``note`` is for users."""

    regarding: ObjectReference
    reason: str
    note: str
    action: str
    type: EventType = "Normal"

    @property
    def name(self) -> str:
        """The name that all recorders give this event: part of the object's, and a hash of the content."""
        # With the UID: an object that is created again gets its own events.
        sent_at = f"{self.regarding.uid}\n{self.reason}\n{self.note}"
        digest = hashlib.sha256(sent_at.encode("utf-8", "replace")).hexdigest()[:16]
        return f"{self.regarding.name[:_NAME_PREFIX_LENGTH].rstrip('.-')}.{digest}"

    @property
    def namespace(self) -> str:
        """Where it is written: beside its object, or in ``default`` for cluster-scoped ones."""
        return self.regarding.namespace or "default"


@dataclass(frozen=True, slots=True)
class RecorderOptions:
    """Limits of a recorder.

    At most ``queue_size`` events wait to be written, more are dropped. An event that was created in the last
    ``remember_seconds`` is not sent again, for up to ``remember`` events. A write is tried ``attempts`` times.
    """

    queue_size: int = 1000
    remember: int = 10_000
    remember_seconds: float = KEPT_SECONDS
    attempts: int = 5


class EventRecorder:
    """Writes events in :meth:`run`, which the caller runs in a task."""

    def __init__(
        self,
        client: Client,
        *,
        instance: str,
        options: RecorderOptions | None = None,
        recorded: Callable[[str], None] = lambda _: None,
        clock: Clock | None = None,
    ) -> None:
        """``instance`` is this replica; ``recorded`` is called with each of :data:`RESULTS`."""
        self._client = client
        self._instance = instance[:_WORD_LENGTH]
        self._options = options or RecorderOptions()
        self._recorded = recorded
        self._clock = clock or Clock()
        self._queue: asyncio.Queue[Event] = asyncio.Queue(self._options.queue_size)
        self._reported: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._dropping = False

    def record(self, event: Event) -> None:
        """Queue one event; never waits, never fails."""
        if not self._is_news(event):
            return
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            # Forgotten, so that the next record of the same event is not taken for a repetition.
            self._reported.pop((event.namespace, event.name), None)
            self._recorded("dropped")
            if not self._dropping:
                self._dropping = True
                _log.warning("too many events wait, new ones are dropped", waiting=self._queue.qsize())
        else:
            # Otherwise a writer that takes one event at a time would log this for each free slot.
            self._dropping = self._dropping and self._queue.qsize() > self._options.queue_size // 2

    async def run(self) -> None:
        """Write events until cancelled."""
        while True:
            event = await self._queue.get()
            try:
                await self._write(event)
            except Exception as error:  # noqa: BLE001 -- one invalid event must not block all later ones
                self._recorded("refused")
                _log.error("event not written", regarding=event.regarding.name, reason=event.reason, exc_info=error)
            finally:
                self._queue.task_done()

    async def drain(self) -> None:
        """Wait until everything recorded so far is written or dropped; :meth:`run` must be running."""
        await self._queue.join()

    def _is_news(self, event: Event) -> bool:
        """Whether to write the event now; remembers that it was."""
        key, now = (event.namespace, event.name), self._clock.now()
        sent_at = self._reported.get(key)
        if sent_at is not None and now - sent_at < self._options.remember_seconds:
            return False
        self._reported[key] = now
        self._reported.move_to_end(key)
        while len(self._reported) > self._options.remember:
            self._reported.popitem(last=False)
        return True

    async def _write(self, event: Event) -> None:
        backoff = Backoff(0.5, 10.0)
        for attempt in range(1, self._options.attempts + 1):
            try:
                self._recorded(await self._write_once(event))
            except ApiError as error:
                result = self._evaluate(event, error, last=attempt == self._options.attempts)
                if result:
                    self._recorded(result)
                    return
                delay = (error.retry_after or 0.0) + backoff.next()
            else:
                return
            await self._clock.sleep(delay)

    async def _write_once(self, event: Event) -> str:
        try:
            await self._client.create(EVENTS, self._body(event), event.namespace)
        except AlreadyExistsError:
            # Another replica's, of an unknown age: it may expire at any time, and then the next one is news.
            self._reported.pop((event.namespace, event.name), None)
            return "existing"
        return "created"

    def _evaluate(self, event: Event, error: ApiError, *, last: bool) -> str:
        """The result of a failed write, empty to try again; events are worth only a few tries."""
        if error.namespace_terminating or isinstance(error, NotFoundError):
            # The namespace is gone or terminating: no one will read the event.
            return "unwelcome"
        if is_transient(error) and not last:
            return ""
        # It is not written, so that the next record of it is news.
        self._reported.pop((event.namespace, event.name), None)
        _log.warning(
            "event not written",
            namespace=event.namespace,
            regarding=f"{event.regarding.kind}/{event.regarding.name}",
            reason=event.reason,
            error=error.message,
        )
        return "refused"

    def _body(self, event: Event) -> dict[str, Any]:
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": event.name, "namespace": event.namespace},
            "eventTime": micro_time(self._clock.wall()),
            # The API server takes qualified names only.
            "reportingController": "gangctl.dev/gangctl",
            "reportingInstance": self._instance,
            "action": event.action[:_WORD_LENGTH],
            "reason": event.reason[:_WORD_LENGTH],
            "regarding": event.regarding.as_dict(),
            "note": truncate(event.note),
            "type": event.type,
        }


def truncate(note: str, limit: int = NOTE_BYTES) -> str:
    """Cut ``note`` to ``limit`` bytes of UTF-8, between characters, with an ellipsis where it was cut."""
    encoded = note.encode("utf-8", "replace")
    if len(encoded) <= limit:
        return encoded.decode()
    return encoded[: limit - len("…".encode())].decode("utf-8", "ignore") + "…"
