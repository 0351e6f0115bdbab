"""The plugin as krew installs it: unpacked, linked, and called."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest
import yaml

from gangctl import __version__
from release.build import sha256
from release.krew import krew_archive, krew_manifest
from release.source import unpack
from tests.release.conftest import TIME, Built

pytestmark = pytest.mark.xdist_group("release")


@pytest.fixture
def archive(built: Built, tmp_path: Path) -> Path:
    path = tmp_path / f"gangctl-{__version__}-krew.tar.gz"
    krew_archive(built.tree, built.wheel, path, TIME)
    return path


def test_the_manifest_names_the_archive_and_what_is_called(archive: Path) -> None:
    plugin = yaml.safe_load(
        krew_manifest(__version__, archive, "https://files.example/v1/", "https://git.example/gangctl")
    )
    assert plugin["spec"]["homepage"] == "https://git.example/gangctl"
    (platform,) = plugin["spec"]["platforms"]
    assert (platform["uri"], platform["sha256"]) == (f"https://files.example/v1/{archive.name}", sha256(archive))
    assert plugin["spec"]["version"] == f"v{__version__}"
    with tarfile.open(archive) as packed:
        assert packed.getmember(platform["bin"]).mode == 0o755


def test_the_archive_is_reproducible(archive: Path, built: Built, tmp_path: Path) -> None:
    krew_archive(built.tree, built.wheel, tmp_path / "again", TIME)
    assert (tmp_path / "again").read_bytes() == archive.read_bytes()


def called(program: Path, path: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """With the locked packages from here: no package index is asked."""
    environment = {"PATH": path, "PIP_NO_INDEX": "1", "PYTHONPATH": sysconfig.get_path("purelib")}
    return subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, check=False)


def test_the_first_call_installs_it_and_the_next_ones_do_not(archive: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    with tarfile.open(archive) as packed:
        unpack(packed, store)
    # What is locked is installed from the index, which this test leaves out.
    (store / "runtime.txt").write_text("")
    program, programs = tmp_path / "kubectl-gang", tmp_path / "bin"
    program.symlink_to(store / "kubectl-gang")
    programs.mkdir()
    python = programs / "python3.11"
    # No link: a Python that is started by a script would look for its modules beside the link.
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    path = f"{programs}{os.pathsep}{os.defpath}"
    first = called(program, path, "--version")
    assert (first.returncode, first.stdout) == (0, f"kubectl gang {__version__}\n"), first.stderr
    assert f"installing its packages into {store}/venv, once" in first.stderr
    assert called(program, os.defpath, "--version").stderr == ""


def test_without_python_an_error_names_what_to_install(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as packed:
        unpack(packed, tmp_path)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "dirname", "readlink"):
        (programs / name).symlink_to(next(each for each in (f"/usr/bin/{name}", f"/bin/{name}") if Path(each).exists()))
    done = called(tmp_path / "kubectl-gang", str(programs), "--version")
    assert done.returncode == 2
    assert done.stderr.startswith("error: kubectl gang needs Python 3.11 to 3.14")
    assert not (tmp_path / "venv").exists()
