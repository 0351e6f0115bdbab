"""Debian's Pythons with all that they link to: fetched by apt-get and unpacked into the cache, nothing is installed.

A Python of another release of Debian than the machine's needs another C library. So each has its own, and is started
by its own dynamic linker, through a script of the name that it has.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tests.controlplane.binaries import cache_root

SUITES: Final = {"3.11": "bookworm", "3.13": "sid", "3.14": "sid"}
"""The release of Debian that has a Python: 3.12 is in none that is served. 3.11 is 3.11.2, for as long as Debian 12."""
_KEYRING: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"
_LAUNCHER: Final = """\
#!/bin/sh
exec {linker} --library-path {libraries} --argv0 "$0" {program} "$@"
"""


class MissingPython(Exception):  # noqa: N818 - it states what is the matter
    """There is no such Python, and none can be had."""


def ensure_python(version: str) -> Path:
    """The interpreter of a version such as ``3.14``, fetched first if need be."""
    directory = cache_root() / "pythons" / f"debian-{version}"
    directory.parent.mkdir(parents=True, exist_ok=True)
    program = directory / "usr" / "bin" / f"python{version}"
    with (directory.parent / f".{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            shutil.rmtree(directory, ignore_errors=True)
            _fetch(version, directory)
    return program


def _fetch(version: str, directory: Path) -> None:
    if missing := [each for each in ("apt-get", "dpkg-deb") if shutil.which(each) is None]:
        raise MissingPython(f"Python {version}: {' and '.join(missing)} would fetch Debian's package")
    partial = directory.with_name(f"{directory.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    for place in ("lists/partial", "cache/archives/partial"):
        (partial / "apt" / place).mkdir(parents=True)
    apt = partial / "apt"
    source = f"deb [signed-by={_KEYRING}] {_mirror()} {SUITES[version]} main\n"
    (apt / "sources.list").write_text(source, encoding="ascii")
    options = {
        "Dir::State::Lists": apt / "lists",
        "Dir::Cache": apt / "cache",
        "Dir::Etc::SourceList": apt / "sources.list",
        "Dir::Etc::SourceParts": os.devnull,
        # As if nothing were installed: all that it links to is fetched, too.
        "Dir::State::status": os.devnull,
        "Debug::NoLocking": "1",
        "APT::Sandbox::User": "root",
    }
    own = [f"-o{name}={value}" for name, value in options.items()]
    wanted = ["--yes", "--download-only", "--no-install-recommends", "install", f"python{version}-venv"]
    for arguments in (["update"], wanted):
        _run("apt-get", "-q", *own, *arguments)
    for package in (apt / "cache" / "archives").glob("*.deb"):
        _run("dpkg-deb", "-x", str(package), str(partial))
    shutil.rmtree(apt)
    _relocate(version, partial, directory)
    partial.rename(directory)


def _relocate(version: str, root: Path, directory: Path) -> None:
    """Make it run from ``directory``, to which ``root`` is renamed when all is done."""
    program = root / "usr" / "bin" / f"python{version}"
    program.rename(program.with_name(f"{program.name}.elf"))
    (linker,) = root.glob("**/*-linux-gnu/ld-linux-*.so.*")
    triple = linker.parent.name
    libraries = ":".join(f"{directory}/{lib}/{triple}" for lib in ("lib", "usr/lib"))
    places = [directory / path.relative_to(root) for path in (linker, program)]
    launcher = _LAUNCHER.format(linker=places[0], libraries=libraries, program=f"{places[1]}.elf")
    program.write_text(launcher, encoding="utf-8")
    program.chmod(0o755)
    wheels = "/usr/share/python-wheels"
    for variables in (root / "usr" / "lib" / f"python{version}").glob("_sysconfigdata_*.py"):
        text = variables.read_text(encoding="utf-8")
        variables.write_text(text.replace(f"'{wheels}", f"'{directory}{wheels}"), encoding="utf-8")


def _mirror() -> str:
    """Where the machine has its packages of Debian from."""
    targets = _run("apt-get", "indextargets", "--format", "$(REPO_URI)")
    mirrors = [line for line in dict.fromkeys(targets.split()) if line.rstrip("/").endswith("/debian")]
    if not mirrors:
        raise MissingPython("apt-get has no mirror of Debian among its sources")
    return mirrors[0]


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingPython(f"{' '.join(command)} failed: {(done.stderr or done.stdout).strip()[-400:]}")
    return done.stdout
