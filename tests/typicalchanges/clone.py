"""Typical changes in a clone: what fails, and which of the changed files their row names."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from tests.changes import ROOT, TESTS
from tests.typicalchanges.edits import Change

_ROW: Final = re.compile(r"^\| .+ \| (?P<places>.+) \| (?P<name>[a-z-]+) \|$", flags=re.MULTILINE)
_TAIL: Final = 500
"""Characters of the output of a command that fails before a test."""
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) ([^\s@]+)", flags=re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one change."""

    unnamed: tuple[str, ...]
    """Files that the change needs, and that its row does not name."""
    failures: tuple[str, ...]
    """Tests that fail although all that the row names was done."""
    files: int
    """That a person writes."""
    cpu_seconds: float
    """Of the tests, without `make generate`."""


def places(name: str) -> str:
    """The row of CONTRIBUTING.md for a change, without what it is."""
    rows = {row["name"]: row["places"] for row in _ROW.finditer((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))}
    return rows[name]


def is_named(path: str, row: str) -> bool:
    """Whether a row names a file, its directory, or a pattern of it; paths without a top level are under gangctl/.

    >>> is_named("gangctl/gang/validate.py", "`gang/validate.py`, a case in `tests/cases.py`")
    True
    >>> is_named("docs/runbooks/X.md", "a page in `docs/runbooks/`"), is_named("docs/x.md", "`docs/runbooks/`")
    (True, False)
    >>> is_named("gangctl/manager/metrics.py", "its family in `manager/*metrics.py`")
    True
    """
    return any(
        fnmatch(path, f"{prefix}{word.rstrip('/')}{rest}")
        for word in re.findall(r"`([^`]+)`", row)
        for prefix in ("", "gangctl/")
        for rest in ("", "/*")
    )


def tracked(root: Path) -> list[str]:
    """Paths of the files that git does not ignore, committed or not."""
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
    return [path for path in listed if path and (root / path).is_file()]


class Clone:
    """A clone of the tree, with what is not committed; each change begins with the same files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._git("clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(root), cwd=ROOT)
        for path in tracked(ROOT):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, root / path)
        self._git("add", "--all")
        author = ("-c", "user.name=tests", "-c", "user.email=tests@example.com")
        self._git(*author, "commit", "--quiet", "--allow-empty", "--message", "the tree")

    def try_change(self, name: str, change: Change, *, wide: bool = False) -> Outcome:
        """Make a change, write what is derived, and run its tests, or all that need no control plane."""
        self._git("reset", "--quiet", "--hard")
        self._git("clean", "--quiet", "--force", "-d")
        for edit in change:
            edit.apply(self.root)
        self._git("add", "--all")
        written = self._git("diff", "--cached", "--name-only").split()
        row = places(name)
        failures = self.failures(*self._make("generate"))
        if "--update-golden" in row:
            commands = [path for path in TESTS[name] if path.startswith("tests/cli")]
            self.failures(sys.executable, "-m", "pytest", "-q", "-n0", *commands, "--update-golden")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        failures += self.failures(*self._make("test-pure" if wide else "test-for", f"WHAT={name}"))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return Outcome(
            tuple(path for path in written if not is_named(path, row)),
            failures,
            len(written),
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        )

    def _make(self, target: str, *variables: str) -> list[str]:
        """The target of the Makefile, with the environment of this tree and no set-up of its own."""
        made = (f"--old-file={sys.prefix}/{name}" for name in (".installed", ".checked"))
        return ["make", *made, target, f"VENV={sys.prefix}", *variables]

    def failures(self, *command: str) -> tuple[str, ...]:
        """The tests that fail; the last lines of a command that fails without one."""
        environment = {**os.environ, "PYTHONPATH": str(self.root)}
        done = subprocess.run(command, cwd=self.root, env=environment, check=False, capture_output=True, text=True)
        output = done.stdout + done.stderr
        failed = tuple(_FAILED.findall(output))
        return failed if failed or done.returncode == 0 else (output[-_TAIL:],)

    def _git(self, *arguments: str, cwd: Path | None = None) -> str:
        return subprocess.run(
            ("git", *arguments), cwd=cwd or self.root, check=True, capture_output=True, text=True
        ).stdout
