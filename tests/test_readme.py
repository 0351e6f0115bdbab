"""The README's commands are run, or, where they need a cluster of their own, are those that other tests run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from gangctl.cli.controller import controller

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROSE = re.sub(r"^```.*?^```$", "", README, flags=re.MULTILINE | re.DOTALL)
COMMANDS = [line.partition("#")[0].strip() for line in re.findall(r"^    (\S.*)$", PROSE, flags=re.MULTILINE)]
OFFLINE = [command for command in COMMANDS if re.match(r"gangctl (plan|translate|convert)\b", command)]


def test_every_command_is_known_here() -> None:
    others = [command for command in COMMANDS if command not in OFFLINE]
    assert [command.split()[:2] for command in others] == [
        ["make", "demo"],
        ["make", "test"],
        ["kubectl", "apply"],
        ["gangctl", "controller"],
    ]
    assert OFFLINE


@pytest.mark.parametrize("command", OFFLINE)
def test_offline_commands_work(command: str) -> None:
    arguments = shlex.split(command)[1:]
    done = subprocess.run(
        [sys.executable, "-m", "gangctl", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_controller_takes_these_flags() -> None:
    """tests/live runs the process with the same ones."""
    (command,) = [command for command in COMMANDS if command.startswith("gangctl controller")]
    context = controller.make_context("controller", shlex.split(command)[2:])
    assert context.params["leader_elect"] is False


def test_the_demo_without_go_shows_plans(tmp_path: Path) -> None:
    """With Go it is the scenario of tests/live/test_contention_live.py."""
    environment = {"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "HOME": os.environ.get("HOME", "/")}
    done = subprocess.run(
        [sys.executable, "-m", "examples.demo"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "No control plane here" in done.stdout
    assert "pytorch" in done.stdout


def test_the_makefile_has_what_the_readme_promises() -> None:
    for target in ("demo", "test"):
        done = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0
