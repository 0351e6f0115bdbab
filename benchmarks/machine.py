"""The machine that is measured on: what it is, and whether anybody else is at work on it."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import time
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final, Self

from gangctl import __version__
from tests.controlplane.binaries import COMPONENTS

QUIET_SHARE: Final = 0.1
"""Of all cores that others may keep busy."""
CHANGED: Final = ", with changes"
"""What a commit ends with from which the work tree differs."""
MEASURED: Final = (
    *("gangctl", "benchmarks/*.py", "benchmarks/data", "manifests", "policies", "locks"),
    # Most benchmarks are made of what tests use: control planes, replicas, JobSets. Tests themselves are no part.
    *("tests", ":(exclude,glob)tests/**/test_*.py", ":(exclude,glob)tests/**/conftest.py"),
)
"""Patterns of git for all files that a number depends on."""
LOOK_SECONDS: Final = 3.0
_ROOT: Final = Path(__file__).parent.parent
_COMPONENTS: Final = ("etcd", "kubernetes-1.37", "kubernetes-1.36", "kubernetes-1.35", "jobset", "kueue")
_LIBRARIES: Final = ("cel-python",)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a reader has to know to make anything of a number."""

    cores: int
    processor: str
    memory_gb: float
    kernel: str
    python: str
    versions: dict[str, str]
    """Of gangctl, of what it is measured beside, and of the CEL engines that are installed."""
    commit: str
    load_start: float

    @classmethod
    def gather(cls) -> Self:
        """As it is now."""
        fields = _fields(Path("/proc/meminfo"))
        return cls(
            cores=len(os.sched_getaffinity(0)),
            processor=_fields(Path("/proc/cpuinfo")).get("model name", platform.machine()),
            memory_gb=round(int(fields["MemTotal"].split()[0]) / 1024**2, 1),
            kernel=f"{platform.system()} {platform.release()}",
            python=platform.python_version(),
            versions={"gangctl": __version__, **_installed(), **{n: COMPONENTS[n].version for n in _COMPONENTS}},
            commit=commit(_ROOT),
            load_start=os.getloadavg()[0],
        )


def commit(root: Path) -> str:
    """The commit of a work tree, and whether what is measured differs from it."""

    def git(*arguments: str) -> str:
        ran = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=False)
        return ran.stdout.strip() if ran.returncode == 0 else ""

    found = git("rev-parse", "--short=12", "HEAD")
    changed = git("status", "--porcelain", "--untracked-files=all", "--", *MEASURED)
    return f"{found}{CHANGED}" if found and changed else found or "unknown"


def _fields(path: Path) -> dict[str, str]:
    """``name: value`` lines; the first of each name."""
    found: dict[str, str] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    return found


def _installed() -> dict[str, str]:
    return {name: metadata.version(name) for name in _LIBRARIES if _has(name)}


def _has(distribution: str) -> bool:
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Look:
    """Seconds of CPU since the machine started, at one moment."""

    at: float
    busy: float
    """Of all cores, stolen ones included."""
    own: float
    """Of this process and of those that it started and that have ended."""

    @classmethod
    def now(cls) -> Self:
        """From Linux' /proc/stat."""
        columns = [int(each) for each in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]]
        user, nice, system, _, _, interrupts, soft, stolen = columns
        busy = (user + nice + system + interrupts + soft + stolen) / os.sysconf("SC_CLK_TCK")
        used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return cls(time.monotonic(), busy, sum(each.ru_utime + each.ru_stime for each in used))


def noise(before: Look, after: Look, cores: int) -> list[str]:
    """What is against calling the machine quiet between two looks; empty if it was."""
    seconds = after.at - before.at
    others = max(0.0, (after.busy - before.busy) - (after.own - before.own)) / seconds if seconds > 0 else 0.0
    if others <= QUIET_SHARE * cores:
        return []
    return [f"others kept {others:.1f} of {cores} cores busy for {seconds:.0f} s (quiet: {QUIET_SHARE * cores:.1f})"]


def look_around(seconds: float = LOOK_SECONDS) -> list[str]:
    """Do nothing for a moment, and say who does not; empty if the machine is quiet."""
    before = Look.now()
    time.sleep(seconds)
    return noise(before, Look.now(), len(os.sched_getaffinity(0)))
