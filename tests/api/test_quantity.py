"""Quantities: the values are those of ``resource.MustParse`` of k8s.io/apimachinery."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.quantity import MAX, exact_bytes, exact_milli, milli, parse_quantity, show_bytes, show_milli, whole
from tests.rows import each
from tests.strategies import PROPERTY

SUFFIXES = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]


@each(
    ("text", "value"),
    [
        ("0", 0),
        ("1", 1),
        ("500m", Fraction(1, 2)),
        ("0.1", Fraction(1, 10)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("+7", 7),
        ("-2", -2),
        ("1k", 1000),
        ("1Ki", 1024),
        ("1.5Gi", 3 * 2**29),
        ("12e6", 12_000_000),
        ("1E3", 1000),
        ("1E", 10**18),
        ("2e-3", Fraction(2, 1000)),
        ("100n", Fraction(1, 10**7)),
        ("0.1n", Fraction(1, 10**9)),
        ("10000E", MAX),
        ("1e99999999", MAX),
        ("0e99999999", 0),
        ("1e-99999999", Fraction(1, 10**9)),
    ],
)
def test_quantities_are_parsed(text: str, value: Fraction | int) -> None:
    assert parse_quantity(text) == value


@each("text", ["", " 1", "1 ", "1K", "1gi", "1ki", "Gi", "m", ".", "1.2.3", "1e", "1e1.5", "0x10", "1_000", "٣", "1\n"])
def test_an_invalid_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        parse_quantity(text)


def test_a_very_long_number_is_refused_at_once_and_not_repeated_whole() -> None:
    with pytest.raises(ValueError, match="not a quantity") as refused:
        parse_quantity("9" * 10_000)
    assert len(str(refused.value)) < 200


@PROPERTY
@given(st.integers(0, 10**6), st.sampled_from(SUFFIXES))
def test_a_whole_number_of_units_is_exact(number: int, suffix: str) -> None:
    unit = parse_quantity(f"1{suffix}")
    assert parse_quantity(f"{number}{suffix}") == min(number * unit, MAX)


@PROPERTY
@given(st.decimals(0, 10**9, places=9), st.decimals(0, 10**9, places=9))
def test_order_is_kept_and_sums_are_exact(one: Fraction, other: Fraction) -> None:
    a, b = parse_quantity(f"{one:f}"), parse_quantity(f"{other:f}")
    assert (a <= b) == (one <= other)
    assert a + b == Fraction(one) + Fraction(other)


@PROPERTY
@given(st.text("0123456789.+-eEinumkKMGTP", max_size=12))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    try:
        value = parse_quantity(text)
    except ValueError:
        return
    assert abs(value) <= MAX
    assert (value * 10**9).denominator == 1


def test_integers_are_rounded_up_and_capped() -> None:
    assert milli(Fraction(1, 10_000)) == 1
    assert whole(Fraction(5, 2)) == 3
    assert whole(Fraction(2**70)) == MAX
    assert milli(Fraction(2**62)) == MAX


@each(("value", "text"), [(0, "0"), (250, "250m"), (1000, "1"), (1500, "1.5"), (1001, "1.001"), (2_000_010, "2000.01")])
def test_milli_units_are_formatted(value: int, text: str) -> None:
    assert show_milli(value) == text
    assert milli(parse_quantity(text)) == value


@each(
    ("value", "text"),
    [(0, "0"), (1023, "1023"), (2**30, "1Gi"), (2056 * 2**30, "2056Gi"), (10**9, "~953.7Mi"), (3 * 2**40 + 1, "~3Ti")],
)
def test_bytes_are_formatted(value: int, text: str) -> None:
    assert show_bytes(value) == text


@each(
    ("value", "text"), [(0, "0"), (1023, "1023"), (1024, "1Ki"), (1536, "1536"), (3 * 2**29, "1536Mi"), (MAX, f"{MAX}")]
)
def test_bytes_as_kubernetes_writes_them(value: int, text: str) -> None:
    assert exact_bytes(value) == text


@given(st.integers(0, MAX // 1000))
def test_an_exact_quantity_is_read_back(value: int) -> None:
    assert whole(parse_quantity(exact_bytes(value))) == value
    assert milli(parse_quantity(exact_milli(value))) == value
