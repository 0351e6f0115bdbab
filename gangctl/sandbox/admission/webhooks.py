"""Admission by policies, then by webhooks over HTTPS: mutating ones in sequence, later the validating ones at once."""

from __future__ import annotations

import asyncio
import base64
import binascii
import ssl
from http import HTTPStatus
from typing import Any

import aiohttp
import orjson
from aiohttp.connector import NEEDS_CLEANUP_CLOSED

from gangctl.api.objects import same
from gangctl.apiserver.expressions import ConditionError
from gangctl.errors import ConfigError
from gangctl.runtime.tls import client_context
from gangctl.sandbox import errors
from gangctl.sandbox.admission.hooks import (
    MUTATING,
    NEVER_SENT,
    VALIDATING,
    Hook,
    Hooks,
    Invocations,
    namespace_of,
)
from gangctl.sandbox.admission.policies import Policies
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.objects import Object
from gangctl.sandbox.patches import json_patch
from gangctl.sandbox.requests import Attributes, admission_request, variables
from gangctl.sandbox.store import ObjectStore


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
            text = await answer.read()
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
                connector=aiohttp.TCPConnector(ssl=context, enable_cleanup_closed=NEEDS_CLEANUP_CLOSED),
                # Each call has the timeout of its registration.
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


class WebhookAdmission:
    """Applies the policies and calls the webhooks in ``store`` before every write that is not the server's own."""

    def __init__(self, store: ObjectStore) -> None:
        """Start without connections."""
        self._store = store
        self._hooks = Hooks(store)
        self._policies = Policies(store)
        self._calls = Calls()

    async def close(self) -> None:
        """Close the connections to webhooks."""
        await self._calls.close()

    async def mutate(self, attributes: Attributes, obj: Object) -> Object:
        """``obj`` after policies and mutating webhooks; unchanged if none of them changes it.

        After a change those are applied once more that ask for it.
        """
        if attributes.kind.storage in NEVER_SENT:
            return obj
        policies, hooks = Invocations(), Invocations()
        first = await self._pass(attributes, obj, policies, hooks)
        if same(first, obj):
            return obj
        policies.begin_again(first)
        return await self._pass(attributes, first, policies, hooks, again=True)

    async def _pass(
        self, attributes: Attributes, obj: Object, policies: Invocations, hooks: Invocations, *, again: bool = False
    ) -> Object:
        obj = self._policies.mutate(attributes, obj, policies)
        if again:
            hooks.begin_again(obj)
        namespace = namespace_of(attributes, self._store)
        for hook in self._hooks.of(MUTATING):
            if not hook.match.includes(attributes, obj, namespace) or not hooks.includes(id(hook)):
                continue
            request = _request(hook, attributes, None if attributes.operation == "DELETE" else obj)
            if request is None:
                # In the second pass no webhook is called for the first time.
                continue
            mutated = await self._mutated(hook, attributes, request, obj)
            if not same(mutated, obj):
                obj = mutated
                hooks.changed()
            if hook.again_if_needed:
                hooks.called(id(hook))
        hooks.end(obj)
        return obj

    async def validate(self, attributes: Attributes, obj: Object | None) -> None:
        """StatusError of the first webhook, in their order, that denies; ``obj`` is None for a DELETE."""
        if attributes.kind.storage in NEVER_SENT:
            return
        namespace = namespace_of(attributes, self._store)
        hooks = [hook for hook in self._hooks.of(VALIDATING) if hook.match.includes(attributes, obj, namespace)]
        requests = [(hook, _request(hook, attributes, obj)) for hook in hooks]
        calls = (self._asked(hook, attributes, request) for hook, request in requests if request is not None)
        # Of several denials the first in the order of the webhooks is raised, not the fastest.
        answers = await asyncio.gather(*calls, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer

    async def _mutated(self, hook: Hook, attributes: Attributes, request: Object, obj: Object) -> Object:
        response = await self._asked(hook, attributes, request)
        if response is None or not response.get("patch"):
            return obj
        try:
            return _patched(obj, response)
        except (StatusError, ValueError) as error:
            raise errors.internal(f'webhook "{hook.name}" sent a patch that cannot be applied: {error}') from error

    async def _asked(self, hook: Hook, attributes: Attributes, request: Object) -> Object | None:
        """The response of an admitting webhook; None if its failure is ignored."""
        if attributes.dry_run and hook.has_side_effects:
            raise errors.bad_request(f'admission webhook "{hook.name}" does not support dry run')
        try:
            response = await self._calls.review(hook.url, hook.authorities, request, hook.seconds)
        except CallError as error:
            if hook.ignores_failure:
                return None
            raise errors.internal(f'failed calling webhook "{hook.name}": {error}') from error
        attributes.warnings += [str(warning) for warning in response.get("warnings") or []]
        if not response.get("allowed"):
            raise _denied(hook.name, response.get("status") or {})
        return response


def _request(hook: Hook, attributes: Attributes, obj: Object | None) -> Object | None:
    """What a webhook gets; None if its conditions do not hold."""
    request = admission_request(attributes, obj)
    try:
        return request if hook.conditions.hold(variables(request)) else None
    except ConditionError as error:
        if hook.ignores_failure:
            return None
        raise errors.forbidden(attributes.kind, attributes.name, str(error)) from error


def _patched(obj: Object, response: Object) -> Object:
    """The object after the response's patch; ValueError or StatusError when that is none."""
    if response.get("patchType") != "JSONPatch":
        raise ValueError(f"patchType {response.get('patchType')!r} is not JSONPatch")
    try:
        patch: Any = orjson.loads(base64.b64decode(response["patch"], validate=True))
    except (binascii.Error, TypeError) as error:
        raise ValueError("the patch is not base64") from error
    return json_patch(obj, patch) if patch else obj


def _denied(name: str, status: Object) -> StatusError:
    """A denial as the server words it: its own text, and the webhook's message, reason, code and details."""
    denied = f'admission webhook "{name}" denied the request'
    message = status.get("message") or status.get("reason")
    code = status.get("code") or 0
    # ToStatusErr of the API server: no denial has a code below 400.
    return StatusError(
        code if code >= HTTPStatus.BAD_REQUEST else int(HTTPStatus.BAD_REQUEST),
        str(status.get("reason") or ""),
        f"{denied}: {message}" if message else f"{denied} without explanation",
        status.get("details") or {},
    )
