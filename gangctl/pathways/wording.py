"""How messages about PathwaysJobs quote, suggest and list."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from gangctl.errors import one_line

MOST_PROBLEMS: Final = 100
"""Of one object: no one repairs more at a time."""
SHOWN: Final = 64
"""Characters of a value in a message."""


def quoted(value: object) -> str:
    """A value for a message, short, on one line, in quotes where it is a text."""
    return f'"{one_line(value, SHOWN)}"' if isinstance(value, str) else one_line(f"{value!r:.{SHOWN}}", SHOWN)


def near(word: str, known: Iterable[str]) -> str:
    """What somebody may have meant by a word, as the end of a sentence; empty where nothing is near."""
    words = sorted(known)
    found = get_close_matches(word[:SHOWN], words, n=1, cutoff=0.6)
    found = found or [each for each in words if word and each.startswith(word)]
    return f"; did you mean {found[0]}?" if found else ""


def listed(words: Iterable[str]) -> str:
    """What is allowed, as a list in a sentence."""
    return ", ".join(words)
