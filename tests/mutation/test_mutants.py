"""What is changed, and what is not."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutation.mutants import Mutant, mutants
from tests.rows import each


def of(directory: Path, source: str) -> list[Mutant]:
    path = directory / "module.py"
    path.write_text(source)
    return list(mutants(path))


@each(
    ("expression", "others"),
    [
        ("a < b", ["a <= b", "a >= b"]),
        ("a == b", ["a != b"]),
        ("a in b", ["a not in b"]),
        ("a and b", ["a or b"]),
        ("not a", ["a"]),
        ("a + b", ["a - b"]),
        ("'a' + b", []),
        ("f(7)", ["f(8)", "f(6)"]),
        ("f(True)", ["f(False)"]),
        ("b if a else c", ["b if not a else c"]),
        ("[a for a in b if a]", ["[a for a in b if True]"]),
        ("'text'", []),
    ],
)
def test_an_expression_is_replaced(tmp_path: Path, expression: str, others: list[str]) -> None:
    assert [ast.unparse(each.tree) for each in of(tmp_path, f"x = {expression}")] == [f"x = {each}" for each in others]


@pytest.mark.parametrize(
    ("statement", "others"),
    [
        ("return x", ["return None"]),
        ("return None", []),
        ("'''Text.'''", []),
        ("f()", ["pass"]),
        ("x += y", ["pass"]),
        ("x.y = z", ["pass"]),
        ("x = y", []),
        ("raise x", ["pass"]),
        ("assert x", []),
        ("if x:\n        y = z", ["if not x:\n        y = z"]),
    ],
)
def test_a_statement_is_removed_or_replaced(tmp_path: Path, statement: str, others: list[str]) -> None:
    found = of(tmp_path, f"def f(a: Literal[1]) -> int:\n    {statement}\n")
    assert [ast.unparse(each.tree) for each in found] == [
        f"def f(a: Literal[1]) -> int:\n    {each}" for each in others
    ]


def test_a_collection_becomes_empty(tmp_path: Path) -> None:
    found = of(tmp_path, "def f() -> list[str]:\n    return x\n")
    assert [each.change for each in found] == ["`return x` becomes `return None`", "`return x` becomes `return []`"]


def test_a_condition_is_negated(tmp_path: Path) -> None:
    found = of(tmp_path, "def f() -> bool:\n    if x:\n        return True\n    return y\n")
    assert [each.change for each in found] == [
        "`x` becomes `not x`",
        "`True` becomes `False`",
        "`return y` becomes `return not y`",
    ]


def test_each_mutant_has_its_line_and_function(tmp_path: Path) -> None:
    source = "LIMIT = 1\n\nclass C:\n    @cached(2)\n    def f(self, at=3):\n        def g():\n            return 4\n"
    found = {each.change.partition(" ")[0]: (each.line, each.function) for each in of(tmp_path, source)}
    assert found == {
        "`1`": (1, None),
        "`3`": (5, None),
        "`return": (7, ("f", 4)),
        "`4`": (7, ("f", 4)),
    }


def test_a_mutant_changes_neither_the_module_nor_the_others(tmp_path: Path) -> None:
    first, second = of(tmp_path, "x = 1")
    assert [ast.unparse(each.tree) for each in (first, second, first)] == ["x = 2", "x = 0", "x = 2"]
    assert ast.unparse(first.module) == "x = 1"
