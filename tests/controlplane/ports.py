"""
Free ports that stay a component's own for as long as its plane lives.

Asking the kernel for port 0 is not enough: an API server that was killed must come back on the same port, and
meanwhile any outgoing connection could have been given it. So ports come from below the ephemeral range, and a file
lock keeps the other test workers of this machine away from them.
"""

import fcntl
import os
import random
import socket
import tempfile
from io import TextIOWrapper
from pathlib import Path

_LOWEST = 10_000
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_DEFAULT_EPHEMERAL_START = 32_768
_ATTEMPTS = 1_000


class Ports:
    """Hands out ports on 127.0.0.1 and holds them until released."""

    def __init__(self) -> None:
        self._locks: list[TextIOWrapper] = []
        self._directory = Path(tempfile.gettempdir()) / f"gangctl-ports-{os.getuid()}"
        self._directory.mkdir(mode=0o700, exist_ok=True)

    def take(self) -> int:
        for _ in range(_ATTEMPTS):
            port = random.randrange(_LOWEST, _highest())
            if self._reserve(port):
                return port
        raise OSError(f"no free port on 127.0.0.1 after {_ATTEMPTS} attempts")

    def release(self) -> None:
        while self._locks:
            self._locks.pop().close()

    def _reserve(self, port: int) -> bool:
        lock = (self._directory / str(port)).open("w")
        try:
            fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return False
        if not _is_free(port):
            lock.close()
            return False
        self._locks.append(lock)
        return True


def _highest() -> int:
    if not _EPHEMERAL_RANGE.exists():
        return _DEFAULT_EPHEMERAL_START
    return max(int(_EPHEMERAL_RANGE.read_text().split()[0]), _LOWEST + _ATTEMPTS)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
