"""``python -m benchmarks``, as a person runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks.catalogue import BENCHES, Bench
from benchmarks.result import Findings, read_all
from benchmarks.session import complete
from tests.benchmarks.canned import result

ROOT = Path(__file__).parent.parent.parent


def test_a_benchmark_runs_with_tiny_sizes(tmp_path: Path) -> None:
    arguments = ["all", "--quick", "--only", "translate", "--only", "start", "--directory", str(tmp_path)]
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "[2/2] translate" in ran.stdout
    kept = read_all(tmp_path / "results" / "raw")
    assert sorted(kept) == ["start", "translate"]
    for name, each in kept.items():
        assert each.findings is not None
        complete(name, each.findings)
        assert all(value > 0 for figure in each.findings.figures for value in (*figure.rounds, *figure.yardstick))
    page = (tmp_path / "RESULTS.md").read_text()
    assert "Tiny sizes" in page
    assert "| one gang | at least 10,000/s | " in page


def test_the_page_is_rewritten_from_raw_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result("start").write(tmp_path / "results" / "raw")
    assert command.main(["report", "--directory", str(tmp_path)]) == 0
    assert str(tmp_path / "RESULTS.md") in capsys.readouterr().out
    assert "| start | 2026-11-21T12:00:00Z |" in (tmp_path / "RESULTS.md").read_text()


def test_a_file_that_is_no_result_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = tmp_path / "results" / "raw"
    raw.mkdir(parents=True)
    (raw / "start.json").write_text("{}")
    assert command.main(["report", "--directory", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert f"{raw / 'start.json'}: " in said
    assert "delete the file, or measure it again" in said


def test_a_busy_machine_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "refuse", lambda *_: ["others kept 2 of 2 cores busy"])
    assert command.main(["all", "--only", "translate", "--directory", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "not quiet: others kept 2 of 2 cores busy" in said
    assert "--anyway" in said
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_run_prints_how_to_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ended(quick: bool) -> Findings:
        del quick
        raise KeyboardInterrupt

    monkeypatch.setitem(BENCHES, "soak", Bench(ended, 1))
    assert command.main(["all", "--quick", "--only", "soak", "--directory", str(tmp_path)]) == 130
    assert "--resume" in capsys.readouterr().err


def test_an_unknown_row_is_an_error_that_lists_the_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["all", "--quick", "--only", "speed"]) == 2
    said = capsys.readouterr().err
    assert "no row or benchmark 'speed'" in said
    assert "burst-groups" in said


def test_tiny_sizes_never_replace_results(capsys: pytest.CaptureFixture[str]) -> None:
    here = ["all", "--quick", "--only", "translate", "--directory", str(ROOT / "benchmarks")]
    assert command.main(here) == 2
    assert "its results are no results" in capsys.readouterr().err
