"""gangctl as a process beside a sandbox."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gangctl.sandbox.server import Sandbox
from tests.controlplane.ports import Ports
from tests.controlplane.probe import answers
from tests.controlplane.wait import wait_for


@asynccontextmanager
async def controller(sandbox: Sandbox, directory: Path, *flags: str) -> AsyncIterator[str]:
    """gangctl for as long as the block runs, ready; where it answers about itself."""
    ports = Ports()
    webhooks, probes = ports.take(), ports.take()
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(sandbox.kubeconfig("gangctl"))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gangctl", "controller", "--kubeconfig", str(kubeconfig)),
        *("--webhook-url", f"https://127.0.0.1:{webhooks}", "--webhook-timeout=30"),
        *("--webhook-bind-address", f"127.0.0.1:{webhooks}"),
        *("--metrics-bind-address", f"127.0.0.1:{probes}", "--leader-elect=false"),
        *flags,
        stderr=asyncio.subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{probes}"
    try:
        await wait_for(lambda: answers(f"{url}/readyz"), what="gangctl")
        yield url
    finally:
        process.terminate()
        assert await process.wait() == 0
        ports.release()
