"""Names with dots, and names of types."""

from __future__ import annotations

from typing import Final

from gangctl.cel import types
from gangctl.cel.ast import Name, Node, Select
from gangctl.cel.types import DYN, Type, list_of, map_of

_TYPES: Final = {
    each.name: each
    for each in (
        *(types.BOOL, types.BYTES, types.DOUBLE, types.INT, types.NULL, types.STRING, types.UINT),
        *(types.DURATION, types.TIMESTAMP),
    )
} | {"list": list_of(DYN), "map": map_of(DYN, DYN), "type": Type("type", (DYN,))}

UNSUPPORTED: Final = frozenset({"net.IP", "net.CIDR", "optional_type"})
"""Names of types that kube-apiserver supports, but gangctl does not."""


def type_named(name: str) -> Type | None:
    """``type(int)`` of ``int``: the value of a type's name; None for other names."""
    found = _TYPES.get(name)
    return None if found is None else Type("type", (found,))


def dotted(node: Node) -> str | None:
    """``a.b.c`` of plain selections, None of anything else."""
    parts: list[str] = []
    while isinstance(node, Select):
        if node.optional or node.test:
            return None
        parts.append(node.field)
        node = node.operand
    return ".".join([node.name, *reversed(parts)]) if isinstance(node, Name) else None
