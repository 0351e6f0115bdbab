"""Rules of the code that a program can check, besides those of ruff, mypy and import-linter."""

from __future__ import annotations

import ast

from tests.docpages import ROOT

LOOPS = (ast.For, ast.AsyncFor, ast.comprehension)


def test_a_loop_names_what_it_is_about() -> None:
    unnamed = [
        f"{path.relative_to(ROOT)}:{node.target.lineno}"
        for path in sorted((ROOT / "gangctl").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, LOOPS) and isinstance(node.target, ast.Name) and node.target.id in {"each", "found"}
    ]
    assert unnamed == []
