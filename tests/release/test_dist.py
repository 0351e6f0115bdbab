"""What ``make dist`` leaves in dist/: files that belong together, and the checksums that say so."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from gangctl import __version__
from release.__main__ import write
from release.build import sha256
from release.lock import read_lock
from release.source import Source
from tests.release.conftest import TIME, Built

pytestmark = pytest.mark.xdist_group("release")

COMMIT = "ab" * 20


@pytest.fixture(scope="module")
def dist(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("dist") / "dist"
    written = write(
        Source(COMMIT, TIME, __version__), built.tree, directory, read_lock(built.tree / "locks" / "runtime.txt")
    )
    assert {*written} == {*directory.iterdir()}
    return directory


def test_there_are_four_files(dist: Path) -> None:
    stem = f"gangctl-{__version__}"
    assert {path.name for path in dist.iterdir()} == {
        f"{stem}-py3-none-any.whl",
        f"{stem}.tar.gz",
        f"{stem}.cdx.json",
        "SHA256SUMS",
    }


def test_checksums_are_those_of_all_the_others(dist: Path) -> None:
    command = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    said = subprocess.run(command, cwd=dist, capture_output=True, text=True, check=True).stdout
    assert said.count(": OK\n") == len(said.splitlines()) == 3


def test_a_file_that_was_changed_is_noticed(dist: Path, tmp_path: Path) -> None:
    for path in dist.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes() + (b"x" if path.suffix == ".whl" else b""))
    command = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 1


def test_the_bill_names_the_files_beside_it_and_the_commit(dist: Path) -> None:
    about = json.loads((dist / f"gangctl-{__version__}.cdx.json").read_text(encoding="utf-8"))["metadata"]
    files = {each["url"]: each["hashes"][0]["content"] for each in about["component"]["externalReferences"]}
    assert files == {path.name: sha256(path) for path in dist.iterdir() if path.suffix in {".whl", ".gz"}}
    assert about["properties"] == [{"name": "gangctl:commit", "value": COMMIT}]
