"""Macros: what is evaluated once per element, and ``optMap``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gangctl.policy.cel.faults import EvalError, EvalKind
from gangctl.policy.cel.library import registry
from gangctl.policy.cel.library.maps import MISSING, KeyedMap, entered, find
from gangctl.policy.cel.library.values import NONE, Optional, invalid, no_such_overload
from gangctl.policy.cel.meter import EXHAUSTED
from gangctl.policy.cel.python_engine.machine import Machine
from gangctl.policy.cel.python_engine.numbers import decoded
from gangctl.policy.cel.python_engine.rules import Rule

Macro = Callable[[Machine, Rule, Any], Any]


@dataclass(frozen=True, slots=True)
class Loop:
    """A macro and the names of its one or two variables."""

    names: tuple[str, ...]
    macro: Macro


def run(machine: Machine, tree: Rule) -> Any:
    """A macro, with what its variables hid put back afterwards."""
    loop: Loop = tree.what
    target = machine.visit(tree.children[0])
    names = machine.names
    outer = [(name, names.get(name, MISSING)) for name in loop.names]
    try:
        return loop.macro(machine, tree, target)
    finally:
        for name, value in outer:
            if value is MISSING:
                names.pop(name, None)
            else:
                names[name] = value


def bind(machine: Machine, tree: Rule) -> Any:
    """``cel.bind(name, value, body)``."""
    value = machine.visit(tree.children[0])
    name, names = tree.what, machine.names
    outer = names.get(name, MISSING)
    names[name] = value
    try:
        return machine.visit(tree.children[1])
    finally:
        if outer is MISSING:
            del names[name]
        else:
            names[name] = outer


def _elements(machine: Machine, tree: Rule, target: Any) -> Iterator[Any]:
    """Each element, or key of a map, while the variable has its value; of two the index or key goes to the first."""
    loop: Loop = tree.what
    names = machine.names
    if isinstance(target, Mapping):
        entries: Any = target.items() if len(loop.names) > 1 else target
    elif isinstance(target, (list, tuple)):
        entries = enumerate(target) if len(loop.names) > 1 else target
    else:
        raise no_such_overload("a macro over what is neither a list nor a map")
    if len(loop.names) == 1:
        (name,) = loop.names
        for element in entries:
            names[name] = made = decoded(element)
            yield made
        return
    first, second = loop.names
    for key, value in entries:
        names[first], names[second] = key, decoded(value)
        yield key


def _holds(machine: Machine, predicate: Rule) -> bool:
    value = machine.visit(predicate)
    if value is True or value is False:
        return bool(value)
    raise EvalError(EvalKind.NO_SUCH_OVERLOAD, "the condition of a macro is no bool", predicate.offset)


def _decided(machine: Machine, tree: Rule, target: Any, *, by: bool) -> bool:
    """Whether some element's predicate is ``by``: then errors of others do not count, otherwise the first one does."""
    failure: EvalError | None = None
    for _ in _elements(machine, tree, target):
        try:
            if _holds(machine, tree.children[1]) is by:
                return True
        except EvalError as error:
            if error.kind in EXHAUSTED:
                raise
            failure = failure or error
    if failure is not None:
        raise failure
    return False


def _all(machine: Machine, tree: Rule, target: Any) -> bool:
    return not _decided(machine, tree, target, by=False)


def _exists(machine: Machine, tree: Rule, target: Any) -> bool:
    return _decided(machine, tree, target, by=True)


def _exists_one(machine: Machine, tree: Rule, target: Any) -> bool:
    return sum(_holds(machine, tree.children[1]) for _ in _elements(machine, tree, target)) == 1


def _filter(machine: Machine, tree: Rule, target: Any) -> list[Any]:
    return [element for element in _elements(machine, tree, target) if _holds(machine, tree.children[1])]


def _map(machine: Machine, tree: Rule, target: Any) -> list[Any]:
    """``map(x, e)``, ``map(x, p, e)`` and ``transformList``."""
    *conditions, result = tree.children[1:]
    return [
        machine.visit(result)
        for _ in _elements(machine, tree, target)
        if not conditions or _holds(machine, conditions[0])
    ]


def _transform_map(machine: Machine, tree: Rule, target: Any) -> dict[str, Any] | KeyedMap:
    *conditions, result = tree.children[1:]
    made: dict[str, Any] | KeyedMap = {}
    for key in _elements(machine, tree, target):
        if not conditions or _holds(machine, conditions[0]):
            made = entered(made, key, machine.visit(result))
    return made


def _transform_map_entry(machine: Machine, tree: Rule, target: Any) -> dict[str, Any] | KeyedMap:
    *conditions, result = tree.children[1:]
    made: dict[str, Any] | KeyedMap = {}
    for _ in _elements(machine, tree, target):
        if conditions and not _holds(machine, conditions[0]):
            continue
        entries = machine.visit(result)
        if not isinstance(entries, Mapping):
            raise no_such_overload("transformMapEntry with what is no map")
        for key, value in entries.items():
            machine.charge(1)
            if find(made, key) is not MISSING:
                raise invalid("transformMapEntry makes the same key twice")
            made = entered(made, key, value)
    return made


def _sort_by(machine: Machine, tree: Rule, target: Any) -> Any:
    if type(target) is not list:
        raise no_such_overload("sortBy")
    keys = [machine.visit(tree.children[1]) for _ in _elements(machine, tree, target)]
    return registry.METHODS["@sortByAssociatedKeys"](target, keys)


def _opt_map(machine: Machine, tree: Rule, target: Any) -> Optional:
    if not isinstance(target, Optional):
        raise no_such_overload("optMap")
    if not target.present:
        return NONE
    loop: Loop = tree.what
    machine.names[loop.names[0]] = target.value
    return Optional(present=True, value=machine.visit(tree.children[1]))


def _opt_flat_map(machine: Machine, tree: Rule, target: Any) -> Optional:
    found = _opt_map(machine, tree, target)
    if not found.present:
        return NONE
    if not isinstance(found.value, Optional):
        raise no_such_overload("optFlatMap")
    return found.value


MACROS: Final[dict[str, Macro]] = {
    "all": _all,
    "exists": _exists,
    "exists_one": _exists_one,
    "existsOne": _exists_one,
    "filter": _filter,
    "map": _map,
    "transformList": _map,
    "transformMap": _transform_map,
    "transformMapEntry": _transform_map_entry,
    "sortBy": _sort_by,
    "optMap": _opt_map,
    "optFlatMap": _opt_flat_map,
}
