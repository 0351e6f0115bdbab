"""Label selectors in Kueue's objects and in its configuration, as one list of terms."""

from __future__ import annotations

from typing import Final, Literal

from gangctl.kueue.objects import SelectorTerm

_OPERATORS: Final[dict[object, Literal["In", "NotIn", "Exists", "DoesNotExist"]]] = {
    "In": "In",
    "NotIn": "NotIn",
    "Exists": "Exists",
    "DoesNotExist": "DoesNotExist",
}


def read_selector(value: object) -> tuple[SelectorTerm, ...] | None:
    """The terms of a ``metav1.LabelSelector``; none at all (``{}``) select everything.

    None where there is no selector, and where it is not one: Kueue lets nothing in by a selector it cannot read.
    """
    if not isinstance(value, dict):
        return None
    labels = value.get("matchLabels")
    expressions = value.get("matchExpressions")
    if not isinstance(labels, dict | None) or not isinstance(expressions, list | None):
        return None
    terms = []
    for key, wanted in (labels or {}).items():
        if not isinstance(wanted, str):
            return None
        terms.append(SelectorTerm(key, "In", (wanted,)))
    for entry in expressions or ():
        term = _read_term(entry)
        if term is None:
            return None
        terms.append(term)
    return tuple(terms)


def _read_term(entry: object) -> SelectorTerm | None:
    if not isinstance(entry, dict):
        return None
    key, values = entry.get("key"), entry.get("values") or []
    written = entry.get("operator")
    operator = _OPERATORS.get(written) if isinstance(written, str) else None
    if not isinstance(key, str) or operator is None or not isinstance(values, list):
        return None
    if not all(isinstance(each, str) for each in values):
        return None
    return SelectorTerm(key, operator, tuple(values))
