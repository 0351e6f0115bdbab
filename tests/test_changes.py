"""`make test-for`: each row of CONTRIBUTING.md has its tests, which exist and are some."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.changes import ROOT, TESTS, main

ROW = re.compile(r"^\| .+ \| .+ \| ([a-z-]+) \|$", flags=re.MULTILINE)


def test_each_typical_change_has_its_tests() -> None:
    (table,) = re.findall(
        r"^## Typical changes$(.*?)^## ",
        (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"),
        flags=re.MULTILINE | re.DOTALL,
    )
    assert ROW.findall(table) == [*TESTS]


def test_the_tests_of_each_change_exist() -> None:
    paths = {path for places in TESTS.values() for path in places}
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []
    assert [
        path for path in sorted(paths) if not [*(ROOT / path).rglob("test_*.py")] and not path.endswith(".py")
    ] == []


BESIDE = {
    "alert": "tests/monitoring/test_*.py",
    "cel-function": "tests/parity/test_*.py",
    "check": "tests/cli/doctor/test_*.py",
    "metric": "tests/manager/test_*metrics*.py",
}
"""Tests of what a change is about, by its name."""

LEFT_OUT = {"tests/monitoring/test_weeks.py": "minutes in the full tier, and its cases are no one rule's"}


@pytest.mark.parametrize("name", BESIDE)
def test_the_tests_beside_a_change_are_among_its_tests(name: str) -> None:
    files = {path.relative_to(ROOT) for path in ROOT.glob(BESIDE[name])}
    assert files
    run = {file for file in files if {str(file), *map(str, file.parents)} & {*TESTS[name]}}
    assert files - run == {file for file in files if str(file) in LEFT_OUT}


@pytest.mark.parametrize("names", [[], ["alarm"], ["alert", "alarm"]], ids=["none", "wrong", "one wrong"])
def test_an_unknown_change_is_refused_with_the_names(names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(names) == 2
    assert "is none of refusal, annotation, cause," in capsys.readouterr().err


def test_the_files_of_a_directory_are_run_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest loses the fixtures of a conftest.py to which it comes back."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    assert main(["check", "cause"]) == 0
    paths = [word for word in commands[0] if word.startswith("tests/")]
    assert paths == sorted(paths)
    assert {*paths} == {*TESTS["check"], *TESTS["cause"]}
