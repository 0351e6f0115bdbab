"""Whether the machine is quiet: what others take, and not what is measured."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.machine import CHANGED, MEASURED, Facts, Look, commit, noise
from benchmarks.session import refuse

ROOT = Path(__file__).parent.parent.parent
IMPORTED = """
import sys, pathlib, benchmarks.__main__, tests.evaluation.hostile
files = {pathlib.Path(each.__file__) for each in sys.modules.values() if getattr(each, "__file__", None)}
root = pathlib.Path.cwd()
print(*(each.relative_to(root) for each in files if each.is_relative_to(root) and ".venv" not in each.parts))
"""
BURN = "import time\nuntil = time.process_time() + 0.3\nwhile time.process_time() < until: pass"


def test_noise_is_the_busy_time_without_that_of_the_benchmark() -> None:
    before = Look(at=10, busy=1000, own=50)
    assert noise(before, Look(at=20, busy=1013, own=62), cores=2) == []
    assert noise(before, Look(at=20, busy=1015, own=62), cores=2) == [
        "others kept 0.3 of 2 cores busy for 10 s (quiet: 0.2)"
    ]
    assert noise(before, Look(at=20, busy=1015, own=62), cores=8) == []
    assert noise(before, Look(at=20, busy=1001, own=62), cores=2) == [], "clocks are coarse"
    assert noise(before, before, cores=2) == []


def test_the_time_of_ended_children_counts_for_the_benchmark() -> None:
    before = Look.now()
    subprocess.run([sys.executable, "-c", BURN], check=True)
    after = Look.now()
    assert after.own - before.own >= 0.3
    assert after.busy - before.busy >= 0.25
    assert after.at > before.at


def test_facts_of_the_machine_are_read() -> None:
    facts = Facts.gather()
    assert 1 <= facts.cores <= (os.cpu_count() or 1)
    assert facts.memory_gb > 0.1
    assert facts.kernel.startswith("Linux ")
    assert {"gangctl", "etcd", "jobset", "kubernetes-1.37", "cel-python"} <= facts.versions.keys()


def test_the_commit_and_uncommitted_changes_are_read(tmp_path: Path) -> None:
    assert commit(tmp_path) == "unknown"

    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        subprocess.run(["git", "-C", tmp_path, *identity, *arguments], check=True, capture_output=True)

    git("init")
    names = ("gangctl/a.py", "tests/live/replicas.py", "tests/live/test_a_live.py", "tests/conftest.py", "README.md")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    git("add", ".")
    git("commit", "--no-verify", "-m", "first")
    first = commit(tmp_path)
    assert len(first) == 12
    for name in names:
        (tmp_path / name).write_text("2")
        expected = first + CHANGED if name in {"gangctl/a.py", "tests/live/replicas.py"} else first
        assert commit(tmp_path) == expected, name
        git("checkout", name)
    (tmp_path / "tests/live/new.py").write_text("1")
    assert commit(tmp_path) == first + CHANGED


def test_a_change_of_anything_that_benchmarks_import_is_a_change() -> None:
    """A module that a benchmark imports from elsewhere has to be added to what is looked at."""
    ran = subprocess.run([sys.executable, "-c", IMPORTED], cwd=ROOT, check=True, capture_output=True, text=True)
    imported = set(ran.stdout.split())
    assert {"gangctl/__init__.py", "benchmarks/failover.py", "tests/live/replicas.py"} <= imported
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *MEASURED]
    looked_at = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    assert sorted(imported - set(looked_at)) == []


def test_a_benchmark_waits_for_a_quiet_machine_with_a_message() -> None:
    looks = iter([["others"], ["others"], []])
    said: list[str] = []
    assert refuse(lambda: next(looks), patience=60, say=said.append) == []
    assert said == ["waiting for a quiet machine: others"] * 2


@pytest.mark.parametrize("patience", [0.0, -1.0])
def test_the_wait_for_a_quiet_machine_ends(patience: float) -> None:
    assert refuse(lambda: ["others"], patience, say=pytest.fail) == ["others"]
