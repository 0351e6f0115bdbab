"""Every function that kube-apiserver 1.35 to 1.37 declares for expressions of a ValidatingAdmissionPolicy.

What is new in a minor counts from the next one on for new expressions, as natively: a server compiles them
for the version before its own, so that a rollback does not break them.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from gangctl.policy.cel.declarations import extensions, kubernetes, standard
from gangctl.policy.cel.declarations.signature import Overload

ALL: Final[tuple[Overload, ...]] = (
    *(*standard.OPERATORS, *standard.CONVERSIONS, *standard.FUNCTIONS, *standard.OPTIONALS),
    *(*extensions.STRINGS, *extensions.LISTS, *extensions.SETS),
    *(*kubernetes.LISTS, *kubernetes.TEXT, *kubernetes.QUANTITY, *kubernetes.NETWORK, *kubernetes.SEMVER),
    *kubernetes.AUTHORIZER,
)
NAMESPACED: Final = frozenset(each.name for each in ALL if "." in each.name)
"""Functions whose name has a dot: ``sets.contains``."""

Table = dict[str, tuple[Overload, ...]]


@cache
def functions(minor: int) -> Table:
    """Overloads by name in a Kubernetes minor (37 for 1.37)."""
    table: dict[str, list[Overload]] = {}
    for each in ALL:
        if each.exists(minor):
            table.setdefault(each.name, []).append(each)
    return {name: tuple(found) for name, found in table.items()}
