"""AdmissionReview ``admission.k8s.io/v1``: the API server's requests, and the answers that it accepts.

Bytes in, values out, and back. The rules for answers are the API server's own
(``k8s.io/apiserver/pkg/admission/plugin/webhook/request`` and ``pkg/endpoints/filters/warning.go``): an answer that
breaks one counts as a failed call, or is dropped silently.
"""

from __future__ import annotations

import asyncio
import base64
import time
import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final, Literal, cast

import orjson

from gangctl.errors import FieldError, InputError, shown
from gangctl.webhooks.configurations import AGAIN

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
_OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE", "CONNECT")
_NOT_IN_CEL: Final = frozenset({"uid", "object", "oldObject"})

# Once the warnings of one request exceed 4096 characters, the API server cuts each at 256. Warnings of other
# plugins count too, so ours are made to survive that cut.
WARNING_CHARACTERS: Final = 256
WARNINGS_CHARACTERS: Final = 4096
# For the line with the number of those that are left out.
_MORE_RESERVE: Final = 40

MAX_VALUES: Final = 1_000_000
"""Decoded, seven megabytes of empty lists take forty times the memory of their text."""

MAX_OBJECT_VALUES: Final = 200_000
"""Less than half: an update has two objects, with what controllers have added. etcd stores at most 1.5 MiB of each."""
MAX_UPDATED_VALUES: Final = 225_000
"""Of one that exists. Kueue writes a flavor's labels and tolerations into each pod template when it starts a JobSet:
with the limit at creation it could not start one just below that. Two of these, with as many values as etcd has space
for in their status and managedFields, are still less than :data:`MAX_VALUES`."""
TOO_MANY: Final = f"has more than {MAX_OBJECT_VALUES} values"
"""What such an object does, in messages."""

_MOST_HEAD: Final = 1 << 20

_BAD_REQUEST: Final = 400


@dataclass(frozen=True, slots=True)
class Kind:
    """Group, version and kind of the object; the core group is ""."""

    group: str
    version: str
    kind: str


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """One request for admission.

    ``name`` is "" while ``generateName`` is not resolved, ``namespace`` when there is none;
    ``object`` is None for DELETE, ``old_object`` for CREATE, either may be for CONNECT.
    """

    uid: str
    operation: Operation
    kind: Kind
    namespace: str = ""
    name: str = ""
    object: Mapping[str, Any] | None = None
    old_object: Mapping[str, Any] | None = None
    variable: Mapping[str, Any] = field(default_factory=dict)
    """The request as CEL's ``request``: as it was sent, without the objects and the call's own uid."""


class OversizedError(InputError):
    """An object has more values than are read; ``request`` is what is asked, without the objects."""

    def __init__(self, request: AdmissionRequest) -> None:
        """Keep the request."""
        super().__init__(f"the object {TOO_MANY}")
        self.request = request


def decode_review(body: bytes) -> AdmissionRequest:
    """Read the JSON body of a webhook call; InputError (HTTP 400) names the missing or wrong field."""
    # Counted in the text, because decoding takes the memory that the limit protects.
    values = _values(body)
    if values > MAX_VALUES:
        # API servers write the objects behind all that a refusal needs to know.
        end = body.find(b',"object":')
        if not 0 < end < _MOST_HEAD:
            raise InputError(f"the body holds more than {MAX_VALUES} values")
        raise OversizedError(_decode(body[:end] + b"}}"))
    request = _with_objects(_decode(body))
    # Before it exists. Otherwise no update of it could be read, such as the one by which Kueue suspends it.
    most = MAX_OBJECT_VALUES if request.old_object is None else MAX_UPDATED_VALUES
    if values > most and _written(request.object) > max(most, _written(request.old_object)):
        raise OversizedError(replace(request, object=None, old_object=None))
    return request


def _values(text: bytes) -> int:
    return sum(text.count(sign) for sign in (b",", b"[", b"{"))


def _written(raw: Mapping[str, Any] | None) -> int:
    """How many values an object has, without those that controllers add to it."""
    own = {name: value for name, value in (raw or {}).items() if name != "status"}
    for part, added in (("metadata", "managedFields"), ("spec", "suspend")):
        if isinstance(inner := own.get(part), dict):
            own[part] = {name: value for name, value in inner.items() if name != added}
    return _values(orjson.dumps(own))


def _decode(body: bytes) -> AdmissionRequest:
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InputError(f"the body is not JSON: {error}") from error
    if not isinstance(review, dict):
        raise InputError(f"the body is {shown(review)}, not an {KIND} object")
    if review.get("kind") != KIND or review.get("apiVersion") != API_VERSION:
        got = f"kind {shown(review.get('kind'))} and apiVersion {shown(review.get('apiVersion'))}"
        raise InputError(
            f"the body has {got}, not {KIND} and {API_VERSION}",
            hint='set admissionReviewVersions: ["v1"] in the webhook configuration',
        )
    raw = _Fields(review, "").required("request", dict)
    request = _Fields(raw, "request")
    operation = request.required("operation", str)
    if operation not in _OPERATIONS:
        raise InputError(f"request.operation is {shown(operation)}, not one of {', '.join(_OPERATIONS)}")
    uid = request.required("uid", str)
    if not uid:
        raise InputError("request.uid is empty")
    # Which policies apply follows from these, in ``variable``.
    request.strings("resource", "group", "version", "resource")
    request.optional("subResource", str, "")
    return AdmissionRequest(
        uid=uid,
        operation=cast("Operation", operation),
        kind=Kind(*request.strings("kind", "group", "version", "kind")),
        namespace=request.optional("namespace", str, ""),
        name=request.optional("name", str, ""),
        object=request.optional("object", dict, None),
        old_object=request.optional("oldObject", dict, None),
        variable={name: value for name, value in raw.items() if name not in _NOT_IN_CEL},
    )


def _with_objects(request: AdmissionRequest) -> AdmissionRequest:
    """The request, if it carries the objects that its operation requires."""
    if request.object is None and request.operation in {"CREATE", "UPDATE"}:
        raise InputError(f"request.object is missing, {request.operation} has one")
    if request.old_object is None and request.operation in {"UPDATE", "DELETE"}:
        raise InputError(f"request.oldObject is missing, {request.operation} has one")
    return request


class _Fields:
    """Fields of one object of the review; a wrong type raises, because then the caller is not an API server."""

    def __init__(self, value: Mapping[str, Any], path: str) -> None:
        self._value = value
        self._path = path

    def optional(self, name: str, wanted: type, default: Any) -> Any:
        value = self._value.get(name)
        if value is None:
            return default
        if not isinstance(value, wanted):
            raise InputError(f"{self._at(name)} is {shown(value)}, not {_NAMES[wanted]}")
        return value

    def required(self, name: str, wanted: type) -> Any:
        value = self.optional(name, wanted, None)
        if value is None:
            raise InputError(f"{self._at(name)} is missing")
        return value

    def strings(self, name: str, *parts: str) -> tuple[str, ...]:
        inner = _Fields(self.required(name, dict), self._at(name))
        return tuple(inner.required(part, str) for part in parts)

    def _at(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name


_NAMES: Final[Mapping[type, str]] = {dict: "an object", str: "a string"}


@dataclass(frozen=True, slots=True)
class StatusCause:
    """An entry of a Status' ``details.causes`` that is not about a field of the object."""

    reason: str
    message: str
    field: str


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    """An answer; make one with :meth:`allow` or :meth:`deny`.

    ``audit_annotations`` have keys without a slash: the API server puts the webhook's name before each.
    """

    allowed: bool
    patch: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    code: int = 0
    reason: str = ""
    message: str = ""
    causes: tuple[FieldError | StatusCause, ...] = ()
    audit_annotations: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def allow(
        cls,
        patch: Sequence[Mapping[str, Any]] | None = None,
        warnings: Iterable[str] = (),
        audit_annotations: Mapping[str, str] | None = None,
    ) -> AdmissionResponse:
        """Admit the request, changed by a JSON patch (of a mutating webhook only: elsewhere it fails the call)."""
        return cls(
            allowed=True,
            patch=tuple(patch or ()),
            warnings=limit_warnings(warnings),
            audit_annotations=audit_annotations or {},
        )

    @classmethod
    def deny(
        cls,
        code: int,
        reason: str,
        message: str,
        causes: Iterable[FieldError | StatusCause] = (),
        *,
        warnings: Iterable[str] = (),
        audit_annotations: Mapping[str, str] | None = None,
    ) -> AdmissionResponse:
        """Refuse with an HTTP status of 400 or more and a ``metav1.StatusReason`` such as ``Invalid`` (422).

        ValueError for any other code: the API server would turn it into 400.
        """
        if code < _BAD_REQUEST:
            raise ValueError(f"a refusal has an HTTP status of at least {_BAD_REQUEST}, not {code}")
        return cls(
            allowed=False,
            code=code,
            reason=reason,
            message=message,
            causes=tuple(causes),
            warnings=limit_warnings(warnings),
            audit_annotations=audit_annotations or {},
        )


def encode_review(request: AdmissionRequest, response: AdmissionResponse) -> bytes:
    """Write the JSON body of the answer to ``request``."""
    answer: dict[str, Any] = {"uid": request.uid, "allowed": response.allowed}
    if not response.allowed:
        answer["status"] = _status(request, response)
    if response.patch:
        # The API server refuses a patch without its type and a type without a patch.
        answer["patchType"] = "JSONPatch"
        answer["patch"] = base64.b64encode(orjson.dumps(response.patch)).decode()
    if response.warnings:
        answer["warnings"] = list(response.warnings)
    if response.audit_annotations:
        answer["auditAnnotations"] = {key: _encodable(text) for key, text in response.audit_annotations.items()}
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": answer})


def _status(request: AdmissionRequest, response: AdmissionResponse) -> dict[str, Any]:
    status: dict[str, Any] = {
        "status": "Failure",
        "code": response.code,
        "reason": response.reason,
        "message": _encodable(response.message),
    }
    # With details that name the object but no cause, kubectl prints "The JobSet "x" is invalid" and not the message.
    if response.causes:
        status["details"] = {
            "group": request.kind.group,
            "kind": request.kind.kind,
            "name": request.name,
            "causes": [_cause(cause) for cause in response.causes],
        }
    return status


def _cause(cause: FieldError | StatusCause) -> dict[str, str]:
    if isinstance(cause, FieldError):
        cause = StatusCause(str(cause.kind), cause.detail, cause.path)
    return {"reason": cause.reason, "message": _encodable(cause.message), "field": _encodable(cause.field)}


def _encodable(text: str) -> str:
    """Text that UTF-8 can carry: a lone surrogate becomes a question mark."""
    return text.encode("utf-8", "replace").decode()


def limit_warnings(warnings: Iterable[str]) -> tuple[str, ...]:
    """Warnings that reach the user complete: one line each, none twice, none empty, within the API server's limits.

    Each is cut at 256 characters; together they have at most 4096, the last one then has the number of missing ones.
    The API server silently drops a warning with a control character.
    """
    texts = list(dict.fromkeys(filter(None, map(_one_line, warnings))))
    if sum(map(len, texts)) <= WARNINGS_CHARACTERS:
        return tuple(texts)
    kept: list[str] = []
    left = WARNINGS_CHARACTERS - _MORE_RESERVE
    for text in texts:
        if len(text) > left:
            break
        kept.append(text)
        left -= len(text)
    return (*kept, f"{len(texts) - len(kept)} more warnings are not shown")


def _one_line(text: str) -> str:
    printable = "".join(" " if unicodedata.category(char) == "Cc" else char for char in _encodable(text))
    line = " ".join(printable.split())
    return line if len(line) <= WARNING_CHARACTERS else line[: WARNING_CHARACTERS - 3] + "..."


Handler = Callable[[AdmissionRequest], AdmissionResponse | Awaitable[AdmissionResponse]]
"""Answers from memory, or after a request."""

Endpoint = Callable[[bytes], Awaitable[bytes]]
Observe = Callable[[str, str, float], None]
"""Called for every answer with the path, ``allowed``, ``patched``, ``denied`` or ``unready``, and the seconds it took.
"""

WAIT_SECONDS: Final = 5.0
"""How long a request waits for the caches right after a start; the API server itself waits ten."""

UNREADY: Final = AdmissionResponse.deny(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "ServiceUnavailable",
    f"gangctl has just started and does not know the cluster yet: {AGAIN}",
)


def build_endpoints(
    handlers: Mapping[str, Handler],
    ready: Callable[[], Awaitable[object]],
    observe: Observe,
    unready: Callable[[str], AdmissionResponse] = lambda _: UNREADY,
    oversized: Mapping[str, Handler] | None = None,
) -> dict[str, Endpoint]:
    """Endpoints by path; each request first waits a little until ``ready`` returns.

    After a timeout the answer is ``unready`` of its path. ``oversized`` of a path answers requests whose objects are
    too large to be read. A body that is not an AdmissionReview raises :class:`~gangctl.errors.InputError`.
    """
    if_oversized = oversized or {}
    return {
        path: _endpoint(path, (handler, if_oversized.get(path)), ready, observe, unready)
        for path, handler in handlers.items()
    }


def _endpoint(
    path: str,
    handlers: tuple[Handler, Handler | None],
    ready: Callable[[], Awaitable[object]],
    observe: Observe,
    unready: Callable[[str], AdmissionResponse],
) -> Endpoint:
    """``handlers`` are that of the path, and that of requests whose objects are too large to be read."""
    own, oversized = handlers

    async def endpoint(body: bytes) -> bytes:
        began, answering = time.perf_counter(), own
        try:
            request = decode_review(body)
        except OversizedError as error:
            if oversized is None:
                raise
            request, answering = error.request, oversized
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await ready()
        except TimeoutError:
            # Before the answer, which may be to fail the call.
            observe(path, "unready", time.perf_counter() - began)
            return encode_review(request, unready(path))
        answered = answering(request)
        answer = answered if isinstance(answered, AdmissionResponse) else await answered
        verdict = "denied" if not answer.allowed else "patched" if answer.patch else "allowed"
        observe(path, verdict, time.perf_counter() - began)
        return encode_review(request, answer)

    return endpoint
