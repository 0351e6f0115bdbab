"""Places in an expression, for users."""

from __future__ import annotations

from dataclasses import dataclass

from gangctl.errors import escaped

WIDTH = 120
"""Characters of a line that are shown; longer ones are cut around the place."""
_CUT = "..."


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a text: ``line`` and ``column`` count from 1, columns in code points."""

    line: int
    column: int


def place(text: str, offset: int) -> Place:
    """The place of an offset in code points; an offset behind the end is the end."""
    offset = max(0, min(offset, len(text)))
    before = text[:offset]
    return Place(before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)


def draw(text: str, offset: int, length: int = 1, *, indent: str = "") -> str:
    r"""The line of the place, and below it a caret under each character that is wrong, as far as the line goes.

    >>> print(draw("a +\n b.c", 5, 3))
     b.c
     ^^^
    """
    offset = max(0, min(offset, len(text)))
    start = text.rfind("\n", 0, offset) + 1
    end = text.find("\n", offset)
    line = text[start : end if end >= 0 else len(text)].rstrip("\r")
    column = min(offset - start, len(line))
    marked = max(1, min(length, len(line) - column))
    line, column = _window(line, column)
    shown, under = _shown(line[:column]), _shown(line[column : column + marked])
    rest = _shown(line[column + marked :])
    return f"{indent}{shown}{under}{rest}\n{indent}{' ' * len(shown)}{'^' * max(1, len(under))}"


def _window(line: str, column: int) -> tuple[str, int]:
    """At most WIDTH characters of a line with the column among them."""
    if len(line) <= WIDTH:
        return line, column
    start = max(0, min(column - WIDTH // 2, len(line) - WIDTH))
    head = _CUT if start else ""
    tail = _CUT if start + WIDTH < len(line) else ""
    return f"{head}{line[start : start + WIDTH]}{tail}", column - start + len(head)


def _shown(part: str) -> str:
    return escaped(part.replace("\t", " "))
