"""``matchConditions`` of a webhook: CEL expressions that have to be true for it to be called.

cel-python's interpreter evaluates them; it differs from the API server's in corners
(no optional values such as ``object.?spec``, less strict types), not in what is used here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, Final

from gangctl.sandbox.objects import Object

# A field that is read and not there.
_MISSING: Final = re.compile(r"^no such member in mapping: '(.*)'$")

Program = Callable[[Mapping[str, Any]], bool]


class ConditionError(Exception):
    """A condition has no answer for this request: ``condition`` and what is wrong."""


class Conditions:
    """All conditions of one webhook, compiled when the first request has to be judged."""

    def __init__(self, raw: Iterable[Mapping[str, str]]) -> None:
        """Keep ``matchConditions`` as they are written."""
        self._raw = [(condition["name"], condition["expression"]) for condition in raw]

    def hold(self, variables: Mapping[str, Any]) -> bool:
        """Whether every condition is true of ``object``, ``oldObject`` and ``request``.

        One that is false decides, whatever else fails; otherwise :class:`ConditionError`
        tells of the first that fails.
        """
        if not self._raw:
            return True
        values = _values(variables)
        failed: ConditionError | None = None
        for name, expression in self._raw:
            try:
                if not _compiled(expression)(values):
                    return False
            except ConditionError as error:
                failed = failed or ConditionError(f"expression '{expression}' of match condition {name!r}: {error}")
        if failed is not None:
            raise failed
        return True


def check(expression: str) -> str:
    """What is wrong with an expression, "" when it compiles."""
    try:
        _compiled(expression)
    except ConditionError as error:
        return str(error)
    return ""


def _values(variables: Mapping[str, Any]) -> dict[str, Any]:
    # It takes a tenth of a second to import, and many servers never need it.
    from celpy.adapter import json_to_cel  # noqa: PLC0415

    return {name: json_to_cel(value) for name, value in variables.items()}


@lru_cache(maxsize=512)
def _compiled(expression: str) -> Program:
    import celpy  # noqa: PLC0415
    from celpy.celparser import CELParseError  # noqa: PLC0415
    from celpy.evaluation import CELEvalError, CELUnsupportedError  # noqa: PLC0415

    environment = celpy.Environment(runner_class=celpy.InterpretedRunner)
    try:
        program = environment.program(environment.compile(expression))
    except (CELParseError, CELUnsupportedError, ValueError) as error:
        raise ConditionError(f"compilation failed: {_first_line(error)}") from error

    def evaluate(values: Mapping[str, Any]) -> bool:
        try:
            answer = program.evaluate(dict(values))
        except (CELEvalError, CELUnsupportedError, ValueError, TypeError, KeyError) as error:
            raise ConditionError(_first_line(error)) from error
        if not isinstance(answer, celpy.celtypes.BoolType):
            raise ConditionError("must evaluate to bool")
        return bool(answer)

    return evaluate


def _first_line(error: Exception) -> str:
    """The message alone, and the server's words for what is met most: cel-python puts whole objects into the rest."""
    line = str(error.args[0] if error.args else error).splitlines()[0][:200]
    return _MISSING.sub(r"no such key: \1", line)


def request_variable(request: Object) -> Object:
    """The variable ``request``: the AdmissionRequest without the objects."""
    return {key: value for key, value in request.items() if key not in {"object", "oldObject"}}
