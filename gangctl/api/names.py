"""Names, label keys and label values: their syntax, with the messages of ``k8s.io/apimachinery``."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

LABEL_LENGTH: Final = 63
SUBDOMAIN_LENGTH: Final = 253

_LABEL_1123: Final = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_1035: Final = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN_1123: Final = re.compile(rf"{_LABEL_1123.pattern}(\.{_LABEL_1123.pattern})*")
_SEARCHED: Final = re.compile(r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*")
_NAME_PART: Final = re.compile("([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_LABEL_VALUE: Final = re.compile(f"({_NAME_PART.pattern})?")
_CONFIG_MAP_KEY: Final = re.compile("[-._a-zA-Z0-9]+")
_PORT_NAME: Final = re.compile(r"(?=.{1,15}\Z)(?=.*[a-z])(?!-)(?!.*--)[a-z0-9-]+(?<!-)")


def too_long(limit: int, unit: str = "bytes") -> str:
    """The message for a text that is longer than ``limit``."""
    return f"must be no more than {limit} {unit}"


def _regex(text: str, pattern: re.Pattern[str], *examples: str) -> str:
    message = ",  or ".join(f"'{example}'" for example in examples)
    return f"{text} (e.g. {message}, regex used for validation is '{pattern.pattern}')"


def dns_label(text: str) -> list[str]:
    """RFC 1123 label, at most 63 characters."""
    wrong = [too_long(LABEL_LENGTH, "characters")] if len(text) > LABEL_LENGTH else []
    if _LABEL_1123.fullmatch(text) is None:
        if _SUBDOMAIN_1123.fullmatch(text):
            return [*wrong, "must not contain dots"]
        message = (
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
            "and must start and end with an alphanumeric character"
        )
        wrong.append(_regex(message, _LABEL_1123, "my-name", "123-abc"))
    return wrong


def dns_1035_label(text: str) -> list[str]:
    """RFC 1035 label, at most 63 characters: the names of Services, and of what JobSet makes."""
    wrong = [too_long(LABEL_LENGTH, "characters")] if len(text) > LABEL_LENGTH else []
    if _LABEL_1035.fullmatch(text) is None:
        message = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
            "character, and end with an alphanumeric character"
        )
        wrong.append(_regex(message, _LABEL_1035, "my-name", "abc-123"))
    return wrong


def _subdomain(text: str, pattern: re.Pattern[str], marks: str) -> list[str]:
    wrong = [too_long(SUBDOMAIN_LENGTH, "characters")] if len(text) > SUBDOMAIN_LENGTH else []
    if pattern.fullmatch(text) is None:
        message = (
            f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, {marks}, "
            "and must start and end with an alphanumeric character"
        )
        wrong.append(_regex(message, pattern, "example.com"))
    return wrong


def dns_subdomain(text: str) -> list[str]:
    """RFC 1123 subdomain, at most 253 characters."""
    return _subdomain(text, _SUBDOMAIN_1123, "'-' or '.'")


def search_domain(text: str) -> list[str]:
    """A domain in which a pod looks up names: a subdomain that may have ``_``, and a ``.`` at its end."""
    return [] if text == "." else _subdomain(text.removesuffix("."), _SEARCHED, "'_', '-' or '.'")


def path_segment(text: str) -> list[str]:
    """What can stand in a URL's path: names of roles and the like."""
    if text in {".", ".."}:
        return [f"may not be '{text}'"]
    return [f"may not contain '{mark}'" for mark in "/%" if mark in text]


def qualified_name(text: str) -> list[str]:
    """A label key: a name, with an optional prefix before a ``/``."""
    # The same keys come again and again. Longer ones are wrong, and would fill the memory.
    check = _remembered if len(text) <= SUBDOMAIN_LENGTH + LABEL_LENGTH + 1 else _errors_of_key
    return [*check(text)]


def _errors_of_key(text: str) -> tuple[str, ...]:
    prefix, slash, name = text.rpartition("/")
    wrong: list[str] = []
    if slash:
        if not prefix:
            wrong.append("prefix part must be non-empty")
        else:
            wrong += [f"prefix part {error}" for error in dns_subdomain(prefix)]
    if not name:
        wrong.append("name part must be non-empty")
    elif len(name) > LABEL_LENGTH:
        wrong.append(f"name part {too_long(LABEL_LENGTH)}")
    if _NAME_PART.fullmatch(name) is None:
        message = (
            "name part must consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character"
        )
        wrong.append(_regex(message, _NAME_PART, "MyName", "my.name", "123-abc"))
    return (*wrong,)


_remembered: Final = lru_cache(maxsize=1024)(_errors_of_key)


def label_value(text: str) -> list[str]:
    """The value of a label."""
    wrong = [too_long(LABEL_LENGTH)] if len(text) > LABEL_LENGTH else []
    if _LABEL_VALUE.fullmatch(text) is None:
        message = (
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character"
        )
        wrong.append(_regex(message, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return wrong


def variable_name(text: str) -> list[str]:
    """The name of a container's environment variable, as since Kubernetes 1.34."""
    if text.isascii() and text.isprintable() and "=" not in text:
        return []
    return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]


def config_map_key(text: str) -> list[str]:
    """A key of a ConfigMap or a Secret."""
    wrong = [too_long(SUBDOMAIN_LENGTH, "characters")] if len(text) > SUBDOMAIN_LENGTH else []
    if _CONFIG_MAP_KEY.fullmatch(text) is None:
        message = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        wrong.append(_regex(message, _CONFIG_MAP_KEY, "key.name", "KEY_NAME", "key-name"))
    if text in {".", ".."}:
        wrong.append(f"must not be '{text}'")
    elif text.startswith(".."):
        wrong.append("must not start with '..'")
    return wrong


def port_name(text: str) -> list[str]:
    """The name of a port, in one message."""
    if _PORT_NAME.fullmatch(text):
        return []
    return ["must have at most 15 lower case letters, digits and '-', one letter, and no '-' at an end or twice"]


def begins_subdomain(text: str) -> list[str]:
    """What the name of an object can begin with: ``-`` may be its end."""
    return dns_subdomain(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def is_dns_label(text: str) -> bool:
    """Whether it is an RFC 1123 label, as the names of many parts are."""
    return not dns_label(text)


def is_dns_subdomain(text: str) -> bool:
    """Whether it can be the name of most objects (RFC 1123)."""
    return not dns_subdomain(text)


def is_qualified_name(text: str) -> bool:
    """Whether it can be the key of a label or an annotation."""
    return not qualified_name(text)


def is_label_value(text: str) -> bool:
    """Whether it can be the value of a label."""
    return not label_value(text)
