"""The protocol between policies and the engines that evaluate CEL.

An engine gets expressions that :mod:`gangctl.policy.cel.check` has accepted, so it never
sees a name, a function or a type that Kubernetes would refuse. What it cannot run itself
it refuses in :meth:`Engine.compile`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol

from gangctl.policy.cel.checked import Checked

Value = Any
"""A value as the engine keeps it: opaque to everybody else."""

Bindings = Any
"""The variables of one request in the engine's own form, made once and used by every program."""


NO_VARIABLES: Final[Mapping[str, Checked]] = MappingProxyType({})


class Meter(Protocol):
    """What evaluations may spend: shared by all that belong together, asked by engines that can ask."""

    def step(self, count: int = 1) -> None:
        """Spend ``count`` steps; :class:`~gangctl.policy.cel.faults.EvalError` when steps or time are used up."""


class Program(Protocol):
    """One compiled expression; used by one thread at a time."""

    def evaluate(self, bindings: Bindings, variables: Mapping[str, Value], meter: Meter) -> Value:
        """The expression's value, or EvalError.

        ``variables`` is what ``variables.x`` reads: a mapping that computes what it is asked
        for, and may raise EvalError. An engine reads it only where the expression gets there.
        """


class Engine(Protocol):
    """A way to evaluate CEL."""

    @property
    def name(self) -> str:
        """``cel-python`` or ``cel-cpp``."""

    def compile(self, checked: Checked, variables: Mapping[str, Checked] = NO_VARIABLES) -> Program:
        """A program, or :class:`~gangctl.policy.cel.faults.CompileError` of kind UNSUPPORTED.

        ``variables`` are the expressions that ``variables.x`` stands for, as far as they are known: an engine may
        evaluate them in place instead of asking for the value.
        """

    def bind(self, values: Mapping[str, Any]) -> Bindings:
        """JSON values by variable name (``object``, ``oldObject``, ``request``, ``gang``, ...); None is null."""

    def rebind(self, bindings: Bindings, values: Mapping[str, Any]) -> Bindings:
        """The same bindings with some values replaced (``params``), at the price of those alone."""

    def plain(self, value: Value) -> Any:
        """A value as JSON: bool, int, float, str, None, list, dict; other CEL types as CEL's own text of them."""
