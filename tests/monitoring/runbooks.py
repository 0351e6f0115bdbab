"""The pages under docs/runbooks, one per alert, and their index.

python -m tests.monitoring.runbooks
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.monitoring.rulefiles import RUNBOOKS, Rule, alerts, paths

INDEX: Final = RUNBOOKS / "README.md"
HEADINGS: Final = ("Meaning", "Impact", "Diagnosis", "Mitigation")

_TITLES: Final = {"gangs": "Gangs", "policies": "Policies", "process": "gangctl itself", "queues": "Queues of Kueue"}
_HEADER: Final = """\
# Runbooks

One page for each alert of [manifests/monitoring](../monitoring.md). If users are blocked and you do not know the
cause: [break-glass](break-glass.md).

`critical` pages the person on call at any hour. `warning` can wait until the morning; most warnings are for the
tenant. `info` needs no action.
"""


@dataclass(frozen=True)
class Runbook:
    """One page."""

    name: str
    text: str

    @property
    def headings(self) -> tuple[str, ...]:
        """Of the second level, in their order."""
        return tuple(re.findall(r"^## (.+)$", self.text, flags=re.MULTILINE))

    def commands(self, program: str) -> list[list[str]]:
        """Command lines of a program, without its name, to be run as they are."""
        return _of(program, self._block_lines("sh"))

    def mentions(self, program: str) -> list[list[str]]:
        """Commands within sentences, which may lack their arguments."""
        return _of(program, re.findall(r"`([^`\n]+)`", _without_blocks(self.text)))

    @property
    def unknown_lines(self) -> list[str]:
        """Lines of shell blocks that run something else than gangctl and kubectl."""
        return [line for line in self._block_lines("sh") if not re.match(r"(gangctl|kubectl) ", line)]

    @property
    def expressions(self) -> list[str]:
        """PromQL, one on each line."""
        return self._block_lines("promql")

    @property
    def flags(self) -> set[str]:
        """Flags of the controller that sentences name: in backquotes, without a command before them."""
        return set(re.findall(r"`(--[a-z-]+)", _without_blocks(self.text)))

    def _block_lines(self, language: str) -> list[str]:
        blocks = re.findall(rf"^ *```{language}\n(.*?)^ *```$", self.text, flags=re.MULTILINE | re.DOTALL)
        return [line.strip() for block in blocks for line in block.splitlines() if line.strip()]


def runbook(name: str) -> Runbook:
    """The page of one alert."""
    return Runbook(name, (RUNBOOKS / f"{name}.md").read_text(encoding="utf-8"))


def render() -> str:
    """The text of the index."""
    return "\n".join([_HEADER, *_tables()])


def _tables() -> Iterator[str]:
    for path in sorted(paths(), key=lambda path: list(_TITLES).index(path.stem) if path.stem in _TITLES else 0):
        rows = [_row(rule) for rule in alerts() if rule.path == path]
        if rows:
            yield f"## {_TITLES[path.stem]}\n"
            yield "\n".join(["| alert | severity | after | |", "|---|---|---|---|", *rows]) + "\n"


def _row(rule: Rule) -> str:
    link = f"[{rule.name}]({rule.name}.md)"
    return f"| {link} | {rule.labels['severity']} | {_after(rule)} | {rule.annotations['summary']} |"


def _after(rule: Rule) -> str:
    """How long what it is about has lasted: what its expression asks for, and ``for``."""
    lasted = re.match(r"time\(\) - min .*?\) > (\d+)$", rule.expression, flags=re.MULTILINE | re.DOTALL)
    if lasted is None:
        return rule.wait
    return f"{int(lasted[1]) // 60 + int(rule.wait.removesuffix('m'))}m"


def _of(program: str, lines: list[str]) -> list[list[str]]:
    return [shlex.split(line)[1:] for line in lines if line.startswith(f"{program} ")]


def _without_blocks(text: str) -> str:
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)


if __name__ == "__main__":
    INDEX.write_text(render(), encoding="utf-8")
