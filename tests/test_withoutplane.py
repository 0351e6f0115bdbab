"""`--without-controlplane`: what needs promtool runs where that is built, and what does not run is counted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.changes import ROOT
from tests.controlplane.binaries import BIN_VARIABLE, owner
from tests.controlplane.promtool2 import NAME

RULES = "tests/monitoring/test_rules.py"
EXPRESSIONS = "tests/monitoring/test_expressions.py"


def collected(home: Path, *arguments: str) -> str:
    """The output of pytest, with the binaries of a directory and no cache."""
    # What a person sets for pytest would change its output.
    inherited = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    environment = {**inherited, "XDG_CACHE_HOME": str(home / "cache"), BIN_VARIABLE: str(home)}
    command = (sys.executable, "-m", "pytest", "-q", "--without-controlplane", "-p", "no:cacheprovider", *arguments)
    return subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True).stdout


def put(home: Path, name: str) -> None:
    (home / name).touch(mode=0o755)


@pytest.mark.parametrize("workers", ["0", "1"])
def test_what_needs_promtool_is_counted_where_that_is_not_built(workers: str, tmp_path: Path) -> None:
    out = collected(tmp_path, "-n", workers, RULES, "-k", "promtool_accepts or every_case_is_run")
    assert "not run: 1 tests that need promtool (make controlplane)" in out
    assert "1 passed" in out


def test_what_needs_promtool_runs_where_that_is_built(tmp_path: Path) -> None:
    put(tmp_path, owner("promtool").file_name("promtool"))
    out = collected(tmp_path, "--collect-only", "-n0", RULES)
    assert f"{RULES}::test_promtool_accepts_the_files" in out
    assert "test_alerts_fire_in_prometheus_2" not in out, "nothing is fetched"
    assert "not run: 5 tests that need promtool of Prometheus 2 (make test fetches it)" in out
    put(tmp_path, NAME)
    out = collected(tmp_path, "--collect-only", "-n0", RULES, EXPRESSIONS)
    assert "test_alerts_fire_in_prometheus_2" in out
    assert "not run: 5 tests that need prometheus (make controlplane)" in out
    put(tmp_path, owner("prometheus").file_name("prometheus"))
    assert "not run" not in collected(tmp_path, "--collect-only", "-n0", RULES, EXPRESSIONS)


def test_a_test_of_a_plane_does_not_run_although_promtool_is_built(tmp_path: Path) -> None:
    put(tmp_path, owner("promtool").file_name("promtool"))
    named = "a_program_runs or every_case_is_run"
    out = collected(tmp_path, "--collect-only", "-n0", "tests/controlplane/selftest/test_up.py", RULES, "-k", named)
    assert "not run: 1 tests that need the control plane (make controlplane)" in out
