"""The quick start of the README: its blocks of commands, which of them follow each other, and what they print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tests.docpages import ROOT

README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
TITLE: Final = "## Quick start\n"
SECTION: Final = README.partition(TITLE)[2].partition("\n## ")[0]

_BLOCK: Final = re.compile(
    r"^```console\n(?P<console>.*?)^```$|(?P<plain>(?:^    \S[^\n]*\n)+)", re.MULTILINE | re.DOTALL
)
_PROMPT: Final = "$ "


@dataclass(frozen=True)
class Step:
    """A line as it stands there, and the lines that it prints."""

    line: str
    output: list[str] = field(default_factory=list)

    @property
    def needs(self) -> str:
        """What no test of this tree has, or nothing."""
        found = re.search(r" # needs (.+)$", self.line)
        return found[1] if found else ""

    @property
    def words(self) -> list[str]:
        """Of the command, without its comment."""
        return self.line.partition("  #")[0].split()


def _steps(block: re.Match[str]) -> Iterator[Step]:
    if block["plain"]:
        yield from (Step(line.strip()) for line in block["plain"].splitlines())
        return
    for shown in re.split(rf"^{re.escape(_PROMPT)}", block["console"], flags=re.MULTILINE)[1:]:
        line, *output = shown.splitlines()
        yield Step(line, output)


BLOCKS: Final = [list(_steps(block)) for block in _BLOCK.finditer(SECTION)]
CLONE, SANDBOX, FIRST, SECOND, PLAYED, OWN = BLOCKS
"""To have it; a simulated cluster; a gang, and another, in any cluster; this repository's cluster; a person's own."""

EITHER: Final = [*FIRST, *SECOND]
"""What follows in any cluster."""
