"""Order and form of semantic versions."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from gangctl.cel.library.registry import METHODS
from gangctl.cel.library.semver import Semver, parse
from tests.rows import each

ASCENDING = (
    "0.9.9",
    "1.0.0-1",
    "1.0.0-2",
    "1.0.0-10",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.2.0",
    "1.10.0",
)
part = st.one_of(st.integers(0, 99), st.from_regex(r"\A[a-c-][0-9a-c-]{0,2}\Z"))
versions = st.builds(
    Semver, st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.lists(part, max_size=3).map(tuple)
)


@each(("lower", "higher"), list(itertools.combinations(ASCENDING, 2)))
def test_precedence_is_that_of_the_specification(lower: str, higher: str) -> None:
    one, other = parse(lower), parse(higher)
    assert METHODS["compareTo"](one, other) == -1
    assert METHODS["isLessThan"](one, other)
    assert METHODS["isGreaterThan"](other, one)


@given(versions, versions, versions)
def test_the_order_is_total(one: Semver, two: Semver, three: Semver) -> None:
    assert METHODS["compareTo"](one, two) == -METHODS["compareTo"](two, one)
    assert (one == two) is (METHODS["compareTo"](one, two) == 0)
    if one <= two <= three:
        assert one <= three
    if one == two:
        assert hash(one) == hash(two)
