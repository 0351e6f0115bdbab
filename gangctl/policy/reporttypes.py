"""CEL types of what gangctl computes for policies, from the published types of the reports themselves."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, get_args, get_origin, get_type_hints, is_typeddict

from gangctl.cel.types import BOOL, DYN, INT, STRING, Type, list_of, map_of

TYPE_PREFIX: Final = "gangctl."

_PLAIN: Final[dict[object, Type]] = {str: STRING, int: INT, bool: BOOL}


def type_of(kind: Any) -> Type:
    """The CEL type of one type of a report; a nullable one is dyn, because CEL's null is a separate type."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if is_typeddict(kind):
        fields = {name: type_of(field) for name, field in get_type_hints(kind, include_extras=True).items()}
        return Type(f"{TYPE_PREFIX}{kind.__name__.removesuffix('Report')}", fields=fields)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return type_of(parts[0])
    if origin is Literal:
        return type_of(type(parts[0]))
    if origin is list:
        return list_of(type_of(parts[0]))
    if origin is dict:
        return map_of(type_of(parts[0]), type_of(parts[1]))
    if origin is UnionType and NoneType in parts:
        return DYN
    raise TypeError(f"no CEL type for {kind}")
