"""Values as functions take and return them, maps whose keys are not all strings, functions by kinds of values.

==================================  =======================================
CEL                                 Python
==================================  =======================================
bool, int, double, string, bytes    bool, int, float, str, bytes
uint                                :class:`Uint`
null                                None
list, map                           any Sequence, any Mapping
timestamp, duration                 Timestamp, Duration (:mod:`gangctl.cel.times`)
optional                            :class:`Optional`
type                                :class:`TypeValue`
Quantity, URL, IP, CIDR, ...        the frozen classes of the modules beside
==================================  =======================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Protocol

from gangctl.cel.faults import EvalError, EvalKind

LARGEST: Final = 1024 * 1024
"""Bytes of a string or elements of a list in the result of a function."""
COPIED_SHIFT: Final = 6
"""Copying 64 characters or elements is a step."""
INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1


class Uint(int):
    """An unsigned integer: ``1u`` and ``1`` have different types, though they are equal."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Optional:
    """``optional.of(value)``, or with ``present`` False ``optional.none()``."""

    present: bool
    value: Any = None


NONE: Final = Optional(present=False)


@dataclass(frozen=True, slots=True)
class TypeValue:
    """The result of ``type(x)``."""

    name: str


@dataclass(frozen=True, slots=True)
class Extension:
    """Base of the types that Python does not have; ``KIND`` is CEL's name of the type."""

    KIND: ClassVar[str]
    STRICT: ClassVar[bool] = True
    """Whether comparing one with a value of another type is an error; for CEL's own types it is false."""


# In this order: bool and Uint are ints, and str and bytes are sequences.
_KINDS: Final[tuple[tuple[type, str], ...]] = (
    (bool, "bool"),
    (Uint, "uint"),
    (int, "int"),
    (float, "double"),
    (str, "string"),
    (bytes, "bytes"),
    (type(None), "null_type"),
    (Optional, "optional_type"),
    (TypeValue, "type"),
    (Mapping, "map"),
    (Sequence, "list"),
)
_known: dict[type, str] = {}
"""Kinds of the classes seen so far: there are about twenty."""


def kind(value: object) -> str:
    """The name of a value's CEL type, without parameters; TypeError for other values."""
    name = _known.get(type(value))
    if name is None:
        name = _known[type(value)] = _kind_of_class(type(value))
    return name


def _kind_of_class(cls: type) -> str:
    if issubclass(cls, Extension):
        return cls.KIND
    for base, name in _KINDS:
        if issubclass(cls, base):
            return name
    raise TypeError(f"{cls.__name__} is no CEL value")


def invalid(message: str) -> EvalError:
    """An argument that a function does not accept; messages never hold the values of a request."""
    return EvalError(EvalKind.INVALID_ARGUMENT, message)


def no_such_overload(name: str) -> EvalError:
    """A function without an overload for these types."""
    return EvalError(EvalKind.NO_SUCH_OVERLOAD, f"no such overload: {name}")


def bounded(size: int, name: str) -> None:
    """EvalError when a function is about to make something larger than :data:`LARGEST`."""
    if size > LARGEST:
        raise EvalError(EvalKind.BUDGET_EXCEEDED, f"{name} makes a value of more than {LARGEST} elements")


MISSING: Final = object()
"""The result of :func:`find` for an absent key: None is a value."""

NUMBERS: Final = frozenset({int, Uint, float})
KEYS: Final = frozenset({str, bool}) | NUMBERS
"""Types of keys that can be looked up."""
_HELD: Final = KEYS | {type(None)}


class KeyedMap(Mapping[Any, Any]):
    """A map as cel-go makes it: ``1``, ``1u``, ``1.0`` and ``true`` are four keys, where a dict has one."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        """Without any entry."""
        self._entries: dict[tuple[type, Any], Any] = {}

    def __getitem__(self, key: Any) -> Any:
        return self._entries[type(key), key]

    def __iter__(self) -> Iterator[Any]:
        return (key for _, key in self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return repr(list(self.items()))

    def enter(self, key: Any, value: Any) -> None:
        """Add an entry, or replace one with the same key; EvalError for an invalid key."""
        if type(key) not in _HELD:
            raise invalid("a value of this type cannot be the key of a map")
        self._entries[type(key), key] = value

    def remove(self, key: Any) -> None:
        """Take out the entry with this very key, if there is one."""
        self._entries.pop((type(key), key), None)

    def find(self, key: Any) -> Any:
        """The value or :data:`MISSING`; a whole number also finds the int or uint, but not the double."""
        for cls in (type(key), *_others(key)):
            value = self._entries.get((cls, key), MISSING)
            if value is not MISSING:
                return value
        return MISSING


def _others(key: Any) -> tuple[type, ...]:
    cls = type(key)
    if cls is float:
        return (int, Uint) if key.is_integer() and INT_MIN <= key <= UINT_MAX else ()
    if cls is int:
        return (Uint,)
    return (int,) if cls is Uint and key <= INT_MAX else ()


def find(mapping: Mapping[Any, Any], key: Any) -> Any:
    """The value under a key or :data:`MISSING`."""
    if type(mapping) is KeyedMap:
        return mapping.find(key)
    # Any other map is JSON's, whose keys are strings; values of other types may not even be hashable.
    return mapping.get(key, MISSING) if type(key) is str else MISSING


def entered(made: dict[str, Any] | KeyedMap, key: Any, value: Any) -> dict[str, Any] | KeyedMap:
    """The map with one more entry: a dict as long as all keys are strings."""
    if type(made) is dict:
        if type(key) is str:
            made[key] = value
            return made
        keyed = KeyedMap()
        for before, held in made.items():
            keyed.enter(before, held)
        made = keyed
    assert isinstance(made, KeyedMap)  # noqa: S101 - for the type checker
    made.enter(key, value)
    return made


def remove(made: dict[str, Any] | KeyedMap, key: Any) -> None:
    """Take out the entry with this very key, if there is one."""
    if type(made) is dict:
        if type(key) is str:
            made.pop(key, None)
    elif isinstance(made, KeyedMap) and type(key) in _HELD:
        made.remove(key)


ANY: Final = "dyn"


class Spending(Protocol):
    """Limits the cost of a call while it runs."""

    def charge(self, steps: int) -> None:
        """Spend steps; EvalError when they, or the time, are used up."""

    def check_clock(self) -> None:
        """Check the clock now; EvalError when the time is used up."""


class Free:
    """Spends nothing."""

    def charge(self, steps: int) -> None:
        """Nothing is counted."""

    def check_clock(self) -> None:
        """The time is not limited."""


FREE: Final = Free()


@dataclass(frozen=True, slots=True)
class Implementation:
    """``call`` for arguments of these kinds, as ``values.kind`` names them; of a method, the target is the first.

    A ``metered`` one takes a :class:`Spending` before them, because its work does not follow from their sizes.
    """

    name: str
    member: bool
    parameters: tuple[str, ...]
    call: Callable[..., Any]
    metered: bool = False


@dataclass(frozen=True, slots=True)
class Function:
    """All overloads of a name: call it with plain values; EvalError when it has no value for them."""

    name: str
    member: bool
    overloads: tuple[Implementation, ...]
    _chosen: dict[tuple[str, ...], Implementation | None] = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, *arguments: object) -> Any:
        """The value, without a limit of its cost."""
        return self.call(FREE, *arguments)

    def call(self, spending: Spending, *arguments: object) -> Any:
        """The value; ``spending`` is charged for it."""
        kinds = tuple(map(kind, arguments))
        try:
            chosen = self._chosen[kinds]
        except KeyError:
            chosen = self._chosen[kinds] = self._choose(kinds)
        if chosen is None:
            raise no_such_overload(self.name)
        return chosen.call(spending, *arguments) if chosen.metered else chosen.call(*arguments)

    def _choose(self, kinds: tuple[str, ...]) -> Implementation | None:
        for overload in self.overloads:
            if len(overload.parameters) == len(kinds) and all(
                expected in {ANY, actual} for expected, actual in zip(overload.parameters, kinds, strict=True)
            ):
                return overload
        return None


def function(name: str, call: Callable[..., Any], *parameters: str) -> Implementation:
    """``name(a, b)``."""
    return Implementation(name, member=False, parameters=parameters, call=call)


def method(name: str, call: Callable[..., Any], *parameters: str) -> Implementation:
    """``a.name(b)``; the first parameter is the target."""
    return Implementation(name, member=True, parameters=parameters, call=call)


def metered(overload: Implementation) -> Implementation:
    """The same, for a ``call`` that takes a :class:`Spending` first."""
    return replace(overload, metered=True)


def reading(name: str, parse: Callable[..., Any]) -> Callable[..., Any]:
    """The function ``name``, which reads a text: what ``parse`` refuses by ValueError is an invalid argument."""

    def read(*arguments: Any) -> Any:
        try:
            return parse(*arguments)
        except ValueError as error:
            raise invalid(f"{name}: {error}") from None

    return read


def readable(parse: Callable[..., Any]) -> Callable[..., bool]:
    """Whether ``parse`` takes a text."""

    def test(*arguments: Any) -> bool:
        try:
            parse(*arguments)
        except ValueError:
            return False
        return True

    return test


def table(overloads: Iterable[Implementation], *, member: bool) -> Mapping[str, Function]:
    """Overloads of methods or of functions, gathered by name."""
    gathered: dict[str, list[Implementation]] = {}
    for overload in overloads:
        if overload.member is member:
            gathered.setdefault(overload.name, []).append(overload)
    return {name: Function(name, member, tuple(implementations)) for name, implementations in gathered.items()}
