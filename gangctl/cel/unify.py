"""Type inference: which types match, and the types that type variables get.

The rules are cel-go's, because its acceptance counts: ``dyn`` matches everything, null matches objects, times and
opaque types, and a variable gets the more general of its types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gangctl.cel.declarations.signature import Overload, is_parameter
from gangctl.cel.types import DYN, Type

_PLAIN: Final = frozenset({"bool", "int", "uint", "double", "string", "bytes"})
_CONTAINERS: Final = frozenset({"list", "map"})
_VARIABLE: Final = "%"


def is_variable(type_: Type) -> bool:
    """Whether a type is a variable of the inference."""
    return type_.name.startswith(_VARIABLE)


def is_optional(type_: Type) -> bool:
    """Whether it is ``optional_type(...)``."""
    return type_.name == "optional_type" and bool(type_.parameters)


def same(one: Type, other: Type) -> bool:
    """Whether two types are the same; objects are compared by name."""
    return (
        one.name == other.name
        and len(one.parameters) == len(other.parameters)
        and all(map(same, one.parameters, other.parameters))
    )


class Unifier:
    """Type variables of one expression and their values."""

    def __init__(self) -> None:
        """Without any variable."""
        self._bound: dict[str, Type] = {}
        self._journal: list[tuple[str, Type | None]] = []
        self._count = 0

    def fresh(self) -> Type:
        """A new variable."""
        self._count += 1
        return Type(f"{_VARIABLE}{self._count}")

    def instance(self, overload: Overload) -> tuple[tuple[Type, ...], Type]:
        """Parameters and result of an overload with type parameters of its own."""
        if not overload.generic:
            return overload.parameters, overload.result
        names: dict[str, Type] = {}
        parameters = tuple(self._renamed(each, names) for each in overload.parameters)
        return parameters, self._renamed(overload.result, names)

    def _renamed(self, type_: Type, names: dict[str, Type]) -> Type:
        if is_parameter(type_):
            if type_.name not in names:
                names[type_.name] = self.fresh()
            return names[type_.name]
        if not type_.parameters:
            return type_
        return Type(type_.name, tuple(self._renamed(each, names) for each in type_.parameters), type_.fields)

    def assign(self, types: Sequence[Type], to: Sequence[Type]) -> bool:
        """Whether each type matches its counterpart; changes of variables are kept only if all do."""
        mark = len(self._journal)
        if self._all_fit(types, to):
            return True
        while len(self._journal) > mark:
            name, before = self._journal.pop()
            if before is None:
                del self._bound[name]
            else:
                self._bound[name] = before
        return False

    def resolved(self, type_: Type, *, free: bool = True) -> Type:
        """A type with its variables replaced by their values; unless ``free``, unknown ones become dyn."""
        if is_variable(type_):
            bound = self._bound.get(type_.name)
            if bound is not None:
                return self.resolved(bound, free=free)
            return type_ if free else DYN
        if not type_.parameters:
            return type_
        return Type(type_.name, tuple(self.resolved(each, free=free) for each in type_.parameters), type_.fields)

    def _all_fit(self, types: Sequence[Type], to: Sequence[Type]) -> bool:
        return len(types) == len(to) and all(self._fits(one, other) for one, other in zip(types, to, strict=True))

    def _fits(self, one: Type, other: Type) -> bool:
        if is_variable(other):
            if self._substitutes(one, other):
                return True
            if other.name in self._bound:
                return False
        if is_variable(one):
            return self._substitutes(other, one)
        if "dyn" in {one.name, other.name}:
            return True
        if "null_type" in {one.name, other.name}:
            return _nullable(one) and _nullable(other)
        return one.name == other.name and (one.name == "type" or self._all_fit(one.parameters, other.parameters))

    def _substitutes(self, type_: Type, variable: Type) -> bool:
        """Whether ``variable`` may be replaced by ``type_``."""
        if same(type_, variable):
            return True
        bound = self._bound.get(variable.name)
        if bound is None:
            if self._occurs(variable, type_):
                return False
            self._bind(variable, type_)
            return True
        if same(type_, bound):
            return True
        if not self._fits(type_, bound):
            return False
        general = more_general(type_, bound)
        if not self._occurs(variable, general):
            self._bind(variable, general)
        return True

    def _bind(self, variable: Type, type_: Type) -> None:
        self._journal.append((variable.name, self._bound.get(variable.name)))
        self._bound[variable.name] = type_

    def _occurs(self, variable: Type, type_: Type) -> bool:
        if same(variable, type_):
            return True
        if is_variable(type_):
            bound = self._bound.get(type_.name)
            return bound is not None and self._occurs(variable, bound)
        return any(self._occurs(variable, each) for each in type_.parameters)


def _nullable(type_: Type) -> bool:
    return type_.name not in _PLAIN and type_.name not in _CONTAINERS and type_.name != "type"


def more_general(one: Type, other: Type) -> Type:
    """The more general of two types that match."""
    return one if _is_more_general(one, other) else other


def _is_more_general(one: Type, other: Type) -> bool:
    if one.name == "dyn" or is_variable(one):
        return True
    if other.name == "dyn" or is_variable(other) or one.name != other.name:
        return False
    return one.name == "type" or all(map(_is_more_general, one.parameters, other.parameters))
