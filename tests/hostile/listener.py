"""The webhook listener with gangctl's own endpoints in a process of its own, so that its memory can be measured."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from pathlib import Path

import structlog

from gangctl.api.scheduling import ApiState, Generation, Observed
from gangctl.gang.diff import Kind
from gangctl.gang.resolve import ClusterRules
from gangctl.runtime.server import ListenerOptions, WebhookLimits, WebhookServer
from gangctl.runtime.tls import ServerTls, client_context
from gangctl.webhooks.gangpolicies import GangPolicyAdmission
from gangctl.webhooks.gangs import GangAdmission
from gangctl.webhooks.review import build_endpoints
from tests.runtime.authority import bundle, pair


@dataclass(frozen=True)
class Patience:
    """Seconds for a body, for silence, for a handshake, and for what comes after an answer."""

    read: float
    idle: float
    handshake: float
    linger: float


PATIENT = Patience(read=3600, idle=3600, handshake=3600, linger=5)
"""Longer than any test may take: a caller that is sent away is so for another reason than time."""
BRIEF = Patience(read=1.5, idle=1, handshake=1, linger=0.2)
"""Shorter than in earnest, so that a suite of slow callers takes seconds."""


@dataclass
class View:
    """A cluster of 1.37 in which every group's name is taken by another owner: the longest way through the handlers."""

    state: ApiState = field(default_factory=lambda: ApiState(Generation.V1BETA1))

    def rules(self, generation: Generation) -> ClusterRules:
        return ClusterRules(generation)

    def claimed(self, namespace: str, jobset: str) -> str | None:
        return "theirs" if (namespace, jobset) == ("theirs", "theirs") else None

    def scheduling(self, kind: Kind, namespace: str, name: str) -> Observed | None:
        del kind
        return Observed(namespace, name, "uid", "1", "theirs", "x", deleting=False, claims_jobset="", min_counts=())


async def serve(tls: bool, patience: Patience) -> None:
    """Listen until standard input ends; the first line of standard output is the port."""
    structlog.configure(
        processors=[structlog.processors.JSONRenderer()], logger_factory=structlog.WriteLoggerFactory(sys.stderr)
    )

    async def ready() -> None:
        return

    handlers = {**GangAdmission(View()).routes(), **GangPolicyAdmission().routes()}
    routes = build_endpoints(handlers, ready, lambda *_: None)
    server = WebhookServer(
        routes,
        ("127.0.0.1", 0),
        ServerTls(pair("hostile")).context if tls else None,
        limits=WebhookLimits(read_seconds=patience.read),
        options=ListenerOptions(
            idle_seconds=patience.idle,
            handshake_seconds=patience.handshake,
            linger_seconds=patience.linger,
            drain_seconds=1,
        ),
    )
    async with server:
        sys.stdout.write(f"{server.address[1]}\n{bundle('hostile').decode() if tls else ''}\0\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


@dataclass
class Child:
    """The running process: its address, its certificate authority and its output."""

    process: subprocess.Popen[str]
    port: int
    trust: ssl.SSLContext | None
    log: Path

    def peak_mib(self) -> float:
        """The most memory that it ever held."""
        return self._status("VmHWM")

    def open_files(self) -> int:
        """Connections and everything else it holds."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def _status(self, name: str) -> float:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 1024
        raise AssertionError(name)


@contextmanager
def listening(*, tls: bool, patience: Patience = PATIENT) -> Iterator[Child]:
    """Run it as long as the block; its end must be clean."""
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory, "log")
        with log.open("w") as file:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-W",
                    "error",
                    "-m",
                    "tests.hostile.listener",
                    "tls" if tls else "plain",
                    *map(str, astuple(patience)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )
        assert process.stdin is not None
        assert process.stdout is not None
        port, _, pem = "".join(iter(process.stdout.readline, "\0\n")).partition("\n")
        try:
            yield Child(process, int(port), client_context(pem.encode()) if tls else None, log)
        finally:
            process.stdin.close()
            code = process.wait(30)
            process.stdout.close()
            printed = log.read_text()
        assert code == 0, printed
        assert "Traceback" not in printed, printed[-3000:]


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1] == "tls", Patience(*map(float, sys.argv[2:]))))
