from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from gangctl.cel.faults import EvalKind
from gangctl.cel.library.string_format import double_text
from gangctl.cel.library.values import Uint
from tests.cel.evaluation.evaluating import check
from tests.rows import each

WRONG = EvalKind.INVALID_ARGUMENT
OVERFLOW = EvalKind.OVERFLOW
MISFIT = EvalKind.NO_SUCH_OVERLOAD


@each(
    ("text", "expected"),
    [
        ("int('9223372036854775808')", WRONG),
        (f"int('-{'0' * 5000}7')", -7),
        ("int('-0') + int('+0')", 0),
        ("int('+')", WRONG),
        ("int(-9223372036854775808.0)", OVERFLOW),
        ("int(18446744073709551615u)", OVERFLOW),
        ("int(object.t)", MISFIT),
        ("int(object.n)", MISFIT),
        ("int(duration('1s'))", 1_000_000_000),
        ("uint(-0.5)", OVERFLOW),
        ("uint(18446744073709551615.0)", OVERFLOW),
        ("uint('18446744073709551616')", WRONG),
        (f"uint('{'0' * 5000}7')", Uint(7)),
        ("uint('-1')", WRONG),
        ("uint('+1')", WRONG),
        ("double(' 1')", WRONG),
        ("double('1e400')", WRONG),
        (f"double('0.{'0' * 200}1e201')", 1.0),
        ("double(object.t)", MISFIT),
        ("bool('tRUE')", WRONG),
        ("bool(object.i)", MISFIT),
        ("string(object.n)", MISFIT),
        ("string(object.l)", MISFIT),
        (r"string(b'\xff')", WRONG),
        ("bytes(object.i)", MISFIT),
    ],
)
def test_conversions_evaluate(text: str, expected: object) -> None:
    check(text, expected)


@each(
    ("number", "text"),
    [
        (1e20, "1e+20"),
        (1e21, "1e+21"),
        (1234567.0, "1.234567e+06"),
        (123456.0, "123456"),
        (100000.0, "100000"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1.0, "1"),
        (-0.0, "-0"),
        (0.1, "0.1"),
        (-12.5, "-12.5"),
        (1.5e300, "1.5e+300"),
        (123456789.125, "1.23456789125e+08"),
        (5e-324, "5e-324"),
        (math.nan, "NaN"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
    ],
)
def test_doubles_are_formatted_as_by_go(number: float, text: str) -> None:
    assert double_text(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_of_a_double_is_parsed_to_the_same_double(number: float) -> None:
    assert math.copysign(1, float(double_text(number))) == math.copysign(1, number)
    assert float(double_text(number)) == number
