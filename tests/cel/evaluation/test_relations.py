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
        ("object.i == 5.0", True),
        ("object.i == 5u", True),
        ("object.i == '5'", False),
        ("object.i != '5'", True),
        ("object.t == 1", False),
        ("object.one == object.t", False),
        ("object.one == object.onef", True),
        ("object.n == null", True),
        ("object.i == null", False),
        ("null == object.em", False),
        ("object.zz == null", EvalKind.NO_SUCH_KEY),
        ("0.0 / 0.0 == 0.0 / 0.0", False),
        ("[0.0 / 0.0] == [0.0 / 0.0]", False),
        ("[[0.0 / 0.0]].all(x, x == x)", False),
        ("object.big == 9007199254740992.0", True),
        ("object.big < 9007199254740992.0", False),
        ("9223372036854775807 == dyn(9223372036854775808.0)", True),
        ("dyn(18446744073709551615u) < 18446744073709551616.0", False),
        ("9223372036854775807 < dyn(18446744073709551616.0)", True),
        ("9223372036854775807 < dyn(9223372036854775808u)", True),
        ("dyn(0u) > -1.5", True),
        ("1 < dyn(1.5)", True),
        ("dyn(1) < dyn('a')", MISFIT),
        ("dyn(true) < dyn(1)", MISFIT),
        ("[1] < dyn([2])", MISFIT),
        ("0.0 / 0.0 < 1.0", EvalKind.INVALID_ARGUMENT),
        ("false < true", True),
        ("b'a' < b'b'", True),
        ("'\u00e9' < 'z'", False),
        (r"'\U0001F600' > '\uffff'", True),
        ("object.l == [1, 2.0, 3u]", True),
        ("object.l == [1, 2]", False),
        ("object.m == {'a': 1, 'b': {'c': [1, {'d': 2.0}]}}", True),
        ("object.m == {'a': 1, 'b': {'c': [1, {'d': true}]}}", False),
        ("{1: 'a'} == {1.0: 'a'}", False),
        ("{1.0: 'a'} == {1: 'a'}", True),
        ("{true: 'a'} == {1: 'a'}", False),
        ("[] == object.e", True),
        ("object.e == object.em", False),
        ("optional.of(1) == optional.of(1.0)", True),
        ("optional.none() == optional.of(null)", False),
        ("duration('60s') == duration('1m')", True),
        ("duration('1s') == 1000000000", False),
        ("timestamp('2021-01-01T00:00:00Z') == timestamp('2021-01-01T01:00:00+01:00')", True),
        ("type(1) == int", True),
        ("quantity('1Gi') == quantity('1024Mi')", True),
        ("quantity('1') == 1", MISFIT),
        ("quantity('1') != 1", True),
        ("dyn(1) == quantity('1')", False),
    ],
)
def test_equality_and_order_evaluate(text: str, expected: object) -> None:
    check(text, expected)


@each(
    ("text", "expected"),
    [
        ("1u in object.l", True),
        ("1.0 in object.l", True),
        ("'1' in object.l", False),
        ("1 in [true]", False),
        ("'z' in object.mixed", False),
        ("[1] in object.mixed", True),
        ("{'x': 1.0} in object.mixed", True),
        ("null in object.mixed", True),
        ("'a' in object.m", True),
        ("1 in object.m", False),
        ("object.l in object.m", False),
        ("1.0 in {1: 1}", True),
        ("true in {1: 1}", False),
        ("1 in {true: 1}", False),
        ("1 in object.s", MISFIT),
        ("'s' in object.s", MISFIT),
        ("1 in object.n", MISFIT),
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
