"""Formats by name: ``format.dns1123Label().validate(name)`` is an optional list of problems."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import ClassVar, Final

from gangctl.cel.library import url
from gangctl.cel.library.string_format import quoted
from gangctl.cel.library.values import LARGEST, NONE, Extension, Implementation, Optional, function, method

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_OLD_LABEL: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_WORD: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LONGEST_LABEL: Final = 63
_LONGEST_SUBDOMAIN: Final = 253

_UUID: Final = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})", re.ASCII)
# As in go-openapi/strfmt, whose dot before the fraction is not escaped: it matches all but a line break.
_TIME: Final = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[^\n][0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})", re.ASCII)
_LEAP_YEAR: Final = 2000


@dataclass(frozen=True, slots=True)
class NamedFormat(Extension):
    """A format; equal by name."""

    KIND: ClassVar[str] = "kubernetes.NamedFormat"
    name: str


def _too_long(limit: int, unit: str = "characters") -> str:
    """The API server always counts bytes; only the messages of label values and key names say so."""
    return f"must be no more than {limit} {unit}"


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _unlike(message: str, pattern: str, *examples: str) -> str:
    """The API server's message for a name that does not match a pattern."""
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


def _formed(text: str, longest: int, pattern: str, message: str, *examples: str, unit: str = "characters") -> list[str]:
    """The problems of a name that is limited in length and matches a pattern."""
    problems = [_too_long(longest, unit)] if _size(text) > longest else []
    return problems if re.fullmatch(pattern, text) else [*problems, _unlike(message, pattern, *examples)]


def _label(text: str) -> list[str]:
    message = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character"
    )
    problems = _formed(text, _LONGEST_LABEL, _LABEL, message, "my-name", "123-abc")
    # As IsDNS1123Label: of a subdomain that is no label, it says only this.
    dotted = problems and not re.fullmatch(_LABEL, text) and re.fullmatch(_SUBDOMAIN, text)
    return [*problems[:-1], "must not contain dots"] if dotted else problems


def _subdomain(text: str, unit: str = "characters") -> list[str]:
    message = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
        "and must start and end with an alphanumeric character"
    )
    return _formed(text, _LONGEST_SUBDOMAIN, _SUBDOMAIN, message, "example.com", unit=unit)


def _old_label(text: str) -> list[str]:
    message = (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
        "start with an alphabetic character, and end with an alphanumeric character"
    )
    return _formed(text, _LONGEST_LABEL, _OLD_LABEL, message, "my-name", "abc-123")


_WORD_MESSAGE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)


def _qualified_name(text: str) -> list[str]:
    unlike = _unlike(_WORD_MESSAGE, _WORD, "MyName", "my.name", "123-abc")
    *prefixes, name = text.split("/")
    if len(prefixes) > 1:
        return [f"a valid label key {unlike} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    problems: list[str] = []
    if prefixes:
        reasons = _subdomain(prefixes[0], "bytes") if prefixes[0] else ["must be non-empty"]
        problems += [f"prefix part {reason}" for reason in reasons]
    if not name:
        problems.append("name part must be non-empty")
    elif _size(name) > _LONGEST_LABEL:
        problems.append(f"name part {_too_long(_LONGEST_LABEL, 'bytes')}")
    if not re.fullmatch(_WORD, name):
        problems.append(f"name part {unlike}")
    return problems


def _label_value(text: str) -> list[str]:
    message = (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
        "and must start and end with an alphanumeric character"
    )
    return _formed(text, _LONGEST_LABEL, f"({_WORD})?", message, "MyValue", "my_value", "12345", unit="bytes")


def _prefix_of(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """The check of a name with a suffix to be appended: it may end in a dash."""

    def checked(text: str) -> list[str]:
        # maskTrailingDash of apimachinery.
        return check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)

    return checked


def _uri(text: str) -> list[str]:
    try:
        url.parse_request(text)
    except ValueError as error:
        return [f"parse {quoted(text)}: {error}"]
    return []


def _is_date(text: str) -> bool:
    form = _DATE.fullmatch(text)
    if form is None:
        return False
    try:
        # Go accepts the year 0.
        date(int(form[1]) or _LEAP_YEAR, int(form[2]), int(form[3]))
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    parts = text.lower().split("t")
    if len(parts) <= 1 or not _is_date(parts[0]):
        return False
    time = _TIME.fullmatch(parts[1])
    return time is not None and time[1] <= "23" and time[2] <= "59" and time[3] <= "59"


def _must_be(test: Callable[[str], object], message: str) -> Callable[[str], list[str]]:
    return lambda text: [] if len(text) <= LARGEST and test(text) else [message]


_CHECKS: Final[Mapping[str, Callable[[str], list[str]]]] = {
    "dns1123Label": _label,
    "dns1123LabelPrefix": _prefix_of(_label),
    "dns1123Subdomain": _subdomain,
    "dns1123SubdomainPrefix": _prefix_of(_subdomain),
    "dns1035Label": _old_label,
    "dns1035LabelPrefix": _prefix_of(_old_label),
    "qualifiedName": _qualified_name,
    "labelValue": _label_value,
    "uri": _uri,
    "uuid": _must_be(_UUID.fullmatch, "does not match the UUID format"),
    "byte": _must_be(_BASE64.fullmatch, "invalid base64"),
    "date": _must_be(_is_date, "invalid date"),
    "datetime": _must_be(_is_datetime, "invalid datetime"),
}


def _named(name: str) -> Optional:
    return Optional(True, NamedFormat(name)) if name in _CHECKS else NONE


def _validate(named: NamedFormat, text: str) -> Optional:
    problems = _CHECKS[named.name](text)
    return Optional(True, problems) if problems else NONE


def _constant(name: str) -> Callable[[], NamedFormat]:
    return lambda: NamedFormat(name)


OVERLOADS: Final[tuple[Implementation, ...]] = (
    function("format.named", _named, "string"),
    *(function(f"format.{name}", _constant(name)) for name in _CHECKS),
    method("validate", _validate, NamedFormat.KIND, "string"),
)
