"""Wheel and source distribution of a directory, with the same bytes each time, and the checksums of files."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

Kind = Literal["wheel", "sdist"]


def build(tree: Path, directory: Path, time: int, kinds: Iterable[Kind] = ("wheel", "sdist")) -> list[Path]:
    """Build into a new directory with the locked backend, sorted by name; every file inside gets ``time`` (since 1970).

    Raises ``subprocess.CalledProcessError``; what the backend has to say is on the terminal then.
    """
    targets = [word for kind in kinds for word in ("-t", kind)]
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(directory), *targets],
        cwd=tree,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(time)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return sorted(directory.iterdir())


def sha256(path: Path) -> str:
    """The checksum of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def checksums(paths: Iterable[Path]) -> str:
    """What ``sha256sum --check`` reads."""
    return "".join(f"{sha256(path)}  {path.name}\n" for path in sorted(paths))
