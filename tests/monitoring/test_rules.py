"""Every alert fires when it must, at the first moment at which it must, and in no case beside it; by promtool."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.monitoring import cases_gangs, cases_operation
from tests.monitoring.cases_recording import CASES as RECORDED
from tests.monitoring.promtool import Case, Recorded, alert_test, recording_test, run
from tests.monitoring.rulefiles import alerts, paths, recordings

CASES: Final = (*cases_gangs.CASES, *cases_operation.CASES)
ALERTS: Final = {rule.name: rule for rule in alerts()}


@pytest.mark.parametrize("path", paths(), ids=lambda path: path.stem)
def test_promtool_accepts_the_file(path: Path, promtool: Path) -> None:
    done = subprocess.run(
        [promtool, "check", "rules", "--lint=all", "--lint-fatal", path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_alert(case: Case, promtool: Path, tmp_path: Path) -> None:
    run(promtool, tmp_path, alert_test(ALERTS[case.alert], case))


@pytest.mark.parametrize("case", RECORDED, ids=lambda case: f"{case.name}@{case.minute}")
def test_recording(case: Recorded, promtool: Path, tmp_path: Path) -> None:
    run(promtool, tmp_path, recording_test(case))


@pytest.mark.parametrize("name", ALERTS)
def test_every_alert_is_seen_to_fire_and_to_be_silent(name: str) -> None:
    assert {case.fires is not None for case in CASES if case.alert == name} == {True, False}


def test_every_recording_is_seen() -> None:
    assert {case.name for case in RECORDED} == {rule.name for rule in recordings()}


@pytest.mark.parametrize("minutes", [-1, 1])
def test_a_case_that_is_wrong_by_a_minute_fails(minutes: int, promtool: Path, tmp_path: Path) -> None:
    """Of the cases themselves: they notice when an alert comes too early or too late."""
    case = next(case for case in CASES if case.fires is not None and case.alert == "GangDegraded")
    wrong = Case(**{**vars(case), "fires": (case.fires or 0) + minutes})
    with pytest.raises(AssertionError, match="FAILED"):
        run(promtool, tmp_path, alert_test(ALERTS[case.alert], wrong))
