"""The tree as a release would have it, built once for each worker."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from release.build import build

ROOT = Path(__file__).parents[2]
TIME = 1_700_000_000


@dataclass(frozen=True)
class Built:
    """A copy of the files that git tracks or would add, and what was built from it."""

    tree: Path
    files: frozenset[str]
    wheel: Path
    sdist: Path


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    tree = tmp_path_factory.mktemp("release") / "tree"
    files = copy_tree(tree)
    sdist, wheel = sorted(build(tree, tree.parent / "dist", TIME), key=lambda path: path.suffix)
    return Built(tree, files, wheel, sdist)


def copy_tree(tree: Path) -> frozenset[str]:
    """What is ignored is not copied, and so not what a development leaves behind."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = frozenset(name for name in listed.split("\0") if name and (ROOT / name).is_file())
    for name in names:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tree / name)
    return names
