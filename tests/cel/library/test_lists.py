"""Lists and sets; more in answers.json."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.library.equality import compare, equal
from gangctl.cel.library.quantity import parse
from gangctl.cel.library.registry import FUNCTIONS, METHODS
from gangctl.cel.library.values import INT_MAX, UINT_MAX, Uint, entered
from gangctl.cel.meter import STEPS_PER_PAYMENT, Frame, StepMeter
from gangctl.cel.times import Duration
from tests.rows import each

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([0.0, 1.0, 1.5, float("nan")]),
    st.text("ab", max_size=2),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text("ab", max_size=1), inner, max_size=2)),
    max_leaves=6,
)


def test_doubles_are_added_one_by_one() -> None:
    assert METHODS["sum"]([0.1] * 10) == 0.9999999999999999


@given(st.lists(values, max_size=8), values)
def test_indexes_and_sets_ask_for_equality(several: list[object], sought: object) -> None:
    found = [index for index, value in enumerate(several) if equal(value, sought)]
    assert METHODS["indexOf"](several, sought) == (found[0] if found else -1)
    assert METHODS["lastIndexOf"](several, sought) == (found[-1] if found else -1)
    assert METHODS["includes"](several, sought) is bool(found)
    assert FUNCTIONS["sets.contains"](several, [sought]) is bool(found)
    assert FUNCTIONS["sets.intersects"](several, [sought]) is bool(found)


@given(st.lists(values, max_size=8))
def test_distinct_keeps_one_of_equal_elements(several: list[object]) -> None:
    distinct = METHODS["distinct"](several)
    assert not any(equal(one, other) for index, one in enumerate(distinct) for other in distinct[:index])
    assert all(METHODS["includes"](distinct, value) for value in several if equal(value, value))


@given(values, values)
def test_equality_is_symmetric(one: object, other: object) -> None:
    assert equal(one, other) is equal(other, one)


def test_true_differs_from_one_and_numbers_of_all_types_are_equal() -> None:
    assert not equal(True, 1)
    assert not equal(entered({}, True, 1), entered({}, 1, 1))
    assert equal(1, 1.0)
    assert equal(Uint(1), 1)
    assert equal(parse("1"), parse("1000m"))
    assert not equal(parse("1"), "1")
    assert compare("a", 1) is None
    assert compare(float("nan"), 1.0) is None


@given(st.lists(st.integers(-5, 5)))
def test_lists_are_sorted(numbers: list[int]) -> None:
    assert METHODS["sort"](numbers) == sorted(numbers)
    assert METHODS["isSorted"](numbers) is (numbers == sorted(numbers))
    assert METHODS["@sortByAssociatedKeys"](numbers, [-each for each in numbers]) == sorted(numbers, reverse=True)
    if numbers:
        assert (METHODS["min"](numbers), METHODS["max"](numbers)) == (min(numbers), max(numbers))


@each(
    ("several", "kind"),
    [
        ([INT_MAX, 1], EvalKind.OVERFLOW),
        ([Uint(UINT_MAX), Uint(1)], EvalKind.OVERFLOW),
        ([Duration(INT_MAX), Duration(1)], EvalKind.OVERFLOW),
        ([1, 1.5], EvalKind.NO_SUCH_OVERLOAD),
        (["a"], EvalKind.NO_SUCH_OVERLOAD),
        ([None], EvalKind.NO_SUCH_OVERLOAD),
    ],
)
def test_invalid_sums_are_errors(several: list[object], kind: EvalKind) -> None:
    with pytest.raises(EvalError) as caught:
        METHODS["sum"](several)
    assert caught.value.kind is kind


@each(
    ("name", "arguments"),
    [
        ("sets.contains", ([[n] for n in range(150)], [[n] for n in range(149, 0, -1)])),
        ("sets.intersects", ([{"a": 1}] * 100, [{"a": 2}] * 100)),
        ("distinct", ([[number] for number in range(150)],)),
        ("indexOf", ([["a" * 64_000 + str(number % 10)] for number in range(10)], ["a" * 64_000 + "x"])),
        ("lastIndexOf", ([["a" * 64_000 + str(number % 10)] for number in range(10)], ["a" * 64_000 + "x"])),
    ],
)
def test_each_comparison_is_charged(name: str, arguments: tuple[object, ...]) -> None:
    meter = StepMeter(10_000, 1.0, lambda: 0.0)
    function = FUNCTIONS[name] if name in FUNCTIONS else METHODS[name]
    with pytest.raises(EvalError) as caught:
        function.call(Frame({}, {}, meter), *arguments)
    assert caught.value.kind is EvalKind.BUDGET_EXCEEDED
    assert meter.spent <= 10_000 + 1_000 + STEPS_PER_PAYMENT


def test_a_range_is_bounded() -> None:
    with pytest.raises(EvalError) as caught:
        FUNCTIONS["lists.range"](10**9)
    assert caught.value.kind is EvalKind.BUDGET_EXCEEDED


def test_distinct_and_sets_of_many_strings_take_linear_time() -> None:
    names = [f"n{index}" for index in range(100_000)]
    assert len(METHODS["distinct"](names)) == len(names)
    assert FUNCTIONS["sets.equivalent"](names, names)
