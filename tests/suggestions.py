"""The commands that causes suggest: which template one is made from, and what it does when a user runs it."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Final

from gangctl.readiness.causes.context import Command
from tests.cli.run import BIN, Answer
from tests.controlplane.build import ensure_binary
from tests.controlplane.minors import NEWEST

_WORD: Final = r"(?:'(?:[^']|'\"'\"')*'|[^\s'{}]+)"
"""A value, quoted where a shell needs it."""
_SUBJECTS: Final = ("pod", "job", "name", "node", "queue", "jobset")
"""Fields with the name of the object that a command is about, the most specific first."""


@cache
def _pattern(command: Command) -> re.Pattern[str]:
    parts, known = [], set[str]()
    for text, field, _, _ in Formatter().parse(command):
        parts.append(re.escape(text))
        if field:
            word = f"{_WORD}(?: {_WORD})*" if field == "workers" else _WORD
            parts.append(f"(?P={field})" if field in known else f"(?P<{field}>{word})")
            known.add(field)
    return re.compile("".join(parts))


def _anywhere(suggestion: str) -> str:
    """Without the kubeconfig of the command that suggests it."""
    return re.sub(rf" --kubeconfig {_WORD}", "", suggestion)


def command_of(suggestion: str) -> Command:
    """The one template that a suggestion is made from."""
    suggestion = _anywhere(suggestion)
    found = [each for each in Command if _pattern(each).fullmatch(suggestion)]
    assert len(found) == 1, f"{suggestion}: {found}"
    return found[0]


def subject_of(suggestion: str) -> str:
    """Name of the object that a suggestion is about, empty if it names none."""
    found = _pattern(command_of(suggestion)).fullmatch(_anywhere(suggestion))
    named: Mapping[str, str] = found.groupdict() if found is not None else {}
    return next((named[each].strip("'") for each in _SUBJECTS if each in named), "")


@dataclass(frozen=True)
class Shell:
    """A shell of a user who has kubectl, gangctl and a kubeconfig; caches of kubectl go to ``home``."""

    home: Path
    kubeconfig: Path

    async def run(self, suggestion: str) -> Answer:
        """Run a suggestion as it is printed; a failure anywhere in a pipe is one of all of it."""
        bin_ = self.home / "bin"
        bin_.mkdir(parents=True, exist_ok=True)
        if not (kubectl := bin_ / "kubectl").exists():
            kubectl.symlink_to(ensure_binary("kubectl", NEWEST))
        path = os.pathsep.join([str(bin_), str(BIN), os.environ["PATH"]])
        process = await asyncio.create_subprocess_exec(
            *("bash", "-o", "pipefail", "-c", suggestion),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"PATH": path, "HOME": str(self.home), "LANG": "C.UTF-8", "KUBECONFIG": str(self.kubeconfig)},
        )
        out, err = await process.communicate()
        assert process.returncode is not None
        return Answer(process.returncode, out.decode(), err.decode())
