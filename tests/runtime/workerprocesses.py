"""Worker processes of tests: requests to one, which are there, and which have ended."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gangctl.runtime.workerprocess import WorkerProcess, WorkerSpec
from tests.controlplane.wait import wait_for

SPEC = WorkerSpec("test", "tests.runtime.workerservices:Answers", memory_bytes=256 << 20)


def gone(pid: int) -> bool:
    """Whether a process has ended; one that its new parent has not reaped yet has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def until_gone(pid: int) -> None:
    async def ended() -> bool:
        return gone(pid)

    await wait_for(ended, what=f"process {pid} to be gone")


async def ask(process: WorkerProcess, *request: Any) -> list[Any]:
    await process.send(request)
    answers = []
    while (answer := await next_of(process)) is not None:
        answers.append(answer)
    return answers


async def next_of(process: WorkerProcess) -> Any:
    """The next answer, whatever it is."""
    return await process.receive(lambda value: value)


def children() -> list[int]:
    """Processes started by this one that run this module's services."""
    mine = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            status = entry.joinpath("stat").read_text(encoding="ascii").rpartition(")")[2].split()
            command = entry.joinpath("cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(status[1]) == os.getpid() and b"workerchild" in command:
            mine.append(int(entry.name))
    return mine
