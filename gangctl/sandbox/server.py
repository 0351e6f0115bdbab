"""The sandbox as a server on loopback: start, credentials, stop."""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, Self

import yaml
from aiohttp import web

from gangctl.apiserver.minors import NEWEST
from gangctl.runtime.tls import KeyPair, ServerTls, found, issue
from gangctl.sandbox import controllers
from gangctl.sandbox.api import Api
from gangctl.sandbox.definitions import DefinitionController
from gangctl.sandbox.http import FindUser, Front
from gangctl.sandbox.requests import Caller

_HOST: Final = "127.0.0.1"
_LIFETIME: Final = timedelta(days=365)
_ADMIN_GROUPS: Final = ("system:masters",)


@dataclass(frozen=True)
class SandboxOptions:
    """Options of a sandbox.

    ``gates`` and ``runtime_config`` are laid over what gangs need, as on a control plane;
    ``runtime_config={"scheduling.k8s.io/v1beta1": False}`` serves no Workloads. ``port`` 0 is any free one.
    """

    minor: str = NEWEST
    gates: Mapping[str, bool] = field(default_factory=dict)
    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    tls: bool = True
    port: int = 0


class Sandbox:
    """A running server: ``async with Sandbox(SandboxOptions(minor="1.36")) as sandbox``."""

    def __init__(self, options: SandboxOptions | None = None) -> None:
        """Create the server's objects, without listening. ValueError for an unknown minor."""
        self.options: Final = options or SandboxOptions()
        self.api: Final = Api(self.options.minor, gates=self.options.gates, runtime_config=self.options.runtime_config)
        self._controllers: tuple[controllers.StoreController[Any], ...] = (
            controllers.GarbageCollector(self.api),
            controllers.NamespaceController(self.api),
            controllers.PodGroupProtection(self.api),
            controllers.QuotaController(self.api),
            DefinitionController(self.api),
        )
        self._upkeep: asyncio.Task[None] | None = None
        self._tokens: dict[str, Caller] = {}
        self._front = self._make_front(self._tokens.get)
        self._by_user: dict[str, str] = {}
        self._runner: web.AppRunner | None = None
        self._port = self.options.port

    def _make_front(self, find_user: FindUser) -> Front:
        return Front(self.api, find_user)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def url(self) -> str:
        """The address it listens on; RuntimeError before the start."""
        if self._runner is None:
            raise RuntimeError("the sandbox is not open")
        return f"{'https' if self.options.tls else 'http'}://{_HOST}:{self._port}"

    @property
    def ca_pem(self) -> bytes:
        """The certificate of the authority behind the server's, in PEM; empty without TLS."""
        return _credentials()[0] if self.options.tls else b""

    async def open(self) -> None:
        """Listen; again on the same port after :meth:`close`, with everything that is stored."""
        # In aiohttp 0 is no limit.
        app = web.Application(client_max_size=0)
        app.router.add_route("*", "/{path:.*}", self._front.handle)
        # Cancel handlers of disconnected clients, so that watches without a reader end.
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.2)
        await runner.setup()
        tls = ServerTls(_credentials()[1]).context if self.options.tls else None
        # It may open again on a port whose connections are still in TIME_WAIT.
        site = web.TCPSite(runner, _HOST, self._port, ssl_context=tls, reuse_address=True)
        try:
            await site.start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        self._port = int(runner.addresses[0][1])
        self._upkeep = asyncio.create_task(self._run_controllers(), name="sandbox-controllers")

    async def close(self) -> None:
        """End every watch and stop listening; what is stored stays."""
        upkeep, self._upkeep = self._upkeep, None
        if upkeep is not None:
            upkeep.cancel()
            # Not awaited itself: that would raise its cancellation here.
            await asyncio.wait({upkeep})
            if not upkeep.cancelled():
                # An error of a controller is raised here: no caller awaits the task.
                upkeep.result()
        runner, self._runner = self._runner, None
        if runner is not None:
            # Before the clean-up, which waits for open requests.
            self._front.end_watches()
            await runner.cleanup()
        # Last: open requests and controllers call webhooks until they end.
        await self.api.backend.admission.close()

    async def _run_controllers(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for controller in self._controllers:
                tasks.create_task(controller.run(), name=controller.name)

    def token(self, user: str = "admin", groups: Sequence[str] | None = None) -> str:
        """The bearer token of a user, one for each; ``groups`` replace those that the user had."""
        token = self._by_user.get(user)
        if token is None:
            token = self._by_user[user] = secrets.token_urlsafe(24)
        known = self._tokens.get(token)
        if groups is None:
            groups = known.groups if known is not None else _ADMIN_GROUPS if user == "admin" else ()
        self._tokens[token] = Caller(user, tuple(groups))
        return token

    def kubeconfig(self, user: str = "admin", groups: Sequence[str] | None = None) -> str:
        """A kubeconfig, as YAML text, with which ``user`` reaches this server."""
        cluster: dict[str, Any] = {"server": self.url}
        if self.options.tls:
            cluster["certificate-authority-data"] = base64.b64encode(self.ca_pem).decode()
        return yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": "sandbox", "cluster": cluster}],
                "users": [{"name": user, "user": {"token": self.token(user, groups)}}],
                "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": user}}],
                "current-context": "sandbox",
            }
        )


@lru_cache(maxsize=1)
def _credentials() -> tuple[bytes, KeyPair]:
    """An authority's certificate and a pair for loopback: made once in a process, for it is the slowest part."""
    now = datetime.now(UTC)
    authority = found(now, _LIFETIME)
    return authority.certificate, issue(authority, [_HOST, "localhost"], now, _LIFETIME)
