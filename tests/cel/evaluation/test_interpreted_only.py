from __future__ import annotations

import ast
from pathlib import Path

import gangctl

BANNED = {"CompiledRunner", "Transpiler", "TranspilerTree"}


def test_nothing_uses_cel_pythons_compiled_runner() -> None:
    """It executes source that it makes of expressions, in one namespace for all threads."""
    found = [
        f"{path.name}: {name}"
        for path in Path(gangctl.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in named(node)
        if name in BANNED
    ]
    assert found == []


def named(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    return [node.id] if isinstance(node, ast.Name) else []


def test_a_use_of_the_compiled_runner_is_detected() -> None:
    for source in (
        "from celpy import CompiledRunner",
        "celpy.CompiledRunner",
        "from celpy.evaluation import Transpiler as T",
    ):
        assert any(name in BANNED for node in ast.walk(ast.parse(source)) for name in named(node))
