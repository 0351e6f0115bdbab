"""Secured metrics beside a real API server: who gets them, who does not, and what happens while nobody can say."""

from __future__ import annotations

import base64
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
import pytest

from gangctl.manager.certificates import SECRET
from gangctl.manager.securemetrics import READER
from gangctl.runtime.accessreview import ReviewOptions
from tests.controlplane.api import Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.ports import Ports
from tests.controlplane.wait import NotYet, wait_for
from tests.live.admission import component, install
from tests.live.cluster import Cluster
from tests.live.gangctl import OWN_NAMESPACE, USER, Gangctl
from tests.live.replicas import Stalls
from tests.live.rights import Right, missing

pytestmark = [pytest.mark.controlplane, pytest.mark.xdist_group("rough")]

RBAC = "rbac.authorization.k8s.io/v1"
COMPONENT = "monitoring/secured"
SERVICE = f"gangctl-metrics.{OWN_NAMESPACE}.svc"
"""What a ServiceMonitor verifies the certificate for."""
REVIEWS = ("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews")


@dataclass
class Metrics:
    """The secured listener of one gangctl, and the cluster whose tokens it takes."""

    cluster: Cluster
    gangctl: Gangctl
    address: str

    @property
    def plane(self) -> ControlPlane:
        return self.cluster.plane

    async def context(self) -> ssl.SSLContext:
        """Trust in what Prometheus is told to trust."""
        path = path_of("v1", "secrets", namespace=OWN_NAMESPACE, name=SECRET)
        authorities = base64.b64decode((await self.plane.api.get(path))["data"]["ca.crt"]).decode()
        return ssl.create_default_context(cadata=authorities)

    async def get(self, token: str = "", *, tls: ssl.SSLContext | None = None) -> tuple[int, str]:
        """Ask as Prometheus does."""
        tls = tls or await self.context()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        timeout = aiohttp.ClientTimeout(total=20)
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
            session.get(f"https://{self.address}/metrics", headers=headers, ssl=tls, server_hostname=SERVICE) as answer,
        ):
            return answer.status, await answer.text()

    async def token(self, account: str) -> str:
        """A token of a ServiceAccount of the test's, minted by the API server."""
        accounts = self.cluster.path("v1", "serviceaccounts")
        if account not in {each["metadata"]["name"] for each in await self.plane.api.list(accounts)}:
            body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}}
            await self.plane.api.create(accounts, body)
        request: Object = {"spec": {"expirationSeconds": 3600}}
        answer = await self.plane.api.create(f"{accounts}/{account}/token", request)
        return str(answer["status"]["token"])

    async def bind(self, account: str) -> str:
        """Let the account read metrics; the path of the binding."""
        name = f"{self.cluster.namespace}-{account}"
        subject = {"kind": "ServiceAccount", "name": account, "namespace": self.cluster.namespace}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": READER}
        body = {"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": name}}
        path = path_of(RBAC, "clusterrolebindings")
        await self.plane.api.create(path, {**body, "roleRef": role, "subjects": [subject]})
        return f"{path}/{name}"

    async def until(self, status: int, token: str) -> str:
        """Wait for an answer with this status; its text."""

        async def answered() -> str:
            found, text = await self.get(token)
            if found != status:
                raise NotYet(f"{found} {text[:200]}")
            return text

        return await wait_for(answered, what=f"answer {status}", interval=0.5)


@pytest.fixture
async def metrics(rough: Cluster) -> AsyncIterator[Metrics]:
    await install(rough.api, COMPONENT)
    ports = Ports()
    address = f"127.0.0.1:{ports.take()}"
    try:
        async with Gangctl(rough.plane, "--metrics-secure", f"--metrics-secure-bind-address={address}") as gangctl:
            yield Metrics(rough, gangctl, address)
            assert "Traceback" not in gangctl.log
    finally:
        ports.release()


async def test_who_may_gets_them_and_nobody_else(metrics: Metrics) -> None:
    scraper, stranger = await metrics.token("scraper"), await metrics.token("stranger")
    binding = await metrics.bind("scraper")
    text = await metrics.until(200, scraper)
    assert "gangctl_build_info{" in text
    assert await metrics.get() == (401, "a bearer token of this cluster is required\n")
    forged = f"{scraper[:-8]}AAAAAAAA"
    assert await metrics.get(forged) == (401, "this token does not count here, or not any more\n")
    user = f"system:serviceaccount:{metrics.cluster.namespace}:stranger"
    refusal = f'user "{user}" may not get /metrics: bind ClusterRole {READER} to it\n'
    assert await metrics.get(stranger) == (403, refusal)
    # Kubelets have no token: the plain address has the probes, and nothing else.
    assert (await metrics.gangctl.fetch("/readyz"))[0] == 200
    assert (await metrics.gangctl.fetch("/metrics"))[0] == 404

    await metrics.plane.api.delete(binding)
    async with Stalls() as stalls:
        began = time.monotonic()
        await metrics.until(403, scraper)
        took = time.monotonic() - began
    # The API server's authorizer needs a moment of its own.
    assert took - stalls.seconds < ReviewOptions().allowed_seconds + 10
    for token in (scraper, stranger, forged):
        assert token not in metrics.gangctl.log


async def test_a_token_of_an_account_that_is_gone_does_not_count(metrics: Metrics) -> None:
    scraper = await metrics.token("scraper")
    binding = await metrics.bind("scraper")
    await metrics.until(200, scraper)
    await metrics.plane.api.delete(metrics.cluster.path("v1", "serviceaccounts", "scraper"))
    await metrics.until(401, scraper)
    await metrics.plane.api.delete(binding)


async def test_scrapes_cost_few_reviews(metrics: Metrics) -> None:
    scraper = await metrics.token("scraper")
    binding = await metrics.bind("scraper")
    await metrics.until(200, scraper)
    since = metrics.plane.audit_position
    began = time.monotonic()
    for _ in range(50):
        assert (await metrics.get(scraper))[0] == 200
    own = [each for each in metrics.plane.audit(since) if each["user"].get("username") == USER]
    reviews = [each for each in own if each.get("objectRef", {}).get("resource") == "tokenreviews"]
    assert len(reviews) <= 1 + (time.monotonic() - began) / ReviewOptions().allowed_seconds
    await metrics.plane.api.delete(binding)


async def test_while_the_api_server_is_away_nobody_is_let_in(metrics: Metrics) -> None:
    scraper = await metrics.token("scraper")
    binding = await metrics.bind("scraper")
    tls = await metrics.context()
    await metrics.plane.kill("kube-apiserver")
    status, text = await metrics.get(scraper, tls=tls)
    assert (status, text.partition(":")[0]) == (503, "the API server does not say who you are")
    await metrics.plane.start_component("kube-apiserver")
    assert "gangctl_build_info{" in await metrics.until(200, scraper)
    await metrics.plane.api.delete(binding)


@pytest.mark.parametrize("review", REVIEWS, ids=lambda each: str(each[1]))
async def test_without_the_right_to_ask_nobody_is_let_in(metrics: Metrics, review: tuple[str, str]) -> None:
    (role,) = {
        each["metadata"]["name"]
        for each in component(COMPONENT, USER)
        if each["kind"] == "ClusterRole" and each["metadata"]["name"] != READER
    }
    scraper = await metrics.token("scraper")
    binding = await metrics.bind("scraper")
    right = Right("ClusterRole", role, *review, "create")
    async with missing(metrics.plane.api, USER, [right]):
        assert (await metrics.get(scraper))[0] == 503
        assert right.words in metrics.gangctl.log.replace('\\"', '"')
    await metrics.until(200, scraper)
    await metrics.plane.api.delete(binding)
