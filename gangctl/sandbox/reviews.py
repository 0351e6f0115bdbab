"""Access and token reviews, which are not stored. Every user may do everything here."""

from __future__ import annotations

from collections.abc import Callable

from gangctl.sandbox.caller import Caller
from gangctl.sandbox.kinds import ResourceKind
from gangctl.sandbox.objects import Object, metadata, now

AUTHENTICATED = "system:authenticated"


def answer(kind: ResourceKind, body: Object, caller: Caller, find_user: Callable[[str], Caller | None]) -> Object:
    """``body`` with a status; ``find_user`` returns the user of a token."""
    body["apiVersion"], body["kind"] = kind.api_version, kind.kind
    metadata(body)
    match kind.kind:
        case "SelfSubjectReview":
            body["metadata"]["creationTimestamp"] = now()
            body["status"] = {"userInfo": user_info(caller)}
        case "TokenReview":
            token = str((body.get("spec") or {}).get("token") or "")
            found = find_user(token)
            body["status"] = (
                {"user": {}, "error": "invalid bearer token"}
                if found is None
                else {"authenticated": True, "user": user_info(found)}
            )
        case _:
            body["status"] = {"allowed": True}
    return body


def user_info(caller: Caller) -> Object:
    """``authentication.k8s.io/v1`` UserInfo."""
    return {"username": caller.name, "groups": [*caller.groups, AUTHENTICATED]}
