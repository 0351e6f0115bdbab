from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from gangctl.client.client import Client, Settings
from gangctl.client.responses import Response
from gangctl.client.transport import Request, Transport
from gangctl.errors import (
    AlreadyExistsError,
    ConfigError,
    ConflictError,
    ForbiddenError,
    LeadershipLostError,
    NotFoundError,
    UnavailableError,
)
from gangctl.runtime.election import ElectionOptions, LeaseElection
from tests.client.clock import VirtualClock
from tests.rows import each

PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"


class LeaseServer(Transport):
    """Keeps one Lease in memory, as an API server would, and fails on command."""

    def __init__(self) -> None:
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.requests: list[tuple[str, str]] = []
        self.hanging = False
        self.loses_answers = 0
        self.silent_writes = 0
        self.failure: Exception | None = None

    async def send(self, request: Request, *, throttled: bool = True, guard: object = None) -> Response:
        assert not throttled
        assert guard is None, "whoever does not lead must be able to take the Lease"
        assert request.timeout_seconds == 4
        self.requests.append((request.method, request.path))
        if self.hanging:
            await asyncio.Event().wait()
        if self.failure is not None:
            raise self.failure
        answer = self._serve(request)
        if self.silent_writes and request.method != "GET":
            self.silent_writes -= 1
            await asyncio.Event().wait()
        if self.loses_answers and request.method != "GET":
            self.loses_answers -= 1
            raise UnavailableError(0, "ConnectionLost", "the answer was lost")
        return Response(200, orjson.dumps(answer))

    def _serve(self, request: Request) -> dict[str, Any]:
        if request.method == "POST":
            if self.lease is not None:
                raise AlreadyExistsError(409, "AlreadyExists", "exists")
            return self.store(request.body)
        if self.lease is None:
            raise NotFoundError(404, "NotFound", "no lease")
        if request.method == "PUT":
            if request.body["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                raise ConflictError(409, "Conflict", "changed")
            return self.store(request.body)
        return self.lease

    def store(self, lease: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        self.lease = copy.deepcopy(lease)
        self.lease["metadata"]["resourceVersion"] = str(self.version)
        return self.lease

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec = self.lease["spec"]
        assert isinstance(spec, dict)
        return spec

    @property
    def holder(self) -> str:
        return str(self.spec.get("holderIdentity") or "") if self.lease else ""


class Candidate:
    """An election whose work waits until the test finishes it."""

    def __init__(self, server: LeaseServer, identity: str, clock: VirtualClock) -> None:
        self.clock = clock
        self.leading: list[bool] = []
        self.began = 0
        self.finish: asyncio.Event = asyncio.Event()
        self.stubborn: asyncio.Event | None = None
        self.outcome: Exception | None = None
        self.election = LeaseElection(
            Client(server, Settings(throttled=False)),
            name="gangctl",
            namespace="ns",
            identity=identity,
            on_change=self.leading.append,
            clock=clock,
            randomness=lambda: 0.0,
        )
        self.task = asyncio.create_task(self.election.run(self.work))

    def leads(self) -> bool:
        return self.election.is_leader

    async def work(self) -> None:
        self.began += 1
        assert self.leads()
        try:
            await self.finish.wait()
        except asyncio.CancelledError:
            if self.stubborn is not None:
                await self.stubborn.wait()
            raise
        if self.outcome is not None:
            raise self.outcome


class Context:
    def __init__(self, clock: VirtualClock) -> None:
        self.server = LeaseServer()
        self.clock = clock
        self.candidates: list[Candidate] = []

    def enter(self, identity: str, clock: VirtualClock | None = None) -> Candidate:
        candidate = Candidate(self.server, identity, clock or self.clock)
        self.candidates.append(candidate)
        return candidate

    async def empty(self) -> None:
        self.server.hanging = False
        for candidate in self.candidates:
            candidate.task.cancel()
        await asyncio.gather(*(candidate.task for candidate in self.candidates), return_exceptions=True)


@pytest.fixture
async def context(clock: VirtualClock) -> AsyncIterator[Context]:
    context = Context(clock)
    yield context
    await context.empty()


async def test_the_first_candidate_creates_the_lease_and_renews_it(context: Context, clock: VirtualClock) -> None:
    a = context.enter("a")
    await clock.advance(0)
    assert a.leads()
    assert a.leading == [True]
    assert context.server.spec == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 0,
    }
    await clock.advance(60)
    assert a.leads()
    assert context.server.spec["renewTime"] == "2026-01-01T00:01:00.000000Z"
    assert context.server.spec["acquireTime"] == "2026-01-01T00:00:00.000000Z"
    assert context.server.spec["leaseTransitions"] == 0
    # One read, one create and a renewal every two seconds, without further reads.
    assert len(context.server.requests) == 2 + 30


async def test_a_standby_takes_over_when_renewals_stop(context: Context, clock: VirtualClock) -> None:
    elsewhere = VirtualClock()
    a = context.enter("a", elsewhere)
    await elsewhere.advance(0)
    b = context.enter("b")
    for _ in range(30):
        await clock.advance(1)
        await elsewhere.advance(1)
    assert not b.leads()
    assert b.election.holder == "a"
    # The process of a freezes; b sees its last renewal at most 2 s later and checks every 2 s.
    await clock.advance(12.9)
    assert b.began == 0
    await clock.advance(6.2)
    assert b.leads()
    assert context.server.spec["holderIdentity"] == "b"
    assert context.server.spec["leaseTransitions"] == 1
    # Woken again, a finds itself deposed before its work can ask whether it leads.
    elsewhere.tick(60)
    assert not a.leads()
    with pytest.raises(LeadershipLostError):
        a.election.ensure_leading()
    with pytest.raises(LeadershipLostError):
        await a.task
    assert context.server.holder == "b"


async def test_a_released_lease_is_acquired_at_once(context: Context, clock: VirtualClock) -> None:
    a = context.enter("a")
    await clock.advance(0)
    b = context.enter("b")
    await clock.advance(5)
    a.finish.set()
    await a.task
    assert a.leading == [True, False]
    assert context.server.holder == ""
    await clock.advance(2)
    assert b.leads()
    assert context.server.spec["leaseTransitions"] == 1
    assert context.server.spec["leaseDurationSeconds"] == 15


async def test_a_server_that_hangs_ends_leadership_at_the_deadline(context: Context, clock: VirtualClock) -> None:
    a = context.enter("a")
    await clock.advance(7)  # renewed at 0, 2, 4, 6
    context.server.hanging = True
    await clock.advance(8.9)
    assert a.leads()
    clock.tick(0.2)
    assert not a.leads()
    context.server.hanging = False
    with pytest.raises(LeadershipLostError, match="not renewed within 10 s"):
        await a.task
    assert a.leading == [True, False]


async def test_failing_renewals_are_repeated_until_the_deadline(context: Context, clock: VirtualClock) -> None:
    a = context.enter("a")
    await clock.advance(1)
    context.server.failure = UnavailableError(0, "ConnectFailed", "refused")
    await clock.advance(6.5)
    assert a.leads()
    context.server.failure = None
    await clock.advance(20)
    assert a.leads()
    assert a.began == 1


async def test_a_former_leader_can_lead_again(context: Context, clock: VirtualClock) -> None:
    a = context.enter("a")
    await clock.advance(1)
    context.server.failure = UnavailableError(0, "ConnectFailed", "refused")
    await clock.advance(12)
    with pytest.raises(LeadershipLostError):
        await a.task
    a.task = asyncio.create_task(a.election.run(a.work))
    await clock.advance(10)
    assert a.began == 1
    context.server.failure = None
    await clock.advance(2)
    assert a.leads()
    assert a.leading == [True, False, True]
    assert context.server.spec["leaseTransitions"] == 0


async def test_a_crash_of_the_work_releases_the_lease_and_is_raised(context: Context, clock: VirtualClock) -> None:
    a = context.enter("a")
    await clock.advance(3)
    a.outcome = ZeroDivisionError("bug")
    a.finish.set()
    with pytest.raises(ZeroDivisionError):
        await a.task
    assert context.server.holder == ""
    assert a.leading == [True, False]
    count = len(context.server.requests)
    await clock.advance(60)
    assert len(context.server.requests) == count


async def test_a_lease_taken_by_another_ends_leadership_at_the_next_renewal(
    context: Context, clock: VirtualClock
) -> None:
    a = context.enter("a")
    await clock.advance(1)
    assert context.server.lease is not None
    stolen = copy.deepcopy(context.server.lease)
    stolen["spec"]["holderIdentity"] = "thief"
    context.server.store(stolen)
    await clock.advance(3.5)
    with pytest.raises(LeadershipLostError, match="held by thief"):
        await a.task
    assert context.server.holder == "thief"


async def test_timestamps_of_other_holders_are_ignored(context: Context, clock: VirtualClock) -> None:
    for moment in ("1999-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z", "nonsense"):
        spec = {"holderIdentity": "x", "leaseDurationSeconds": 5, "renewTime": moment, "leaseTransitions": 3}
        context.server.store({"metadata": {"name": "gangctl", "namespace": "ns"}, "spec": spec})
        candidate = context.enter("a")
        await clock.advance(4.9)
        assert candidate.began == 0
        await clock.advance(2.2)
        assert candidate.leads()
        assert context.server.spec["leaseTransitions"] == 4
        candidate.finish.set()
        await candidate.task


async def test_a_change_of_labels_does_not_prolong_an_expired_lease(context: Context, clock: VirtualClock) -> None:
    spec = {"holderIdentity": "x", "leaseDurationSeconds": 15}
    context.server.store({"metadata": {"name": "gangctl", "namespace": "ns"}, "spec": spec})
    a = context.enter("a")
    for second in range(17):
        lease = context.server.lease
        assert lease is not None
        lease["metadata"]["labels"] = {"edited": str(second)}
        context.server.store(lease)
        await clock.advance(1)
    assert a.leads()
    assert context.server.lease is not None
    assert "labels" in context.server.lease["metadata"]


async def test_a_lost_response_does_not_cost_the_lease(context: Context, clock: VirtualClock) -> None:
    context.server.loses_answers = 1
    a = context.enter("a")
    await clock.advance(2)
    assert a.leads()
    context.server.loses_answers = 2
    await clock.advance(20)
    assert a.leads()
    assert a.began == 1
    assert context.server.spec["leaseTransitions"] == 0


async def test_a_deleted_lease_is_recreated(context: Context, clock: VirtualClock) -> None:
    a = context.enter("a")
    await clock.advance(1)
    context.server.lease = None
    await clock.advance(5)
    assert a.leads()
    assert context.server.holder == "a"


async def test_cancelling_stops_the_work_and_then_releases_the_lease(context: Context, clock: VirtualClock) -> None:
    a = context.enter("a")
    a.stubborn = asyncio.Event()
    await clock.advance(1)
    a.task.cancel()
    # Work that takes long to stop still leads, and its lease is still renewed.
    await clock.advance(20)
    assert a.leads()
    a.stubborn.set()
    with pytest.raises(asyncio.CancelledError):
        await a.task
    assert context.server.holder == ""
    assert not a.leads()


@each("answered", [0, 1])
async def test_a_stop_in_a_write_that_arrives_releases_the_lease(
    context: Context, clock: VirtualClock, answered: int
) -> None:
    context.server.silent_writes = 1 - answered
    a = context.enter("a")
    await clock.advance(1)
    context.server.silent_writes = answered
    await clock.advance(1)
    a.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await a.task
    assert context.server.holder == ""


async def test_work_that_is_slow_to_stop_after_a_loss_does_not_lead(context: Context, clock: VirtualClock) -> None:
    a = context.enter("a")
    a.stubborn = asyncio.Event()
    await clock.advance(1)
    context.server.failure = UnavailableError(0, "ConnectFailed", "refused")
    await clock.advance(11)
    assert a.leading == [True, False]
    assert not a.task.done()
    with pytest.raises(LeadershipLostError):
        a.election.ensure_leading()
    a.stubborn.set()
    with pytest.raises(LeadershipLostError):
        await a.task


@pytest.mark.parametrize(
    ("error", "reported"),
    [(RuntimeError("could not clean up"), ["failed while stopping"]), (LeadershipLostError("not leading"), [])],
)
async def test_errors_while_stopping_are_logged_except_lost_leadership(
    context: Context, clock: VirtualClock, error: Exception, reported: list[str]
) -> None:
    async def untidy() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise error from None

    election = LeaseElection(
        Client(context.server, Settings(throttled=False)), name="x", namespace="ns", identity="a", clock=clock
    )
    task = asyncio.create_task(election.run(untidy))
    await clock.advance(1)
    with capture_logs() as logs:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert [line["event"] for line in logs if line["log_level"] == "error"] == reported


async def test_a_failing_acquisition_is_logged_once_and_retried(context: Context, clock: VirtualClock) -> None:
    context.server.failure = ForbiddenError(403, "Forbidden", "leases is forbidden")
    with capture_logs() as logs:
        a = context.enter("a")
        await clock.advance(30)
        assert len([line for line in logs if line["log_level"] == "warning"]) == 1
    context.server.failure = None
    await clock.advance(2)
    assert a.leads()


async def test_a_lease_that_cannot_be_released_expires(context: Context, clock: VirtualClock) -> None:
    a = context.enter("a")
    await clock.advance(1)
    context.server.failure = UnavailableError(0, "ConnectFailed", "refused")
    a.finish.set()
    with capture_logs() as logs:
        await a.task
    assert "run out" in logs[-1]["event"]
    assert context.server.holder == "a"


async def test_of_two_candidates_that_start_together_one_leads(context: Context, clock: VirtualClock) -> None:
    both = [context.enter(identity) for identity in ("a", "b")]
    await clock.advance(10)
    assert sorted(candidate.began for candidate in both) == [0, 1]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["run a", "run b", "run c", "lose answer", "refuse", "heal"]),
            st.integers(min_value=1, max_value=12),
        ),
        max_size=40,
    )
)
def test_there_are_never_two_leaders_even_if_processes_freeze(steps: list[tuple[str, int]]) -> None:
    """Machines freeze in any pattern while time goes on for the others; at no moment do two of them lead."""

    async def play() -> None:
        shared = VirtualClock()
        context = Context(shared)
        # Each candidate's loop runs only when its own clock is advanced; time itself is the same for all.
        clocks = {name: VirtualClock() for name in "abc"}
        for name, clock in clocks.items():
            context.enter(name, clock)
        elapsed = dict.fromkeys("abc", 0)
        total = 0
        for what, seconds in steps:
            if what == "lose answer":
                context.server.loses_answers += 1
            elif what == "refuse":
                context.server.failure = UnavailableError(0, "ConnectFailed", "refused")
            elif what == "heal":
                context.server.failure = None
            else:
                total += seconds
                name = what[-1]
                # A thawed machine learns of all the time that passed before it does anything.
                clocks[name]._now += total - seconds - elapsed[name]
                await clocks[name].advance(seconds)
                elapsed[name] = total
            acting = [
                candidate.election.identity
                for candidate in context.candidates
                if candidate.election.is_leader and elapsed[candidate.election.identity] == total
            ]
            for candidate in context.candidates:
                name = candidate.election.identity
                behind = total - elapsed[name]
                still = candidate.election._leading and candidate.clock.now() + behind < candidate.election._deadline
                if still and name not in acting:
                    acting.append(name)
            assert len(acting) <= 1, acting
        context.server.failure = None
        await context.empty()

    asyncio.run(play())


@each(
    "times",
    [(10, 10, 2, 4), (15, 2, 2, 1), (15, 10, 0, 4), (15, 10, 2, 10), (15, 10, 2, 0), (0.9, 0.5, 0.2, 0.1)],
)
def test_times_that_would_allow_two_leaders_are_refused(times: tuple[float, float, float, float]) -> None:
    with pytest.raises(ConfigError):
        ElectionOptions(*times)
