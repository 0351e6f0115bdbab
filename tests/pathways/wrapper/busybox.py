"""
busybox for the tests of the wrapper: from PATH, or Debian's static build, kept in the cache.

Nothing is installed: `apt-get download` needs no root, and `dpkg-deb -x` unpacks beside the control plane's binaries.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = "busybox-static"
_SECONDS = 300


class MissingShell(Exception):  # noqa: N818 - it states what is the matter, as the standard library's LookupErrors do
    """There is no busybox, and none can be had."""


def ensure_busybox() -> Path:
    """The program, fetched first if need be; test workers that start together wait for one of them."""
    if (found := shutil.which("busybox")) is not None:
        return Path(found)
    program = _cache() / "busybox"
    with (program.parent / ".lock").open("w") as lock:
        fcntl.flock(lock.fileno(), fcntl.LOCK_EX)
        if not program.exists():
            _fetch(program)
    return program


def ensure_applets(program: Path) -> Path:
    """A directory in which every command is busybox's, as in an image that has nothing else."""
    # Links to one program: another one has other links.
    applets = _cache() / f"applets-{hashlib.sha256(bytes(program)).hexdigest()[:12]}"
    if not applets.exists():
        partial = Path(tempfile.mkdtemp(dir=applets.parent))
        _run([str(program), "--install", "-s", str(partial)])
        try:
            partial.rename(applets)
        except OSError:
            # Another test worker was faster.
            shutil.rmtree(partial)
    return applets


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    directory = Path(home) / "gangctl" / "busybox"
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _fetch(program: Path) -> None:
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise MissingShell(f"busybox is not on PATH, and without {tool} Debian's {PACKAGE} cannot be fetched")
    with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
        _run(["apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", PACKAGE], scratch)
        (package,) = Path(scratch).glob("*.deb")
        _run(["dpkg-deb", "-x", str(package), "unpacked"], scratch)
        # The name shows up only when the file is whole.
        (Path(scratch) / "unpacked" / "bin" / "busybox").rename(program)


def _run(command: list[str], directory: str = ".") -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode:
        raise MissingShell(f"{' '.join(command)} exited with {done.returncode}: {done.stderr.strip()[-400:]}")


def main() -> int:
    """Fetch it ahead of time; without it a message is printed, and only CI fails."""
    try:
        sys.stdout.write(f"{ensure_busybox()}\n")
    except (MissingShell, OSError, subprocess.SubprocessError) as missing:
        sys.stderr.write(f"no busybox, its tests will be skipped: {missing}\n")
        return 1 if os.environ.get("CI") else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
