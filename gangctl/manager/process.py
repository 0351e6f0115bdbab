"""One ``gangctl controller`` process from start to end.

Start: credentials, probes, certificates, webhook listener, caches; the webhooks are registered once they can answer.
Every replica answers webhooks; the holder of the Lease reconciles; with shards, the holder of each Lease reconciles its
share of the namespaces. End: readiness fails first and the Lease is released, so that another replica takes over; this
one answers until no more requests come, finishes those in flight, and exits.
"""

from __future__ import annotations

import asyncio
import gc
import math
import os
import secrets
import signal
import socket
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext
from typing import Final

import structlog

from gangctl import __version__
from gangctl.api.meta import SYSTEM_NAMESPACE
from gangctl.client.client import Client, Settings
from gangctl.client.config import ClusterConfig, load_cluster
from gangctl.client.resources import NAMESPACES
from gangctl.client.transport import Transport, TransportOptions
from gangctl.errors import (
    ApiError,
    ConfigError,
    ForbiddenError,
    LeadershipLostError,
    NotFoundError,
    UnauthorizedError,
)
from gangctl.manager import logs
from gangctl.manager.metrics import measure_lag, register_process_metrics, serving_metrics
from gangctl.manager.settings import ControllerSettings, split_address
from gangctl.manager.webhooks import Webhooks, listening
from gangctl.manager.wiring import Wiring
from gangctl.runtime.election import ElectionOptions, LeaseElection, ShardElection
from gangctl.runtime.events import EventRecorder
from gangctl.runtime.families import new_registry
from gangctl.runtime.manager import Manager
from gangctl.runtime.metrics import RuntimeMetrics
from gangctl.runtime.probes import Check, ProbeServer
from gangctl.runtime.shards import Share, lease_names

LEASE: Final = "gangctl"
"""Name of the first shard's Lease, and the prefix of the others'."""
EVENT_DRAIN_SECONDS: Final = 2.0
LAME_DUCK_SECONDS: Final = 5.0
"""How long a Service may keep sending requests to an unready replica, until every node has the new endpoints."""

SWITCH_SECONDS: Final = 0.0005
"""How long a thread may compute before another one runs."""
COLLECT_AFTER: Final = (5_000, 5, 4_000)
"""Thresholds of the garbage collector.

It blocks the event loop, whichever thread allocates: a young collection walks at most 30,000 objects. The whole heap is
walked after 100 million: decoding a large list took longest for that.
"""

log = structlog.get_logger(__name__)


async def run(settings: ControllerSettings) -> None:
    """Run until SIGTERM or SIGINT. Raises :class:`~gangctl.errors.ConfigError` when it cannot start."""
    logs.configure(settings.log_level, settings.log_format)
    gc.set_threshold(*COLLECT_AFTER)
    # Policies are loaded in a thread: with this interval the event loop runs again ten times as soon.
    sys.setswitchinterval(SWITCH_SECONDS)
    async with prepared(settings) as process:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, process.stop)
        await process.run()


@asynccontextmanager
async def prepared(settings: ControllerSettings) -> AsyncIterator[Process]:
    """A process with credentials and metrics, ready to run in the event loop of the caller."""
    config = await load_cluster(kubeconfig=settings.kubeconfig, context=settings.context)
    _check_reachable(settings, config)
    registry = new_registry()
    metrics = RuntimeMetrics(registry)
    lag = register_process_metrics(registry, settings)
    options = TransportOptions(qps=settings.api_qps, burst=settings.api_burst)
    async with (
        _task(measure_lag(lag.observe), "loop-lag"),
        Transport(config, options, on_request=metrics.on_request) as transport,
    ):
        yield Process(settings, config, transport, metrics)


def _check_reachable(settings: ControllerSettings, config: ClusterConfig) -> None:
    """ConfigError for a process that would register webhooks for a Service which does not lead to it."""
    # The default Service is that of the manifests, and leads to pods: only one that the user names may lead here.
    chosen = settings.webhook_url is not None or "webhook_service" in settings.model_fields_set
    if settings.webhook_registration == "manage" and not (config.in_cluster or chosen):
        raise ConfigError(
            f"webhook-url is missing: outside of a cluster ({config.origin}) no Service leads to this process, so API "
            "servers would get no answer and reject JobSets that ask for a gang",
            hint="give --webhook-url https://HOST:PORT under which API servers reach this process; --webhook-service "
            "if a Service leads to it; or --webhook-registration none to register no webhooks",
        )


class Process:
    """A manager and what is wired to it, and the order in which everything starts and stops."""

    def __init__(
        self,
        settings: ControllerSettings,
        config: ClusterConfig,
        transport: Transport,
        metrics: RuntimeMetrics,
    ) -> None:
        """Controllers and webhooks are made after the first requests to the API server."""
        self._settings = settings
        self._config = config
        self._transport = transport
        self._metrics = metrics
        self._client = Client(transport)
        # The random part keeps a restarted container from taking the Lease of the one before for its own.
        self._identity = f"{os.environ.get('POD_NAME') or socket.gethostname()}_{secrets.token_hex(4)}"
        self._stop = asyncio.Event()
        self._quick_stop = asyncio.Event()
        self._leading: asyncio.Task[None] | None = None
        self._manager: Manager | None = None
        self._webhooks: Webhooks | None = None

    async def run(self) -> None:
        """Run everything, until :meth:`stop` is called."""
        address = split_address(self._settings.metrics_bind_address)
        # A client that needs no token here gets only the probes.
        registry = None if self._settings.metrics_secure else self._metrics.registry
        probes = ProbeServer(address, ready=self._ready, registry=registry)
        async with listening(probes, f"--metrics-bind-address {self._settings.metrics_bind_address}"):
            # Within the listener of the probes: kubelets ask until the end, and a replica that starts is not ready.
            await self._until_stopped(self._work())
        log.info("ended")

    def stop(self) -> None:
        """Request the end; a second time, for a quick one."""
        (self._quick_stop if self._stop.is_set() else self._stop).set()

    def _ready(self) -> dict[str, Check]:
        """The checks of what is set up, and one that fails until then; what is switched off has none."""
        checks: dict[str, Check] = {"start": lambda: "starting"} if self._manager is None else self._manager.checks
        return {**checks, "shutdown": lambda: "ending" if self._stop.is_set() else None}

    async def _until_stopped(self, work: Coroutine[None, None, None]) -> None:
        """Run ``work`` until it fails or the end is requested; await its end in either case."""
        task = asyncio.create_task(work, name="work")
        stop = asyncio.create_task(self._stop.wait(), name="stop")
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                log.info("ending")
                await self._lame_duck()
                task.cancel()
            await task
        except asyncio.CancelledError:
            # Otherwise the cancellation is the one above.
            if not self._stop.is_set():
                raise
        finally:
            stop.cancel()

    async def _lame_duck(self) -> None:
        """Release the Lease, and keep answering while API servers switch to other replicas.

        Caches stay current meanwhile.

        A second signal ends it; a process that never served requests does not wait.
        """
        if self._webhooks is None or self._leading is None:
            return
        # Readiness has failed since the signal, but API servers go on to use the connections that they keep open.
        self._webhooks.begin_drain()
        self._leading.cancel()
        quick_stop = asyncio.create_task(self._quick_stop.wait(), name="quick-stop")
        # Cancelling all the rest before the Lease is released would interrupt the release.
        await asyncio.gather(
            asyncio.wait({quick_stop}, timeout=self._shutdown_delay()),
            asyncio.wait({self._leading}),
        )
        quick_stop.cancel()

    def _shutdown_delay(self) -> float:
        if self._settings.shutdown_delay is not None:
            return self._settings.shutdown_delay
        return LAME_DUCK_SECONDS if self._config.in_cluster else 0.0

    async def _work(self) -> None:
        own_namespace = await self._own_namespace()
        log.info("starting", version=__version__, cluster=self._config.origin, own_namespace=own_namespace)
        recorder = EventRecorder(self._client, instance=self._identity, recorded=self._metrics.event_recorded)
        share = Share(self._settings.shards)
        election = self._election(own_namespace, share)
        guard = election.ensure_leading if election is not None else None
        manager = Manager(
            self._client,
            Client(self._transport, Settings(guard=guard)),
            metrics=self._metrics,
            recorder=recorder,
            share=share,
            own_namespace=own_namespace,
            # During a rolling update two versions would undo each other's registration: only the leader registers.
            may_register=(lambda: election.leads(0)) if election is not None else (lambda: True),
            standby=election is not None,
        )
        wiring = Wiring(manager, self._settings)
        self._manager, self._webhooks = manager, wiring.webhooks
        async with (
            # First, so that it ends last: ``_drain`` waits for its writes.
            _task(recorder.run(), "events"),
            self._measured(own_namespace),
            # Policies are evaluated until the last request is answered: longer than the informers run.
            aclosing(wiring.policies) if wiring.policies is not None else nullcontext(),
            wiring.webhooks.serving(),
        ):
            try:
                async with asyncio.TaskGroup() as group:
                    for name, work in manager.watching.items():
                        group.create_task(work(), name=name)
                    group.create_task(wiring.webhooks.keep(wiring.gangs.synced), name="webhooks")
                    self._leading = group.create_task(_lead(election, manager), name="lead")
            finally:
                await _drain(recorder)

    def _measured(self, own_namespace: str) -> AbstractAsyncContextManager[None]:
        """Metrics for authorized clients, where they are not served to all."""
        if not self._settings.metrics_secure:
            return nullcontext()
        # Reviews must not wait behind the writes of gangs, nor those behind them.
        reviews = Client(self._transport, Settings(throttled=False))
        return serving_metrics(self._client, reviews, self._settings, own_namespace, self._metrics.registry)

    def _election(self, own_namespace: str, share: Share) -> ShardElection | None:
        if not self._settings.leader_elect:
            self._metrics.track_election(None)
            return None
        options = election_options(self._settings.lease_duration)
        # Renewals of a Lease must not wait behind requests for gangs.
        client = Client(self._transport, Settings(throttled=False))
        elections = [
            LeaseElection(client, name=name, namespace=own_namespace, identity=self._identity, options=options)
            for name in lease_names(LEASE, share.total)
        ]
        election = ShardElection(elections, share)
        self._metrics.track_election(election)
        return election

    async def _own_namespace(self) -> str:
        """The configured one; in a cluster the pod's; outside ``gangctl-system`` where it exists, else ``default``."""
        if self._settings.own_namespace:
            return self._settings.own_namespace
        if self._config.in_cluster:
            return self._config.namespace or SYSTEM_NAMESPACE
        # No guess without an answer: other replicas may have the Lease and the certificates in the other namespace.
        while True:
            try:
                await self._client.get(NAMESPACES, SYSTEM_NAMESPACE)
            except NotFoundError:
                return "default"
            except (ForbiddenError, UnauthorizedError) as refused:
                # It goes on: rights may be given while it starts.
                text = f"may not read Namespace {SYSTEM_NAMESPACE}: give --own-namespace, or the right to get it"
                log.warning(text, error=str(refused), status=refused.status)
            except ApiError as error:
                log.warning("the API server does not answer", error=str(error), status=error.status)
            else:
                return SYSTEM_NAMESPACE
            await asyncio.sleep(2)


def election_options(seconds: float) -> ElectionOptions:
    """Times with which another replica writes within ``seconds`` of the leader's death.

    The last renewal that others saw may be just before it, and they see it only at their next poll: so the Lease itself
    (in whole seconds, as the API has it) and one poll fit in, with a rest for reading and writing.
    """
    lease = math.floor(seconds * 0.85)
    return ElectionOptions(lease, lease * 0.75, seconds / 10, seconds / 5)


async def _lead(election: ShardElection | None, manager: Manager) -> None:
    """Run the leader's work whenever this replica holds a Lease."""
    if election is None:
        await manager.lead()
        return
    while True:
        try:
            await election.run(manager.lead)
        except LeadershipLostError as lost:
            log.warning("leadership lost, standing by", error=str(lost))


async def _drain(recorder: EventRecorder) -> None:
    """Wait a moment for recorded events to be written."""
    try:
        async with asyncio.timeout(EVENT_DRAIN_SECONDS):
            await recorder.drain()
    except TimeoutError:
        log.warning("some events were not written")


@asynccontextmanager
async def _task(work: Coroutine[None, None, None], name: str) -> AsyncIterator[None]:
    """Run a task beside the block, and end it after the block."""
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
