"""The Containerfile as instructions, stage by stage."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PATH: Final = Path(__file__).parents[2] / "Containerfile"

_VARIABLE: Final = re.compile(r'(\w[\w.]*)=("[^"]*"|\S+)')


@dataclass(frozen=True)
class Instruction:
    """``USER 65532`` is the word ``USER`` and the rest."""

    word: str
    rest: str


def instructions(text: str) -> list[Instruction]:
    """Without comments, a line that is continued as one."""
    lines = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    found = [line.split(maxsplit=1) for line in lines.replace("\\\n", " ").splitlines() if line.strip()]
    return [Instruction(word, " ".join(rest.split())) for word, rest in found]


def stages(text: str) -> list[list[Instruction]]:
    """What stands before the first FROM, and each stage from its FROM on."""
    found: list[list[Instruction]] = [[]]
    for each in instructions(text):
        if each.word == "FROM":
            found.append([])
        found[-1].append(each)
    return found


def values(stage: list[Instruction], word: str) -> list[str]:
    """The arguments of each instruction of this word."""
    return [each.rest for each in stage if each.word == word]


def variables(stage: list[Instruction], word: str) -> dict[str, str]:
    """The variables of ENV, LABEL or ARG."""
    pairs = [pair for rest in values(stage, word) for pair in _VARIABLE.findall(rest)]
    return {name: value.strip('"') for name, value in pairs}


def commands(stage: list[Instruction]) -> list[str]:
    """Every command of its RUN instructions."""
    return [command.strip() for rest in values(stage, "RUN") for command in rest.split("&&")]
