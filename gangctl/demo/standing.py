"""A simulated cluster that is left running, for experiments: ``gangctl sandbox``."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gangctl.errors import ConfigError
from gangctl.sandbox.server import Sandbox, SandboxOptions
from gangctl.sandbox.simulated import SimulatedControllers, add_nodes

_PRIVATE = 0o600


@dataclass(frozen=True, slots=True)
class Standing:
    """What to simulate, and where to write the kubeconfig."""

    minor: str
    kubeconfig: Path
    nodes: int = 2
    port: int = 0


async def stand(options: Standing, ready: Callable[[str], None]) -> None:
    """Run until cancelled; ``ready`` is told the server's address once everything is there.

    Raises :class:`ConfigError` when the port is taken or the file cannot be written.
    """
    sandbox = Sandbox(SandboxOptions(minor=options.minor, port=options.port))
    try:
        await sandbox.open()
    except OSError as error:
        raise ConfigError(f"--port {options.port}: {error.strerror or error}") from error
    try:
        async with SimulatedControllers(sandbox.api) as simulated:
            await add_nodes(sandbox.api, options.nodes)
            write_private(options.kubeconfig, sandbox.kubeconfig())
            try:
                ready(sandbox.url)
                await simulated.play_on()
            finally:
                options.kubeconfig.unlink(missing_ok=True)
    finally:
        await sandbox.close()


def write_private(file: Path, text: str) -> None:
    """Write a new file that nobody else may read, because it holds a token.

    :class:`ConfigError` when that fails, also when there is one: nobody's kubeconfig is overwritten.
    """
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "w", encoding="utf-8") as out:
            out.write(text)
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror or error}") from error
