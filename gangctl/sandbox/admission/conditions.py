"""CEL of the API server: ``matchConditions`` of webhooks, and rules of schemas, by the evaluator of policies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from gangctl.sandbox.objects import Object

_STEPS: Final = 10_000_000
"""Limits of one expression, without a time limit: independent of the machine's speed."""


class ConditionError(Exception):
    """A condition has no result for this request: ``condition`` and the error."""


class Conditions:
    """All conditions of one webhook, compiled when the first request has to be evaluated."""

    def __init__(self, raw: Iterable[Mapping[str, str]]) -> None:
        """Store ``matchConditions`` unchanged."""
        self._raw = [(condition["name"], condition["expression"]) for condition in raw]

    def hold(self, variables: Mapping[str, Any]) -> bool:
        """Whether every condition is true of ``object``, ``oldObject`` and ``request``.

        A false one decides, also if others fail; otherwise :class:`ConditionError`
        for the first that fails.
        """
        failed: ConditionError | None = None
        for name, expression in self._raw:
            try:
                if not _program(expression, rule=False)(variables):
                    return False
            except ConditionError as error:
                failed = failed or ConditionError(f"expression '{expression}' of match condition {name!r}: {error}")
        if failed is not None:
            raise failed
        return True


def check(expression: str) -> str:
    """The error of a condition, "" if it compiles."""
    try:
        _program(expression, rule=False)
    except ConditionError as error:
        return str(error)
    return ""


def holds(rule: str, value: Any, old: Any) -> bool:
    """Whether the rule of a schema holds for ``self`` and, if there is one, ``oldSelf``; :class:`ConditionError`."""
    return _program(rule, rule=True)({"self": value} if old is None else {"self": value, "oldSelf": old})


@lru_cache(maxsize=512)
def _program(expression: str, *, rule: bool) -> Callable[[Mapping[str, Any]], bool]:
    # It takes half a second to load, and many servers never need it.
    from gangctl.cel.check import check as check_expression  # noqa: PLC0415
    from gangctl.cel.environments import Environment, admission  # noqa: PLC0415
    from gangctl.cel.faults import CompileError, EvalError  # noqa: PLC0415
    from gangctl.cel.meter import StepMeter  # noqa: PLC0415
    from gangctl.cel.program import compile_expression  # noqa: PLC0415
    from gangctl.cel.types import BOOL, DYN  # noqa: PLC0415

    # The fields of a schema have types, which are not checked here.
    environment = Environment({"self": DYN, "oldSelf": DYN}) if rule else admission(params=False)
    try:
        program = compile_expression(check_expression(expression, environment, returns=() if rule else (BOOL,)))
    except CompileError as error:
        raise ConditionError(f"compilation failed: {error.message}") from error

    def evaluate(variables: Mapping[str, Any]) -> bool:
        try:
            answer = program.evaluate(variables, {}, StepMeter(_STEPS, 1.0, lambda: 0.0))
        except EvalError as error:
            raise ConditionError(error.message) from error
        if answer is not True and answer is not False:
            raise ConditionError("must evaluate to bool")
        return bool(answer)

    return evaluate


def request_variable(request: Object) -> Object:
    """The variable ``request``: the AdmissionRequest without the objects."""
    return {key: value for key, value in request.items() if key not in {"object", "oldObject"}}
