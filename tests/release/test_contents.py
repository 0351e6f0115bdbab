"""What is in the wheel and in the source distribution, and that both come out the same each time."""

from __future__ import annotations

import os
import shutil
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from gangctl import __version__
from release.build import build, sha256
from release.source import unpack
from tests.release.conftest import TIME, Built

pytestmark = pytest.mark.xdist_group("release")

PREFIX = f"gangctl-{__version__}/"


def names(sdist: Path) -> set[str]:
    with tarfile.open(sdist) as archive:
        return {member.name.removeprefix(PREFIX) for member in archive.getmembers() if member.isfile()}


def below(files: frozenset[str], *places: str) -> set[str]:
    return {name for name in files if name.startswith(places)}


def test_files_are_named_after_the_version(built: Built) -> None:
    assert [path.name for path in (built.wheel, built.sdist)] == [
        f"gangctl-{__version__}-py3-none-any.whl",
        f"gangctl-{__version__}.tar.gz",
    ]


def test_the_wheel_is_the_package_and_nothing_else(built: Built) -> None:
    with zipfile.ZipFile(built.wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert found == below(built.files, "gangctl/")
    assert "gangctl/py.typed" in found


def test_the_source_distribution_has_only_the_listed_files(built: Built) -> None:
    places = ("gangctl/", "manifests/", "charts/", "policies/", "grafana/dashboards/", "examples/", "docs/", "locks/")
    files = {
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "SECURITY.md",
        "Containerfile",
        ".containerignore",
        "pyproject.toml",
    }
    made = {"PKG-INFO", ".gitignore"}
    assert names(built.sdist) == below(built.files, *places) | files | made


def test_untracked_files_are_in_neither_distribution(built: Built, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(built.tree, tree)
    for name in (
        "gangctl/__pycache__/cli.cpython-311.pyc",
        "policies/.mypy_cache/x.json",
        "dist/old.whl",
        ".venv/x.py",
    ):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("left behind", encoding="utf-8")
    again = build(tree, tmp_path / "dist", TIME)
    assert [sha256(path) for path in again] == [sha256(path) for path in (built.wheel, built.sdist)]


def test_builds_are_reproducible(built: Built, tmp_path: Path) -> None:
    tree = tmp_path / "somewhere" / "else"
    shutil.copytree(built.tree, tree, copy_function=shutil.copyfile)
    later = time.time() + 86_400
    for path in tree.rglob("*.py"):
        path.chmod(0o600)
        os.utime(path, (later, later))
    again = build(tree, tmp_path / "dist", TIME)
    assert [sha256(path) for path in again] == [sha256(path) for path in (built.wheel, built.sdist)]


def test_the_commit_time_changes_the_bytes(built: Built, tmp_path: Path) -> None:
    (wheel,) = build(built.tree, tmp_path, TIME + 2, ["wheel"])
    assert sha256(wheel) != sha256(built.wheel)


def test_the_wheel_of_the_source_distribution_is_the_wheel_of_the_tree(built: Built, tmp_path: Path) -> None:
    with tarfile.open(built.sdist) as archive:
        unpack(archive, tmp_path)
    (wheel,) = build(tmp_path / PREFIX, tmp_path / "dist", TIME, ["wheel"])
    assert sha256(wheel) == sha256(built.wheel)
