"""kubectl of the pinned release, as a user would call it."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.build import ensure_binary
from tests.controlplane.minors import NEWEST


class KubectlFailed(Exception):  # noqa: N818 - it states what happened
    """A non-zero exit, with the output of kubectl."""


@dataclass(frozen=True)
class Output:
    text: str
    """Standard output."""
    said: str
    """Standard error: warnings of the API server, and what kubectl logs about throttling and discovery."""

    @property
    def warnings(self) -> list[str]:
        """What the API server warned of; a message about waiting is not about the object."""
        said = (line for line in self.said.splitlines() if line.startswith("Warning:"))
        # A test that shares the server may have made the same object without apply.
        return [line for line in said if "last-applied-configuration" not in line]


@dataclass(frozen=True)
class Kubectl:
    home: Path
    """Its caches go here and not to the person's home."""
    kubeconfig: Path | None = None

    async def run(self, *arguments: str, given: str | None = None) -> Output:
        """Run to the end with `given` on standard input; KubectlFailed on a non-zero exit."""
        environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"} | {
            "HOME": str(self.home)
        }
        if self.kubeconfig is not None:
            environment["KUBECONFIG"] = str(self.kubeconfig)
        process = await asyncio.create_subprocess_exec(
            str(ensure_binary("kubectl", NEWEST)),
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
        )
        out, err = await process.communicate((given or "").encode())
        if process.returncode:
            raise KubectlFailed(f"kubectl {' '.join(arguments)}: {err.decode().strip()}")
        return Output(out.decode(), err.decode())
