"""The requests to the server, in order, and faults at chosen ones: "the third write is never answered".

A rule matches requests of one user, counts them in the order in which they arrive, and acts at its turns. Only HTTP is
touched, so simulated controllers and the garbage collector never see a fault.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from aiohttp import web

from gangctl.sandbox import errors, payloads
from gangctl.sandbox.api import Api
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.http import FindUser, Front
from gangctl.sandbox.payloads import HttpAnswer, Target
from gangctl.sandbox.reads import ListResult, selection
from gangctl.sandbox.requests import Caller
from gangctl.sandbox.server import Sandbox, SandboxOptions
from gangctl.sandbox.store import Stored, in_version
from gangctl.sandbox.watches import EventType, StreamOptions, Watch, WatchStream, error_line

KEPT: Final = 100_000
WRITES: Final = frozenset({"create", "update", "patch", "delete"})


@dataclass(frozen=True, slots=True)
class Record:
    """One request: user, verb, object, and the HTTP status of the response (0: none was sent)."""

    user: str
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    dry_run: bool
    code: int
    user_agent: str = ""

    @property
    def is_write(self) -> bool:
        """Whether it is a write."""
        return self.verb in WRITES and not self.dry_run


class Audit:
    """The last requests; ``total`` counts all of them."""

    def __init__(self, kept: int = KEPT) -> None:
        """Keep ``kept`` records."""
        self._records: deque[Record] = deque(maxlen=kept)
        self.total = 0

    def __iter__(self) -> Iterator[Record]:
        return iter(tuple(self._records))

    def __len__(self) -> int:
        return len(self._records)

    def add(self, record: Record) -> None:
        """Record a request."""
        self.total += 1
        self._records.append(record)

    def since(self, total: int) -> list[Record]:
        """The requests after the first ``total``, as far as they are kept."""
        new = min(self.total - total, len(self._records))
        return list(self._records)[len(self._records) - new :] if new > 0 else []

    def by(self, user: str) -> list[Record]:
        """The requests of one user."""
        return [record for record in self._records if record.user == user]

    def writes_by(self, user: str) -> list[Record]:
        """The writes of one user, without dry runs."""
        return [record for record in self._records if record.user == user and record.is_write]


@dataclass(frozen=True, slots=True)
class Match:
    """The requests that a rule counts; None or empty matches everything.

    ``verbs`` are get, list, watch, create, update, patch, delete;
    ``resource`` is ``jobs.batch``, ``subresource`` "" means the object itself.
    """

    user: str
    verbs: frozenset[str] = frozenset()
    resource: str = ""
    subresource: str | None = None
    namespace: str = ""
    name: str = ""
    dry_run: bool | None = None
    where: Callable[[Record], bool] | None = None

    def matches(self, request: Record) -> bool:
        """Whether ``request``, which has no code yet, is counted."""
        return (
            self.user == request.user
            and (not self.verbs or request.verb in self.verbs)
            and self.resource in {"", request.resource}
            and self.subresource in {None, request.subresource}
            and self.namespace in {"", request.namespace}
            and self.name in {"", request.name}
            and self.dry_run in {None, request.dry_run}
            and (self.where is None or self.where(request))
        )


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer with an error instead of doing anything."""

    error: StatusError
    retry_after: int | None = None
    """Seconds, in the header and in the details."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait, on the loop's clock, before anything is done."""

    seconds: float


@dataclass(frozen=True, slots=True)
class CutBefore:
    """Close the connection before anything is done."""


@dataclass(frozen=True, slots=True)
class CutAfter:
    """Execute the request and close the connection without a response.

    On a watch: after ``events`` of them.
    """

    events: int = 0


@dataclass(frozen=True, slots=True)
class EndWatch:
    """End a watch properly after ``events`` of them, as a timeout does."""

    events: int = 0


@dataclass(frozen=True, slots=True)
class ExpireWatch:
    """Send ERROR 410 on a watch after ``events`` of them, and end it. Any other request is refused with 410."""

    events: int = 0


@dataclass(frozen=True, slots=True)
class Silence:
    """Send nothing more on a watch after ``events`` of them, and leave it open, as with a lost peer.

    Any other request gets no response.
    """

    events: int = 0


@dataclass(frozen=True, slots=True)
class Stale:
    """Answer a get or list from ``behind`` revisions ago, as a lagging cache does."""

    behind: int = 1


Action = Refuse | Delay | CutBefore | CutAfter | EndWatch | ExpireWatch | Silence | Stale


def error(code: int = 500, reason: str = "InternalError", message: str = "Internal error occurred: fault") -> Refuse:
    """Answer with this Status."""
    return Refuse(StatusError(code, reason, message))


def conflict() -> Refuse:
    """409, as after a write by another client."""
    return Refuse(StatusError(409, "Conflict", f"Operation cannot be fulfilled: {errors.OBJECT_MODIFIED}"))


def gone() -> Refuse:
    """410 as an HTTP status, as for a list continued too late."""
    return Refuse(errors.expired(errors.CONTINUE_EXPIRED_MESSAGE))


def throttle(retry_after: int = 1) -> Refuse:
    """429 with ``Retry-After`` in seconds."""
    message = "Too many requests, please try again later."
    return Refuse(StatusError(429, "TooManyRequests", message, {"retryAfterSeconds": retry_after}), retry_after)


@dataclass(slots=True)
class Rule:
    """Act at the ``first`` request that matches, and at the ``times - 1`` after it; ``seen`` and ``fired`` count."""

    match: Match
    action: Action
    first: int = 1
    times: int = 1
    seen: int = field(default=0, init=False)
    fired: int = field(default=0, init=False)


class Faults:
    """The rules of a server; the first one added that acts at a request is the one that does."""

    def __init__(self) -> None:
        """Begin without rules."""
        self.rules: list[Rule] = []

    def add(self, match: Match, action: Action, *, first: int = 1, times: int = 1) -> Rule:
        """Act from the ``first`` (from 1) matching request from now on, ``times`` times."""
        rule = Rule(match, action, first, times)
        self.rules.append(rule)
        return rule

    def count(self, match: Match) -> Rule:
        """Only count what matches."""
        return self.add(match, Delay(0), times=0)

    def clear(self) -> None:
        """Remove every rule."""
        self.rules.clear()

    def meet(self, request: Record) -> Action | None:
        """Count a new request; returns the fault to apply."""
        chosen: Rule | None = None
        for rule in self.rules:
            if not rule.match.matches(request):
                continue
            rule.seen += 1
            if chosen is None and rule.first <= rule.seen < rule.first + rule.times:
                chosen = rule
        if chosen is None:
            return None
        chosen.fired += 1
        return chosen.action


_OK: Final = 200
_CUT_SECONDS: Final = 0.02
_BrokenWatch = CutAfter | EndWatch | ExpireWatch | Silence


def _cut(request: web.BaseRequest) -> None:
    """Close the connection in the middle of a response."""
    if request.transport is not None:
        request.transport.close()


class _FaultyStream(WatchStream):
    """A watch that breaks after some events."""

    def __init__(self, request: web.BaseRequest, watch: Watch, options: StreamOptions, fault: _BrokenWatch) -> None:
        super().__init__(request, watch, options)
        self._fault = fault
        self._left = fault.events

    async def send(self, response: web.StreamResponse, events: list[tuple[EventType, Stored]]) -> bool:
        if len(events) < self._left:
            self._left -= len(events)
            return await super().send(response, events)
        await super().send(response, events[: self._left])
        match self._fault:
            case CutAfter():
                # A client may lose unread data at a disconnect; the count is of received events.
                await asyncio.sleep(_CUT_SECONDS)
                _cut(self._request)
                await asyncio.get_running_loop().create_future()
            case Silence():
                await asyncio.get_running_loop().create_future()
            case ExpireWatch():
                await response.write(error_line(errors.expired()))
        await response.write_eof()
        return False


class _FaultyFront(Front):
    """Records requests, and applies the faults of rules."""

    def __init__(self, api: Api, find_user: FindUser, faults: Faults, audit: Audit) -> None:
        super().__init__(api, find_user)
        self._faults = faults
        self._audit = audit

    async def exchange(self, request: web.BaseRequest, caller: Caller, target: Target) -> web.StreamResponse:
        watching = target.verb == "list" and payloads.flag(request.query, "watch")
        record = Record(
            user=caller.name,
            verb="watch" if watching else target.verb,
            resource=target.kind.qualified_name,
            subresource=target.subresource,
            namespace=target.namespace or "",
            name=target.name,
            dry_run="dryRun" in request.query,
            code=0,
            user_agent=caller.user_agent,
        )
        # Requests are counted in the order in which they arrive, before anything is awaited.
        fault = self._faults.meet(record)
        try:
            answered = await self._answered(request, caller, target, record, fault)
        except StatusError as error:
            answered = payloads.of_error(error).response()
        if record.verb != "watch" or answered.status != _OK:
            self._audit.add(replace(record, code=answered.status))
        return answered

    async def _answered(
        self, request: web.BaseRequest, caller: Caller, target: Target, record: Record, fault: Action | None
    ) -> web.StreamResponse:
        watching = record.verb == "watch"
        match fault:
            case CutBefore() | Silence() if not watching or isinstance(fault, CutBefore):
                await self._never(request, record, cut=isinstance(fault, CutBefore))
            case Delay(seconds=seconds):
                await asyncio.sleep(seconds)
            case Refuse(error=refused, retry_after=seconds):
                refusal = payloads.of_error(refused).response()
                if seconds is not None:
                    refusal.headers["Retry-After"] = str(seconds)
                return refusal
            case ExpireWatch() if not watching:
                raise errors.expired(errors.CONTINUE_EXPIRED_MESSAGE)
            case Stale(behind=behind) if target.verb in {"get", "list"} and not watching:
                return self._stale(request, target, max(1, self._api.store.revision - behind)).response()
        if watching:
            return await self._watched(request, target, record, fault)
        answer = await super().exchange(request, caller, target)
        if isinstance(fault, CutAfter):
            await self._never(request, record, cut=True)
        return answer

    async def _never(self, request: web.BaseRequest, record: Record, *, cut: bool) -> None:
        """Send no response; ends by cancellation when the connection is closed."""
        self._audit.add(record)
        if cut:
            _cut(request)
        await asyncio.get_running_loop().create_future()

    async def _watched(
        self, request: web.BaseRequest, target: Target, record: Record, fault: Action | None
    ) -> web.StreamResponse:
        """A watch is recorded at its start: it may never end."""
        begun = False

        def begin(request: web.BaseRequest, watch: Watch, options: StreamOptions) -> WatchStream:
            nonlocal begun
            begun = True
            self._audit.add(replace(record, code=_OK))
            if isinstance(fault, _BrokenWatch):
                return _FaultyStream(request, watch, options, fault)
            return WatchStream(request, watch, options)

        answered = await self.watch(request, target, begin)
        if not begun:  # its revision is too old: an event says so
            self._audit.add(replace(record, code=_OK))
        return answered

    def _stale(self, request: web.BaseRequest, target: Target, revision: int) -> HttpAnswer:
        """A get or list at ``revision``, ignoring the requested one: the response of a lagging watch cache."""
        store, kind = self._api.store, target.kind
        if target.verb == "get":
            stored = store.bucket(kind.storage).at(revision).get((target.namespace or "", target.name))
            if stored is None:
                raise errors.not_found(kind, target.name)
            return HttpAnswer(_OK, in_version(kind, stored).json)
        query = payloads.list_query(request.query)
        chosen = selection(kind, query.labels, query.fields)
        items = [in_version(kind, stored) for stored in store.items(kind.storage, target.namespace, revision)]
        return payloads.of_page(kind, ListResult([stored for stored in items if chosen.matches(stored.obj)], revision))


class FaultySandbox(Sandbox):
    """A sandbox that records requests in ``audit``, and applies ``faults``."""

    def __init__(self, options: SandboxOptions | None = None) -> None:
        self.audit: Final = Audit()
        self.faults: Final = Faults()
        super().__init__(options)

    def _make_front(self, find_user: FindUser) -> Front:
        return _FaultyFront(self.api, find_user, self.faults, self.audit)
