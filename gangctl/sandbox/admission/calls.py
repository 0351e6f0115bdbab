"""HTTPS calls of webhooks: sends an AdmissionReview, receives an AdmissionResponse."""

from __future__ import annotations

import asyncio
import ssl
from http import HTTPStatus
from typing import Any

import aiohttp
import orjson

from gangctl.errors import ConfigError
from gangctl.runtime.tls import client_context
from gangctl.sandbox.objects import Object

_BODY_BYTES = 3 * 2**20


class CallError(Exception):
    """A webhook gave no usable response; the message ends the server's ``failed calling webhook ...``."""


class Calls:
    """Calls webhooks; connections are kept per trusted authority, and belong to one event loop."""

    def __init__(self) -> None:
        """Start without connections."""
        self._sessions: dict[bytes, aiohttp.ClientSession] = {}

    async def close(self) -> None:
        """Close every connection; the next call opens new ones."""
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()

    async def review(self, url: str, authorities: bytes, request: Object, seconds: float) -> Object:
        """The webhook's ``response`` to ``request``; CallError when there is none within ``seconds``."""
        review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
        where = f"{url}{'&' if '?' in url else '?'}timeout={seconds:g}s"
        try:
            async with asyncio.timeout(seconds):
                text = await self._post(where, authorities, orjson.dumps(review))
        except TimeoutError as error:
            raise CallError(f'failed to call webhook: Post "{where}": context deadline exceeded') from error
        except aiohttp.ClientError as error:
            raise CallError(f'failed to call webhook: Post "{where}": {_why(error)}') from error
        return _response(text, request)

    async def _post(self, url: str, authorities: bytes, body: bytes) -> bytes:
        session = self._session(authorities)
        async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as answer:
            text = await answer.content.read(_BODY_BYTES)
            if answer.status != HTTPStatus.OK:
                if answer.status < HTTPStatus.BAD_REQUEST:
                    raise CallError(f"expected webhook response of 200, got {answer.status}")
                raise CallError(
                    "failed to call webhook: the server rejected our request for an unknown reason"
                    if not text
                    else f"failed to call webhook: {text.decode(errors='replace').strip()[:500]}"
                )
            return text

    def _session(self, authorities: bytes) -> aiohttp.ClientSession:
        session = self._sessions.get(authorities)
        if session is None:
            try:
                # Without its own authorities a registration uses those of the machine.
                context = client_context(authorities) if authorities else ssl.create_default_context()
            except ConfigError as error:
                raise CallError("failed to call webhook: unable to load root certificates") from error
            session = self._sessions[authorities] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=context),
                timeout=aiohttp.ClientTimeout(total=None),
                headers={"User-Agent": "kube-apiserver-admission", "Accept": "application/json, */*"},
                # The environment's proxy is not meant for loopback.
                trust_env=False,
            )
        return session


def _why(error: aiohttp.ClientError) -> str:
    """The error as Go's HTTP client words it, if possible."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionRefusedError):
        return f"dial tcp {error.host}:{error.port}: connect: connection refused"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error) or type(error).__name__


def _response(text: bytes, request: Object) -> Object:
    try:
        review = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise CallError(f"received invalid webhook response: {error}") from error
    if not isinstance(review, dict) or review.get("kind") != "AdmissionReview":
        raise CallError("received invalid webhook response: expected webhook response of AdmissionReview")
    response: Any = review.get("response")
    if not isinstance(response, dict):
        raise CallError("received invalid webhook response: webhook response was absent")
    if response.get("uid") != request["uid"]:
        raise CallError(
            f'received invalid webhook response: expected response.uid="{request["uid"]}", got "{response.get("uid")}"'
        )
    return response
