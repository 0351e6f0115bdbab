"""Every alert fires when it must, at the first moment at which it must, and in no case beside it; by promtool."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from tests.monitoring import cases_gangs, cases_operation
from tests.monitoring.cases_recording import CASES as RECORDED
from tests.monitoring.promtool import Case, alert_test, clusters_test, file_for_2, file_of, recording_test, run
from tests.monitoring.rulefiles import RULES, alerts, paths, recordings
from tests.rows import each

CASES: Final = (*cases_gangs.CASES, *cases_operation.CASES)
ALERTS: Final = {rule.name: rule for rule in alerts()}
FILES: Final = ("gangs", "policies", "process", "queues")
"""Those with alerts."""


def test_promtool_accepts_the_files(promtool: Path) -> None:
    done = subprocess.run(
        [promtool, "check", "rules", "--lint=all", "--lint-fatal", *paths()],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("SUCCESS") == len(paths()) > 0


def test_prometheus_2_reads_the_files_and_no_durations_as_numbers(promtool_2: Path, tmp_path: Path) -> None:
    """Distributions and long-term support releases have it; the newest parser takes what it refuses."""
    version = subprocess.run([promtool_2, "--version"], capture_output=True, text=True, timeout=300, check=True)
    assert version.stdout.startswith("promtool, version 2.")
    text = (RULES / "process.yaml").read_text()
    wrong = tmp_path / "process.yaml"
    wrong.write_text(text.replace("> 300\n", "> 5m\n"))
    done = subprocess.run(
        [promtool_2, "check", "rules", *paths()], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    done = subprocess.run(
        [promtool_2, "check", "rules", wrong], capture_output=True, text=True, timeout=300, check=False
    )
    assert 'unexpected duration "5m"' in done.stderr


@pytest.mark.parametrize("file", FILES)
def test_alerts_fire_in_their_cases(file: str, promtool: Path, tmp_path: Path) -> None:
    """One process for all cases of a file: it names those that fail."""
    cases = [case for case in CASES if ALERTS[case.alert].path.stem == file]
    run(promtool, tmp_path, file_of(alert_test(ALERTS[case.alert], case) for case in cases))


@pytest.mark.parametrize("file", FILES)
def test_alerts_fire_in_prometheus_2(file: str, promtool_2: Path, tmp_path: Path) -> None:
    """At the same minute, and silent before it; when they are not to fire at all is shown once."""
    cases = [
        replace(case, fires=case.fires + case.later)
        for case in CASES
        if case.fires is not None and ALERTS[case.alert].path.stem == file
    ]
    run(promtool_2, tmp_path, file_for_2(alert_test(ALERTS[case.alert], case) for case in cases))


def test_every_case_is_run_under_its_name() -> None:
    assert {rule.path.stem for rule in ALERTS.values()} == set(FILES)
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("file", FILES)
def test_clusters_in_one_store_are_distinguished(file: str, promtool: Path, tmp_path: Path) -> None:
    """Whatever the series of another cluster are: the alert fires at its minute, with its cluster and its value."""
    tests = []
    for name, rule in ALERTS.items():
        if rule.path.stem == file:
            cases = [case for case in CASES if case.alert == name]
            fires = next(case for case in cases if case.fires is not None)
            silent = next(case for case in cases if case.silent >= (fires.fires or 0))
            tests.append(clusters_test(rule, fires, silent))
    run(promtool, tmp_path, file_of(tests))


def test_recording_rules_have_the_expected_values(promtool: Path, tmp_path: Path) -> None:
    run(promtool, tmp_path, file_of(recording_test(case) for case in RECORDED))


@each("name", ALERTS)
def test_every_alert_has_a_case_that_fires_and_one_that_does_not(name: str) -> None:
    assert {case.fires is not None for case in CASES if case.alert == name} == {True, False}


def test_every_recording_rule_has_a_case() -> None:
    assert {case.name for case in RECORDED} == {rule.name for rule in recordings()}


@pytest.mark.parametrize("minutes", [-1, 1])
def test_a_case_that_is_wrong_by_a_minute_fails(minutes: int, promtool: Path, tmp_path: Path) -> None:
    """Of the cases themselves: they notice when an alert comes too early or too late."""
    case = next(case for case in CASES if case.fires is not None and case.alert == "GangDegraded")
    wrong = Case(**{**vars(case), "fires": (case.fires or 0) + minutes})
    with pytest.raises(AssertionError, match=rf"FAILED(?s:.*){re.escape(wrong.name)}"):
        run(promtool, tmp_path, file_of(alert_test(ALERTS[case.alert], one) for one in (case, wrong)))
