"""Label selectors: what is selected, and which words are labels."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.labelselector import Operator, SelectorError, check_term, holds, parse_labels
from gangctl.api.names import is_dns_subdomain, is_label_value, is_qualified_name
from gangctl.policy.model import LabelSelector
from tests.rows import each
from tests.strategies import PROPERTY

words = st.sampled_from(["", "a", "b", "c"])
labels = st.dictionaries(st.sampled_from(["a", "b", "c"]), words)


@each(
    ("operator", "values", "present", "other", "absent"),
    [
        ("In", ["x", "y"], True, False, False),
        ("NotIn", ["x", "y"], False, True, True),
        ("Exists", [], True, True, False),
        ("DoesNotExist", [], False, False, True),
    ],
)
def test_a_term_selects_by_its_operator(
    operator: Operator, values: list[str], present: bool, other: bool, absent: bool
) -> None:
    assert holds("k", operator, values, {"k": "x"}) is present
    assert holds("k", operator, values, {"k": "z"}) is other
    assert holds("k", operator, values, {"j": "x"}) is absent


@each(("value", "matches"), [("5", True), ("3", False), ("--5", False), ("\u00b2", False), ("", False)])
def test_only_integers_are_compared(value: str, matches: bool) -> None:
    (term,) = parse_labels("k > 4")
    assert term.matches({"k": value}) is matches


@each(
    ("selector", "values"),
    [
        ("a in ()", ("",)),
        ("a in (x)", ("x",)),
        ("a in (x,)", ("", "x")),
        ("a in (,x)", ("", "x")),
        ("a in (y,,x)", ("", "x", "y")),
    ],
)
def test_nothing_beside_a_comma_of_a_set_is_an_empty_value(selector: str, values: tuple[str, ...]) -> None:
    (requirement,) = parse_labels(selector)
    assert requirement.values == values


@each("bound", ["--4", "x"])
def test_the_bound_of_a_comparison_is_an_integer(bound: str) -> None:
    with pytest.raises(SelectorError, match="Invalid value"):
        parse_labels(f"k > {bound}")


@PROPERTY
@given(labels, st.sampled_from(["a", "b", "c"]), st.lists(words, min_size=1))
def test_opposite_operators_are_complementary(found: dict[str, str], key: str, values: list[str]) -> None:
    assert holds(key, "In", values, found) is not holds(key, "NotIn", values, found)
    assert holds(key, "Exists", [], found) is not holds(key, "DoesNotExist", [], found)


@PROPERTY
@given(labels, labels)
def test_match_labels_equal_in_terms_with_one_value(wanted: dict[str, str], found: dict[str, str]) -> None:
    by_label = LabelSelector.model_validate({"matchLabels": wanted})
    terms = [{"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()]
    by_term = LabelSelector.model_validate({"matchExpressions": terms})
    assert by_label.matches(found) is by_term.matches(found) is (wanted.items() <= found.items())


@PROPERTY
@given(labels)
def test_an_empty_selector_selects_everything(found: dict[str, str]) -> None:
    assert LabelSelector().selects_everything
    assert LabelSelector().matches(found)


@each("name", ["a", "a.b/c", "A_b-c.d", "x" * 63, f"{'a' * 64}.b/c"])
def test_qualified_names_are_accepted(name: str) -> None:
    assert is_qualified_name(name)


@each("name", ["", "/a", "a/", "-a", "a-", "x" * 64, "A.b/c", "a/b/c", "a b", f"{'a' * 254}/c", "a\n"])
def test_unqualified_names_are_refused(name: str) -> None:
    assert not is_qualified_name(name)


def test_label_values_and_subdomains_are_validated() -> None:
    assert is_label_value("")
    assert is_label_value("Ab.c_d-1")
    assert not is_label_value("a b")
    assert not is_label_value("x" * 64)
    assert is_dns_subdomain("a-1.b")
    assert is_dns_subdomain(f"{'a' * 64}.{'b' * 188}")
    assert not is_dns_subdomain("A")
    assert not is_dns_subdomain(f"{'a.' * 126}aa")


@each("operator", get_args(Operator))
def test_terms_need_values_according_to_their_operator(operator: Operator) -> None:
    needs = operator in {"In", "NotIn"}
    assert bool(list(check_term("k", operator, [], "p"))) is needs
    assert bool(list(check_term("k", operator, ["v"], "p"))) is not needs
    assert [error.path for error in check_term("-", operator, ["v"] if needs else [], "p")] == ["p.key"]
