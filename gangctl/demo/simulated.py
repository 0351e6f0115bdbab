"""The demo on the sandbox, with the real gangctl in the second act; and a sandbox that keeps running."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from gangctl.client.client import Client
from gangctl.client.config import load_cluster
from gangctl.client.resources import NAMESPACES
from gangctl.client.transport import Transport
from gangctl.demo.acts import Act, Patience, Stage
from gangctl.demo.child import controller, stop
from gangctl.demo.display import DemoVerdict, Display
from gangctl.demo.scenario import CPUS, JOBSETS, PODS, PodNeeds
from gangctl.errors import ConfigError
from gangctl.sandbox.server import Sandbox, SandboxOptions
from gangctl.sandbox.simulated import Outcome, SimulatedControllers, add_nodes

_PRIVATE = 0o600


async def simulate(
    minor: str,
    kubeconfig: Path,
    nodes: int,
    capacity: Mapping[str, str],
    ready: Callable[[str], None],
    *,
    port: int,
    program: Sequence[str],
) -> int:
    """Run until cancelled, or until ``program`` ends, whose exit code it returns; a cancellation ends it.

    ``capacity`` is that of each node, ``kubeconfig`` an absolute path to write to. ``ready`` is called with the
    server's address after the start. Raises :class:`ConfigError` when the port is taken, the file cannot be written,
    or the program cannot be run.
    """
    sandbox = Sandbox(SandboxOptions(minor=minor, port=port))
    try:
        await sandbox.open()
    except OSError as error:
        raise ConfigError(f"--port {port}: {error.strerror or error}") from error
    try:
        async with SimulatedControllers(sandbox.api):
            await add_nodes(sandbox.api, nodes, extended=capacity)
            write_private(kubeconfig, sandbox.kubeconfig())
            try:
                ready(sandbox.url)
                if program:
                    return await run(program, kubeconfig)
                await asyncio.Event().wait()
            finally:
                kubeconfig.unlink(missing_ok=True)  # noqa: ASYNC240 -- the end of the server, which nothing waits for
    finally:
        await sandbox.close()
    return 0


_SIGNALLED: Final = 128
"""The exit code of a program that signal N ends is N more."""


async def run(program: Sequence[str], kubeconfig: Path) -> int:
    """Run a program with this terminal and this cluster; its exit code, of one that a signal ends as shells have it."""
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    try:
        process = await asyncio.create_subprocess_exec(*program, env=environment)
    except OSError as error:
        raise ConfigError(f"cannot run {program[0]}: {error.strerror or error}") from error
    try:
        code = await process.wait()
    except asyncio.CancelledError:
        # Ctrl-C and SIGTERM end the program, and its exit code is that of the command.
        await stop(process)
        code = await process.wait()
    return code if code >= 0 else _SIGNALLED - code


def write_private(file: Path, text: str) -> None:
    """Write a new file that only the user may read, because it contains a token.

    :class:`ConfigError` if that fails, or if the file exists: no kubeconfig is overwritten.
    """
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "w", encoding="utf-8") as out:
            out.write(text)
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror or error}") from error


_NAMESPACE: Final = "demo"
_NODES: Final = 2
_PATIENCE: Final = Patience(quiet=1.5, gangs=60.0)
_WORK_SECONDS: Final = 0.6
_PAUSE_SECONDS: Final = 0.1
"""Delay between pods that one worker of the Job controller creates, so that workers alternate as on a cluster."""


class _Training:
    """The kubelets' policy: pods run when all of their JobSet are bound, and end when the demo allows it."""

    def __init__(self, simulated: SimulatedControllers) -> None:
        self._simulated = simulated
        self._may_finish = False

    def __call__(self, _pod: dict[str, Any], jobset: Sequence[dict[str, Any]]) -> Outcome | None:
        return "Succeeded" if self._may_finish and len(jobset) >= PODS else None

    async def attend(self, may_finish: bool) -> None:
        """Allow complete JobSets to end, or none."""
        before, self._may_finish = self._may_finish, may_finish
        if may_finish and not before:
            self._simulated.kubelet.review()


async def play_simulated(minor: str, display: Display) -> DemoVerdict:
    """Both acts on a simulated Kubernetes of ``minor``; nothing outside of this process and its child is touched."""
    display.say(
        f"A simulated cluster: Kubernetes {minor} with JobSet and {_NODES} nodes, played in memory. "
        "No real cluster is touched."
    )
    async with Sandbox(SandboxOptions(minor=minor)) as sandbox:
        simulated = SimulatedControllers(sandbox.api, work_seconds=_WORK_SECONDS, pause_seconds=_PAUSE_SECONDS)
        training = _Training(simulated)
        simulated.kubelet.policy = training
        async with simulated:
            nodes = await add_nodes(sandbox.api, _NODES, cpu=str(CPUS // _NODES))
            with TemporaryDirectory(prefix="gangctl-demo-") as directory:
                verdict = await _play(sandbox, training, dict.fromkeys(nodes, CPUS // _NODES), Path(directory), display)
    display.say("")
    for line in verdict.lines:
        display.say(line)
    display.say(
        "The cluster was simulated, the gangctl was the real one. "
        "gangctl demo --kubeconfig FILE plays the same on a cluster of yours."
    )
    return verdict


async def _play(
    sandbox: Sandbox, training: _Training, places: dict[str, int], directory: Path, display: Display
) -> DemoVerdict:
    own, gangctls = directory / "demo.kubeconfig", directory / "gangctl.kubeconfig"
    write_private(own, sandbox.kubeconfig(user="demo"))
    write_private(gangctls, sandbox.kubeconfig(user="gangctl"))
    async with Transport(await load_cluster(kubeconfig=own)) as transport:
        client = Client(transport)
        await client.create(NAMESPACES, {"metadata": {"name": _NAMESPACE}})
        stage = Stage(client, _NAMESPACE, places, PodNeeds())
        results = await Act(stage, display, _PATIENCE, training.attend).play_both(
            f"1. {JOBSETS} JobSets of {PODS} pods on {CPUS} CPUs, without gangs",
            "2. The same with gangctl running, and one annotation: gangctl.dev/gang-mode: Gang",
            controller(str(gangctls), None, directory / "gangctl.log"),
            if_full="  Every CPU is held by a pod whose peers find none: no JobSet can start.",
        )
    return DemoVerdict(sandbox.options.minor, True, *results)
