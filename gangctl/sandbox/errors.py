"""Error responses: ``metav1.Status`` with the messages of kube-apiserver.

Constructors follow ``k8s.io/apimachinery/pkg/api/errors``: code, reason, message and details of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from gangctl.apiserver.metadata import FieldCause
from gangctl.sandbox.kinds import ResourceKind

EXPIRED_MESSAGE: Final = "The resourceVersion for the provided watch is too old."
UID_FIELD: Final = "metadata.uid"
CONTINUE_EXPIRED_MESSAGE: Final = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter, or use the continue token in this response to retrieve "
    "the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that "
    "were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."
)


class StatusError(Exception):
    """A request that fails, as the ``metav1.Status`` that it is answered with: ``code`` is the HTTP status too."""

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        """Make it; ``details`` are copied."""
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = None if details is None else dict(details)
        self.following = ""
        """The continue token for the rest of a list as it is now."""

    def __str__(self) -> str:
        return f"{self.code} {self.reason}: {self.message}"

    @property
    def about_another(self) -> bool:
        """Whether the object is gone or has changed since it was read, or another one has its name."""
        causes = (self.details or {}).get("causes") or ()
        # A patch with the UID of a deleted object is invalid; every other write with it is a conflict.
        return self.code in {404, 409} or any(cause.get("field") == UID_FIELD for cause in causes)

    def body(self) -> dict[str, Any]:
        """The ``metav1.Status``."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.following} if self.following else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


def _details(kind: ResourceKind, name: str) -> dict[str, Any]:
    details = {"name": name, "group": kind.group, "kind": kind.plural}
    return {key: value for key, value in details.items() if value}


def not_found(kind: ResourceKind, name: str) -> StatusError:
    """404 for an object."""
    return StatusError(404, "NotFound", f'{kind.qualified_name} "{name}" not found', _details(kind, name))


def no_resource() -> StatusError:
    """404 for a resource, or a version of it, that is not served under a known group."""
    return StatusError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(kind: ResourceKind, name: str, *, ending: bool = False) -> StatusError:
    """409 for a CREATE; ``ending`` if the existing object is being deleted."""
    message = f'{kind.qualified_name} "{name}" already exists'
    if ending:
        message = f"object is being deleted: {message}"
    return StatusError(409, "AlreadyExists", message, _details(kind, name))


OBJECT_MODIFIED: Final = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(kind: ResourceKind, name: str, why: str = OBJECT_MODIFIED) -> StatusError:
    """409 for a write that is based on another resourceVersion or UID."""
    message = f'Operation cannot be fulfilled on {kind.qualified_name} "{name}": {why}'
    return StatusError(409, "Conflict", message, _details(kind, name))


def precondition_failed(kind: ResourceKind, name: str, why: str) -> StatusError:
    """409 for a deletion of another object than the stored one; it names the kind, where others name the resource."""
    subject = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    message = f'Operation cannot be fulfilled on {subject} "{name}": {why}'
    return StatusError(409, "Conflict", message, {**_details(kind, name), "kind": kind.kind})


def apply_conflict(causes: Sequence[FieldCause], message: str) -> StatusError:
    """409 of server-side apply, one cause for each field that another manager owns."""
    return StatusError(409, "Conflict", message, {"causes": [cause.as_json() for cause in causes]})


def invalid(kind: ResourceKind, name: str, causes: Sequence[FieldCause]) -> StatusError:
    """422 with one cause for each field that is wrong."""
    # Events of both groups are validated as one type, that of the core group.
    group = "" if kind.storage == "events" else kind.group
    subject = f"{kind.kind}.{group}" if group else kind.kind
    texts = list(map(str, causes))
    # An aggregate error names equal messages once.
    texts = list(dict.fromkeys(texts))
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = {"name": name, "group": group, "kind": kind.kind}
    status_details: dict[str, Any] = {key: value for key, value in details.items() if value}
    if causes:
        status_details["causes"] = [cause.as_json() for cause in causes]
    return StatusError(422, "Invalid", f'{subject} "{name}" is invalid: {listed}', status_details)


def bad_request(message: str) -> StatusError:
    """400."""
    return StatusError(400, "BadRequest", message)


def forbidden(kind: ResourceKind, name: str, why: str, causes: Sequence[FieldCause] = ()) -> StatusError:
    """403 from built-in admission."""
    subject = f'{kind.qualified_name} "{name}"' if name else kind.qualified_name
    details = _details(kind, name)
    if causes:
        details["causes"] = [cause.as_json() for cause in causes]
    return StatusError(403, "Forbidden", f"{subject} is forbidden: {why}", details)


def namespace_terminating(kind: ResourceKind, name: str, namespace: str) -> StatusError:
    """403 for a CREATE in a namespace that is being deleted."""
    why = f"unable to create new content in namespace {namespace} because it is being terminated"
    cause = FieldCause("NamespaceTerminating", "metadata.namespace", f"namespace {namespace} is being terminated")
    return forbidden(kind, name, why, [cause])


def method_not_allowed() -> StatusError:
    """405 for a verb that the resource, or the path, does not have."""
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def expired(message: str = EXPIRED_MESSAGE) -> StatusError:
    """410 for a resourceVersion, or a continue token, that is older than what the server keeps."""
    return StatusError(410, "Expired", message)


def unsupported_media_type(accepted: Sequence[str]) -> StatusError:
    """415 for a body in a format that is not read."""
    message = f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    return StatusError(415, "UnsupportedMediaType", message)


def patch_rejected() -> StatusError:
    """422 for a JSON patch that does not fit the object; the server gives no details."""
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})


def internal(message: str) -> StatusError:
    """500."""
    details = {"causes": [{"message": message}]}
    return StatusError(500, "InternalError", f"Internal error occurred: {message}", details)
