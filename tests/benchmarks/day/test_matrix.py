"""The matrix of runs: which there are, what is kept, and what is written of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import machine
from benchmarks.__main__ import main, parser
from benchmarks.day import command, matrix, page
from benchmarks.day.arms import ARMS, wait_for_pods_ready
from benchmarks.day.figures import BUCKETS, RunFigures, Wait
from benchmarks.day.matrix import Cell, Matrix, Measured, UnreadableCellError, cells, read_all
from benchmarks.day.trace import PHILLY, read_trace
from benchmarks.day.windows import VARIATIONS, windows
from benchmarks.machine import CHANGED
from tests.benchmarks.canned import FACTS

LINE = (0.5,) * BUCKETS
FIGURES = RunFigures(
    jobs=2,
    done=1,
    useful=0.25,
    held=0.5,
    stranded=0.5,
    idle=0.1,
    waits=(Wait(4, 600.0, begun=True), Wait(16, 7200.0, begun=False)),
    makespan=None,
    useful_line=LINE,
    stranded_line=LINE,
)


def measured(cell: Cell, figures: RunFigures = FIGURES, *, noise: tuple[str, ...] = ()) -> Measured:
    return Measured(
        cell=cell,
        trace="philly-2017-11.csv",
        begin="2017-11-08T12:00:00+00:00",
        gpus=88,
        speed=720.0,
        figures=figures,
        cpu={"kube-scheduler": 12.4, "gangctl": 3.6},
        began="2026-11-28T20:00:00Z",
        seconds=250.0,
        facts=FACTS,
        load_end=1.0,
        noise=list(noise),
    )


def selected(*arguments: str) -> list[Cell]:
    chosen = windows(read_trace(PHILLY))
    return command.select(parser().parse_args(["day", *arguments]), chosen)


def test_the_whole_matrix_has_each_window_and_the_variations_of_the_first() -> None:
    wanted = selected()
    assert len(wanted) == len(set(wanted)) == (3 + len(VARIATIONS) - 1) * len(ARMS)
    assert {each.window for each in wanted if each.variation != "plain"} == {"busiest"}


def test_quick_is_one_window_and_three_arms() -> None:
    assert [each.name for each in selected("--quick")] == [
        f"busiest.plain.{arm}.1" for arm in ("scheduler", "kueue", "gangctl")
    ]


def test_options_choose_runs() -> None:
    wanted = selected("--windows", "second", "--variations", "plain,lost", "--arms", "gangctl", "--rounds", "2")
    names = ["second.plain.gangctl.1", "second.lost.gangctl.1", "second.plain.gangctl.2", "second.lost.gangctl.2"]
    assert [each.name for each in wanted] == names


def test_an_unknown_name_is_an_error_that_lists_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["day", "--arms", "slurm"]) == 2
    assert capsys.readouterr().err.startswith("error: --arms: 'slurm' is none of scheduler, kueue,")


def test_without_a_checkout_volcano_is_loudly_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["day", "--quick", "--arms", "volcano"]) == 2
    captured = capsys.readouterr()
    assert captured.out == f"{command.NO_VOLCANO}\n"
    assert "nothing is left to measure" in captured.err


def test_a_directory_that_is_no_checkout_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["day", "--quick", "--arms", "volcano", "--volcano", str(tmp_path)]) == 2
    assert "is no checkout of github.com/volcano-sh/volcano" in capsys.readouterr().err


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    one = measured(Cell("busiest", "plain", "gangctl"))
    one.write(tmp_path)
    assert read_all(tmp_path) == [one]


def test_a_file_that_is_no_result_is_named(tmp_path: Path) -> None:
    (tmp_path / "busiest.plain.gangctl.1.json").write_text("{}")
    with pytest.raises(UnreadableCellError, match=r"busiest\.plain\.gangctl\.1\.json: "):
        read_all(tmp_path)


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Matrix:
    """A matrix at the commit of the canned results, which measures none."""
    monkeypatch.setattr(machine, "commit", lambda _: FACTS.commit)
    lines: list[str] = []
    made = Matrix(windows(read_trace(PHILLY)), PHILLY.name, tmp_path, resume=True, say=lines.append)
    monkeypatch.setattr(made, "measure", measured)
    return made


def test_what_is_measured_is_not_measured_again(runs: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = cells(["busiest"], ["plain"], ["scheduler", "kueue"])
    assert runs.run(wanted) == []
    monkeypatch.setattr(runs, "measure", unwanted)
    assert runs.run(wanted) == []
    runs.resume = False
    assert runs.run(wanted) == ["busiest.plain.scheduler.1", "busiest.plain.kueue.1"]


def test_what_was_measured_on_a_busy_machine_is_measured_again(runs: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell("busiest", "plain", "gangctl")
    measured(cell, noise=("others kept 1.0 of 2 cores busy",)).write(runs.directory)
    monkeypatch.setattr(runs, "measure", unwanted)
    assert runs.run([cell]) == [cell.name]


OTHERS: dict[str, Any] = {
    "trace": "own.csv",
    "begin": "2017-11-09T12:00:00+00:00",
    "gpus": 80,
    "speed": 360.0,
    "replay": "other jobs",
    "volcano": "older",
}


def test_another_replay_is_measured_again(runs: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell("busiest", "plain", "volcano")
    runs.volcano = runs.directory
    monkeypatch.setattr(matrix, "_commit", lambda _: "newer")
    one = measured(cell)
    one.volcano = "newer"
    one.write(runs.directory)
    monkeypatch.setattr(runs, "measure", unwanted)
    assert runs.run([cell]) == []
    for field, value in OTHERS.items():
        same = getattr(one, field)
        setattr(one, field, value)
        one.write(runs.directory)
        assert runs.run([cell]) == [cell.name], field
        setattr(one, field, same)


def test_published_results_are_not_measured_again(runs: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    runs.directory = page.RESULTS
    runs.volcano = page.RESULTS
    monkeypatch.setattr(runs, "measure", unwanted)
    for one in read_all(page.RESULTS):
        monkeypatch.setattr(machine, "commit", lambda _, one=one: one.facts.commit)
        monkeypatch.setattr(matrix, "_commit", lambda _, one=one: one.volcano)
        assert runs.run([one.cell]) == []


def unwanted(cell: Cell) -> Measured:
    raise AssertionError(cell.name)


def test_a_run_that_fails_does_not_end_the_others(runs: Matrix, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(cell: Cell) -> Measured:
        return unwanted(cell) if cell.arm == "scheduler" else measured(cell)

    monkeypatch.setattr(runs, "measure", half)
    wanted = cells(["busiest"], ["plain"], ["scheduler", "gangctl"])
    assert runs.run(wanted) == ["busiest.plain.scheduler.1"]
    assert [each.cell.arm for each in read_all(runs.directory)] == ["gangctl"]


def test_half_the_speed_takes_twice_as_long(runs: Matrix) -> None:
    plain, slow = (runs.minutes([Cell("busiest", name, "gangctl")]) for name in ("plain", "half-speed"))
    assert plain < slow < 2 * plain


def test_the_table_has_a_row_for_each_arm_and_names_those_that_are_missing() -> None:
    text = page.tables([measured(Cell("busiest", "plain", "gangctl"))])
    assert "## Window busiest: one GPU a pod" in text
    shares, waits = "25.0% | 50.0% | 10.0%", "10 / 10 min | none | ≥ 120 / ≥ 120 min"
    assert f"| gangctl | 1 of 2 | {shares} | {waits} | not all done |" in text
    assert "Not run: kube-scheduler alone, Kueue alone," in text
    assert "| CPU seconds of a run | gangctl | kube-scheduler |" in text


def test_several_rounds_have_a_spread() -> None:
    rounds = [
        measured(Cell("busiest", "plain", "kueue", number), replace(FIGURES, useful=useful))
        for number, useful in enumerate((0.2, 0.5, 0.4), 1)
    ]
    assert "| 40.0% (20.0% to 50.0%) |" in page.tables(rounds)


def test_results_of_a_busy_machine_are_marked_and_stay_out_of_the_docs() -> None:
    noisy = measured(Cell("busiest", "plain", "kueue"), noise=("others kept 1.0 of 2 cores busy",))
    assert "| Kueue alone * |" in page.tables([noisy])
    assert page.NOT_QUIET in page.tables([noisy])
    assert page.page([noisy]).endswith(f"\n\n{page.NOTHING}\n")


def test_changes_that_are_in_no_commit_stay_out_of_the_docs() -> None:
    one = measured(Cell("busiest", "plain", "kueue"))
    one.facts = replace(FACTS, commit=f"{FACTS.commit}{CHANGED}")
    assert not one.publishable


def test_charts_have_a_line_for_each_arm(tmp_path: Path) -> None:
    results = [measured(Cell("busiest", "plain", arm)) for arm in ARMS]
    page.write(tmp_path, results)
    for kind in ("useful", "stranded"):
        drawing = (tmp_path / f"day-{kind}.svg").read_text()
        assert drawing.count("<polyline") == len(ARMS)
        assert all(arm.title in drawing for arm in ARMS.values())


@pytest.mark.parametrize(
    ("speed", "wanted"),
    [
        pytest.param(1, ("1800s", 60, 3600), id="real-time"),
        pytest.param(60, ("30s", 1, 60), id="sixty"),
        pytest.param(720, ("10s", 1, 5), id="compressed"),
    ],
)
def test_what_kueue_waits_is_compressed_as_far_as_it_can_be(speed: float, wanted: tuple[str, int, int]) -> None:
    configured = wait_for_pods_ready(speed)
    strategy: Mapping[str, int] = configured["requeuingStrategy"]
    assert (configured["timeout"], strategy["backoffBaseSeconds"], strategy["backoffMaxSeconds"]) == wanted
