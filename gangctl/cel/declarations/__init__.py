"""Every function that kube-apiserver declares for expressions of a ValidatingAdmissionPolicy.

They are the same in 1.35, 1.36 and 1.37. A function that a minor introduces is available from the next one on: new
expressions are compiled for the version before the server's own, so that a rollback does not break them. So
``includes`` of lists comes in 1.38.

Overloads stand in cel-go's order: of a type that the check does not know, such as that of an empty list's elements, the
first one is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangctl.cel.declarations import kubernetes, standard
from gangctl.cel.declarations.signature import Overload

ALL: Final[tuple[Overload, ...]] = (
    *(*standard.OPERATORS, *standard.CONVERSIONS, *standard.FUNCTIONS, *standard.OPTIONALS),
    *(*kubernetes.STRINGS, *kubernetes.EXTENDED_LISTS, *kubernetes.SETS),
    *(*kubernetes.LISTS, *kubernetes.TEXT, *kubernetes.QUANTITY, *kubernetes.NETWORK, *kubernetes.SEMVER),
    *kubernetes.AUTHORIZER,
)
NAMESPACED: Final = frozenset(overload.name for overload in ALL if "." in overload.name)
"""Functions whose name has a dot: ``sets.contains``."""

Table = Mapping[str, tuple[Overload, ...]]


def _by_name() -> Table:
    table: dict[str, list[Overload]] = {}
    for overload in ALL:
        table.setdefault(overload.name, []).append(overload)
    return {name: tuple(overloads) for name, overloads in table.items()}


FUNCTIONS: Final = _by_name()
"""Overloads by name."""
