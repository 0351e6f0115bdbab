"""Text of a user, and positions in it: lines and columns as editors count them."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

from gangctl.errors import InputError

_LINE_BREAK = re.compile(r"\r\n|\r|\n")


class SourceError(InputError):
    """Unreadable text; the message begins with ``source:line:column:``.

    ``offset`` counts code points from 0, ``line`` and ``column`` from 1.
    """

    def __init__(self, source: SourceText, offset: int, message: str, *, hint: str = "") -> None:
        """Describe the error at ``offset`` of ``source``."""
        self.offset = offset
        self.line, self.column = source.position(offset)
        super().__init__(f"{source.name}:{self.line}:{self.column}: {message}", hint=hint)


class SourceText:
    """``text`` and its ``name`` for users: a file's path, ``-`` for standard input."""

    def __init__(self, text: str, name: str) -> None:
        """Keep the text; line starts are computed on first use."""
        self.text = text
        self.name = name

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_BREAK.finditer(self.text))]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column, both from 1, of the code point at ``offset``."""
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line, from 1, without its end; empty when there is no such line."""
        starts = self._line_starts
        if not 0 < number <= len(starts):
            return ""
        end = starts[number] if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].rstrip("\r\n")

    def error(self, offset: int, message: str, *, hint: str = "") -> SourceError:
        """Make the error for something wrong at ``offset``."""
        return SourceError(self, offset, message, hint=hint)
