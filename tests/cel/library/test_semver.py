"""Order and form of semantic versions."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.cel.faults import EvalError
from gangctl.cel.library.registry import FUNCTIONS, METHODS
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


def test_build_metadata_has_no_precedence() -> None:
    assert parse("1.0.0+a") == parse("1.0.0+b") == parse("1.0.0")


@each("text", ["", "1", "1.2", "01.2.3", "v1.2.3", "1.2.3-", "1.2.3+", "1.2.3-01", "1.2.3-a..b", "1.2.3.4"])
def test_invalid_versions_are_refused(text: str) -> None:
    assert FUNCTIONS["isSemver"](text) is False
    with pytest.raises(EvalError):
        FUNCTIONS["semver"](text)


@each(
    ("text", "meant"),
    [("v1.2", "1.2.0"), ("1", "1.0.0"), ("01.02.03", "1.2.3"), ("00.1.2", "0.1.2"), ("v1.2.3-rc", "1.2.3-rc")],
)
def test_short_forms_are_normalized_on_demand(text: str, meant: str) -> None:
    assert FUNCTIONS["isSemver"](text, True) is True
    assert FUNCTIONS["semver"](text, True) == parse(meant)


def test_a_short_form_has_no_pre_release() -> None:
    assert FUNCTIONS["isSemver"]("1.2-rc", True) is False
