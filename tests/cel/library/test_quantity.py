"""Values are those of k8s.io/apimachinery 0.37.1."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.library.quantity import Quantity, parse
from gangctl.cel.library.registry import FUNCTIONS, METHODS
from tests.rows import each

SUFFIXES = ("", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2")
numbers = st.from_regex(r"\A[+-]?[0-9]{1,6}(\.[0-9]{0,6})?\Z")
quantities = st.builds(lambda number, suffix: parse(number + suffix), numbers, st.sampled_from(SUFFIXES))


def exact(quantity: Quantity) -> Fraction:
    return quantity.unscaled * Fraction(10) ** quantity.exponent


@each("text", ["1", "0", ".", "-", "+", "1.G", ".5", "5.", "e3", "1E", "00012", "0Ei", "Ki", "1e400"])
def test_quantities_of_the_api_server_are_accepted(text: str) -> None:
    assert FUNCTIONS["isQuantity"](text) is True


@each(
    "text",
    ["", "Ei", "-Pi", "1..2", "1e", "1e3.5", "1k+3", "1 ", "\u0661", "1mi", "1Ki5", "1ee3", "1e99999999999999999999"],
)
def test_other_texts_are_no_quantities(text: str) -> None:
    assert FUNCTIONS["isQuantity"](text) is False
    with pytest.raises(EvalError) as caught:
        FUNCTIONS["quantity"](text)
    assert caught.value.kind is EvalKind.INVALID_ARGUMENT


@each(
    ("text", "integer"),
    [
        ("2k", 2000),
        ("1.5k", 1500),
        ("1Ti", 2**40),
        ("1E18", 10**18),
        ("999999999999999999", 999999999999999999),
        ("2000m", None),
        ("1.5Gi", None),
        ("1Pi", None),
        ("100Ti", None),
        ("9223372036854775807", None),
        ("10E", None),
        ("0.0", None),
    ],
)
def test_is_integer_is_true_for_64_bit_integers(text: str, integer: int | None) -> None:
    quantity = parse(text)
    assert METHODS["isInteger"](quantity) is (integer is not None)
    if integer is None:
        with pytest.raises(EvalError):
            METHODS["asInteger"](quantity)
    else:
        assert METHODS["asInteger"](quantity) == integer


def test_quantities_are_rounded_to_nano_and_capped() -> None:
    assert parse("0.0000000001") == parse("1n")
    assert parse("-0.0000000001") == parse("-1n")
    assert parse("8Ei") == parse("9223372036854775807")
    assert parse("10E") > parse("9223372036854775807")


def test_a_huge_quantity_is_valid_but_above_the_budget() -> None:
    assert FUNCTIONS["isQuantity"]("1e99999") is True
    with pytest.raises(EvalError) as caught:
        FUNCTIONS["quantity"]("1e99999")
    assert caught.value.kind is EvalKind.BUDGET_EXCEEDED


@given(quantities, quantities)
def test_order_and_equality_are_those_of_the_numbers(one: Quantity, other: Quantity) -> None:
    left, right = exact(one), exact(other)
    assert METHODS["compareTo"](one, other) == (left > right) - (left < right)
    assert (one == other) is (left == right)
    assert (one < other) is (left < right)
    if one == other:
        assert hash(one) == hash(other)


@given(quantities, quantities)
def test_sums_and_differences_are_exact(one: Quantity, other: Quantity) -> None:
    assert exact(METHODS["add"](one, other)) == exact(one) + exact(other)
    assert exact(METHODS["sub"](one, other)) == exact(one) - exact(other)
    assert METHODS["sub"](METHODS["add"](one, other), other) == one


@given(quantities, st.integers(-(2**63), 2**63 - 1))
def test_integers_may_be_added(quantity: Quantity, number: int) -> None:
    assert exact(METHODS["add"](quantity, number)) == exact(quantity) + number
    assert exact(METHODS["sub"](quantity, number)) == exact(quantity) - number


@given(quantities)
def test_the_float_of_a_quantity_is_approximate(quantity: Quantity) -> None:
    assert METHODS["asApproximateFloat"](quantity) == pytest.approx(float(exact(quantity)), rel=1e-12)
    assert FUNCTIONS["sign"](quantity) == (quantity.unscaled > 0) - (quantity.unscaled < 0)
