"""Admission by webhooks: first the mutating ones in sequence, later the validating ones concurrently."""

from __future__ import annotations

import asyncio
import base64
import binascii
from http import HTTPStatus
from typing import Any, Final

import orjson

from gangctl.sandbox import errors
from gangctl.sandbox.admission import Attributes
from gangctl.sandbox.admission.calls import CallError, Calls
from gangctl.sandbox.admission.conditions import ConditionError, request_variable
from gangctl.sandbox.admission.hooks import MUTATING, VALIDATING, Hook, Hooks
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object, uid
from gangctl.sandbox.patches import json_patch
from gangctl.sandbox.store import Store

_NEVER_SENT: Final = frozenset({MUTATING, VALIDATING})


class WebhookAdmission:
    """Called before every write that is not the server's own: calls the matching webhooks in ``store``."""

    def __init__(self, store: Store) -> None:
        """Start without connections."""
        self._store = store
        self._hooks = Hooks(store)
        self._calls = Calls()

    async def close(self) -> None:
        """Close the connections to webhooks."""
        await self._calls.close()

    async def mutate(self, attributes: Attributes, obj: Object) -> Object:
        """``obj`` after the mutating webhooks; unchanged if none of them changes it."""
        hooks = self._of(MUTATING, attributes)
        again: list[Hook] = []
        for hook in hooks:
            changed = await self._mutated(hook, attributes, obj)
            if changed is not obj:
                # Only those that were called before may get the object a second time.
                again = [called for called in hooks[: hooks.index(hook)] if called.reinvoked]
                obj = changed
        for hook in again:
            obj = await self._mutated(hook, attributes, obj)
        return obj

    async def validate(self, attributes: Attributes, obj: Object | None) -> None:
        """StatusError of the first webhook, in their order, that denies; ``obj`` is None for a DELETE."""
        hooks = self._of(VALIDATING, attributes)
        answers = await asyncio.gather(*(self._asked(hook, attributes, obj) for hook in hooks), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer

    def _of(self, storage: str, attributes: Attributes) -> list[Hook]:
        if attributes.kind.storage in _NEVER_SENT:
            return []
        return [hook for hook in self._hooks.of(storage) if hook.covers(attributes)]

    async def _mutated(self, hook: Hook, attributes: Attributes, obj: Object) -> Object:
        response = await self._asked(hook, attributes, None if attributes.operation == "DELETE" else obj)
        if response is None or not response.get("patch"):
            return obj
        try:
            return _patched(obj, response)
        except (StatusError, ValueError) as error:
            raise errors.internal(f'webhook "{hook.name}" sent a patch that cannot be applied: {error}') from error

    async def _asked(self, hook: Hook, attributes: Attributes, obj: Object | None) -> Object | None:
        """The response of an admitting webhook; None if it is not called, or its failure is ignored."""
        if not hook.selects(attributes, obj, self._namespace(attributes)):
            return None
        request = _request(attributes, obj)
        variables = {"object": obj, "oldObject": attributes.old, "request": request_variable(request)}
        try:
            if not hook.conditions.hold(variables):
                return None
        except ConditionError as error:
            if hook.ignores_failure:
                return None
            raise errors.forbidden(attributes.kind, attributes.name, str(error)) from error
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

    def _namespace(self, attributes: Attributes) -> Object | None:
        """The object whose labels the namespaceSelector checks; None for cluster-scoped objects, which always match."""
        if attributes.kind.storage == "namespaces":
            key = ("", attributes.name)
        elif attributes.kind.namespaced:
            key = ("", attributes.namespace)
        else:
            return None
        stored = self._store.get("namespaces", key)
        return {"metadata": {}} if stored is None else stored.obj


def _request(attributes: Attributes, obj: Object | None) -> Object:
    kind = attributes.kind
    subresource = {"subResource": attributes.subresource} if attributes.subresource else {}
    requested = {"requestSubResource": attributes.subresource} if attributes.subresource else {}
    user: Object = {"username": attributes.caller.name, "groups": [*attributes.caller.groups, "system:authenticated"]}
    request = {
        "uid": uid(),
        "kind": _kind(kind),
        "resource": _resource(kind),
        **subresource,
        "requestKind": _kind(kind),
        "requestResource": _resource(kind),
        **requested,
        "operation": attributes.operation,
        "userInfo": user,
        "object": obj,
        "oldObject": attributes.old,
        "dryRun": attributes.dry_run,
        "options": attributes.options,
    }
    names = {"name": attributes.name, "namespace": attributes.namespace}
    return {**request, **{key: value for key, value in names.items() if value}}


def _kind(kind: ResourceKind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(kind: ResourceKind) -> Object:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}


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
    return StatusError(
        code if code >= HTTPStatus.BAD_REQUEST else int(HTTPStatus.BAD_REQUEST),
        str(status.get("reason") or ""),
        f"{denied}: {message}" if message else f"{denied} without explanation",
        status.get("details") or {},
    )
