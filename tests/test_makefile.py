"""``make`` finds a Python that it can use, whatever it is called, and prints what is missing where there is none."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.manifests.files import ROOT

OLD = "#!/bin/sh\nexit 1\n"
"""A Python that is not supported, as far as make asks."""


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
    assert "nothing in PATH is Python 3.11 to 3.14 with venv: install one" in line
    assert "make PYTHON=/path/to/python3.11" in line


def test_a_given_python_is_used(programs: Path) -> None:
    add(programs, "mine")
    assert "mine -m venv" in make(programs, "demo", "PYTHON=mine").stdout


@pytest.mark.parametrize("target", ["demo", "test"])
def test_a_given_python_that_is_not_supported_is_refused_before_anything_is_made(target: str, programs: Path) -> None:
    add(programs, "mine", old=True)
    done = make(programs, target, "PYTHON=mine")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "mine is not Python 3.11 to 3.14 with venv: install one" in line
    assert not done.stdout


@pytest.mark.parametrize("version", [(3, 10), (3, 15)])
def test_the_program_refuses_a_python_that_is_not_supported(version: tuple[int, int]) -> None:
    code = f"import runpy, sys; sys.version_info = {(*version, 0)}; runpy.run_module('gangctl', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"error: gangctl needs Python 3.11 to 3.14, and this is {version[0]}.{version[1]}\n"
