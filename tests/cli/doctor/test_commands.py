"""The commands of gangctl that the doctor says to run next: each has to be one."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

import gangctl.cli.doctor.checks
from gangctl.cli.program import program
from tests.rows import each

CHECKS: Final = Path(gangctl.cli.doctor.checks.__file__).parent
_PLACEHOLDER: Final = re.compile(r"\b[A-Z]+\b")


def _text(node: ast.AST) -> str:
    """A text of the source; what is computed is a word, and a placeholder what a user could write for it."""
    match node:
        case ast.Constant(value=str(text)):
            return _PLACEHOLDER.sub(lambda match: match[0].lower(), text)
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) if isinstance(part, ast.Constant) else "word" for part in parts)
    return ""


def _commands() -> Iterator[str]:
    for file in sorted(CHECKS.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "command":
                text = _text(node.value)
                if text.startswith("gangctl "):
                    yield text.partition(" | ")[0]


@each("text", sorted(set(_commands())))
def test_the_next_command_is_one(text: str) -> None:
    command: click.Command | None = program
    words = shlex.split(text)[1:]
    while isinstance(command, click.Group):
        command = command.get_command(click.Context(command), words.pop(0))
    assert command is not None
    command.make_context("gangctl", words)
