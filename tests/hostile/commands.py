"""gangctl as a process with a limit on memory and time, and what a clear refusal is."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gangctl.errors import escaped
from tests.cli.run import PYTHON

BIN = Path(sys.executable).parent
CPU_SECONDS = 20
"""A refusal takes about one."""
MEMORY = 1536 * 2**20
"""Of address space, far more than is needed: what has no bound runs into it at once."""


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


def gangctl(*arguments: str, stdin: bytes = b"", **environment: str) -> Ran:
    """Run the installed program; an AssertionError when it works too long."""
    # Into files: what it prints has no bound here, and that is what is tested.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            [BIN / "gangctl", *arguments],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=err,
            env={"PATH": f"{BIN}:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": "/nonexistent", **environment},
        )
        resource.prlimit(process.pid, resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 1))
        process.communicate(stdin)
        assert process.returncode != -signal.SIGXCPU, f"no end after {CPU_SECONDS} s of work: {arguments}"
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read(64 * 2**20).decode("utf-8", "surrogateescape"))
    return Ran(process.returncode, texts[0], texts[1])


def is_refused(ran: Ran, *codes: int) -> str:
    """The one error of a run that was refused with one of these exit codes, after checks of its form."""
    assert ran.code in codes, (ran.code, ran.err[-2000:])
    assert ran.out == ""
    assert PYTHON.search(ran.err) is None, ran.err[:2000]
    assert "internal error" not in ran.err
    assert all(escaped(line) == line for line in ran.err.splitlines()), ran.err[:2000]
    assert len(ran.err) < 200_000
    lines = ran.err.splitlines()
    assert sum(line.startswith("error: ") for line in lines) == 1, ran.err[:2000]
    return ran.err
