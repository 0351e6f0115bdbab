"""LimitRanges of a namespace as Kueue merges them: defaults of containers, and maxima.

Source: Kueue ``pkg/util/limitrange`` and ``pkg/workload/resources.go``; the defaults of a LimitRange itself are the API
server's (``pkg/apis/core/v1``), for one from a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from gangctl.kueue.amounts import read_quantity

Amounts = dict[str, Fraction]

CONTAINER: Final = "Container"
POD: Final = "Pod"


@dataclass(slots=True)
class Limits:
    """All LimitRanges of one type together."""

    max: Amounts = field(default_factory=dict)
    min: Amounts = field(default_factory=dict)
    default: Amounts = field(default_factory=dict)
    default_request: Amounts = field(default_factory=dict)
    contested: set[str] = field(default_factory=set)
    """Resources for which several LimitRanges have different defaults: Kueue uses any, here it is the least."""


def summed_up(limit_ranges: Iterable[Mapping[str, Any]]) -> dict[str, Limits]:
    """The strictest of all LimitRanges, by type. Total: invalid entries are left out."""
    summary: dict[str, Limits] = {}
    for limit_range in limit_ranges:
        spec = limit_range.get("spec")
        entries = spec.get("limits") if isinstance(spec, dict) else None
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and isinstance(entry.get("type"), str):
                _add(summary.setdefault(entry["type"], Limits()), entry)
    return summary


def _add(limits: Limits, entry: Mapping[str, Any]) -> None:
    most, least = _amounts(entry, "max"), _amounts(entry, "min")
    default, default_request = _amounts(entry, "default"), _amounts(entry, "defaultRequest")
    if entry["type"] == CONTAINER:
        default = most | default
        default_request = least | default | default_request
    _merge(limits.max, most, min)
    _merge(limits.min, least, max)
    for known, more in ((limits.default, default), (limits.default_request, default_request)):
        limits.contested |= {name for name, value in more.items() if known.get(name, value) != value}
        _merge(known, more, min)


def _amounts(entry: Mapping[str, Any], key: str) -> Amounts:
    written = entry.get(key)
    found = {name: read_quantity(value) for name, value in (written if isinstance(written, dict) else {}).items()}
    return {name: value for name, value in found.items() if value is not None}


def _merge(known: Amounts, more: Amounts, choose: Callable[[Fraction, Fraction], Fraction]) -> None:
    for name, value in more.items():
        known[name] = choose(known[name], value) if name in known else value
