"""Sets of completion indexes as Jobs write them: ``0-2,5,7-9``."""

from __future__ import annotations

from collections.abc import Iterable

INDEX = "batch.kubernetes.io/job-completion-index"
"""Label and annotation of a pod of an Indexed Job."""


def parse(text: str) -> set[int]:
    """The numbers of a list of intervals."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def show(numbers: Iterable[int]) -> str:
    """The shortest list of intervals; two numbers in a row are written apart, as the Job controller does."""
    intervals: list[list[int]] = []
    for number in sorted(numbers):
        if intervals and intervals[-1][1] == number - 1:
            intervals[-1][1] = number
        else:
            intervals.append([number, number])
    return ",".join(_show_interval(first, last) for first, last in intervals)


def _show_interval(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"
