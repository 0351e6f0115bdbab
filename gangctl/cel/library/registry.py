"""Every function of the library by its name in the tree of an expression (``ast.Call.function``).

A name may be in both tables: ``ip('10.0.0.1')`` is one of :data:`FUNCTIONS`, ``cidr('10.0.0.0/8').ip()`` one of
:data:`METHODS`. Namespaced functions have their whole name (``sets.contains``). Of CEL's own functions only the
overloads for Kubernetes' types are here (``string(ip)``), and ``matches``, whose patterns are compiled once.

``x.sortBy(e, key)`` is a macro: the method ``@sortByAssociatedKeys`` of the list, called with the list of keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangctl.cel.library import ip, lists, named_format, quantity, semver, strings, url
from gangctl.cel.library.values import Function, Implementation, table

_OVERLOADS: Final[tuple[Implementation, ...]] = (
    *ip.CIDR_OVERLOADS,
    *ip.OVERLOADS,
    *lists.OVERLOADS,
    *named_format.OVERLOADS,
    *quantity.OVERLOADS,
    *strings.REGEX_OVERLOADS,
    *semver.OVERLOADS,
    *lists.SET_OVERLOADS,
    *strings.OVERLOADS,
    *url.OVERLOADS,
)

FUNCTIONS: Final[Mapping[str, Function]] = table(_OVERLOADS, member=False)
METHODS: Final[Mapping[str, Function]] = table(_OVERLOADS, member=True)
