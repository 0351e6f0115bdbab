"""The README's commands are run, or, where they need a cluster of their own, are those that other tests run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from gangctl.cli.controller import controller
from gangctl.cli.program import program
from tests.quickstart import CLONE, EITHER, FIRST, OWN, PLAYED, README, SANDBOX, SECOND, SECTION
from tests.rows import each

ROOT = Path(__file__).parents[1]
PROSE = re.sub(r"^```.*?^```$", "", README.replace(SECTION, ""), flags=re.MULTILINE | re.DOTALL)
COMMANDS = [line.partition("#")[0].strip() for line in re.findall(r"^    (\S.*)$", PROSE, flags=re.MULTILINE)]
_OFFLINE = re.compile(r"gangctl (plan|translate|convert|policy|get|describe|pathways)\b")
OFFLINE = [command for command in COMMANDS if _OFFLINE.match(command)]


def test_every_command_of_the_readme_is_tested() -> None:
    others = [command for command in COMMANDS if command not in OFFLINE]
    assert [command.split()[:2] for command in others] == [
        ["make", "demo"],
        ["make", "test"],
        ["kubectl", "apply"],
        ["kubectl", "apply"],
        ["gangctl", "wait"],
        ["gangctl", "demo"],
        ["gangctl", "sandbox"],
        ["make", "image"],
        ["gangctl", "install"],
        ["gangctl", "controller"],
    ]
    assert OFFLINE


def test_no_step_of_the_quick_start_is_missing() -> None:
    """tests/cli/test_quickstart.py and tests/live type them, one after the other."""
    blocks = (CLONE, SANDBOX, FIRST, SECOND, PLAYED, OWN)
    assert [[" ".join(step.words[:2]) for step in block] for block in blocks] == [
        ["git clone", "make setup"],
        ["gangctl sandbox"],
        [
            "gangctl controller",
            "curl -sf",
            "kubectl create",
            "kubectl apply",
            "gangctl wait",
            "gangctl get",
            "kubectl get",
        ],
        [
            "sed 's/^",
            "gangctl get",
            "kubectl delete",
            "gangctl wait",
            "kill %1",
        ],
        ["make cluster"],
        ["kubectl apply", "kubectl --namespace"],
    ]


def test_every_step_in_a_cluster_shows_what_it_prints() -> None:
    silent = {"gangctl controller", "kill %1"}
    steps = [step for step in (*SANDBOX, *EITHER) if " ".join(step.words[:2]) not in silent]
    assert [step.line for step in steps if not step.output] == []


@each("command", OFFLINE)
def test_offline_commands_work(command: str) -> None:
    arguments = shlex.split(command)[1:]
    done = subprocess.run(
        [sys.executable, "-m", "gangctl", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_controller_takes_these_flags() -> None:
    """tests/live runs the process with the same ones."""
    (command,) = [command for command in COMMANDS if command.startswith("gangctl controller")]
    context = controller.make_context("controller", shlex.split(command)[2:], **program.context_settings)
    assert context.params["leader_elect"] is False


def test_make_demo_is_gangctl_demo_and_needs_no_development_tools() -> None:
    done = subprocess.run(
        ["make", "--no-print-directory", "-n", "-B", "demo"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].endswith("-m gangctl demo")
    assert "locks/runtime.txt" in done.stdout
    assert "locks/dev.txt" not in done.stdout


def test_the_makefile_has_the_targets_of_the_readme() -> None:
    for target in ("demo", "test"):
        done = subprocess.run(
            ["make", "-n", target], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0
