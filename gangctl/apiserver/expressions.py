"""The API server's CEL: conditions of requests, rules of schemas, and mutations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, Final

from gangctl.cel.faults import CompileError, EvalError

_STEPS: Final = 10_000_000
"""Limits of one expression, without a time limit: independent of the machine's speed."""


class ConditionError(Exception):
    """A condition has no result for this request: ``condition`` and the error."""


class MatchConditions:
    """All conditions of one webhook, compiled when the first request has to be evaluated."""

    def __init__(self, raw: Iterable[Mapping[str, str]]) -> None:
        """Store ``matchConditions`` unchanged."""
        self._raw = [condition["expression"] for condition in raw]

    def hold(self, variables: Mapping[str, Any]) -> bool:
        """Whether every condition is true of ``object``, ``oldObject`` and ``request``.

        A false one decides, also if others fail; otherwise :class:`ConditionError`
        for the first that fails.
        """
        failed: ConditionError | None = None
        for expression in self._raw:
            try:
                if not _truth(expression, variables, Role.CONDITION):
                    return False
            except ConditionError as error:
                failed = failed or ConditionError(f"expression '{expression}' resulted in error: {error}")
        if failed is not None:
            raise failed
        return True


def check(expression: str) -> str:
    """The error of a condition, "" if it compiles."""
    try:
        compiled(expression, Role.CONDITION)
    except ConditionError as error:
        return str(error)
    return ""


def holds(rule: str, value: Any, old: Any) -> bool:
    """Whether the rule of a schema holds for ``self`` and, if there is one, ``oldSelf``; :class:`ConditionError`."""
    return _truth(rule, {"self": value} if old is None else {"self": value, "oldSelf": old}, Role.RULE)


def _truth(expression: str, names: Mapping[str, Any], role: Role) -> bool:
    answer = compiled(expression, role)(names, {})
    if answer is not True and answer is not False:
        raise ConditionError("must evaluate to bool")
    return bool(answer)


class Role(Enum):
    """What an expression is for; the types of other names than those of a condition are not checked."""

    CONDITION = 1
    RULE = 2
    MUTATION = 3
    """A mutation, or a variable for one."""


Evaluate = Callable[[Mapping[str, Any], Mapping[str, Any]], Any]
"""Evaluates an expression with names, and with what is below ``variables.``, which may raise :class:`EvalError`.

:class:`ConditionError` where it has no value.
"""


@lru_cache(maxsize=512)
def compiled(expression: str, role: Role, variables: tuple[str, ...] = ()) -> Evaluate:
    """An expression for requests; :class:`ConditionError` if it does not compile."""
    # It takes half a second to load, and many servers never need it.
    from gangctl.cel.check import check as check_expression  # noqa: PLC0415
    from gangctl.cel.environments import Environment, admission  # noqa: PLC0415
    from gangctl.cel.meter import StepMeter  # noqa: PLC0415
    from gangctl.cel.program import compile_expression  # noqa: PLC0415
    from gangctl.cel.types import BOOL, DYN  # noqa: PLC0415

    # The fields of a schema have types, which are not checked here.
    environment = Environment({"self": DYN, "oldSelf": DYN})
    if role is not Role.RULE:
        environment = admission(dict.fromkeys(variables, DYN), params=False)
    try:
        returns = (BOOL,) if role is Role.CONDITION else ()
        program = compile_expression(check_expression(expression, environment, returns=returns))
    except CompileError as error:
        raise ConditionError(f"compilation failed: {error.message}") from error

    def evaluate(names: Mapping[str, Any], computed: Mapping[str, Any]) -> Any:
        try:
            # By a clock that stands still: the steps alone are limited.
            return program.evaluate(names, computed, StepMeter(_STEPS, 1.0, lambda: 0.0))
        except EvalError as error:
            raise ConditionError(error.message) from error

    return evaluate
