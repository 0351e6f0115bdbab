"""Drawings of lines and boxes: where a line ends that should lead on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

LEFT, RIGHT, UP, DOWN = "left", "right", "up", "down"
STEPS: Final = {LEFT: (0, -1), RIGHT: (0, 1), UP: (-1, 0), DOWN: (1, 0)}
OPPOSITE: Final = {LEFT: RIGHT, RIGHT: LEFT, UP: DOWN, DOWN: UP}
ARMS: Final = {
    "─": {LEFT, RIGHT},
    "│": {UP, DOWN},
    "┌": {RIGHT, DOWN},
    "┐": {LEFT, DOWN},
    "└": {RIGHT, UP},
    "┘": {LEFT, UP},
    "├": {RIGHT, UP, DOWN},
    "┤": {LEFT, UP, DOWN},
    "┬": {LEFT, RIGHT, DOWN},
    "┴": {LEFT, RIGHT, UP},
    "┼": {LEFT, RIGHT, UP, DOWN},
}
HEADS: Final = {"▶": RIGHT, "◀": LEFT, "▼": DOWN, "▲": UP}
"""Arrow heads by the direction in which they point."""


def at(lines: list[str], row: int, column: int) -> str:
    """The character there, a space beyond the edges."""
    inside = 0 <= row < len(lines) and 0 <= column < len(lines[row])
    return lines[row][column] if inside else " "


def loose_ends(drawing: str) -> Iterator[str]:
    """Corners and sides of boxes that lead nowhere, and arrow heads without an arrow; a stroke may end in a word."""
    lines = drawing.splitlines()
    for row, line in enumerate(lines):
        for column, sign in enumerate(line):
            for arm in ARMS.get(sign, ()):
                down, right = STEPS[arm]
                other = at(lines, row + down, column + right)
                joined = OPPOSITE[arm] in ARMS.get(other, ()) or HEADS.get(other) == arm
                if not joined and sign != "─":
                    yield f"line {row + 1}, column {column + 1}: {sign} leads {arm} to {other!r}"
            if sign in HEADS:
                down, right = STEPS[OPPOSITE[HEADS[sign]]]
                other = at(lines, row + down, column + right)
                if HEADS[sign] not in ARMS.get(other, ()):
                    yield f"line {row + 1}, column {column + 1}: {sign} has no arrow"
