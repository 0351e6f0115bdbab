"""Lock files as uv writes them: which version of which package, the files that may be taken for it, who wanted it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROJECT: Final = "gangctl"

_PIN: Final = re.compile(r"([a-z0-9][a-z0-9.-]*)==(\S+)(?: ; .+?)?(?: \\)?$")
_HASH: Final = re.compile(r" {4}--hash=sha256:([0-9a-f]{64})(?: \\)?$")
_VIA: Final = re.compile(r" {4}#(?: via)?(?: {1,3}(?:-c \S+|([a-z0-9][a-z0-9.-]*)(?: \(.+\))?))?$")


@dataclass(frozen=True)
class Locked:
    """One package.

    ``hashes`` are the SHA-256 of each file of this version, for whichever platform; ``needed_by`` names packages, and
    ``gangctl`` itself.
    """

    name: str
    version: str
    hashes: tuple[str, ...]
    needed_by: tuple[str, ...]

    @property
    def purl(self) -> str:
        """Its package URL, which is what others know it by."""
        return f"pkg:pypi/{self.name}@{self.version}"


def read_lock(path: Path) -> list[Locked]:
    """Every package of a lock file, in its order.

    Raises ``ValueError`` with the line that is none of a lock file: what is not understood would be missing elsewhere.
    """
    found: list[Locked] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("#"):
            continue
        if pin := _PIN.match(line):
            found.append(Locked(pin[1], pin[2], (), ()))
            continue
        digest, via = _HASH.match(line), _VIA.match(line)
        if not found or (digest is None and via is None):
            raise ValueError(f"{path}:{number}: expected NAME==VERSION, a sha256 hash or a comment of uv, not {line!r}")
        last = found[-1]
        if digest is not None:
            found[-1] = Locked(last.name, last.version, (*last.hashes, digest[1]), last.needed_by)
        elif via is not None and via[1] is not None:
            found[-1] = Locked(last.name, last.version, last.hashes, (*last.needed_by, via[1]))
    return found
