"""Containers without a container engine: a command as process 1 of a PID namespace, with a shell of our choice."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from gangctl.pathways.flags.userpod import Shell, wrapped

CHILD = f"{sys.executable} -I -S {Path(__file__).with_name('child.py')}"
PATIENCE_SECONDS = 300.0

_NAMESPACES = ("--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_WAYS = ((), ("--user", "--map-root-user"))
"""How unshare can be called: as root, or as any user where user namespaces are allowed."""

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


@dataclass(frozen=True)
class Image:
    """What a container has: which variant it is started with, and what ``/bin/sh`` is in it."""

    name: str
    shell: Shell
    sh: Path | None = None
    path: str = ""
    """In place of PATH."""


@cache
def way_in() -> tuple[str, ...] | None:
    """Flags with which unshare makes namespaces on this machine; None if it does not."""
    for way in _WAYS:
        command = ["unshare", *way, *_NAMESPACES, "true"]
        with contextlib.suppress(FileNotFoundError):
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                return way
    return None


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """What the kubelet makes of an element of ``command``: known references replaced, ``$$`` halved."""

    def replacement(match: re.Match[str]) -> str:
        return "$" if match[1] is None else variables.get(match[1], match[0])

    return _REFERENCE.sub(replacement, text)


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.005)


@dataclass
class Container:
    """A running command and the directory that it works in."""

    process: subprocess.Popen[str]
    directory: Path
    isolated: bool
    _first: int = field(default=0)

    @property
    def first(self) -> int:
        """The first process, by the number that it has outside."""
        if not self._first:
            until(self._find, "the first process")
        return self._first

    def _find(self) -> bool:
        pid = self.process.pid
        if self.isolated:
            with contextlib.suppress(FileNotFoundError, ValueError):
                (pid,) = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split())
                self._first = pid
        else:
            self._first = pid
        return bool(self._first)

    def send(self, number: signal.Signals = signal.SIGTERM) -> None:
        """As the kubelet sends it, to the first process."""
        os.kill(self.first, number)

    def catches(self, number: signal.Signals) -> bool:
        """Whether the first process is the wrapper with its trap set."""
        with contextlib.suppress(FileNotFoundError):
            process = Path(f"/proc/{self.first}")
            if b"gangctl-run" in process.joinpath("cmdline").read_bytes():
                match = re.search(r"^SigCgt:\s*(\w+)$", process.joinpath("status").read_text("ascii"), re.MULTILINE)
                return match is not None and bool(int(match[1], 16) >> (number - 1) & 1)
        return False

    def children(self) -> list[str]:
        """Command lines of the first process's children."""
        pids = Path(f"/proc/{self.first}/task/{self.first}/children").read_text("ascii").split()
        lines = []
        for pid in pids:
            # One that was reaped since is none of them any more.
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                lines.append(Path(f"/proc/{pid}/cmdline").read_text("utf-8").replace("\0", " "))
        return lines

    def saw(self, *marks: str) -> bool:
        """Whether the programs in it have got so far."""
        return all((self.directory / mark).exists() for mark in marks)

    def number(self, name: str) -> int:
        """The process of a program, by the number that it has itself."""
        return int((self.directory / f"{name}.ready").read_text("ascii"))

    def let_go(self, name: str) -> None:
        """Let a program end what it does at SIGTERM."""
        (self.directory / f"{name}.go").touch()

    @property
    def running(self) -> bool:
        """Whether the first process is still there."""
        return self.process.poll() is None

    def wait(self) -> int:
        """The exit code, as the kubelet sees it."""
        code = self.process.wait(PATIENCE_SECONDS)
        return 128 - code if code < 0 else code

    @property
    def output(self) -> str:
        """What was written to standard output."""
        return (self.directory / "stdout").read_text("utf-8")


def start_line(image: Image, argv: list[str]) -> list[str]:
    """The command line that starts ``argv`` where ``/bin/sh`` is the image's."""
    if image.sh is None:
        return argv
    script = 'mount --bind "$1" "$2" && { [ -z "$3" ] || export PATH=$3; } && shift 3 && exec "$@"'
    return [
        "/bin/bash",
        "-c",
        script,
        "image",
        str(image.sh.resolve()),
        str(Path("/bin/sh").resolve()),
        image.path,
        *argv,
    ]


@contextlib.contextmanager
def running(image: Image, command: str, directory: Path, *, isolated: bool = True) -> Iterator[Container]:
    """A container that runs a command in the wrapper; without ``isolated`` it is an ordinary process."""
    argv = [expanded(each, {}) for each in wrapped(command, image.shell)]
    namespaces = _NAMESPACES if isolated else ("--mount",)
    line = ["unshare", *(way_in() or ()), *namespaces, *start_line(image, argv)]
    with (
        (directory / "stdout").open("w", encoding="utf-8") as out,
        (directory / "stderr").open("w", encoding="utf-8") as err,
        subprocess.Popen(
            line,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            text=True,
        ) as process,
    ):
        try:
            yield Container(process, directory, isolated)
        finally:
            if process.poll() is None:
                process.kill()
