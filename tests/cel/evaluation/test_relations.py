from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gangctl.cel.evaluation.arithmetic import contains, equal
from gangctl.cel.faults import EvalKind
from gangctl.cel.library.values import MISSING, KeyedMap, Uint, entered, find
from tests.cel.evaluation.evaluating import check
from tests.rows import each

MISFIT = EvalKind.NO_SUCH_OVERLOAD


@each(
    ("text", "expected"),
    [
        ("dyn(18446744073709551615u) < 18446744073709551616.0", False),
        ("9223372036854775807 < dyn(9223372036854775808u)", True),
        ("optional.none() == optional.of(null)", False),
    ],
)
def test_equality_and_order_evaluate(text: str, expected: object) -> None:
    check(text, expected)


@each(
    ("text", "expected"),
    [
        ("[1] in object.mixed", True),
        ("object.missing in []", False),
        ("object.missing in [1]", EvalKind.NO_SUCH_KEY),
    ],
)
def test_membership_evaluates(text: str, expected: object) -> None:
    check(text, expected)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.integers(0, 3).map(Uint)
    | st.sampled_from([-1.0, 0.0, 1.0, 2.0, 0.5])
    | st.sampled_from(["", "1", "a"])
    | st.binary(max_size=1)
)
KEYS = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)


def uncharged(_: int) -> None:
    pass


def model(value: Any) -> object:
    """Something that Python compares as CEL compares the value."""
    if isinstance(value, list):
        return ("list", tuple(model(each) for each in value))
    if isinstance(value, dict):
        return ("map", frozenset((key, model(each)) for key, each in value.items()))
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return (type(value).__name__, value)
    return ("number", float(value))


@given(VALUES, VALUES)
def test_equality_is_that_of_the_model(left: object, right: object) -> None:
    assert equal(left, right, uncharged) is (model(left) == model(right))


@given(VALUES)
def test_a_value_equals_itself(value: object) -> None:
    assert equal(value, value, uncharged)


@given(VALUES, st.lists(VALUES, max_size=4))
def test_in_is_equality_with_some_element(item: object, values: list[object]) -> None:
    assert contains(item, values, uncharged) is any(model(item) == model(value) for value in values)


@given(st.lists(st.tuples(SCALARS.filter(lambda key: type(key) is not bytes), st.integers())), SCALARS)
def test_keys_are_found_by_their_type_and_whole_numbers_as_others(entries: list[tuple[Any, int]], key: Any) -> None:
    made: dict[str, Any] | KeyedMap = {}
    for stored, value in entries:
        made = entered(made, stored, value)
    exact = {(type(stored), stored): value for stored, value in entries}
    assert len(made) == len(exact)
    whole = type(key) in {int, Uint, float} and key == int(key)
    tried = (type(key), *((int, Uint) if whole else ()))
    assert find(made, key) == next((exact[cls, key] for cls in tried if (cls, key) in exact), MISSING)


def test_comparing_large_values_is_charged() -> None:
    spent: list[int] = []
    value = {"a": [{"b": number} for number in range(100)]}
    assert equal(value, {"a": [{"b": number} for number in range(100)]}, spent.append)
    assert sum(spent) >= 200
