"""A typical change as data: which text of which file becomes what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class AnchorError(Exception):
    """The text that an edit is about is not in its file exactly once."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A text beside an anchor; without an anchor the whole of a new file."""

    path: str
    text: str
    after: str = ""
    before: str = ""
    instead_of: str = ""

    @property
    def anchor(self) -> str:
        """The text that is in the file; empty for a new file."""
        return self.after or self.before or self.instead_of

    def apply(self, root: Path) -> None:
        """Write the file; an anchor has to be there once."""
        file, anchor = root / self.path, self.anchor
        if not anchor:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self.text, encoding="utf-8")
            return
        old = file.read_text(encoding="utf-8")
        if old.count(anchor) != 1:
            raise AnchorError(f"{self.path} has {old.count(anchor)} times: {anchor}")
        new = {self.after: anchor + self.text, self.before: self.text + anchor, self.instead_of: self.text}
        file.write_text(old.replace(anchor, new[anchor]), encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Copy:
    """The files of a directory under another name, in which each old word is a new one."""

    source: str
    path: str
    words: Sequence[tuple[str, str]]

    def apply(self, root: Path) -> None:
        """Copy them."""
        for file in sorted((root / self.source).rglob("*")):
            if file.is_file():
                text = file.read_text(encoding="utf-8")
                for old, new in self.words:
                    text = text.replace(old, new)
                target = root / self.path / file.relative_to(root / self.source)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text, encoding="utf-8")


Change = Sequence[Edit | Copy]
