"""The pages that people read: every Markdown file of the repository, what it links to, and what it has them run."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from tests.docpages import ROOT

_FENCE: Final = re.compile(r"^( *)(`{3,})([\w-]*)\n(.*?)^\1\2 *$", flags=re.MULTILINE | re.DOTALL)
_SHELLS: Final = frozenset({"", "sh", "shell", "bash"})
_NO_COMMANDS: Final = re.compile(r"\$ (gangctl .*)")
"""Commands that an output proposes have a prompt before them."""


class Link(NamedTuple):
    """A relative link: the file that it leads to, and the anchor in it or nothing."""

    path: Path
    anchor: str


@dataclass(frozen=True)
class Text:
    """One page; ``name`` is its path below the repository."""

    name: str

    @property
    def path(self) -> Path:
        """Where it is."""
        return ROOT / self.name

    @cached_property
    def whole(self) -> str:
        """As it is written."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def prose(self) -> str:
        """Without what is fenced."""
        return _FENCE.sub("", self.whole)

    @property
    def anchors(self) -> set[str]:
        """Of its headings, as GitHub makes them, those that come twice with a number."""
        found: dict[str, int] = {}
        anchors = set()
        for heading in re.findall(r"^#{1,6} +(.+?) *#*$", self.prose, flags=re.MULTILINE):
            anchor = anchor_of(heading)
            times = found[anchor] = found.get(anchor, -1) + 1
            anchors.add(f"{anchor}-{times}" if times else anchor)
        return anchors

    @property
    def links(self) -> list[Link]:
        """Relative ones."""
        targets = re.findall(r"\]\(([^()\s]+)\)", re.sub(r"`[^`\n]+`", "", self.prose))
        return [self._link(target) for target in targets if not re.match(r"[a-z][a-z+.-]*:", target)]

    def _link(self, target: str) -> Link:
        path, _, anchor = target.partition("#")
        return Link((self.path.parent / path).resolve() if path else self.path, anchor)

    @property
    def commands(self) -> list[str]:
        """Lines of a shell: of indented and fenced blocks, whole where a backslash continues them.

        A console shows what they print; they stand behind its prompts.
        """
        return [line for block in self._blocks() for line in _lines(block)]

    def _blocks(self) -> Iterator[str]:
        for _, _, language, block in _FENCE.findall(self.whole):
            if language in _SHELLS:
                yield block
            elif language == "console":
                yield "\n".join(re.findall(r"^\$ (.*)$", block, flags=re.MULTILINE))
            else:
                yield "\n".join(_NO_COMMANDS.findall(block))
        yield "\n".join(re.findall(r"^(?: {4,}|\t)(\S.*)$", self.prose, flags=re.MULTILINE))

    @property
    def mentions(self) -> list[str]:
        """What stands in backticks within sentences."""
        return re.findall(r"(?<!`)`([^`\n]+)`(?!`)", self.prose)


def anchor_of(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def _lines(block: str) -> Iterator[str]:
    whole = ""
    for line in block.splitlines():
        whole += line.strip()
        if whole.endswith("\\"):
            whole = whole[:-1]
            continue
        if whole:
            yield whole
        whole = ""


def texts() -> list[Text]:
    """Every Markdown file that is, or is about to be, part of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [Text(name) for name in sorted(set(listed.stdout.splitlines())) if (ROOT / name).exists()]
