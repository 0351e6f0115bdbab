"""The commands that causes suggest: which template a command is made from."""

from __future__ import annotations

import re
from functools import cache
from string import Formatter

from gangctl.readiness.causes.commands import Command

_WORD = r"('(?:[^']|'\"'\"')*'|[^\s'{}]+)"
"""A value, quoted where a shell needs it."""


@cache
def _pattern(command: Command) -> re.Pattern[str]:
    parts = (re.escape(text) + (_WORD if field else "") for text, field, _, _ in Formatter().parse(command))
    return re.compile("".join(parts))


def command_of(suggestion: str) -> Command:
    """The one template that a suggestion is made from."""
    found = [each for each in Command if _pattern(each).fullmatch(suggestion)]
    assert len(found) == 1, f"{suggestion}: {found}"
    return found[0]
