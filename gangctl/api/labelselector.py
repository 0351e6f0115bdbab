"""Labels and label selectors (``metav1.LabelSelector``): their syntax, and whether a term matches.

Source: ``k8s.io/apimachinery``, ``pkg/apis/meta/v1/validation`` and ``pkg/util/validation``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from gangctl.errors import ErrorKind, FieldError, one_line

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]

NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""Label that the API server writes on every Namespace: its name."""

_LABEL: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
"""Within a subdomain: Kubernetes limits the length of the whole, and not that of each label."""
_SUBDOMAIN: Final = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(\.{_LABEL})*")
_NAME_PART: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")

KEY_RULE: Final = (
    "a name of at most 63 letters, digits, '-', '_' and '.' that begins and ends with a letter or digit, "
    "with an optional DNS subdomain and '/' before it"
)
VALUE_RULE: Final = (
    "empty, or at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
)
_SHOWN: Final = 80


def is_dns_subdomain(text: str) -> bool:
    """Whether it can be the name of most objects (RFC 1123)."""
    return _SUBDOMAIN.fullmatch(text) is not None


def is_qualified_name(text: str) -> bool:
    """Whether it can be the key of a label or an annotation."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_dns_subdomain(prefix):
        return False
    return _NAME_PART.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """Whether it can be the value of a label."""
    return not text or _NAME_PART.fullmatch(text) is not None


def holds(key: str, operator: Operator, values: Sequence[str], labels: Mapping[str, str]) -> bool:
    """Whether a term matches these labels; NotIn matches labels without the key."""
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    return (labels.get(key) in values) is (operator == "In")


def check_labels(labels: Mapping[str, str], path: str) -> Iterator[FieldError]:
    """The errors of ``matchLabels``."""
    for key, value in labels.items():
        yield from check_key(key, path)
        yield from check_value(value, f"{path}[{one_line(key, _SHOWN)}]")


def check_key(key: str, path: str) -> Iterator[FieldError]:
    """The errors of a label key."""
    if not is_qualified_name(key):
        yield FieldError(path, ErrorKind.INVALID, f'"{one_line(key, _SHOWN)}" is no label key: {KEY_RULE}')


def check_value(value: str, path: str) -> Iterator[FieldError]:
    """The errors of a label value."""
    if not is_label_value(value):
        yield FieldError(path, ErrorKind.INVALID, f'"{one_line(value, _SHOWN)}" is no label value: {VALUE_RULE}')


def check_term(key: str, operator: Operator, values: Sequence[str], path: str) -> Iterator[FieldError]:
    """The errors of an entry of ``matchExpressions``."""
    yield from check_key(key, f"{path}.key")
    if operator in {"In", "NotIn"}:
        if not values:
            yield FieldError(f"{path}.values", ErrorKind.REQUIRED, "In and NotIn need at least one value")
    elif values:
        yield FieldError(f"{path}.values", ErrorKind.FORBIDDEN, "Exists and DoesNotExist take no values")
    for index, value in enumerate(values):
        yield from check_value(value, f"{path}.values[{index}]")
