"""Admission webhooks that a test plays: a server on loopback, what it was asked, and its registration."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from aiohttp import web

from tests.conformance.answers import send
from tests.conformance.grounds import Server
from tests.conformance.objects import NAMESPACES, configmap, configmaps, lease, leases
from tests.controlplane.api import Object, Objects, path_of
from tests.controlplane.pki import Authority
from tests.controlplane.wait import NotYet, wait_for

Phase = Literal["mutating", "validating"]
Respond = Callable[[Object], Object]

DOMAIN: Final = "conformance.example.com"
CONFIGURATIONS: Final[dict[Phase, str]] = {
    phase: path_of("admissionregistration.k8s.io/v1", f"{phase}webhookconfigurations")
    for phase in ("mutating", "validating")
}
KINDS: Final[dict[Phase, str]] = {
    "mutating": "MutatingWebhookConfiguration",
    "validating": "ValidatingWebhookConfiguration",
}
CONFIGMAPS: Final[Object] = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "resources": ["configmaps"],
    "operations": ["CREATE", "UPDATE"],
}
# Shows that a registration has come into force; no test asserts on it.
_LEASES: Final[Object] = {
    "apiGroups": ["coordination.k8s.io"],
    "apiVersions": ["v1"],
    "resources": ["leases"],
    "operations": ["CREATE"],
}

# A ConfigMap that a controller puts into each new namespace, whenever it gets there.
_FROM_THE_CLUSTER: Final = "kube-root-ca.crt"


def allow(request: Object) -> Object:
    return {"uid": request["uid"], "allowed": True}


def deny(**status: Any) -> Respond:
    """Refuse with this Status, or with none."""
    return lambda request: {"uid": request["uid"], "allowed": False, **({"status": status} if status else {})}


def warn(*warnings: str) -> Respond:
    return lambda request: {**allow(request), "warnings": list(warnings)}


def patch(*operations: Object) -> Respond:
    """Allow with a JSON patch."""
    text = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda request: {**allow(request), "patchType": "JSONPatch", "patch": text}


def note(key: str, value: str) -> Respond:
    """Put an entry into a ConfigMap's data."""
    return patch({"op": "add", "path": f"/data/{key}", "value": value})


class WebhookServer:
    """
    A server that answers for the webhooks of every test, on a thread of its own.

    An API server keeps its connections to webhooks: they would outlive the loop of a test.
    """

    def __init__(self, authority: Authority) -> None:
        self.ca = authority.certificate.read_bytes()
        pair = authority.server("webhooks")
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(pair.certificate, pair.key)
        self._runner = self._make()
        self._port = 0
        self._closing = asyncio.Event()
        self.answers: dict[str, Respond] = {}
        self.requests: dict[str, Objects] = {}

    def url(self, name: str) -> str:
        return f"https://127.0.0.1:{self._port}/{name}"

    async def open(self) -> None:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._context).start()
        self._port = self._runner.addresses[0][1]

    async def close(self) -> None:
        self._closing.set()
        for connection in self._runner.server.connections if self._runner.server else []:
            if connection.transport is not None:
                connection.transport.abort()
        await self._runner.cleanup()

    def _make(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_post("/{name}", self._review)
        return web.AppRunner(app, shutdown_timeout=1)

    async def _review(self, call: web.Request) -> web.Response:
        name = call.match_info["name"]
        review = await call.json()
        if review["request"].get("name") == _FROM_THE_CLUSTER:
            return _answer(review, allow(review["request"]))
        self.requests.setdefault(name, []).append(review["request"])
        if name not in self.answers:
            await self._closing.wait()
            return web.Response(status=500)
        response = self.answers[name](review["request"])
        if "raw" in response:
            return web.Response(status=response["status"], text=response["raw"])
        return _answer(review, response)


def _answer(review: Object, response: Object) -> web.Response:
    return web.json_response({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})


@dataclass
class Hooks:
    """The webhooks of a test; they are called for the objects of one namespace only."""

    server: Server
    namespace: str
    listener: WebhookServer
    _registered: list[str] = field(default_factory=list)

    async def close(self) -> None:
        for path in self._registered:
            await self.server.api.delete(path)

    @asynccontextmanager
    async def elsewhere(self) -> AsyncIterator[Hooks]:
        """The webhooks of one row of a table: in a namespace of their own, where those of other rows are not called."""
        namespace = f"{self.namespace}-{secrets.token_hex(2)}"
        await self.server.api.create(NAMESPACES, {"metadata": {"name": namespace}})
        hooks = Hooks(self.server, namespace, self.listener)
        try:
            yield hooks
        finally:
            await hooks.close()

    async def create(self, name: str = "a", **metadata: Any) -> Object:
        """Make a ConfigMap for webhooks to be asked about."""
        return await self.server.api.create(configmaps(self.namespace), configmap(name, {"k": "v"}, **metadata))

    def requests(self, name: str) -> Objects:
        """What a webhook was asked so far."""
        return self.listener.requests.setdefault(self._path(name), [])

    def _path(self, name: str) -> str:
        return f"{self.namespace}-{name}"

    def entry(self, name: str, respond: Respond | None = allow, **fields: Any) -> Object:
        """A webhook that answers so; without an answer it does not answer in time."""
        if respond is not None:
            self.listener.answers[self._path(name)] = respond
        return {
            "name": f"{name}.{DOMAIN}",
            "clientConfig": {
                "url": self.listener.url(self._path(name)),
                "caBundle": base64.b64encode(self.listener.ca).decode(),
            },
            "rules": [CONFIGMAPS],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            # The longest that there is: a machine that stands still for a while changes no answer.
            "timeoutSeconds": 30,
            **fields,
        }

    def configuration(self, phase: Phase, *entries: Object, name: str = "a") -> Object:
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": KINDS[phase],
            "metadata": {"name": f"{name}-{self.namespace}"},
            "webhooks": list(entries),
        }

    async def register(self, phase: Phase, *entries: Object, name: str = "a") -> None:
        """Register webhooks in one configuration, and wait until the server calls them."""
        ready = f"ready-{phase}-{name}"
        body = self.configuration(phase, self.entry(ready, rules=[_LEASES]), *entries, name=name)
        await self.server.api.create(CONFIGURATIONS[phase], body)
        self._registered.append(f"{CONFIGURATIONS[phase]}/{body['metadata']['name']}")

        async def called() -> bool:
            answer = await send(self.server.api, "POST", leases(self.namespace), lease("probe"), dryRun="All")
            if not self.requests(ready):
                raise NotYet(f"{answer.status}, and no call")
            return True

        await wait_for(called, f"the {phase} webhooks to be called", interval=0.01)

    def names(self, name: str) -> list[str]:
        """The names of the objects that a webhook was asked about."""
        return [request["name"] for request in self.requests(name)]


def raw(text: str, status: int = 200) -> Respond:
    """Answer this text, whatever it is."""
    return lambda _: {"raw": text, "status": status}
