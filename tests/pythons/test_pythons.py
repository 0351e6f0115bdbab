"""gangctl on each Python that pyproject.toml promises: from a clone, with an empty home directory and without Go."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.manifests.files import ROOT
from tests.pythons.debian import SUITES, MissingPython, ensure_python
from tests.release.conftest import copy_tree

pytestmark = [pytest.mark.xdist_group("pythons"), pytest.mark.timeout(7200)]

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OLDEST = "3.11"
PREFIX = "Programming Language :: Python :: "
VERSIONS = [each.removeprefix(PREFIX) for each in PROJECT["classifiers"] if each.startswith(f"{PREFIX}3.")]
EXAMPLE = ("-f", "examples/01-pytorch.yaml")
PROGRAMS = ("make", "git", "awk", "sh")


@dataclass(frozen=True)
class Clone:
    """A clone of the tree and a home directory of its own; a Python to use in it."""

    directory: Path
    home: Path
    python: Path

    def run(self, *command: str | Path, fails: bool = False) -> str:
        """What it prints; it ends well, if it is not to fail."""
        places = dict.fromkeys(
            [str(self.python.parent), *(str(Path(shutil.which(each) or "").parent) for each in PROGRAMS)]
        )
        kept = {
            name: value for name, value in os.environ.items() if name not in {"CI", "XDG_CACHE_HOME", "VIRTUAL_ENV"}
        }
        environment = {name: value for name, value in kept.items() if not name.startswith(("PYTEST_", "GANGCTL_"))}
        done = subprocess.run(
            command,
            cwd=self.directory,
            env={**environment, "HOME": str(self.home), "PATH": os.pathsep.join(places)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert bool(done.returncode) is fails, done.stdout[-8000:]
        return done.stdout

    def make(self, target: str) -> str:
        return self.run("make", target, f"PYTHON={self.python}")


def interpreter(version: str) -> Path:
    """Debian's, or where Debian has none, that of the machine."""
    try:
        return ensure_python(version) if version in SUITES else _in_path(f"python{version}")
    except MissingPython as missing:
        # Debian's are to be had wherever CI runs.
        if os.environ.get("CI") and version in SUITES:
            raise
        pytest.skip(str(missing))


def _in_path(name: str) -> Path:
    found = shutil.which(name)
    code = "import ensurepip, sys; print(sys.executable)"
    done = subprocess.run([found or "false", "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingPython(f"Debian has no {name}, and none with venv is in PATH")
    return Path(done.stdout.strip())


def clone(version: str, tmp_path: Path) -> Clone:
    python = interpreter(version)
    directory, home = tmp_path / "clone", tmp_path / "home"
    home.mkdir()
    copy_tree(directory)
    for program in (directory / ".ci", directory / "release"):
        for path in program.iterdir():
            path.chmod((ROOT / path.relative_to(directory)).stat().st_mode)
    made = Clone(directory, home, python)
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.com")
    for arguments in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-q", "-m", "clone"]):
        made.run("git", *arguments)
    return made


def demo_and_wheel(here: Clone) -> None:
    """Both commands that the README begins with: of a clone, and of an installation."""
    assert "JobSet" in here.make("demo")
    here.make("setup")
    here.run(".venv/bin/python", "-m", "hatchling", "build", "-t", "wheel", "-d", here.home / "dist")
    (wheel,) = (here.home / "dist").glob("*.whl")
    venv = here.home / "venv"
    here.run(here.python, "-m", "venv", venv)
    pip: list[str | Path] = [venv / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    here.run(*pip, "--require-hashes", "-r", "locks/runtime.txt")
    here.run(*pip, "--no-deps", wheel)
    evaluated = here.run(venv / "bin" / "gangctl", "policy", "eval", "--policy", "policies", *EXAMPLE)
    assert "allowed" in evaluated


def test_the_oldest_python_runs_the_demo_the_wheel_and_policy_workers(tmp_path: Path) -> None:
    here = clone(OLDEST, tmp_path)
    demo_and_wheel(here)
    modules = (
        "runtime/test_workerprocess",
        "runtime/test_workers",
        "evaluation/test_evaluator",
        "evaluation/test_pool",
    )
    workers = [f"tests/{module}.py" for module in modules]
    last = here.run(".venv/bin/pytest", "-q", "-n0", *workers).splitlines()[-1]
    assert re.search(r"\d+ passed", last), last


@pytest.mark.full("minutes for each Python")
@pytest.mark.parametrize("version", VERSIONS)
def test_every_pure_test_passes(version: str, tmp_path: Path) -> None:
    here = clone(version, tmp_path)
    demo_and_wheel(here)
    pure = ("-m", "not controlplane", "--ignore", "tests/pythons")
    last = here.run(".venv/bin/pytest", "-q", "-n2", *pure).splitlines()[-1]
    assert re.search(r"\d+ passed", last), last


def test_every_place_names_the_pythons_that_are_tested() -> None:
    oldest, newest = VERSIONS[0], VERSIONS[-1]
    assert oldest == OLDEST
    assert [int(each.removeprefix("3.")) for each in VERSIONS] == list(range(11, 11 + len(VERSIONS)))
    assert PROJECT["requires-python"] == f">={oldest},<3.{int(newest.removeprefix('3.')) + 1}"
    assert set(SUITES) <= set(VERSIONS)
    names = " ".join(["python3.11", "python3", *(f"python{each}" for each in VERSIONS[1:])])
    for path in ("Makefile", "release/kubectl-gang.sh"):
        text = (ROOT / path).read_text(encoding="utf-8")
        assert f"for each in {names}; do" in text, path
        assert f"(3, 11) <= sys.version_info[:2] <= (3, {newest.removeprefix('3.')})" in text, path
    sentence = f"Python {oldest} to {newest}"
    for path in (
        "README.md",
        "release/krew.py",
        "release/kubectl-gang.sh",
        "docs/compatibility.md",
        "Makefile",
        "gangctl/__main__.py",
    ):
        assert sentence in (ROOT / path).read_text(encoding="utf-8"), path
