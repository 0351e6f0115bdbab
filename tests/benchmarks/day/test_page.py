"""The page and the pictures of the day are those of the runs that are recorded."""

from __future__ import annotations

from benchmarks.day.matrix import read_all
from benchmarks.day.page import PAGE, RESULTS, page, pictures


def test_the_page_and_the_pictures_are_of_the_recorded_runs() -> None:
    """``python -m benchmarks.day.page`` writes them."""
    results = read_all(RESULTS)
    assert PAGE.read_text(encoding="utf-8") == page(results)
    drawn = pictures(results)
    assert {path: path.read_text(encoding="utf-8") for path in drawn} == drawn
