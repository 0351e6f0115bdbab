"""Secured metrics beside a real API server: which clients get them, and what happens while it cannot be asked."""

from __future__ import annotations

import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import aiohttp
import pytest

from gangctl.manager.metrics import READER
from gangctl.manager.webhooks import SECRET
from tests.controlplane.api import Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.ports import Ports
from tests.controlplane.wait import HUNG_SECONDS, NotYet, wait_for
from tests.live.admission import component, install
from tests.live.cluster import Cluster
from tests.live.forgetful import ALLOWED_SECONDS
from tests.live.gangctl import OWN_NAMESPACE, USER, Gangctl
from tests.live.replicas import moment
from tests.live.rights import Right, missing

pytestmark = pytest.mark.controlplane

RBAC = "rbac.authorization.k8s.io/v1"
FORGETFUL = str(Path(__file__).with_name("forgetful.py"))
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
        timeout = aiohttp.ClientTimeout(total=HUNG_SECONDS)
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

        return await wait_for(answered, what=f"answer {status}", interval=0.2)


@asynccontextmanager
async def secured(cluster: Cluster) -> AsyncIterator[Metrics]:
    """gangctl with a secured listener."""
    await install(cluster.api, COMPONENT)
    ports = Ports()
    address = f"127.0.0.1:{ports.take()}"
    try:
        flags = ("--metrics-secure", f"--metrics-secure-bind-address={address}")
        async with Gangctl(cluster.plane, *flags, program=["-P", FORGETFUL]) as gangctl:
            yield Metrics(cluster, gangctl, address)
            assert "Traceback" not in gangctl.log
    finally:
        ports.release()


@pytest.fixture
async def metrics(bare: Cluster) -> AsyncIterator[Metrics]:
    async with secured(bare) as made:
        yield made


async def test_only_authorized_clients_get_the_metrics(metrics: Metrics) -> None:
    scraper, stranger = await metrics.token("scraper"), await metrics.token("stranger")
    binding = await metrics.bind("scraper")
    text = await metrics.until(200, scraper)
    assert "gangctl_build_info{" in text
    assert await metrics.get() == (401, "a bearer token of this cluster is required\n")
    forged = f"{scraper[:-8]}AAAAAAAA"
    assert await metrics.until(401, forged) == "this token does not count here, or not any more\n"
    user = f"system:serviceaccount:{metrics.cluster.namespace}:stranger"
    refusal = f'user "{user}" may not get /metrics: bind ClusterRole {READER} to it\n'
    assert await metrics.until(403, stranger) == refusal
    # Kubelets have no token: the plain address has the probes, and nothing else.
    assert (await metrics.gangctl.fetch("/readyz"))[0] == 200
    assert (await metrics.gangctl.fetch("/metrics"))[0] == 404
    await scrapes_cost_few_reviews(metrics, scraper)

    leaver = await metrics.token("leaver")
    await metrics.bind("leaver")
    await metrics.until(200, leaver)
    await metrics.plane.api.delete(metrics.cluster.path("v1", "serviceaccounts", "leaver"))
    await metrics.plane.api.delete(binding)
    await metrics.until(403, scraper)
    await metrics.until(401, leaver)
    for token in (scraper, stranger, forged, leaver):
        assert token not in metrics.gangctl.log


async def scrapes_cost_few_reviews(metrics: Metrics, token: str) -> None:
    """The API server is asked again only when its answer has become old."""

    async def round_of_scrapes() -> int:
        since = metrics.plane.audit_position
        answers = {(await metrics.get(token))[0] for _ in range(50)}
        # Whose review was not answered in time asks again at once.
        if answers != {200}:
            raise NotYet(str(answers))
        return since

    since = await wait_for(round_of_scrapes, what="scrapes that are all answered")
    own = [each for each in metrics.plane.audit(since) if each["user"].get("username") == USER]
    reviews = [moment(each) for each in own if each.get("objectRef", {}).get("resource") == "tokenreviews"]
    gaps = [(after - before).total_seconds() for before, after in pairwise(reviews)]
    assert [each for each in gaps if each < ALLOWED_SECONDS - 0.1] == []


@pytest.mark.full("it says nothing either while gangctl may not ask")
async def test_while_the_api_server_is_down_no_client_gets_the_metrics(own: Cluster) -> None:
    async with secured(own) as metrics:
        scraper = await metrics.token("scraper")
        await metrics.bind("scraper")
        tls = await metrics.context()
        await metrics.plane.kill("kube-apiserver")
        status, text = await metrics.get(scraper, tls=tls)
        assert (status, text.partition(":")[0]) == (503, "the API server does not say who you are")
        await metrics.plane.start_component("kube-apiserver")
        assert "gangctl_build_info{" in await metrics.until(200, scraper)


async def test_without_the_right_to_reviews_no_client_gets_the_metrics(metrics: Metrics) -> None:
    (role,) = {
        each["metadata"]["name"]
        for each in component(COMPONENT, USER)
        if each["kind"] == "ClusterRole" and each["metadata"]["name"] != READER
    }
    for number, review in enumerate(REVIEWS):
        # Of another account each time: an answer counts for a while.
        account = f"scraper-{number}"
        scraper = await metrics.token(account)
        await metrics.bind(account)
        right = Right("ClusterRole", role, *review, "create")
        async with missing(metrics.plane.api, USER, [right]):
            assert (await metrics.get(scraper))[0] == 503
            assert right.words in metrics.gangctl.log.replace('\\"', '"')
        await metrics.until(200, scraper)
