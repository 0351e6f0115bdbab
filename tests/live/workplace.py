"""A directory in which the commands of a page run as they stand there."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.build import ensure_binary
from tests.controlplane.minors import NEWEST
from tests.manifests.files import ROOT


class CommandFailed(Exception):  # noqa: N818 - it states what happened
    """A non-zero exit, with the output of the command."""


@dataclass
class Workplace:
    """Copies of ``manifests`` and ``charts``, and kubectl, Helm and gangctl in PATH."""

    home: Path
    kubeconfig: Path

    def settle_in(self) -> None:
        """Make the copies."""
        (self.home / "bin").mkdir()
        for program in ("kubectl", "helm"):
            (self.home / "bin" / program).symlink_to(ensure_binary(program, NEWEST))
        for name in ("manifests", "charts"):
            shutil.copytree(ROOT / name, self.home / name)

    async def run(self, command: str) -> str:
        """Run a line of a shell to its end; what it printed."""
        path = os.pathsep.join([str(self.home / "bin"), str(Path(sys.executable).parent), os.defpath])
        process = await asyncio.create_subprocess_exec(
            *("bash", "-o", "pipefail", "-c", command),
            cwd=self.home,
            env={"PATH": path, "HOME": str(self.home), "KUBECONFIG": str(self.kubeconfig)},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        if process.returncode:
            raise CommandFailed(f"{command}: {out.decode()}{err.decode()}")
        return out.decode()
