"""promtool of Prometheus 2: apt-get fetches Debian's package, of which nothing is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.controlplane.binaries import BIN_VARIABLE, MissingBinary, cache_root

NAME: Final = "promtool-2"
PACKAGE: Final = "prometheus=2.*"


def find_promtool_2() -> Path | None:
    """The binary, if it is there."""
    named = os.environ.get(BIN_VARIABLE)
    for path in [*([Path(named) / NAME] if named else []), _cached()]:
        if os.access(path, os.X_OK) and path.is_file():
            return path.resolve()
    return None


def _cached() -> Path:
    return cache_root() / "debian" / NAME


def ensure_promtool_2() -> Path:
    """The binary, fetched first if need be; Debian signs what apt-get fetches."""
    if found := find_promtool_2():
        return found
    cached = _cached()
    if missing := [program for program in ("apt-get", "dpkg-deb") if shutil.which(program) is None]:
        raise MissingBinary(
            f"promtool of Prometheus 2 is missing: {' and '.join(missing)} would fetch Debian's package prometheus; "
            f"or put it at ${BIN_VARIABLE}/{NAME} (now {os.environ.get(BIN_VARIABLE) or 'unset'})"
        )
    with tempfile.TemporaryDirectory() as directory:
        _fetch(Path(directory))
        cached.parent.mkdir(parents=True, exist_ok=True)
        partial = cached.with_name(f"{NAME}.partial-{os.getpid()}")
        shutil.copy2(Path(directory) / "package" / "usr" / "bin" / "promtool", partial)
        partial.replace(cached)
    return cached


def _fetch(directory: Path) -> None:
    # Lists of its own, where the machine's are old or missing: only root may write those.
    own = [f"-oDir::State::Lists={directory}/lists", f"-oDir::Cache={directory}/cache"]
    if _run(directory, "apt-get", "-q", "download", PACKAGE):
        for place in ("lists/partial", "cache/archives/partial"):
            (directory / place).mkdir(parents=True)
        for command in (("update",), ("download", PACKAGE)):
            if error := _run(directory, "apt-get", "-q", *own, *command):
                raise MissingBinary(f"fetching promtool of Prometheus 2 failed: apt-get {command[0]}\n{error}")
    (package,) = directory.glob("*.deb")
    if error := _run(directory, "dpkg-deb", "-x", str(package), "package"):
        raise MissingBinary(f"unpacking {package.name} failed\n{error}")


def _run(directory: Path, *command: str) -> str:
    """Its last words if it fails."""
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    return "\n".join(f"{done.stdout}{done.stderr}".splitlines()[-10:]) or "failed" if done.returncode else ""
