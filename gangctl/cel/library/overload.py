"""A function of CEL: a name, and its implementation for each kind of arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from gangctl.cel.library.values import kind, no_such_overload

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
class Overload:
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
    overloads: tuple[Overload, ...]
    _chosen: dict[tuple[str, ...], Overload | None] = field(default_factory=dict, compare=False, repr=False)

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

    def _choose(self, kinds: tuple[str, ...]) -> Overload | None:
        for overload in self.overloads:
            if len(overload.parameters) == len(kinds) and all(
                expected in {ANY, actual} for expected, actual in zip(overload.parameters, kinds, strict=True)
            ):
                return overload
        return None


def function(name: str, call: Callable[..., Any], *parameters: str) -> Overload:
    """``name(a, b)``."""
    return Overload(name, member=False, parameters=parameters, call=call)


def method(name: str, call: Callable[..., Any], *parameters: str) -> Overload:
    """``a.name(b)``; the first parameter is the target."""
    return Overload(name, member=True, parameters=parameters, call=call)


def metered(overload: Overload) -> Overload:
    """The same, for a ``call`` that takes a :class:`Spending` first."""
    return replace(overload, metered=True)


def table(overloads: Iterable[Overload], *, member: bool) -> Mapping[str, Function]:
    """Overloads of methods or of functions, gathered by name."""
    gathered: dict[str, list[Overload]] = {}
    for overload in overloads:
        if overload.member is member:
            gathered.setdefault(overload.name, []).append(overload)
    return {name: Function(name, member, tuple(found)) for name, found in gathered.items()}
