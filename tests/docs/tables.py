"""Tables of Markdown, read."""

from __future__ import annotations

import re
from collections.abc import Iterator


def rows(text: str) -> Iterator[list[str]]:
    """The cells of every row of every table; heads and rules are rows, too."""
    for line in text.splitlines():
        if line.startswith("|"):
            yield [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def code(cell: str) -> str:
    """What stands in backticks when nothing else does, else nothing."""
    found = re.fullmatch(r"`([^`]+)`", cell)
    return found[1] if found is not None else ""
