from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gangctl.cel.text import WIDTH, Place, draw, place
from tests.rows import each

TEXT = "object.spec\n  .replicas ==\n'a'"


@each(
    ("offset", "line", "column"),
    [
        (0, 1, 1),
        (10, 1, 11),
        (11, 1, 12),
        (12, 2, 1),
        (15, 2, 4),
        (27, 3, 1),
        (len(TEXT), 3, 4),
        (99, 3, 4),
        (-1, 1, 1),
    ],
)
def test_lines_and_columns_count_from_one(offset: int, line: int, column: int) -> None:
    assert place(TEXT, offset) == Place(line, column)


@each(
    ("offset", "length", "drawn"),
    [
        (7, 4, "object.spec\n       ^^^^"),
        (15, 8, "  .replicas ==\n   ^^^^^^^^"),
        (24, 99, "  .replicas ==\n            ^^"),
        (27, 3, "'a'\n^^^"),
        (30, 1, "'a'\n   ^"),
        (7, 0, "object.spec\n       ^"),
    ],
)
def test_carets_are_below_the_error(offset: int, length: int, drawn: str) -> None:
    assert draw(TEXT, offset, length) == drawn


def test_unprintable_characters_are_escaped_and_carets_are_shifted() -> None:
    assert draw("a\x1b\tb + c", 3, 1) == "a\\x1b b + c\n      ^"


def test_long_lines_are_cut_around_the_place() -> None:
    line, carets = draw("x" * 500 + "!" + "y" * 500, 500, 1, indent="  ").split("\n")
    assert line[carets.index("^")] == "!"
    assert line.startswith("  ...")
    assert line.endswith("...")
    assert len(line) == WIDTH + 2 * 3 + 2


@given(st.text(max_size=300), st.integers(0, 300), st.integers(0, 300))
def test_any_text_can_be_shown(text: str, offset: int, length: int) -> None:
    drawn = draw(text, offset, length).split("\n")
    assert len(drawn) == 2
    assert "^" in drawn[1]
    assert place(text, offset).line <= text.count("\n") + 1
