"""The library has what Kubernetes declares, and refuses what it does not."""

from __future__ import annotations

import pytest

from gangctl.cel.declarations import kubernetes
from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.library.registry import FUNCTIONS, METHODS
from gangctl.cel.library.strings import compiled
from gangctl.cel.library.values import kind
from tests.rows import each


def test_every_function_of_kubernetes_exists() -> None:
    tables = (kubernetes.LISTS, kubernetes.TEXT, kubernetes.QUANTITY, kubernetes.NETWORK, kubernetes.SEMVER)
    declared = {(each.name, each.method) for table in tables for each in table}
    assert declared <= {(name, False) for name in FUNCTIONS} | {(name, True) for name in METHODS}


@each(
    ("name", "arguments"),
    [
        ("quantity", (1,)),
        ("quantity", ()),
        ("ip", (b"x",)),
        ("isURL", (None,)),
        ("sets.contains", ([1], 1)),
        ("string", ("a",)),
    ],
)
def test_arguments_of_other_types_and_numbers_are_no_overload(name: str, arguments: tuple[object, ...]) -> None:
    with pytest.raises(EvalError) as caught:
        FUNCTIONS[name](*arguments)
    assert caught.value.kind is EvalKind.NO_SUCH_OVERLOAD


def test_a_python_value_without_a_cel_type_is_an_error() -> None:
    with pytest.raises(TypeError):
        kind({1, 2})


@each("pattern", ["a" * 513, "((a{99}){99}){99}", "[", "(?=a)", "a**" * 3 + ")"])
def test_invalid_or_large_patterns_are_refused(pattern: str) -> None:
    with pytest.raises(EvalError) as caught:
        compiled(pattern)
    assert caught.value.kind in {EvalKind.BUDGET_EXCEEDED, EvalKind.INVALID_ARGUMENT}


def test_a_pattern_with_catastrophic_backtracking_matches_in_linear_time() -> None:
    assert METHODS["matches"]("a" * 100_000 + "!", "(a+)+$") is False
