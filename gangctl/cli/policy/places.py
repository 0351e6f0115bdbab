"""What is wrong with a policy, shown where it was written: ``file:line:column``, the line, and a caret below."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from unicodedata import east_asian_width

from gangctl.api.documents import Document
from gangctl.cli.messages import printable
from gangctl.errors import InputError

_WIDTH: Final = 110
"""Of a line of a policy as it is shown; longer ones are cut around the caret."""
_BEFORE: Final = 60
_CUT: Final = "..."
_WORD: Final = re.compile(r"[-.\w]+")


class Severity(StrEnum):
    """How bad it is."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing to say about a policy's file; ``code`` is stable.

    ``path`` is the field. With ``offset`` the remark is about ``length`` characters of the text in it.
    """

    document: Document
    severity: Severity
    code: str
    path: str
    message: str
    hint: str = ""
    offset: int | None = None
    length: int = 1
    policy: str = ""
    refused: bool = False
    """Whether the policy cannot be loaded because of it."""

    @property
    def position(self) -> tuple[int, int]:
        """Line and column in the file, from 1."""
        try:
            if self.offset is None:
                return self.document.position(self.path)
            return self.document.position_in(self.path, self.offset)
        except InputError:  # a key that the notation of paths cannot carry
            return self.document.position("")

    @property
    def end(self) -> tuple[int, int]:
        """Line and column behind the words that it is about, or behind the key of the field."""
        if self.offset is None:
            line, column = self.position
            word = _WORD.match(self.document.line_at(line), column - 1)
            return line, column + (len(word[0]) if word is not None else 1)
        try:
            line, column = self.document.position_in(self.path, self.offset + self.length - 1)
        except InputError:
            return self.position
        return line, column + 1

    @property
    def order(self) -> tuple[str, int, int, str]:
        """By place."""
        return (self.document.source, *self.position, self.code)

    def lines(self) -> list[str]:
        """For a person: the place and the message, the line of the file, the caret, the hint."""
        line, column = self.position
        told = [f"{self.document.source}:{line}:{column}: {self.severity}: {self.message} ({self.code})"]
        if text := self.document.line_at(line):
            end_line, end_column = self.end
            width = (end_column if end_line == line else len(text) + 1) - column
            told += underlined(text, column, max(1, width))
        if self.hint:
            told.append(f"    hint: {self.hint}")
        return [printable(each) for each in told]

    def as_data(self) -> dict[str, Any]:
        """For a program."""
        line, column = self.position
        end_line, end_column = self.end
        return {
            "file": self.document.source,
            "line": line,
            "column": column,
            "endLine": end_line,
            "endColumn": end_column,
            "severity": self.severity.value,
            "code": self.code,
            "policy": self.policy,
            "field": self.path,
            "message": self.message,
            "hint": self.hint,
        }


def underlined(text: str, column: int, width: int) -> list[str]:
    """A line and carets under ``width`` of its characters from ``column`` (from 1); long lines are cut."""
    start = 0 if len(text) <= _WIDTH else max(0, min(column - 1 - _BEFORE, len(text) - _WIDTH))
    cut = text[start : start + _WIDTH]
    before, marked = cut[: column - 1 - start], cut[column - 1 - start :][:width]
    front = _CUT if start else ""
    back = _CUT if start + _WIDTH < len(text) else ""
    indent = " " * (len(front) + _columns(before))
    return [f"    {front}{_shown(cut)}{back}".rstrip(), f"    {indent}{'^' * max(1, _columns(marked))}"]


def _shown(text: str) -> str:
    return printable(text.replace("\t", " "))


def _columns(text: str) -> int:
    """How wide a text is on a terminal."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in _shown(text))


def in_order(remarks: Iterable[Remark]) -> list[Remark]:
    """Remarks by file and place, each once."""
    seen: dict[tuple[object, ...], Remark] = {}
    for remark in remarks:
        seen.setdefault((*remark.order, remark.message), remark)
    return sorted(seen.values(), key=lambda remark: remark.order)
