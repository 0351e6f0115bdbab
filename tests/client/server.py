"""A small API server that gives the answers that a test scripts, over real HTTP, and records the requests."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    body: Any = None


@dataclass
class ScriptedServer:
    """Answers each (method, path) with its answers in order; the last one is repeated. Unknown paths are 404."""

    seen: list[Seen] = field(default_factory=list)
    _answers: dict[tuple[str, str], list[Answer]] = field(default_factory=dict)
    _runner: web.AppRunner | None = None
    _arrived: asyncio.Condition = field(default_factory=asyncio.Condition)
    url: str = ""
    tls: ssl.SSLContext | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self.tls)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http{'s' if self.tls else ''}://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    def on(self, method: str, path: str, *answers: Answer) -> None:
        self._answers[method, path] = list(answers)

    def count(self, method: str = "", path: str = "", **query: str) -> int:
        return len(self.asked(method, path, **query))

    def asked(self, method: str = "", path: str = "", **query: str) -> list[Seen]:
        return [
            seen
            for seen in self.seen
            if method in {"", seen.method} and path in {"", seen.path} and query.items() <= seen.query.items()
        ]

    async def until(self, condition: Callable[[], bool], seconds: float = 300.0) -> None:
        """Wait until ``condition`` holds, looking after every request."""
        async with asyncio.timeout(seconds), self._arrived:
            await self._arrived.wait_for(condition)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body = json.loads(raw) if raw else None
        seen = Seen(request.method, request.path, dict(request.query), dict(request.headers), body)
        self.seen.append(seen)
        async with self._arrived:
            self._arrived.notify_all()
        answers = self._answers.get((request.method, request.path))
        if not answers:
            return await status(404, "NotFound", f"{request.path} not found")(request)
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return await answer(request)


def obj(value: Any, *, code: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.json_response(value, status=code, headers=headers)

    return answer


def text(value: str, *, code: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    async def answer(_: web.Request) -> web.StreamResponse:
        return web.Response(text=value, status=code, headers=headers)

    return answer


def status(
    code: int,
    reason: str,
    message: str = "",
    *,
    details: dict[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    token: str = "",
) -> Answer:
    made = {**status_object(code, reason, message, details=details), "metadata": {"continue": token} if token else {}}
    return obj(made, code=code, headers=headers)


def status_object(
    code: int, reason: str, message: str = "", *, details: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details or {},
    }


def page(*items: dict[str, Any], version: str = "10", token: str = "", remaining: int = 0) -> Answer:
    metadata: dict[str, Any] = {"resourceVersion": version}
    if token:
        metadata |= {"continue": token, "remainingItemCount": remaining}
    return obj({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": list(items)})


def hang() -> Answer:
    """Accept the request and never answer."""

    async def answer(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    return answer


def reset() -> Answer:
    """Close the connection instead of answering."""

    async def answer(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return answer


class Stream:
    """A watch whose events the test sends while it runs."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.closed = asyncio.Event()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._broken = False

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        self.opened.set()
        try:
            while (line := await self._lines.get()) is not None:
                await response.write(line)
            if self._broken:
                assert request.transport is not None
                request.transport.abort()
        finally:
            self.closed.set()
        return response

    def send(self, kind: str, value: dict[str, Any]) -> None:
        self.send_raw(json.dumps({"type": kind, "object": value}).encode() + b"\n")

    def send_raw(self, line: bytes) -> None:
        self._lines.put_nowait(line)

    def close(self) -> None:
        self._lines.put_nowait(None)

    def break_off(self) -> None:
        self._broken = True
        self.close()


def thing(name: str, version: int | str = 1, *, namespace: str = "ns", uid: str = "", **rest: Any) -> dict[str, Any]:
    """A raw object; by default its uid is made of its name."""
    metadata = {"name": name, "namespace": namespace, "resourceVersion": str(version), "uid": uid or f"uid-{name}"}
    return {"metadata": metadata, **rest}
