"""The page and the pictures of the day are those of the runs that are recorded."""

from __future__ import annotations

from benchmarks.day.matrix import read_all
from benchmarks.day.page import PAGE, RESULTS, ROOT, page, pictures


def test_the_page_and_the_pictures_are_of_the_recorded_runs() -> None:
    """``python -m benchmarks.day.page`` writes them."""
    results = read_all(RESULTS)
    assert PAGE.read_text(encoding="utf-8") == page(results)
    drawn = pictures(results)
    assert {path: path.read_text(encoding="utf-8") for path in drawn} == drawn


def test_the_readme_has_the_numbers_of_the_runs() -> None:
    runs = {measured.cell.name: measured for measured in read_all(RESULTS)}
    busiest, drawn = runs["busiest.plain.scheduler.1"], runs["random.plain.scheduler.1"]
    with_gangs = runs["random.plain.gangctl.1"].figures
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"{busiest.figures.jobs} jobs on {busiest.gpus} GPUs" in text
    assert f"{drawn.figures.done} of {drawn.figures.jobs} jobs are done; with gangs all are" in text
    assert with_gangs.done == with_gangs.jobs
