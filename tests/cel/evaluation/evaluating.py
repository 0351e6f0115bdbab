"""Expressions on a small object: what they are, or which error they raise.

What the API server says of checked expressions is recorded: tests/parity, and answers.json beside this directory. The
tables here have what is not in those, mostly because the checker refuses it; the values are those of the CEL library of
Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from gangctl.cel.environments import CheckedExpression
from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.meter import StepMeter
from gangctl.cel.parser import parse
from gangctl.cel.program import Program, compile_expression
from gangctl.cel.types import DYN

OBJECT: Final[dict[str, Any]] = {
    "s": "str",
    "n": None,
    "i": 5,
    "f": 1.5,
    "t": True,
    "u": "1",
    "one": 1,
    "onef": 1.0,
    "neg": -7,
    "big": 9007199254740993,
    "l": [1, 2, 3],
    "e": [],
    "em": {},
    "m": {"a": 1, "b": {"c": [1, {"d": 2}]}},
    "ts": "2021-03-04T05:06:07.089Z",
    "d": "1h2m3.5s",
    "mixed": [1, "a", 1.5, None, True, [1], {"x": 1}],
}


def program(text: str) -> Program:
    """Compiled as if it had been checked: types are found out when it runs."""
    checked = CheckedExpression(text, parse(text), DYN, frozenset(), frozenset(), frozenset())
    return compile_expression(checked)


def unlimited() -> StepMeter:
    return StepMeter(10**9, 1.0, lambda: 0.0)


def evaluate(
    text: str, variables: Mapping[str, Any] | None = None, meter: StepMeter | None = None, **names: Any
) -> Any:
    bindings = {"object": OBJECT, **names}
    return program(text).evaluate(bindings, variables or {}, meter or unlimited())


def error(
    text: str, variables: Mapping[str, Any] | None = None, meter: StepMeter | None = None, **names: Any
) -> EvalError:
    with pytest.raises(EvalError) as caught:
        evaluate(text, variables, meter, **names)
    return caught.value


def check(text: str, expected: object) -> None:
    """The value, its type and those of all its parts; or the kind of the error."""
    if isinstance(expected, EvalKind):
        assert error(text).kind is expected
    else:
        assert repr(evaluate(text)) == repr(expected)
