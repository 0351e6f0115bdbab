"""The commit that a release is made of, and the one before it: what git says, never what happens to lie in the tree."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TAG_PATTERN: Final = "v[0-9]*"

_VERSION: Final = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """A commit: its full hash, its time in seconds since 1970, and the version that it says it is."""

    commit: str
    time: int
    version: str


def source(repository: Path, revision: str = "HEAD") -> Source:
    """What a revision is. Raises ``subprocess.CalledProcessError`` where git does not know it."""
    commit, time = _git(repository, "log", "-1", "--format=%H %ct", revision).split()
    text = _git(repository, "show", f"{commit}:gangctl/__init__.py")
    match = _VERSION.search(text)
    if match is None:
        raise ValueError(f"gangctl/__init__.py of {commit} has no line __version__ = ...")
    return Source(commit, int(time), match[1])


def export(repository: Path, commit: str, directory: Path) -> None:
    """Write the files of a commit, and no others, into a directory."""
    packed = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=repository, capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        unpack(archive, directory)


def unpack(archive: tarfile.TarFile, directory: Path) -> None:
    """Write the members of an archive of ours into a directory."""
    # Debian 12's Python 3.11.2 has no filters, and later ones warn without one.
    if hasattr(tarfile, "data_filter"):
        archive.extractall(directory, filter="data")
    else:
        archive.extractall(directory)  # noqa: S202 - git or the release made it


def previous(repository: Path) -> str:
    """The revision that people upgrade from: the newest tag of a version behind HEAD; before any tag the commit before.

    Raises ``subprocess.CalledProcessError`` where the repository has no commit before HEAD, as a shallow clone has not.
    """
    tags = _git(repository, "tag", "--list", TAG_PATTERN, "--merged", "HEAD^", "--sort=-creatordate").split()
    return tags[0] if tags else _git(repository, "rev-parse", "HEAD^").strip()


def tags_of(repository: Path, commit: str) -> list[str]:
    """The tags that point at a commit."""
    return _git(repository, "tag", "--points-at", commit).split()


def _git(repository: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=repository, capture_output=True, text=True, check=True).stdout
