from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from gangctl.cel.faults import EvalKind
from gangctl.cel.library.string_format import double_text
from gangctl.cel.library.values import TypeValue, Uint
from tests.cel.evaluation.evaluating import check
from tests.rows import each

WRONG = EvalKind.INVALID_ARGUMENT
OVERFLOW = EvalKind.OVERFLOW
MISFIT = EvalKind.NO_SUCH_OVERLOAD


@each(
    ("text", "expected"),
    [
        ("int('+5')", 5),
        ("int(' 5')", WRONG),
        ("int('5_0')", WRONG),
        ("int('5.0')", WRONG),
        ("int('\u0665')", WRONG),
        ("int(object.s)", WRONG),
        ("int('9223372036854775808')", WRONG),
        ("int(1.9)", 1),
        ("int(-1.9)", -1),
        ("int(1e30)", OVERFLOW),
        ("int(9223372036854775807.0)", OVERFLOW),
        ("int(-9223372036854775808.0)", OVERFLOW),
        ("int(0.0 / 0.0)", OVERFLOW),
        ("int(18446744073709551615u)", OVERFLOW),
        ("int(object.t)", MISFIT),
        ("int(object.n)", MISFIT),
        ("int(timestamp('1969-12-31T23:59:59.5Z'))", -1),
        ("int(duration('1s'))", 1_000_000_000),
        ("uint(object.i)", Uint(5)),
        ("uint(-1)", OVERFLOW),
        ("uint(1.9)", Uint(1)),
        ("uint(-0.5)", OVERFLOW),
        ("uint(18446744073709551615.0)", OVERFLOW),
        ("uint('18446744073709551615')", Uint(2**64 - 1)),
        ("uint('18446744073709551616')", WRONG),
        ("uint('-1')", WRONG),
        ("uint('+1')", WRONG),
        ("double('1e3')", 1000.0),
        ("double('1.')", 1.0),
        ("double('.5')", 0.5),
        ("double('.')", WRONG),
        ("double(' 1')", WRONG),
        ("double('1_0')", 10.0),
        ("double('1__0')", WRONG),
        ("double('1e400')", WRONG),
        ("double('0x1p-2')", 0.25),
        ("double('0x1')", WRONG),
        ("double('inf')", math.inf),
        ("double('-Infinity')", -math.inf),
        ("double('NaN')", math.nan),
        ("double('+NaN')", WRONG),
        ("double(object.i)", 5.0),
        ("double(object.t)", MISFIT),
        ("bool('T')", True),
        ("bool('False')", False),
        ("bool('tRUE')", WRONG),
        ("bool('yes')", WRONG),
        ("bool(object.i)", MISFIT),
        ("string(object.i)", "5"),
        ("string(18446744073709551615u)", "18446744073709551615"),
        ("string(object.t)", "true"),
        ("string(object.n)", MISFIT),
        ("string(object.l)", MISFIT),
        ("string(b'abc')", "abc"),
        (r"string(b'\xff')", WRONG),
        ("string(ip('10.0.0.1'))", "10.0.0.1"),
        ("bytes('\u00e9')", b"\xc3\xa9"),
        ("bytes(object.i)", MISFIT),
        ("dyn(object.i)", 5),
        ("type(object)", TypeValue("map")),
        ("type(object.n)", TypeValue("null_type")),
        ("type(object.t)", TypeValue("bool")),
        ("type(1u)", TypeValue("uint")),
        ("type(type(1))", TypeValue("type")),
        ("type(optional.none())", TypeValue("optional_type")),
        ("type(duration('1s')) == google.protobuf.Duration", True),
        ("type(timestamp(object.ts)) == google.protobuf.Timestamp", True),
        ("type(ip('10.0.0.1')) == net.IP", True),
        ("type([1]) == list && type({1: 1}) == map", True),
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
