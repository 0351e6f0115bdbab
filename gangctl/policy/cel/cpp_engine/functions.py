"""The functions that C++ calls: the library, CEL's own where C++ differs, and those that rendering needs.

All are functions, none a method, and named so that nothing else has the name. A parameter of
any type comes wrapped into a list: what C++ cannot give to Python ends in an error then, and
not in a crash. A function that makes times or unsigned integers exists once for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gangctl.policy.cel.cpp_engine.convert import SAME, hide, reveal
from gangctl.policy.cel.cpp_engine.running import Running
from gangctl.policy.cel.faults import EvalError, EvalKind
from gangctl.policy.cel.library.equality import equal
from gangctl.policy.cel.library.overload import ANY
from gangctl.policy.cel.library.registry import FUNCTIONS, METHODS
from gangctl.policy.cel.library.values import Extension, invalid, no_such_overload
from gangctl.policy.cel.python_engine.conversions import CONVERSIONS
from gangctl.policy.cel.python_engine.moments import ACCESSORS
from gangctl.policy.cel.python_engine.relations import RELATIONS
from gangctl.policy.cel.times import parse_duration, parse_timestamp

PREFIX: Final = "k8s_"
RESULTS: Final = {
    "google.protobuf.Timestamp": "timestamp",
    "google.protobuf.Duration": "duration",
    "uint": "uint",
}
"""Types that C++ takes only from functions that are declared to give them, and what such functions end in."""

CHARACTERS_SHIFT: Final = 6
"""Reading 64 characters is a step, and looking at an element another."""

_PLAIN: Final = frozenset({"bool", "int", "uint", "double", "string", "bytes", "list", "map", *RESULTS})


@dataclass(frozen=True, slots=True)
class Called:
    """A function by its name in the expressions that C++ gets."""

    name: str
    overloads: frozenset[tuple[str, ...]]
    """Kinds of parameters."""
    call: Callable[..., Any]

    def wrapped(self, position: int) -> bool:
        """Whether an argument comes in a list: where one overload takes any type, all of them get it so."""
        return any(len(kinds) > position and kinds[position] == ANY for kinds in self.overloads)

    def signatures(self) -> set[tuple[str, ...]]:
        """The kinds of the arguments that C++ gives."""
        return {
            tuple("list" if self.wrapped(position) else kind for position, kind in enumerate(kinds))
            for kinds in self.overloads
        }


def mangled(name: str, *, member: bool) -> str:
    """The name of a library's function for C++: ``x.ip()`` and ``ip(x)`` are two."""
    plain = name.replace(".", "_").replace("@", "at_")
    return f"{PREFIX}{'m' if member else 'f'}_{plain}"


def _any(count: int) -> frozenset[tuple[str, ...]]:
    return frozenset({(ANY,) * count})


def _library() -> dict[str, Called]:
    found: dict[str, Called] = {}
    for table in (FUNCTIONS, METHODS):
        for function in table.values():
            name = mangled(function.name, member=function.member)
            kinds = frozenset(tuple(map(_kind, overload.parameters)) for overload in function.overloads)
            found[name] = Called(name, kinds, function)
    return found


def _kind(parameter: str) -> str:
    return parameter if parameter in _PLAIN or parameter == ANY else "map"


def _string(value: object) -> str:
    if isinstance(value, Extension) and value.KIND not in RESULTS:
        return str(FUNCTIONS["string"](value))
    return str(CONVERSIONS["string"](value))


def _conversions() -> dict[str, Called]:
    found: dict[str, Called] = {}
    for name in CONVERTED:
        cpp = mangled(name, member=False)
        found[cpp] = Called(cpp, _any(1), _string if name == "string" else CONVERSIONS[name])
    return found


def _accessors() -> dict[str, Called]:
    found: dict[str, Called] = {}
    for name, call in ACCESSORS.items():
        cpp = mangled(name, member=True)
        found[cpp] = Called(cpp, frozenset({(ANY,), (ANY, ANY)}), call)
    return found


CONVERTED: Final = ("int", "uint", "double", "bool", "string", "bytes", "timestamp", "duration")
"""CEL's conversions: cel-go writes infinity otherwise, and reads other strings as numbers."""
ORDERING: Final = {"_<_": "less", "_<=_": "less_or_equal", "_>_": "greater", "_>=_": "greater_or_equal"}
"""How doubles are compared: C++ says that NaN is not less than 1, cel-go that it has no order."""


def _equal(left: object, right: object) -> bool:
    """``left == right`` of Kubernetes' own types: those refuse to be compared with others, but for null."""
    if isinstance(left, Extension) and right is not None and type(left) is not type(right):
        raise no_such_overload("_==_")
    return equal(left, right)


def _ordering(operator: str) -> Called:
    relation = RELATIONS[operator]

    def call(left: object, right: object) -> bool:
        return bool(relation(left, right, lambda _: None))

    return Called(f"{PREFIX}{ORDERING[operator]}", _any(2), call)


def _moment_text(text: str) -> str:
    """A timestamp as C++ writes it, with as few digits as cel-go writes."""
    return str(parse_timestamp(text))


def _span_text(text: str) -> str:
    """A duration likewise."""
    return str(parse_duration(text))


def _in(value: object, values: Sequence[object]) -> bool:
    return any(equal(value, each) for each in values)


def _absent(is_list: bool) -> bool:
    """Of what is no map: has() and ``.?`` find nothing in a scalar, but refuse lists."""
    if is_list:
        raise EvalError(EvalKind.NO_SUCH_OVERLOAD, "the index of a list is no number")
    return False


def _key(value: object) -> object:
    if value is None or isinstance(value, list | dict | bytes):
        raise no_such_overload("_[?_]")
    return value


def _map_of(entries: Sequence[Sequence[Any]]) -> dict[Any, Any]:
    """A map of pairs; of several with the same key the last one counts, as natively."""
    found: dict[Any, Any] = {}
    for key, value in entries:
        if not isinstance(key, bool | int | str):
            raise invalid("a value of this type cannot be the key of a map")
        found[key] = value
    if len(found) != len({(type(key) is bool, key) for key, _ in entries}):
        raise invalid("a map with both true and 1, or false and 0, among its keys")
    return found


def _merged(maps: Sequence[Any]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for each in maps:
        if not isinstance(each, dict):
            raise no_such_overload("transformMapEntry with what is no map")
        for key, value in each.items():
            if key in found:
                raise invalid("transformMapEntry makes the same key twice")
            found[key] = value
    return found


def _loop(size: int) -> list[int]:
    return list(range(size))


_OWN: Final[Mapping[str, Called]] = {
    called.name: called
    for called in (
        Called(f"{PREFIX}equal", _any(2), _equal),
        Called(f"{PREFIX}in", _any(2), _in),
        *map(_ordering, ORDERING),
        Called(f"{PREFIX}moment_text", frozenset({("string",)}), _moment_text),
        Called(f"{PREFIX}span_text", frozenset({("string",)}), _span_text),
        Called(f"{PREFIX}key", _any(1), _key),
        Called(f"{PREFIX}absent", frozenset({("bool",)}), _absent),
        Called(f"{PREFIX}map_of", frozenset({("list",)}), _map_of),
        Called(f"{PREFIX}merged", frozenset({("list",)}), _merged),
        Called(f"{PREFIX}indexes", frozenset({("int",)}), _loop),
    )
}
CALLED: Final[Mapping[str, Called]] = {**_library(), **_conversions(), **_accessors(), **_OWN}
VARIABLE: Final = f"{PREFIX}variable"
LOAD: Final = f"{PREFIX}load"
CELL: Final = f"{PREFIX}cell_"
"""What the map is called in which a variable's value is put; C++ looks at each such map only after that."""
VALUE: Final = "value"
HAS_VARIABLE: Final = f"{PREFIX}has_variable"
_STRING: Final[set[tuple[str, ...]]] = {("string",)}


def declarations(cel: Any, running: Running) -> list[Any]:
    """Every function, in each form in which it may be called."""
    declare = _Declarations(cel)
    found: list[Any] = []
    for result, suffix in (("", ""), *((kind, f"_{name}") for kind, name in RESULTS.items())):
        for called in CALLED.values():
            found.append(declare(f"{called.name}{suffix}", called.signatures(), _callback(called, running), result))
        found.append(declare(f"{VARIABLE}{suffix}", _STRING, _variable(running), result))
    found.append(declare(LOAD, _STRING, _load(running), ""))
    found.append(declare(HAS_VARIABLE, _STRING, _has_variable(running), ""))
    return found


class _Declarations:
    """Declares functions with the types of C++'s Python layer."""

    def __init__(self, cel: Any) -> None:
        self._cel = cel
        self._types = {
            "": cel.Type.DYN,
            "bool": cel.Type.BOOL,
            "int": cel.Type.INT,
            "uint": cel.Type.UINT,
            "double": cel.Type.DOUBLE,
            "string": cel.Type.STRING,
            "bytes": cel.Type.BYTES,
            "list": cel.Type.LIST,
            "map": cel.Type.MAP,
            "google.protobuf.Timestamp": cel.Type.TIMESTAMP,
            "google.protobuf.Duration": cel.Type.DURATION,
        }

    def __call__(self, name: str, signatures: set[tuple[str, ...]], call: Callable[..., Any], result: str) -> Any:
        overloads = [
            self._cel.Overload(
                id=f"{name}_{number}",
                return_type=self._types[result],
                parameters=[self._types[kind] for kind in kinds],
                is_member=False,
                impl=call,
            )
            for number, kinds in enumerate(sorted(signatures))
        ]
        return self._cel.FunctionDecl(name, overloads)


def _callback(called: Called, running: Running) -> Callable[..., Any]:
    call = called.call
    wrapped = tuple(called.wrapped(position) for position in range(max(map(len, called.overloads))))

    def callback(*arguments: Any) -> Any:
        evaluation = running.evaluations[-1]
        steps = 1
        values = []
        try:
            for value, is_wrapped in zip(arguments, wrapped, strict=False):
                revealed = value[0] if is_wrapped else value
                cls = type(revealed)
                if cls is str:
                    steps += len(revealed) >> CHARACTERS_SHIFT
                elif cls not in SAME:
                    if cls is list:
                        steps += len(revealed)
                    revealed = reveal(revealed, evaluation)
                values.append(revealed)
            evaluation.spend(steps)
            result = call(*values)
            return result if type(result) in SAME else hide(result, evaluation)
        except EvalError as error:
            raise evaluation.fault(error) from None
        except (ArithmeticError, LookupError, TypeError, ValueError):
            # C++ must get no text that might hold values of the request.
            raise evaluation.fault(EvalError(EvalKind.OTHER, "a function failed")) from None

    return callback


def _variable(running: Running) -> Callable[[str], Any]:
    def callback(name: str) -> Any:
        evaluation = running.evaluations[-1]
        try:
            return hide(evaluation.variables[name], evaluation)
        except EvalError as error:
            raise evaluation.fault(error) from None
        except KeyError:
            raise evaluation.fault(EvalError(EvalKind.NO_SUCH_KEY, "no such variable")) from None

    return callback


def _load(running: Running) -> Callable[[str], bool]:
    """Puts a variable into a map, where C++ looks as far as it must: what a function gives, and lists, it copies."""

    def callback(name: str) -> bool:
        evaluation = running.evaluations[-1]
        cell = evaluation.cells[name]
        if cell:
            return True
        try:
            cell[VALUE] = evaluation.variables[name]
        except EvalError as error:
            raise evaluation.fault(error) from None
        except KeyError:
            raise evaluation.fault(EvalError(EvalKind.NO_SUCH_KEY, "no such variable")) from None
        return True

    return callback


def _has_variable(running: Running) -> Callable[[str], bool]:
    """``has(variables.x)``, which computes the variable, as natively: it fails where that does."""

    def callback(name: str) -> bool:
        evaluation = running.evaluations[-1]
        try:
            return name in evaluation.variables
        except EvalError as error:
            raise evaluation.fault(error) from None

    return callback
