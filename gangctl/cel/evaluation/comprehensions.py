"""Macros as closures: loops over elements, and ``optMap``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gangctl.cel.evaluation.arithmetic import decoded
from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.library import registry
from gangctl.cel.library.values import MISSING, NONE, KeyedMap, Optional, entered, find, invalid, no_such_overload
from gangctl.cel.meter import EXHAUSTED, Code, Frame


@dataclass(frozen=True, slots=True)
class Loop:
    """A macro's one or two variables, its predicates, if any, and the transformation of an element.

    ``offset`` is the place of the error of a predicate that is not a bool.
    """

    names: tuple[str, ...]
    parts: Sequence[Code]
    offset: int

    @property
    def result(self) -> Code:
        """The last part."""
        return self.parts[-1]


Macro = Callable[[Frame, Loop, Any], Any]


def comprehension(macro: str, target: Code, loop: Loop) -> Code:
    """A macro over ``target``; hidden variables are restored afterwards."""
    body = MACROS[macro]

    def run(frame: Frame) -> Any:
        value, names = target(frame), frame.names
        outer = [(name, names.get(name, MISSING)) for name in loop.names]
        try:
            return body(frame, loop, value)
        finally:
            # After an error, too, which ``||`` or ``exists`` around it may absorb.
            for name, hidden in outer:
                if hidden is MISSING:
                    names.pop(name, None)
                else:
                    names[name] = hidden

    return run


def _elements(frame: Frame, loop: Loop, target: Any) -> Iterator[Any]:
    """Each element, or key of a map, while the variable has its value.

    Of two variables the first is the index or key.
    """
    names = frame.names
    if isinstance(target, (list, tuple)):
        entries: Any = enumerate(target) if len(loop.names) > 1 else target
    elif isinstance(target, Mapping):
        entries = target.items() if len(loop.names) > 1 else target
    else:
        raise no_such_overload("a macro over what is neither a list nor a map")
    if len(loop.names) == 1:
        (name,) = loop.names
        for element in entries:
            names[name] = made = decoded(element, frame)
            yield made
        return
    first, second = loop.names
    for key, value in entries:
        names[first], names[second] = key, decoded(value, frame)
        yield key


def _holds(frame: Frame, loop: Loop) -> bool:
    value = loop.parts[0](frame)
    if value is True or value is False:
        return bool(value)
    raise EvalError(EvalKind.NO_SUCH_OVERLOAD, "the condition of a macro is no bool", loop.offset)


def _chosen(frame: Frame, loop: Loop) -> bool:
    """Whether an element is taken: without a predicate, each is."""
    return len(loop.parts) == 1 or _holds(frame, loop)


def _decided(frame: Frame, loop: Loop, target: Any, *, by: bool) -> bool:
    """Whether some element's predicate is ``by``, despite errors of others; otherwise the first error is raised."""
    failure: EvalError | None = None
    for _ in _elements(frame, loop, target):
        try:
            if _holds(frame, loop) is by:
                return True
        except EvalError as error:
            if error.kind in EXHAUSTED:
                raise
            failure = failure or error
    if failure is not None:
        raise failure
    return False


def _all(frame: Frame, loop: Loop, target: Any) -> bool:
    return not _decided(frame, loop, target, by=False)


def _exists(frame: Frame, loop: Loop, target: Any) -> bool:
    return _decided(frame, loop, target, by=True)


def _exists_one(frame: Frame, loop: Loop, target: Any) -> bool:
    # As CEL defines it, every element is evaluated: no error is absorbed.
    return sum(_holds(frame, loop) for _ in _elements(frame, loop, target)) == 1


def _filter(frame: Frame, loop: Loop, target: Any) -> list[Any]:
    return [element for element in _elements(frame, loop, target) if _holds(frame, loop)]


def _map(frame: Frame, loop: Loop, target: Any) -> list[Any]:
    """``map(x, e)``, ``map(x, p, e)`` and ``transformList``."""
    return [loop.result(frame) for _ in _elements(frame, loop, target) if _chosen(frame, loop)]


def _transform_map(frame: Frame, loop: Loop, target: Any) -> dict[str, Any] | KeyedMap:
    made: dict[str, Any] | KeyedMap = {}
    for key in _elements(frame, loop, target):
        if _chosen(frame, loop):
            made = entered(made, key, loop.result(frame))
    return made


def _transform_map_entry(frame: Frame, loop: Loop, target: Any) -> dict[str, Any] | KeyedMap:
    made: dict[str, Any] | KeyedMap = {}
    for _ in _elements(frame, loop, target):
        if not _chosen(frame, loop):
            continue
        entries = loop.result(frame)
        if not isinstance(entries, Mapping):
            raise no_such_overload("transformMapEntry with what is no map")
        for key, value in entries.items():
            frame.charge(1)
            if find(made, key) is not MISSING:
                raise invalid("transformMapEntry makes the same key twice")
            made = entered(made, key, value)
    return made


def _sort_by(frame: Frame, loop: Loop, target: Any) -> Any:
    if type(target) is not list:
        raise no_such_overload("sortBy")
    # All before the sort, as in cel-go: each is evaluated once, and the sort compares values only.
    keys = [loop.result(frame) for _ in _elements(frame, loop, target)]
    return registry.METHODS["@sortByAssociatedKeys"].call(frame, target, keys)


def _opt_map(frame: Frame, loop: Loop, target: Any) -> Optional:
    if not isinstance(target, Optional):
        raise no_such_overload("optMap")
    if not target.present:
        return NONE
    frame.names[loop.names[0]] = target.value
    return Optional(present=True, value=loop.result(frame))


def _opt_flat_map(frame: Frame, loop: Loop, target: Any) -> Optional:
    optional = _opt_map(frame, loop, target)
    if not optional.present:
        return NONE
    if not isinstance(optional.value, Optional):
        raise no_such_overload("optFlatMap")
    return optional.value


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
