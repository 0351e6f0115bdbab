"""The quick start of the README: its blocks of commands, and which of them follow each other."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from tests.docpages import ROOT

README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
TITLE: Final = "## Quick start\n"
SECTION: Final = README.partition(TITLE)[2].partition("\n## ")[0]


@dataclass(frozen=True)
class Step:
    """A line as it stands there; ``needs`` is what no test of this tree has, or nothing."""

    line: str
    needs: str

    @property
    def words(self) -> list[str]:
        """Of the command, without its comment."""
        return self.line.partition("  #")[0].split()


def _step(line: str) -> Step:
    return Step(line, (re.findall(r" # needs (.+)$", line) or [""])[0])


BLOCKS: Final = [
    [_step(line.strip()) for line in lines]
    for indented, lines in groupby(SECTION.splitlines(), key=lambda line: line.startswith("    "))
    if indented
]
CLONE, OWN, PLAYED, EITHER = BLOCKS
"""To have it, a person's own cluster, this repository's, and what follows in either."""
