"""Raw results: a written result is read back, and an invalid one is an error with its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.budgets import limit_of
from benchmarks.chart import Axis, Chart, Line
from benchmarks.result import Figure, Observed, Result, UnreadableResultError, percentile, read_all
from tests.benchmarks.canned import result

VALUES = st.lists(st.floats(0, 1e9), min_size=1, max_size=5).map(tuple)


@given(rounds=VALUES, yardstick=VALUES, noise=st.lists(st.text()))
def test_a_written_result_is_read_back(
    rounds: tuple[float, ...], yardstick: tuple[float, ...], noise: list[str]
) -> None:
    figures = [Figure("start-help", rounds, yardstick), Figure("start-plan", rounds, (), Observed.of(rounds))]
    made = result("start", *figures, noise=noise)
    assert made.findings is not None
    made.findings.charts.append(Chart("c", "<C>", Axis("x", logarithmic=True), Axis("y"), [Line("l", ((1, 2.5),))]))
    assert Result.parse(made.json()) == made


def test_infinite_and_failed_values_are_read_back() -> None:
    for made in (
        result("start", Figure("start-help", (float("inf"), 1.0))),
        result("start", findings=None, error="TimeoutError: waited"),
    ):
        json.loads(made.json(), parse_constant=pytest.fail)
        assert Result.parse(made.json()) == made


def test_a_directory_of_results_is_read(tmp_path: Path) -> None:
    for bench in ("start", "fit"):
        result(bench).write(tmp_path / "raw")
    assert result("start", load_end=7).write(tmp_path / "raw").name == "start.json"
    found = read_all(tmp_path / "raw")
    assert list(found) == ["fit", "start"]
    assert found["start"].load_end == 7
    assert [path.suffix for path in (tmp_path / "raw").iterdir()] == [".json", ".json"]
    assert read_all(tmp_path / "nothing") == {}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seconds": "long"}, "seconds"),
        ({"surprise": 1}, "surprise"),
        ({"format": 99}, "format 99"),
    ],
)
def test_an_invalid_result_is_an_error_with_its_place(tmp_path: Path, change: dict[str, object], words: str) -> None:
    (tmp_path / "start.json").write_text(json.dumps(json.loads(result("start").json()) | change))
    with pytest.raises(UnreadableResultError, match=f"start.json: .*{words}"):
        read_all(tmp_path)


def test_a_truncated_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "start.json").write_text(result("start").json()[:100])
    with pytest.raises(UnreadableResultError, match=r"start\.json"):
        read_all(tmp_path)


def test_the_median_round_is_judged_or_the_worst() -> None:
    rounds, beside = (1.0, 9.0, 2.0), (10.0, 10.0, 10.0)
    assert Figure("x", rounds).judged(limit_of("start-help")) == 2
    assert Figure("x", rounds).judged(limit_of("stranded")) == 9
    assert Figure("x", rounds).judged(limit_of("stranded-without")) == 1
    assert Figure("x", rounds, beside).judged(limit_of("burst-jobs")) == pytest.approx(0.2)
    assert Figure("x", rounds, beside).judged(limit_of("hostile")) == pytest.approx(0.9)
    with pytest.raises(ValueError, match="burst-jobs: nothing was measured beside it"):
        Figure("x", rounds).judged(limit_of("burst-jobs"))
    with pytest.raises(ValueError, match="shorter"):
        _ = Figure("x", rounds, (1.0,)).ratios


def test_a_ratio_to_zero_is_infinite() -> None:
    assert Figure("x", (1.0,), (0.0,)).ratios == (float("inf"),)


@given(st.lists(st.floats(-1e9, 1e9), min_size=1), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_percentile_is_not_exceeded_by_its_share(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values)
