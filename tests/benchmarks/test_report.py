"""The page of results: what was met, missed and not measured, from results as a run leaves them."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

from benchmarks import report
from benchmarks.budgets import ROWS, limits
from benchmarks.chart import Axis, Chart, Line
from benchmarks.report import MET, MISSED, RAW, UNJUDGED, UNMEASURED, explanations, judge
from benchmarks.result import Figure, Findings, Observed, Result, read_all
from tests.benchmarks.canned import FACTS, result, table
from tests.rows import each

CANNED = {
    "start": result(
        "start",
        Figure("start-help", (90.0, 110.0, 100.0), (10.0, 10.0, 10.0), Observed(60, 100.0, 140.0)),
        Figure("start-plan", (1_100.0,), (10.0,)),
    ),
    "contention": result(
        "contention", Figure("stranded", (0.0, 0.0, 0.0)), Figure("stranded-without", (8.0, 7.0, 8.0))
    ),
    "burst": result("burst", Figure("burst-groups", (0.3,), (30.0,)), Figure("burst-jobs", (40.0,), (31.0,))),
    "fit": result("fit", findings=None, error="TimeoutError: waited | 30 s"),
}


def cells(page: str, text: str) -> list[str]:
    """The line of a limit in its row's table."""
    (line,) = (line for line in page.splitlines() if line.startswith(f"| {text} |"))
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def verdict(page: str, row: str) -> str:
    (line,) = (line for line in page.splitlines() if line.startswith(f"| [{row}](#{row}) |"))
    return line.strip("| ").split(" | ")[-1]


def test_every_row_and_every_limit_is_on_the_page() -> None:
    page = report.markdown({})
    for row in ROWS:
        assert f"\n## {row.id}\n" in page
        assert verdict(page, row.id) == UNMEASURED
        section = page.partition(f"\n## {row.id}\n")[2].partition("\n## ")[0]
        assert row.text in section
        for limit in row.limits:
            assert f"| {limit.text} | {limit.direction.value} " in section
            assert f"no result of `{limit.bench}`" in section


def test_benchmarks_that_run_on_demand_are_marked() -> None:
    page = report.markdown({})
    assert "no result of `soak`; it is run when it is asked for: `--with soak`." in page
    assert "no result of `start`." in page


def test_rows_are_met_missed_or_not_measured() -> None:
    page = report.markdown(CANNED)
    assert cells(page, "`gangctl --help`") == [
        *("`gangctl --help`", "at most 150 ms", "100 ms", "140 ms", "90 to 110 (3 rounds)"),
        *("10 ms", "10x", "50 ms", MET),
    ]
    assert cells(page, "`gangctl plan` of one file")[1:] == [
        *("at most 500 ms", "1,100 ms", "", "", "10 ms", "110x", "550 ms", MISSED),
    ]
    assert cells(page, "with gangctl")[-1] == MET
    assert cells(page, "without, in the same run")[2] == "7 pods"
    assert cells(page, "until all PodGroups, p99")[1:] == ["at most 0.25x", "0.3 s", "", "", "30 s", "0.01x", "", MET]
    assert cells(page, "until every Job exists")[-3:] == ["1.29x", "", MISSED]
    assert {row: verdict(page, row) for row in ("start", "contention", "burst-groups", "burst-jobs", "verdict")} == {
        "start": MISSED,
        "contention": MET,
        "burst-groups": MET,
        "burst-jobs": MISSED,
        "verdict": UNMEASURED,
    }
    assert "`fit` ended early: TimeoutError: waited | 30 s." in page
    assert "Yardstick: Python that does nothing." in page


@each(
    ("rate", "reference", "verdict"),
    [(5_000.0, "10,000/s", MET), (4_900.0, "9,800/s", MISSED)],
)
def test_what_works_is_judged_as_at_the_pace_of_the_reference(rate: float, reference: str, verdict: str) -> None:
    made = result("translate", Figure("translate-group", (rate,), (100_000.0,)))
    assert made.pace is not None
    assert made.pace.share == 0.5
    assert cells(report.markdown({"translate": made}), "a gang for each ReplicatedJob")[-2:] == [reference, verdict]
    raw = "| a gang for each ReplicatedJob | at least 10,000/s |"
    (without,) = [line for line in report.markdown({"translate": replace(made, pace=None)}).splitlines() if raw in line]
    assert without.endswith(f"|  | {MISSED} |")


def test_one_stranded_pod_is_a_miss() -> None:
    made = result("contention", Figure("stranded", (0.0, 1.0, 0.0)), Figure("stranded-without", (8.0, 8.0, 8.0)))
    assert cells(report.markdown({"contention": made}), "with gangctl")[-1] == MISSED


def test_a_value_that_was_not_measured_has_its_reason() -> None:
    made = result("admission", Figure("admission-slow", (0.5,)))
    page = report.markdown({"admission": made})
    assert cells(page, "calls above 25 ms")[-1] == MET
    assert cells(page, "mean added to a create")[-1] == UNMEASURED
    assert "Not measured: mean added to a create: " in page
    assert verdict(page, "admission") == UNMEASURED


def test_a_limit_that_is_newer_than_the_run_is_not_measured_at_its_commit() -> None:
    page = report.markdown(CANNED | {"burst": replace(CANNED["burst"], findings=Findings(table("burst")))})
    assert cells(page, "CPU of gangctl") == ["CPU of gangctl", "at most 0.4x", *[""] * 6, UNMEASURED]
    assert "Not measured: CPU of gangctl: the run of `burst` at 0123456789ab did not measure it." in page


def test_the_machine_and_the_doubts_about_it_are_on_the_page() -> None:
    page = report.markdown(CANNED)
    assert "Machine: 4 cores (Some CPU), 15.6 GB of memory, Linux 6.1, Python 3.11.7." in page
    assert "Versions: etcd 3.6.16, gangctl 0.1.0." in page
    assert "Commit: 0123456789ab." in page
    paces = "100,000 150,000 310,000"
    assert f"| start | 2026-11-21T12:00:00Z | 62 s | 0.1 / 1.2 | {paces} | 0123456789ab | quiet |" in page
    assert "Pace of one core, sampled each second: 100,000 to 310,000 JSON round trips" in page
    assert "> **" not in page
    changed = replace(CANNED["start"], facts=replace(FACTS, commit="ba9876543210, with changes"), noise=["others"])
    page = report.markdown(CANNED | {"start": changed})
    assert "> **Rows are of different commits**" in page
    assert "> **Measured with changes that are in no commit.**" in page
    assert "> **The machine was not quiet** during start;" in page


def test_tiny_sizes_are_marked_and_not_judged() -> None:
    page = report.markdown({"start": replace(CANNED["start"], quick=True)})
    assert "> **Tiny sizes" in page
    assert cells(page, "`gangctl plan` of one file")[-1] == UNJUDGED
    assert MISSED not in page


def test_the_page_is_written_with_its_charts_and_deterministic(tmp_path: Path) -> None:
    made: Result = replace(CANNED["start"])
    assert made.findings is not None
    chart = Chart("start", "Start to end", Axis("ms"), Axis("%"), [Line("help", ((1.0, 50.0), (2.0, 100.0)))])
    made = replace(made, findings=replace(made.findings, charts=[chart]))
    made.write(tmp_path / "results" / "raw")
    path = report.write(tmp_path)
    first = path.read_text(), (tmp_path / "results/plots/start.svg").read_bytes()
    assert "![Start to end](results/plots/start.svg)" in first[0]
    ET.fromstring(first[1])
    report.write(tmp_path)
    assert (path.read_text(), (tmp_path / "results/plots/start.svg").read_bytes()) == first


@each(
    ("value", "unit", "text"),
    [(13691.4, "/s", "13,691/s"), (0.01, "x", "0.01x"), (2.5, "ms", "2.5 ms"), (float("inf"), "s", "without end")],
)
def test_quantities_are_formatted(value: float, unit: str, text: str) -> None:
    assert report.quantity(value, unit) == text


def test_units_are_written_the_same_everywhere() -> None:
    assert {limit.unit for limit in limits()} <= {
        *("pods", "/s", "%", "ms", "s", "writes", "events", "MB", "answers", "series", "objects"),
    }


def test_only_missed_rows_have_an_explanation() -> None:
    explained = {"start-plan": "Most of it are imports.", "start-help": "Never seen."}
    page = report.markdown(CANNED, explained)
    assert "Missed: `gangctl plan` of one file. Most of it are imports." in page
    assert "Never seen" not in page
    assert "Nobody has said why yet." in report.markdown(CANNED)


PUBLISHED = Path(report.__file__).parent


def test_the_published_page_is_that_of_the_raw_results_beside_it() -> None:
    results = read_all(PUBLISHED / RAW)
    assert (PUBLISHED / "RESULTS.md").read_text() == report.markdown(results, explanations(PUBLISHED))
    assert not [name for name, each in results.items() if each.quick]


def test_every_published_miss_is_explained_and_nothing_else() -> None:
    results = read_all(PUBLISHED / RAW)
    missed = {limit.id for limit in limits() if judge(limit, results).verdict is MISSED}
    assert set(explanations(PUBLISHED)) == missed
