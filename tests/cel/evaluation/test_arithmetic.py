from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from gangctl.cel.evaluation.arithmetic import OPERATORS
from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.library.values import INT_MAX, INT_MIN, UINT_MAX, Uint
from tests.cel.evaluation.evaluating import check, evaluate
from tests.rows import each

OVERFLOW = EvalKind.OVERFLOW
MISFIT = EvalKind.NO_SUCH_OVERLOAD
ZERO = EvalKind.DIVIDE_BY_ZERO


@each(
    ("text", "expected"),
    [
        ("-9223372036854775808 - 1", OVERFLOW),
        ("18446744073709551615u + 1u", OVERFLOW),
        ("18446744073709551615u * 2u", OVERFLOW),
        ("7u / 2u", Uint(3)),
        ("1.5 % 1.0", MISFIT),
        ("object.i + object.s", MISFIT),
        ("object.t + object.t", MISFIT),
        ("object.m + object.m", MISFIT),
        ("object.s * 2", MISFIT),
    ],
)
def test_arithmetic_operators_evaluate(text: str, expected: object) -> None:
    check(text, expected)


def test_lists_of_the_request_are_not_changed_by_addition() -> None:
    values = [1]
    assert evaluate("object + [2]", object=values) == [1, 2]
    assert values == [1]


def truncated(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


EXACT: Final[dict[str, Callable[[int, int], int]]] = {
    "_+_": lambda a, b: a + b,
    "_-_": lambda a, b: a - b,
    "_*_": lambda a, b: a * b,
    "_/_": truncated,
    "_%_": lambda a, b: a - truncated(a, b) * b,
}
INTS = st.integers(INT_MIN, INT_MAX) | st.integers(-10, 10) | st.sampled_from([INT_MIN, INT_MIN + 1, INT_MAX])
UINTS = st.integers(0, UINT_MAX) | st.integers(0, 10)


@given(st.sampled_from(sorted(EXACT)), INTS, INTS)
def test_ints_are_exact_or_overflow(operator: str, left: int, right: int) -> None:
    if not right and operator in {"_/_", "_%_"}:
        assert outcome(operator, left, right) is ZERO
        return
    exact = EXACT[operator](left, right)
    beside_overflow = operator == "_%_" and (left, right) == (INT_MIN, -1)
    expected = exact if INT_MIN <= exact <= INT_MAX and not beside_overflow else OVERFLOW
    assert outcome(operator, left, right) == expected


@given(st.sampled_from(sorted(EXACT)), UINTS, UINTS)
def test_uints_are_exact_or_overflow(operator: str, left: int, right: int) -> None:
    answer = outcome(operator, Uint(left), Uint(right))
    if not right and operator in {"_/_", "_%_"}:
        assert answer is ZERO
        return
    exact = EXACT[operator](left, right)
    assert answer == (exact if 0 <= exact <= UINT_MAX else OVERFLOW)
    assert type(answer) is Uint or answer is OVERFLOW


def outcome(operator: str, left: object, right: object) -> object:
    try:
        return OPERATORS[operator](left, right)
    except EvalError as error:
        return error.kind
