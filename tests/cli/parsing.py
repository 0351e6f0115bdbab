"""Parses command lines of a page, without running them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Final

import click

from gangctl.cli.program import program

_OPERATORS: Final = frozenset("|&;()")
_REDIRECTION: Final = frozenset("<>&")
"""A lone ``&`` ends a command before this is asked."""


def parse(words: list[str]) -> None:
    """Have the program read arguments as it would; click.UsageError when it would not take them."""
    command: click.Command = program
    context = click.Context(program, info_name="gangctl", **program.context_settings)
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        _, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command, context = found, click.Context(found, context, info_name=found.name)
    try:
        command.make_context(command.name, rest, parent=context.parent or context)
    except click.exceptions.NoArgsIsHelpError as missing:
        raise click.MissingParameter(str(missing), ctx=context) from None
    except click.exceptions.Exit:
        # --help and --version are answered while they are read.
        return


def calls(line: str, name: str = "gangctl") -> Iterator[list[str]]:
    """Arguments of each call of a program in a line of a shell: in pipes and lists, without redirections."""
    reader = shlex.shlex(line, posix=True, punctuation_chars="|&;()<>")
    reader.whitespace_split = True
    words: list[str] = []
    for token in [*reader, ";"]:
        if set(token) <= _OPERATORS:
            yield from _call(words, name)
            words = []
        else:
            words.append(token)


def _call(words: list[str], name: str) -> Iterator[list[str]]:
    """What is left of one command without variables before it and files that it reads or writes."""
    kept: list[str] = []
    skip = False
    for word in words:
        if not skip and not set(word) <= _REDIRECTION:
            kept.append(word)
        skip = bool(word) and set(word) <= _REDIRECTION
    while kept and re.fullmatch(r"\w+=.*", kept[0]):
        kept.pop(0)
    if kept[:2] == ["kubectl", "gang"]:
        kept = ["gangctl", *kept[2:]]
    if kept and kept[0] == name:
        yield kept[1:]
