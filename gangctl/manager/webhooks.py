"""The webhooks of a process: certificates, the listener, and the registration that makes API servers call it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gangctl.api.meta import MANAGED_BY, MANAGER
from gangctl.client.client import Client
from gangctl.client.pacing import Backoff
from gangctl.controllers.gangs import ReplicaGangs
from gangctl.errors import ApiError, ConfigError
from gangctl.manager.policies import ReplicaPolicies
from gangctl.manager.settings import ControllerSettings
from gangctl.runtime.certs import Rotation
from gangctl.runtime.certsource import (
    POLL_SECONDS,
    CertificateSource,
    ClientAuthorities,
    DirectoryCertificates,
    SecretCertificates,
    Serving,
)
from gangctl.runtime.manager import Manager
from gangctl.runtime.probes import self_check
from gangctl.runtime.server import HttpRefusal, Listener, WebhookServer
from gangctl.runtime.tls import ServerTls, covered, expires
from gangctl.webhooks.configurations import (
    AGAIN,
    MUTATE_DEFAULTS,
    MUTATE_JOBS,
    VALIDATE_KEYS,
    FailurePolicy,
    NeededWebhooks,
    build_configurations,
    build_policy_configurations,
)
from gangctl.webhooks.gangpolicies import GangPolicyAdmission
from gangctl.webhooks.gangs import GangAdmission, KnownQueues
from gangctl.webhooks.jobpolicy import build_job_policy
from gangctl.webhooks.policies import PolicyAdmission, demand_of, routes_without_policies, unready
from gangctl.webhooks.registration import Registrar, Registration, Wanted, watch_configurations
from gangctl.webhooks.review import UNREADY, AdmissionResponse, Handler, build_endpoints

SECRET: Final = "gangctl-webhook-certs"  # noqa: S105 - the name of one
LABELS: Final = {MANAGED_BY: MANAGER}


def own_certificates(
    client: Client,
    settings: ControllerSettings,
    own_namespace: str,
    hosts: Collection[str],
    observe: Callable[[bool], None] | None = None,
) -> SecretCertificates:
    """The certificate to serve as ``hosts``; the hosts of other listeners are covered by the same certificate."""
    certificate, authority = timedelta(seconds=settings.cert_lifetime), timedelta(seconds=settings.ca_lifetime)
    # Each step of a rotation has ten minutes to reach all replicas, or less with shorter certificate lifetimes.
    overlap = min(timedelta(minutes=10), certificate / 4, authority / 8)
    return SecretCertificates(
        client,
        SECRET,
        own_namespace,
        hosts,
        rotation=Rotation(authority, certificate, overlap),
        labels=LABELS,
        # Several polls in each step of a rotation: a replica may miss one, and still knows the step in time.
        poll_seconds=min(POLL_SECONDS, overlap.total_seconds() / 5),
        observe=observe,
    )


RETRY_SECONDS: Final = 2.0
WITHDRAWAL_SECONDS: Final = 30.0

_FOR_POLICIES: Final = {
    "manage": Registration.MANAGE,
    # Their webhooks follow the policies in force: no manifest can list them.
    "ca-only": Registration.FILL,
    "none": Registration.NONE,
}

log = structlog.get_logger(__name__)


class Webhooks:
    """Serves the webhooks from the start, and registers them once the caches are synced."""

    def __init__(
        self,
        manager: Manager,
        settings: ControllerSettings,
        gangs: ReplicaGangs,
        policies: ReplicaPolicies | None,
        queues: KnownQueues | None,
    ) -> None:
        """Make everything, start nothing."""
        self._client = manager.reader
        self._may_register = manager.may_register
        self._settings = settings
        self._gangs = gangs
        self._policies = policies
        self._metrics = _WebhookMetrics(manager.metrics.registry)
        self._source = self._certificates(manager.own_namespace)
        client_ca = settings.webhook_client_ca
        self._clients = ClientAuthorities(Path(client_ca)) if client_ca is not None else None
        self._configuration = settings.webhooks(manager.own_namespace)
        self._job_policy = build_job_policy(self._configuration)
        self._registrar = self._registrar_of(self._wanted, Registration(settings.webhook_registration))
        # An API server may begin to serve policies, or stop.
        gangs.on_state.append(lambda _: self._registrar.wake())
        self._policy_registrar = self._registrar_of(
            self._wanted_for_policies, _FOR_POLICIES[settings.webhook_registration]
        )
        self._policies_registered = False
        admission = GangAdmission(gangs, queues=queues, fail_open=settings.unavailable == "allow")
        unready_gangs = partial(_unready_gangs, settings.webhook_failure_policy)
        self._endpoints = build_endpoints(admission.routes(), gangs.synced, self._metrics.answered, unready_gangs)
        # GangPolicies and keys are checked without any state of the cluster, so there is nothing to wait for.
        at_once = partial(asyncio.sleep, 0)
        of_policies = GangPolicyAdmission() if policies is None else GangPolicyAdmission(policies.keeper.rules)
        stateless: dict[str, Handler] = {**of_policies.routes(), VALIDATE_KEYS: admission.validate_keys}
        self._endpoints |= build_endpoints(stateless, at_once, self._metrics.answered)
        if policies is None:
            # Until a replica with this setting leads, webhooks of the earlier leader call this one, too.
            routes = routes_without_policies()
            self._endpoints |= build_endpoints(routes, at_once, self._metrics.answered, oversized=routes)
        else:
            evaluating = PolicyAdmission(policies)
            known = policies.keeper.synced.wait
            self._endpoints |= build_endpoints(
                evaluating.routes(), known, self._metrics.answered, _unready, evaluating.oversized()
            )
            policies.keeper.on_swap.append(self._policy_registrar.wake)
        self._tls: ServerTls | None = None
        self._server: WebhookServer | None = None
        self._serving: Serving | None = None
        manager.checks |= {"webhooks": self._unready, "policies": self._policies_unready}
        manager.leading_first["registrations"] = self._lead

    def _registrar_of(self, wanted: Wanted, mode: Registration) -> Registrar:
        return Registrar(self._client, wanted, mode=mode, refresh=self._refreshed, may_write=self._may_register)

    async def _unready(self) -> str | None:
        """Why API servers do not get answers; None when they do."""
        if self._server is None or self._serving is None:
            return "not listening yet"
        if not self._server.listening:
            return "not listening any more"
        # The registration first: it is in memory, and the check is a TLS handshake.
        return self._registrar.problem or await self_check(self._server.address, self._serving)

    def _policies_unready(self) -> str | None:
        """Why policies are not registered at the start; None once they were. Or why they are not evaluated.

        Later problems of their registration are logged only: a replica that turned unready for them would take the
        gangs' webhooks down with it. A replica without write access is ready after its first check, and leaves the rest
        to the leader.
        """
        if self._policies is None:
            return None
        if self._policies.problem:
            return self._policies.problem
        if self._policies_registered:
            return None
        if (missing := self._policies.unready()) is not None:
            return missing
        problem = self._policy_registrar.problem
        if problem is not None and self._policy_registrar.checked and not self._may_register():
            return None
        self._policies_registered = problem is None
        return problem

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Listen, with certificates that are renewed, for as long as the block runs."""
        # Before the listener, which would have no certificate for a handshake.
        self._serving = await self._first()
        self._tls = ServerTls(self._serving.pair)
        if self._clients is not None:
            # Before the listener: no client may be answered that has not been verified.
            self._tls.accept(await self._clients.load())
        address = self._settings.webhook_listener()
        known = self._clients is not None
        server = WebhookServer(self._endpoints, address, self._tls.context, known_clients=known)
        async with listening(server, "--webhook-bind-address {}:{}".format(*address)):
            self._server = server
            try:
                yield
            finally:
                # Before the listener stops: registered webhooks without an answer would refuse JobSets.
                if self._settings.unregister_on_exit:
                    await self._unregister()

    def begin_drain(self) -> None:
        """Keep answering, and have callers reconnect, which leads to other replicas."""
        if self._server is not None:
            self._server.begin_drain()

    async def keep(self, ready: Callable[[], Awaitable[object]]) -> None:
        """Renew certificates; register once ``ready`` and keep the registration, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._source.run(self._deliver), name="certificates")
            if self._clients is not None and self._tls is not None:
                group.create_task(self._clients.run(self._tls.accept), name="client-authorities")
            if self._policies is None:
                # Without policies nothing has to be registered, and so nothing has to be waited for.
                group.create_task(self._withdraw_policies(), name="policy-registrations")
            else:
                kept = self._register(
                    self._policies.keeper.synced.wait, self._policy_registrar, self._wanted_for_policies
                )
                group.create_task(kept, name="policy-registrations")
            await self._register(ready, self._registrar, self._for_gangs)

    async def _lead(self) -> None:
        """Check the registrations now: a replica that does not lead leaves them as they are."""
        self._registrar.wake()
        self._policy_registrar.wake()

    async def _register(self, ready: Callable[[], Awaitable[object]], registrar: Registrar, wanted: Wanted) -> None:
        """Register once ``ready``, and maintain it until cancelled."""
        await ready()
        async with asyncio.TaskGroup() as group:
            group.create_task(registrar.run(), name="registrar")
            if self._settings.webhook_registration != "none":
                watched = watch_configurations(self._client, registrar, wanted(b""))
                group.create_task(watched, name="registrations")

    async def _withdraw_policies(self) -> None:
        """Remove the webhooks of policies: those of an earlier process would refuse JobSets while gangctl is down."""
        pauses, trouble = Backoff(RETRY_SECONDS, WITHDRAWAL_SECONDS), ""
        while True:
            try:
                await self._policy_registrar.check()
            except (ApiError, ConfigError) as error:
                if str(error) != trouble:
                    log.warning("registrations of policies not looked after", error=str(error))
                trouble = str(error)
            if self._policy_registrar.problem is None:
                return
            await asyncio.sleep(pauses.next())

    def _certificates(self, own_namespace: str) -> CertificateSource:
        if self._settings.cert_dir is not None:
            return DirectoryCertificates(Path(self._settings.cert_dir), observe=self._metrics.polled)
        hosts = self._settings.certificate_hosts(own_namespace)
        return own_certificates(self._client, self._settings, own_namespace, hosts, self._metrics.polled)

    async def _first(self) -> Serving:
        """The initial certificates; none yet while the API server does not answer."""
        while True:
            try:
                return await self._source.load()
            except ApiError as error:
                log.warning("no certificates yet", error=str(error), status=error.status)
                await asyncio.sleep(RETRY_SECONDS)

    async def _refreshed(self) -> bytes:
        return (await self._source.load()).authorities

    def _for_gangs(self, authorities: bytes) -> list[dict[str, Any]]:
        return build_configurations(self._configuration, authorities)

    def _wanted(self, authorities: bytes) -> list[dict[str, Any]]:
        """The objects by which JobSets and Jobs reach gangctl, or Jobs the API server's own policy.

        The policy comes first: a failed write ends the registration, and no gang may be promised before.
        """
        managed = self._settings.webhook_registration == "manage" and self._gangs.state.policies
        return [*(self._job_policy if managed else ()), *self._for_gangs(authorities)]

    def _wanted_for_policies(self, authorities: bytes) -> list[dict[str, Any]]:
        demand = NeededWebhooks() if self._policies is None else demand_of(self._policies.in_force)
        return build_policy_configurations(self._configuration, demand, authorities)

    def _deliver(self, serving: Serving) -> None:
        if self._tls is not None:
            # First what may fail: with a pair that cannot be served, nothing else changes.
            self._tls.load(serving.pair)
        self._serving = serving
        self._metrics.delivered(serving)
        for registrar in (self._registrar, self._policy_registrar):
            registrar.trust(serving.authorities, covered(serving.pair.chain))

    async def _unregister(self) -> None:
        try:
            await self._policy_registrar.unregister(self._wanted_for_policies(b""))
            # What names the groups of Jobs stays: a gang that exists may restart, and without groups it would be torn.
            _, *for_jobsets = self._for_gangs(b"")
            await self._registrar.unregister(for_jobsets)
        except ApiError as error:
            log.warning("webhooks stay registered", error=str(error))


@asynccontextmanager
async def listening(listener: Listener, flag: str) -> AsyncIterator[None]:
    """A listener for as long as the block runs; ConfigError naming the flag when its address is not available."""
    try:
        await listener.start()
    except OSError as error:
        raise ConfigError(f"{flag}: cannot listen: {error.strerror or error}", hint="choose a free address") from error
    try:
        yield
    finally:
        await listener.stop()


def _unready_gangs(failure_policy: FailurePolicy, path: str) -> AdmissionResponse:
    if failure_policy == "Ignore" and path != MUTATE_JOBS:
        # Fail the call: a refusal is one whatever the failurePolicy.
        raise HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, UNREADY.message)
    return UNREADY


def _unready(path: str) -> AdmissionResponse:
    if path == MUTATE_DEFAULTS:
        # Fail the call: the registered failurePolicy decides, and only the API server knows it now.
        text = f"gangctl has just started and does not know the policies yet: {AGAIN}"
        raise HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, text)
    return unready(path)


class _WebhookMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "gangctl_admission_duration_seconds",
            "Duration of an admission request in gangctl in seconds, by path and verdict: allowed, patched, denied, "
            "unready.",
            ["path", "verdict"],
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
            registry=registry,
        )
        self._polls = Counter(
            "gangctl_certificate_reads",
            "Reads of the webhooks' certificates by result: ok, failed (the previous ones are served).",
            ["result"],
            registry=registry,
        )
        self._expiry = Gauge(
            "gangctl_certificate_expiration_timestamp_seconds",
            "When a certificate of the webhooks expires (Unix time), by usage: serving, authority (that signed it; "
            "only where gangctl knows it).",
            ["usage"],
            registry=registry,
        )

    def delivered(self, serving: Serving) -> None:
        """Record which certificates are in use from now on."""
        self._expiry.labels("serving").set(serving.expires.timestamp())
        if serving.authorities:
            self._expiry.labels("authority").set(expires(serving.authorities).timestamp())

    def answered(self, path: str, verdict: str, seconds: float) -> None:
        """Count an answer."""
        self._seconds.labels(path, verdict).observe(seconds)

    def polled(self, well: bool) -> None:
        """Count a poll of the certificates."""
        self._polls.labels("ok" if well else "failed").inc()
