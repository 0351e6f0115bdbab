"""A program of a person's that runs in a cluster, such as a shell."""

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path


def cancel_on_signals() -> None:
    """Ctrl-C and SIGTERM cancel the current task, which then cleans up."""
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a coroutine always runs in a task")
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


async def run_program(program: Sequence[str], kubeconfig: Path, paths: Sequence[Path] = ()) -> int:
    """Run it with this terminal and this cluster, ``paths`` before PATH; its exit code."""
    path = os.pathsep.join([*map(str, paths), os.environ.get("PATH", os.defpath)])
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "PATH": path}
    process = await asyncio.create_subprocess_exec(*program, env=environment)
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
