"""A function of CEL: a name, and what it does for arguments of which kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gangctl.policy.cel.library.values import kind, no_such_overload

ANY: Final = "dyn"


@dataclass(frozen=True, slots=True)
class Overload:
    """``call`` for arguments of these kinds, as ``values.kind`` names them; of a method, the target is the first."""

    name: str
    member: bool
    parameters: tuple[str, ...]
    call: Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Function:
    """All overloads of a name: call it with plain values; EvalError when it has no value for them."""

    name: str
    member: bool
    overloads: tuple[Overload, ...]
    _chosen: dict[tuple[str, ...], Callable[..., Any] | None] = field(default_factory=dict, compare=False, repr=False)

    @property
    def arities(self) -> tuple[int, ...]:
        """Numbers of arguments that some overload takes, the target of a method counted."""
        return tuple(sorted({len(overload.parameters) for overload in self.overloads}))

    def __call__(self, *arguments: object) -> Any:
        kinds = tuple(map(kind, arguments))
        try:
            chosen = self._chosen[kinds]
        except KeyError:
            chosen = self._chosen[kinds] = self._choose(kinds)
        if chosen is None:
            raise no_such_overload(self.name)
        return chosen(*arguments)

    def _choose(self, kinds: tuple[str, ...]) -> Callable[..., Any] | None:
        for overload in self.overloads:
            if len(overload.parameters) == len(kinds) and all(
                expected in {ANY, actual} for expected, actual in zip(overload.parameters, kinds, strict=True)
            ):
                return overload.call
        return None


def function(name: str, call: Callable[..., Any], *parameters: str) -> Overload:
    """``name(a, b)``."""
    return Overload(name, member=False, parameters=parameters, call=call)


def method(name: str, call: Callable[..., Any], *parameters: str) -> Overload:
    """``a.name(b)``; the first parameter is the target."""
    return Overload(name, member=True, parameters=parameters, call=call)


def table(overloads: Iterable[Overload], *, member: bool) -> Mapping[str, Function]:
    """Overloads of methods or of functions, gathered by name."""
    gathered: dict[str, list[Overload]] = {}
    for overload in overloads:
        if overload.member is member:
            gathered.setdefault(overload.name, []).append(overload)
    return {name: Function(name, member, tuple(found)) for name, found in gathered.items()}
