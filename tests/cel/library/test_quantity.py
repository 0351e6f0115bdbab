"""Arithmetic of quantities; what the API server reads as one is in answers.json."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.library.quantity import Quantity, parse
from gangctl.cel.library.registry import FUNCTIONS, METHODS

SUFFIXES = ("", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2")
LONG = tuple(parse(text) for text in (f"{'1' * 300}e4096", f"0.{'1' * 300}e4096", "-1e4096", "10e4095", "0e-4096"))
numbers = st.from_regex(r"\A[+-]?[0-9]{1,6}(\.[0-9]{0,6})?\Z")
quantities = st.builds(lambda number, suffix: parse(number + suffix), numbers, st.sampled_from(SUFFIXES))
of_any_size = quantities | st.sampled_from(LONG)


def exact(quantity: Quantity) -> Fraction:
    return quantity.unscaled * Fraction(10) ** quantity.exponent


def test_a_huge_quantity_is_valid_but_above_the_budget() -> None:
    assert FUNCTIONS["isQuantity"]("1e99999") is True
    with pytest.raises(EvalError) as caught:
        FUNCTIONS["quantity"]("1e99999")
    assert caught.value.kind is EvalKind.BUDGET_EXCEEDED


@given(of_any_size, of_any_size)
def test_order_and_equality_are_those_of_the_numbers(one: Quantity, other: Quantity) -> None:
    left, right = exact(one), exact(other)
    assert METHODS["compareTo"](one, other) == (left > right) - (left < right)
    assert (one == other) is (left == right)
    assert (one < other) is (left < right)
    if one == other:
        assert hash(one) == hash(other)


@given(of_any_size, of_any_size)
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
