"""
A network namespace of a plane's own, for nodes whose pods have addresses and whose Services have proxies.

It lives as long as the process that made it: when that ends, the kernel removes the bridge, the addresses and the
rules of kube-proxy with it. Components run in it through nsenter, which, unlike `ip netns exec`, leaves /sys and so
the cgroups as they are. Needs Linux, root, and the programs of TOOLS.
"""

import asyncio
import contextlib
import ctypes
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.controlplane.process import Process

BRIDGE = "gang0"
ADDRESS = "10.88.0.1"
"""The machine's own; node N has 10.88.0.N, its pods 10.88.N.0/24."""

TOOLS = {
    "ip": "iproute2",
    "nft": "nftables",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "mount": "mount",
    "runc": "runc",
}
"""Programs that are called, and the Debian package of each."""

_NEW_NET = 0x40000000
_SCRIPT = """\
set -e
ip link set lo up
ip link add {bridge} type bridge
for n in {numbers}; do ip address add 10.88.0.$n/16 dev {bridge}; done
ip link set {bridge} up
ip route add default dev {bridge}
echo 1 > /proc/sys/net/ipv4/ip_forward
touch {ready}
exec sleep infinity
"""


class NoMachine(Exception):  # noqa: N818 - it states what is the matter, as the standard library's LookupErrors do
    """A real node cannot run here; the message says what is missing."""


def require_machine() -> None:
    """Raise NoMachine where a node cannot run."""
    if sys.platform != "linux":
        raise NoMachine(f"a real node needs Linux, this is {sys.platform}")
    if os.geteuid() != 0:
        raise NoMachine("a real node needs root: it makes network namespaces, mounts and cgroups")
    if missing := {package for program, package in TOOLS.items() if shutil.which(program) is None}:
        raise NoMachine(f"a real node needs programs that are not in PATH: apt-get install {' '.join(sorted(missing))}")


class Machine:
    """The network namespace, and the process that keeps it."""

    def __init__(self, directory: Path, nodes: int) -> None:
        ready = directory / "network.ready"
        script = _SCRIPT.format(bridge=BRIDGE, ready=ready, numbers=" ".join(map(str, range(1, max(nodes, 1) + 1))))
        command = [str(shutil.which("unshare")), "--net", "sh", "-c", script]
        self.process = Process(
            "network", command, directory / "network.log", ready=lambda: asyncio.to_thread(ready.exists)
        )

    @property
    def prefix(self) -> list[str]:
        """What makes a command run in it."""
        return [str(shutil.which("nsenter")), f"--net={self._path}", "--"]

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Sockets that this thread opens, and processes that it starts, are in the namespace until the end."""
        with Path("/proc/thread-self/ns/net").open() as home, self._path.open() as here:
            _enter(here.fileno())
            try:
                yield
            finally:
                _enter(home.fileno())

    @property
    def _path(self) -> Path:
        return Path(f"/proc/{self.process.pid}/ns/net")


def _enter(descriptor: int) -> None:
    # os.setns is Python 3.12's.
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, _NEW_NET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")
