"""Runs of benchmarks: a failed one is reported and skipped, an interrupted one is continued, and a page is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks import machine
from benchmarks.budgets import limits
from benchmarks.catalogue import Bench
from benchmarks.report import RAW
from benchmarks.result import Figure, Findings, read_all
from benchmarks.session import Session, complete
from tests.benchmarks.canned import FACTS, table


def findings(bench: str) -> Findings:
    figures = [Figure(limit.id, (1.0,), (1.0,)) for limit in limits() if limit.bench == bench]
    return Findings(table(bench), figures)


def measured(calls: list[tuple[str, bool]], bench: str) -> Callable[[bool], Findings]:
    def run(quick: bool) -> Findings:
        calls.append((bench, quick))
        return findings(bench)

    return run


def broken(quick: bool) -> Findings:
    del quick
    raise TimeoutError("waited 30 s for it\nlast seen: nothing")


@pytest.fixture
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A work tree without changes and a machine without others, whatever else is going on."""
    monkeypatch.setattr(machine.Facts, "gather", lambda: FACTS)
    monkeypatch.setattr(machine, "commit", lambda _root: FACTS.commit)
    monkeypatch.setattr(machine, "noise", lambda *_: [])


def test_each_benchmark_is_run_and_recorded_on_the_page(tmp_path: Path) -> None:
    calls: list[tuple[str, bool]] = []
    said: list[str] = []
    benches = {name: Bench(measured(calls, name), 1) for name in ("start", "fit")}
    assert Session(benches, tmp_path, quick=True, say=said.append).run(["start", "fit"]) == []
    assert calls == [("start", True), ("fit", True)]
    kept = read_all(tmp_path / RAW)
    assert {name: each.findings for name, each in kept.items()} == {name: findings(name) for name in benches}
    assert all(each.quick for each in kept.values())
    assert "Tiny sizes" in (tmp_path / "RESULTS.md").read_text()
    assert "`python -m benchmarks all --quick --only fit`" in (tmp_path / "results/fit.md").read_text()
    assert [line for line in said if line.startswith("[")] == ["[1/2] start", "[2/2] fit"]


@pytest.mark.usefixtures("_quiet")
def test_the_remaining_time_is_printed(tmp_path: Path) -> None:
    said: list[str] = []
    minutes = {"start": 1, "fit": 0.5, "scrape": 4}
    benches = {name: Bench(measured([], name), each) for name, each in minutes.items()}
    Session(benches, tmp_path, say=said.append).run(list(benches))
    assert said[0] == "3 benchmarks, about 5.5 min"
    assert [line for line in said if line.startswith("[")] == [
        "[1/3] start, about 1 min; after it about 4.5 min",
        "[2/3] fit, about 0.5 min; after it about 4 min",
        "[3/3] scrape, about 4 min; after it nothing",
    ]
    said.clear()
    (tmp_path / RAW / "fit.json").unlink()
    Session(benches, tmp_path, resume=True, say=said.append).run(list(benches))
    assert said[0] == "3 benchmarks, about 0.5 min"
    assert "[2/3] fit, about 0.5 min; after it nothing" in said


def test_a_failed_benchmark_does_not_end_the_others(tmp_path: Path) -> None:
    calls: list[tuple[str, bool]] = []
    benches = {"start": Bench(broken, 1), "fit": Bench(measured(calls, "fit"), 1)}
    assert Session(benches, tmp_path, say=lambda _: None).run(["start", "fit"]) == ["start"]
    assert calls == [("fit", False)]
    assert read_all(tmp_path / RAW)["start"].error == "TimeoutError: waited 30 s for it"
    assert "`start` ended early: TimeoutError: waited 30 s for it" in (tmp_path / "RESULTS.md").read_text()


@pytest.mark.usefixtures("_quiet")
def test_an_interrupted_session_is_continued(tmp_path: Path) -> None:
    calls: list[tuple[str, bool]] = []

    def ended(quick: bool) -> Findings:
        del quick
        raise KeyboardInterrupt

    benches = {
        "start": Bench(measured(calls, "start"), 1),
        "hostile": Bench(broken, 1),
        "fit": Bench(ended, 1),
        "scrape": Bench(measured(calls, "scrape"), 1),
    }
    with pytest.raises(KeyboardInterrupt):
        Session(benches, tmp_path, say=lambda _: None).run(list(benches))
    assert set(read_all(tmp_path / RAW)) == {"start", "hostile"}
    benches |= {name: Bench(measured(calls, name), 1) for name in ("fit", "hostile")}
    assert Session(benches, tmp_path, resume=True, say=lambda _: None).run(list(benches)) == []
    assert [name for name, _ in calls] == ["start", "hostile", "fit", "scrape"]


@pytest.mark.usefixtures("_quiet")
@pytest.mark.parametrize(
    "change",
    [{"noise": ["others"]}, {"quick": True}, {"facts": replace(FACTS, commit="another")}],
    ids=["noisy", "tiny", "another commit"],
)
def test_unreliable_results_are_measured_again(tmp_path: Path, change: dict[str, Any]) -> None:
    calls: list[tuple[str, bool]] = []
    session = Session({"start": Bench(measured(calls, "start"), 1)}, tmp_path, resume=True, say=lambda _: None)
    first = session.measure("start")
    first.write(tmp_path / RAW)
    session.run(["start"])
    assert len(calls) == 1
    replace(first, **change).write(tmp_path / RAW)
    session.run(["start"])
    assert len(calls) == 2


@pytest.mark.usefixtures("_quiet")
def test_uncommitted_changes_are_measured_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dirty = FACTS.commit + machine.CHANGED
    monkeypatch.setattr(machine, "commit", lambda _root: dirty)
    monkeypatch.setattr(machine.Facts, "gather", lambda: replace(FACTS, commit=dirty))
    calls: list[tuple[str, bool]] = []
    session = Session({"start": Bench(measured(calls, "start"), 1)}, tmp_path, resume=True, say=lambda _: None)
    session.run(["start"])
    session.run(["start"])
    assert len(calls) == 2


def test_a_benchmark_must_measure_each_of_its_limits_and_no_other() -> None:
    complete("start", findings("start"))
    found = findings("start")
    left = found.figures.pop()
    with pytest.raises(ValueError, match="its limits are start-help, start-plan"):
        complete("start", found)
    found.unmeasured[left.limit] = "why"
    complete("start", found)
    found.figures.append(Figure("soak-left", (0.0,)))
    with pytest.raises(ValueError, match="soak-left"):
        complete("start", found)
