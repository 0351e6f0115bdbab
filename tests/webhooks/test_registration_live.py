"""Certificates and registration against real API servers, which trust, default and call as they please."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gangctl.client.client import Client
from gangctl.client.config import load_cluster
from gangctl.client.resources import (
    MUTATING_WEBHOOK_CONFIGURATIONS,
    SECRETS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    Resource,
)
from gangctl.client.transport import Transport
from gangctl.errors import ApiError, NotFoundError
from gangctl.runtime.certs import Rotation, create
from gangctl.runtime.certsource import SecretCertificates, Serving
from gangctl.runtime.probes import self_check
from gangctl.runtime.server import WebhookServer
from gangctl.runtime.tls import ServerTls
from gangctl.webhooks.configurations import Endpoint, WebhookSettings, build_configurations
from gangctl.webhooks.registration import Registrar, RegistrarOptions, Wanted, watch_configurations
from gangctl.webhooks.review import AdmissionResponse, decode_review, encode_review
from tests.controlplane import ControlPlane, wait_for

pytestmark = pytest.mark.controlplane

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
BOTH = (MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS)
# Everything a year does, in half a minute: the first authority is about to be replaced when the test begins. Each step
# leaves seconds to a machine that stands still.
QUICK = Rotation(timedelta(seconds=48), timedelta(seconds=24), timedelta(seconds=7.5))
AGE = timedelta(seconds=29)


@asynccontextmanager
async def client_of(plane: ControlPlane) -> AsyncIterator[Client]:
    async with Transport(await load_cluster(kubeconfig=plane.kubeconfig)) as opened:
        yield Client(opened)


@pytest.fixture
async def client(plane: ControlPlane) -> AsyncIterator[Client]:
    async with client_of(plane) as opened:
        yield opened


@asynccontextmanager
async def beside(*work: Awaitable[None]) -> AsyncIterator[None]:
    """Run ``work`` for as long as the block lasts; what it raises ends the test."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    await wait_for(condition, what="the API server to have it")


async def test_configurations_are_written_once_and_repaired(client: Client, namespace: str) -> None:
    name = f"{namespace}-gangs"
    here = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [namespace]}
    settings = WebhookSettings(Endpoint(url="https://127.0.0.1:1"), namespace_selector=(here,))
    source = SecretCertificates(client, "certs", namespace, ["127.0.0.1"])

    def wanted(authorities: bytes) -> list[dict[str, Any]]:
        _, *configurations = build_configurations(settings, authorities)
        return [{**each, "metadata": {**each["metadata"], "name": name}} for each in configurations]

    async def versions() -> list[str]:
        return [(await client.get(resource, name))["metadata"]["resourceVersion"] for resource in BOTH]

    async def repaired() -> bool:
        try:
            live = [await client.get(resource, name) for resource in BOTH]
        except NotFoundError:
            return False
        bundles = {each["clientConfig"]["caBundle"] for one in live for each in one["webhooks"]}
        policies = {one["webhooks"][0]["failurePolicy"] for one in live}
        return policies == {"Fail"} and bundles == {base64.b64encode(authorities).decode()}

    authorities = (await source.load()).authorities
    registrar = Registrar(client, wanted, options=RegistrarOptions(poll_seconds=600))
    registrar.trust(authorities)
    try:
        assert await registrar.check()
        assert registrar.problem is None
        first = await versions()
        for _ in range(3):
            assert not await registrar.check()
        another = Registrar(client, wanted)
        another.trust(authorities)
        assert not await another.check()
        assert await versions() == first

        async with beside(registrar.run(), watch_configurations(client, registrar, wanted(b""))):
            for resource in BOTH:
                live = await client.get(resource, name)
                live["webhooks"][0]["failurePolicy"] = "Ignore"
                live["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(b"-").decode()
                await damage(client, resource, live)
                await eventually(repaired)
                await client.delete(resource, name)
                await eventually(repaired)
    finally:
        await registrar.unregister(wanted(b""))
    for resource in BOTH:
        with pytest.raises(NotFoundError):
            await client.get(resource, name)


async def damage(client: Client, resource: Resource, live: dict[str, Any]) -> None:
    """Write something broken, if the server lets it pass: newer ones look at the caBundle."""
    try:
        await client.update(resource, live)
    except ApiError:
        live["webhooks"][0]["clientConfig"].pop("caBundle")
        await client.update(resource, live)


class Replica:
    """A gangctl of nothing but certificates, one webhook and its registration; every answer closes its connection."""

    def __init__(self, client: Client, namespace: str) -> None:
        options: dict[str, Any] = {"rotation": QUICK, "poll_seconds": 0.3}
        self.source = SecretCertificates(client, "certs", namespace, ["127.0.0.1"], **options)
        self.client = client
        self.calls = 0
        self.servings: list[Serving] = []

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        self.servings.append(await self.source.load())
        self.tls = ServerTls(self.servings[0].pair)
        async with WebhookServer({"/allow": self.allow}, ("127.0.0.1", 0), self.tls.context) as server:
            # So that every call is a handshake.
            server.begin_drain()
            assert await self_check(server.address, self.servings[0]) is None
            yield "https://{}:{}".format(*server.address)

    async def allow(self, body: bytes) -> bytes:
        self.calls += 1
        return encode_review(decode_review(body), AdmissionResponse.allow())

    def register(self, wanted: Wanted) -> Registrar:
        options = RegistrarOptions(poll_seconds=1)
        self.registrar = Registrar(self.client, wanted, refresh=self.authorities, options=options)
        self.registrar.trust(self.servings[0].authorities)
        return self.registrar

    async def authorities(self) -> bytes:
        return (await self.source.load()).authorities

    def deliver(self, serving: Serving) -> None:
        self.tls.load(serving.pair)
        self.servings.append(serving)
        self.registrar.trust(serving.authorities)

    def sets_of_authorities(self) -> int:
        """How many there were: for each authority that comes, one when it is introduced, signs, and is alone."""
        return len({serving.authorities for serving in self.servings})


def calls_to(urls: list[str], name: str, namespace: str) -> Callable[[bytes], list[dict[str, Any]]]:
    """One webhook for each replica, both called for every ConfigMap of the namespace."""

    def wanted(authorities: bytes) -> list[dict[str, Any]]:
        bundle = base64.b64encode(authorities).decode()
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        webhook = {
            "admissionReviewVersions": ["v1"],
            "failurePolicy": "Fail",
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "rules": [rule],
            "sideEffects": "None",
            # The webhooks live in this process, which may stand still.
            "timeoutSeconds": 30,
        }
        webhooks = [
            {
                **webhook,
                "name": f"replica{number}.gangctl.dev",
                "clientConfig": {"url": f"{url}/allow", "caBundle": bundle},
            }
            for number, url in enumerate(urls)
        ]
        kind = VALIDATING_WEBHOOK_CONFIGURATIONS
        metadata = {"name": name}
        return [{"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "webhooks": webhooks}]

    return wanted


@pytest.mark.full("in real time; the first tier has the rotation under load of a whole gangctl")
async def test_no_admission_fails_while_certificates_rotate(plane_1_37: ControlPlane, namespace: str) -> None:
    """Two replicas rotate and register as they find it, and both must answer every single create."""
    async with client_of(plane_1_37) as client:
        aged = create(datetime.now(UTC) - AGE, QUICK, ["127.0.0.1"])
        await client.create(SECRETS, aged.to_secret("certs", namespace), namespace)
        one, two = Replica(client, namespace), Replica(client, namespace)
        async with one.serving() as first, two.serving() as second:
            wanted = calls_to([first, second], f"{namespace}-rotation", namespace)
            registrars = [replica.register(wanted) for replica in (one, two)]
            assert await registrars[0].check()
            sources = [replica.source.run(replica.deliver) for replica in (one, two)]
            try:
                async with beside(*sources, *(each.run() for each in registrars)):
                    await create_until(client, namespace, lambda: min(one.calls, two.calls) > 0)
                    # The API server has the webhooks: from now on it calls them for each.
                    one.calls = two.calls = 0
                    created = await create_until(client, namespace, lambda: one.sets_of_authorities() >= 5)
            finally:
                await registrars[0].unregister(wanted(b""))
    assert min(one.calls, two.calls) >= created
    assert two.sets_of_authorities() >= 4


async def create_until(client: Client, namespace: str, enough: Callable[[], bool]) -> int:
    """Create ConfigMaps without a pause; any refusal ends the test."""
    created = 0
    while not enough():
        await client.create(CONFIG_MAPS, {"metadata": {"generateName": "rotation-"}}, namespace, timeout_seconds=60)
        created += 1
    return created
