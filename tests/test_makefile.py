"""``make`` finds a Python that it can use, whatever it is called, and prints what is missing where there is none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.manifests.files import ROOT

OLD = "#!/bin/sh\nexit 1\n"
"""A Python that is older than 3.11, as far as make asks."""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A directory for PATH, with what make needs besides a Python."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("make", "git", "awk"):
        found = shutil.which(name)
        assert found is not None
        (directory / name).symlink_to(found)
    return directory


def add(programs: Path, name: str, *, old: bool = False) -> None:
    program = programs / name
    program.write_text(OLD if old else f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    program.chmod(0o755)


def make(programs: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What make would run in a new clone."""
    command = ["make", "-n", *arguments, f"VENV={programs / 'none'}"]
    environment = {"PATH": str(programs), "HOME": str(programs)}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize("target", ["demo", "test"])
def test_both_commands_of_the_readme_need_no_python3(target: str, programs: Path) -> None:
    add(programs, "python3.11")
    done = make(programs, target)
    assert done.returncode == 0, done.stderr
    assert f"python3.11 -m venv {programs / 'none'}\n" in done.stdout
    assert "installing the locked packages into" in done.stdout


def test_a_python3_that_is_too_old_is_skipped(programs: Path) -> None:
    add(programs, "python3", old=True)
    add(programs, "python3.12")
    assert "python3.12 -m venv" in make(programs, "demo").stdout


def test_a_python3_that_is_new_enough_is_used(programs: Path) -> None:
    add(programs, "python3")
    assert "python3 -m venv" in make(programs, "demo").stdout


def test_without_a_python_there_is_one_error_with_the_remedy(programs: Path) -> None:
    add(programs, "python3", old=True)
    done = make(programs, "demo")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "no Python 3.11 or newer with venv is in PATH: install one" in line
    assert "make PYTHON=/path/to/python3.11" in line


def test_a_given_python_is_used(programs: Path) -> None:
    assert "/opt/python -m venv" in make(programs, "demo", "PYTHON=/opt/python").stdout
