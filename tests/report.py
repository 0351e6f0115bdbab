"""
Run both tiers, and write down what that showed: `make test-full`, docs/test-report.md.

The report says what was run where and when: commit, versions, counts, durations, and what was skipped and why. It is
committed, and at most a release old (docs/releasing.md).
"""

from __future__ import annotations

import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from tests.controlplane.binaries import COMPONENTS

ROOT: Final = Path(__file__).parent.parent
REPORT: Final = ROOT / "docs" / "test-report.md"
SLOWEST: Final = 40
INTRODUCTION: Final = """\
The last run of `make test-full`: every test of both tiers, on every Kubernetes minor. `python -m tests.report` writes
this page; [reliability.md](reliability.md) says which promise is proved in which tier."""


@dataclass(frozen=True)
class Ran:
    """One test of the run."""

    name: str
    area: str
    tier: str
    outcome: str
    seconds: float
    reason: str = ""


def read(junit: Path) -> list[Ran]:
    """The tests of a run, from pytest's JUnit file."""
    return [_ran(case) for case in ET.parse(junit).getroot().iter("testcase")]


def _ran(case: ET.Element) -> Ran:
    outcome, reason = "passed", ""
    for kind in ("skipped", "failure", "error"):
        if (found := case.find(kind)) is not None:
            outcome, reason = ("failed" if kind != "skipped" else kind), found.get("message", "")
    properties = {each.get("name"): each.get("value", "") for each in case.iter("property")}
    module = case.get("classname", "").removeprefix("tests.")
    return Ran(
        name=f"{module}::{case.get('name')}",
        area=module.partition(".")[0],
        tier=properties.get("tier") or "first",
        outcome=outcome,
        seconds=float(case.get("time", 0)),
        reason=reason,
    )


def render(tests: Sequence[Ran], *, facts: Sequence[tuple[str, str]], mutation: str) -> str:
    """The page."""
    counts = Counter((test.tier, test.outcome) for test in tests)
    outcomes = ("passed", "failed", "skipped")
    tiers = [
        [
            tier,
            *(str(counts[tier, outcome]) for outcome in outcomes),
            _minutes(t.seconds for t in tests if t.tier == tier),
        ]
        for tier in ("first", "full")
    ]
    areas: dict[str, list[Ran]] = defaultdict(list)
    for test in tests:
        areas[test.area].append(test)
    by_time = sorted(areas.items(), key=lambda pair: -sum(test.seconds for test in pair[1]))
    skips = Counter(test.reason for test in tests if test.outcome == "skipped")
    slowest = sorted(tests, key=lambda test: -test.seconds)[:SLOWEST]
    parts = [
        "# Test report",
        INTRODUCTION,
        _table(["", ""], [list(fact) for fact in facts]),
        "## Tiers",
        "Minutes are summed over the workers.",
        _table(["tier", *outcomes, "minutes"], tiers),
        "## Skipped",
        _table(["reason", "tests"], [[reason, str(n)] for reason, n in skips.most_common()]) if skips else "Nothing.",
        "## Areas",
        _table(
            ["directory of tests/", "tests", "minutes"],
            [[area, str(len(ran)), _minutes(test.seconds for test in ran)] for area, ran in by_time],
        ),
        f"## The {SLOWEST} slowest tests",
        _table(["test", "seconds"], [[f"`{test.name}`", f"{test.seconds:.0f}"] for test in slowest]),
        "## Mutation score",
        mutation,
    ]
    return "\n\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in lines
    )


def _minutes(seconds: Iterable[float]) -> str:
    return f"{sum(seconds) / 60:.1f}"


def _facts(seconds: float, workers: int) -> list[tuple[str, str]]:
    commit = _output("git", "describe", "--always", "--abbrev=12", "--dirty")
    released = {name: part.version for name, part in COMPONENTS.items() if part.packages}
    return [
        ("date", f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"),
        ("commit", f"`{commit}`"),
        (
            "machine",
            f"{_output('nproc')} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}",
        ),
        ("duration", f"{seconds / 60:.0f} minutes with {workers} workers"),
        ("versions", ", ".join(f"{name} {version}" for name, version in released.items())),
    ]


def _output(*command: str) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _mutation() -> str:
    """What the mutation run prints; it fails where a mutant survives, which is no failure of this one."""
    command = [sys.executable, "-m", "tests.mutation", "--count", "100"]
    printed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False).stdout
    return f"```\n{printed.strip()}\n```"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything; further arguments are pytest's. The exit code is pytest's."""
    further = list(sys.argv[1:] if arguments is None else arguments)
    workers = 2
    with tempfile.TemporaryDirectory() as directory:
        junit = Path(directory) / "junit.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "--full",
            "-n",
            str(workers),
            "--durations=40",
            f"--junitxml={junit}",
        ]
        began = time.monotonic()
        status = subprocess.run([*command, *further], cwd=ROOT, check=False).returncode
        tests = read(junit)
    seconds = time.monotonic() - began
    mutation = _mutation() if status == 0 else "Not measured: tests failed."
    REPORT.write_text(render(tests, facts=_facts(seconds, workers), mutation=mutation))
    sys.stderr.write(f"wrote {REPORT.relative_to(ROOT)}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
