"""The errors of gangctl, one tree, no imports from the rest of the package.

Every error a person can meet carries a stable ``code``, a message that says what
is wrong and where, and a hint that says what to do. Two questions decide what a
shell does with one: which exit code or HTTP status it maps to (the class says
it), and whether trying again can help (:func:`is_transient` says it).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

LINE_CHARACTERS: Final = 1024
"""Of a message about one thing: an event's note holds no more."""
_SHOWN: Final = 64


def plural(count: int, noun: str, several: str = "") -> str:
    """A count with its noun; ``several`` is its plural where that does not only end in an s.

    >>> plural(1, "pod"), plural(2, "pod"), plural(0, "policy", "policies")
    ('1 pod', '2 pods', '0 policies')
    """
    return f"{count} {noun if count == 1 else several or f'{noun}s'}"


def escaped(text: str) -> str:
    r"""Text with everything that is not printable escaped: what others wrote must not move the cursor of who reads it.

    >>> escaped("js\x1b[2J")
    'js\\x1b[2J'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def one_line(text: str, limit: int = LINE_CHARACTERS) -> str:
    """At most ``limit`` characters on one line, :func:`escaped`; text that is cut ends in three dots."""
    # Cut first: escaping a text of megabytes would take long. One character more marks it as too long.
    line = escaped(text[: limit + 1])
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def shown(value: object) -> str:
    """A value of JSON or YAML for a message, in their words: short, and without what an object holds.

    >>> shown(None), shown(True), shown([1]), shown("a")
    ('null', 'true', 'a list', '"a"')
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{one_line(value, _SHOWN)}"'
        case dict():
            return "an object"
        case list():
            return "a list"
        case int() if value.bit_length() > _SHOWN:  # Python refuses to print one of thousands of digits
            return f"an integer of {value.bit_length()} bits"
    return one_line(repr(value), _SHOWN)


class GangctlError(Exception):
    """Base of every error gangctl raises on purpose.

    ``code`` is stable and may be matched by scripts; ``hint`` says what to do.
    """

    code = "Error"
    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Keep the message and an optional sentence on what to do next."""
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message


class InputError(GangctlError):
    """Unreadable or malformed input: CLI exit code 2, webhook HTTP 400."""

    code = "InvalidInput"
    exit_code = 2


class ConfigError(GangctlError):
    """Bad flags, configuration file or kubeconfig: the process refuses to start, exit code 2."""

    code = "InvalidConfiguration"
    exit_code = 2


class ErrorKind(StrEnum):
    """Kinds of field errors, spelled as ``k8s.io/apimachinery`` ``field.ErrorType`` spells the causes of a Status."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    DUPLICATE = "FieldValueDuplicate"
    NOT_SUPPORTED = "FieldValueNotSupported"
    FORBIDDEN = "FieldValueForbidden"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    TYPE_INVALID = "FieldValueTypeInvalid"


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with one field: where (``path``), what kind, and what is allowed (``detail``).

    Both texts are made one printable line of bounded length: they may quote untrusted text.
    """

    path: str
    kind: ErrorKind
    detail: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", one_line(self.path))
        object.__setattr__(self, "detail", one_line(self.detail))

    def __str__(self) -> str:
        return f"{self.path}: {self.detail}"


class ValidationError(GangctlError):
    """A well-formed object that breaks a rule: HTTP 422, CLI exit code 2, never retried.

    ``errors`` lists every broken rule, first the one to repair first.
    """

    code = "Invalid"
    exit_code = 2

    def __init__(self, errors: Iterable[FieldError]) -> None:
        """Keep all field errors; the message joins them."""
        self.errors = tuple(errors)
        super().__init__("; ".join(str(e) for e in self.errors))


class OwnershipConflictError(GangctlError):
    """An object under a name that gangctl needs belongs to somebody else: never adopted, waited out."""

    code = "NameConflict"


class ClusterUnavailableError(GangctlError):
    """The cluster cannot be reached or does not have the API: CLI exit code 3."""

    code = "ClusterUnavailable"
    exit_code = 3


class LeadershipLostError(GangctlError):
    """This replica may no longer write."""

    code = "LeadershipLost"


class ApiError(GangctlError):
    """An API server's answer that is not a success.

    ``status`` is the HTTP status (0 when there was no answer at all), ``reason`` the
    ``reason`` of the ``Status`` object, ``details`` its ``details``, ``retry_after``
    the server's wish in seconds.
    """

    code = "ApiError"
    exit_code = 3

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        """Keep the parts of the server's ``Status``."""
        super().__init__(message or f"HTTP {status} {reason}")
        self.status = status
        self.reason = reason
        self.details = details or {}
        self.retry_after = retry_after
        self.warnings: tuple[str, ...] = ()
        """Of the server, which it also gives with an answer that is no success."""

    @property
    def namespace_terminating(self) -> bool:
        """Whether the namespace is being deleted: nothing can be created in it any more."""
        return self._has_cause("NamespaceTerminating")

    @property
    def blocked_by_budget(self) -> bool:
        """Whether a PodDisruptionBudget does not allow an eviction now."""
        return self._has_cause("DisruptionBudget")

    def _has_cause(self, reason: str) -> bool:
        causes = self.details.get("causes")
        causes = causes if isinstance(causes, list) else []
        return any(isinstance(cause, dict) and cause.get("reason") == reason for cause in causes)


class NotFoundError(ApiError):
    """404: the object, its namespace or the whole resource does not exist."""


class AlreadyExistsError(ApiError):
    """409 ``AlreadyExists``: create of a name that is taken (also while the holder is Terminating)."""


class ConflictError(ApiError):
    """409 ``Conflict``: the resourceVersion or uid precondition failed."""


class ForbiddenError(ApiError):
    """403: RBAC, or an admission plugin's refusal."""


class UnauthorizedError(ApiError):
    """401: the credentials are not, or no longer, accepted."""


class InvalidError(ApiError):
    """422 or 400: the server refuses the object; sending it again changes nothing."""


class GoneError(ApiError):
    """410: the resourceVersion is too old, list again."""

    following: str = ""
    """The continue token for the rest of a list as it is now, where the server gives one."""


class TooManyRequestsError(ApiError):
    """429: priority and fairness sent us away; ``retry_after`` says for how long."""


class ServerError(ApiError):
    """5xx from the server or from something in front of it."""


class UnavailableError(ApiError):
    """No answer: connection refused, reset, TLS failure or a deadline that passed."""


_TERMINAL = (
    InputError,
    ConfigError,
    ValidationError,
    OwnershipConflictError,
    ForbiddenError,
    InvalidError,
)


def is_transient(error: BaseException) -> bool:
    """Whether trying the same thing again later can succeed; unknown errors count as transient."""
    return not isinstance(error, _TERMINAL)
