"""The code of a worker process, and its messages with the process that started it: kind, length, and JSON.

It imports little, because every worker waits for it; :mod:`gangctl.runtime.workerprocess` starts it. Messages are plain
values, the same on every Python: a worker evaluates hostile expressions, so what it answers is data, which the starter
checks, and never names a class or a function.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import math
import os
import resource
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Final

import orjson

from gangctl.errors import GangctlError

HEADER: Final = struct.Struct(">cI")
"""Kind, and the payload's bytes."""
# orjson would write these types, and the reader would get other values: what is not plain is an error.
_PLAIN: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


class FrameKind(Enum):
    """Kind of a frame."""

    HELLO = b"h"
    """From the worker, once: it accepts requests now."""
    REQUEST = b"r"
    ANSWER = b"a"
    """One of any number; never null."""
    END = b"e"
    """After the last answer to a request."""


class FrameError(GangctlError):
    """The data is not a message, too large, or not plain values."""

    code = "BadFrame"


def pack(kind: FrameKind, value: Any, limit: int) -> bytes:
    """Write one frame of JSON values.

    :class:`FrameError` when its payload would be larger than ``limit`` bytes, when it is nested more than 254 levels
    deep, or when JSON has no such value: an integer of more than 64 bits, half of a surrogate pair, a key that is not
    text.
    """
    try:
        payload = orjson.dumps(value, option=_PLAIN)
    except TypeError as error:
        raise FrameError(f"a message cannot be written as JSON: {error}") from error
    if len(payload) > limit:
        raise FrameError(f"a message of {len(payload)} bytes is larger than {limit}")
    return HEADER.pack(kind.value, len(payload)) + payload


def unpack_header(header: bytes, limit: int) -> tuple[FrameKind, int]:
    """Read a header: the kind of frame, and how many bytes follow."""
    code, size = HEADER.unpack(header)
    try:
        kind = FrameKind(code)
    except ValueError:
        raise FrameError("what came is not a message") from None
    if size > limit:
        raise FrameError(f"a message of {size} bytes is larger than {limit}")
    return kind, size


def unpack(payload: bytes | bytearray) -> Any:
    """Read a payload; :class:`FrameError` when it is not JSON."""
    try:
        return orjson.loads(payload)
    except orjson.JSONDecodeError as error:
        raise FrameError(f"a message is not JSON: {error.msg}") from error


EXIT_MEMORY: Final = 12
"""Exit code of a worker that exceeded its memory limit and could still report it: ENOMEM."""
EXIT_ORPHANED: Final = 3

Service = Callable[[Any], Iterable[Any]]
"""Answers one request; what is imported as ``module:name`` is called without arguments and returns one."""

_PR_SET_PDEATHSIG: Final = 1


def main() -> None:
    """Answer requests until the starter closes the channel."""
    launch = orjson.loads(sys.argv[1])
    _die_with(launch["parent"])
    # A signal to a whole group or container must not stop answers in flight: those end with the starter.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(launch["niceness"])
    # A core file would hold whole objects.
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, launch["memoryBytes"])
    channel = socket.socket(fileno=launch["channel"])
    try:
        module, _, name = launch["service"].partition(":")
        service = getattr(importlib.import_module(module), name)()
        # From here on nothing is opened or written any more; before it, modules were.
        _limit(resource.RLIMIT_FSIZE, 0)
        _serve(channel, service, launch["frameBytes"], launch["cpuSeconds"])
    except MemoryError:
        # At once: what Python does at its end needs memory, too.
        os._exit(EXIT_MEMORY)
    except (BrokenPipeError, ConnectionResetError):
        os._exit(EXIT_ORPHANED)
    except Exception as error:  # noqa: BLE001 -- logged without its message, which may hold whole objects
        last = traceback.extract_tb(error.__traceback__)[-1]
        sys.stderr.write(f"{type(error).__name__} in {last.name} ({last.filename}:{last.lineno})\n")
        sys.stderr.flush()
        os._exit(1)


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when the starter ends for any reason.

    On systems other than Linux, the end of the channel does so between two requests, and the limit of CPU time during
    one.
    """
    if sys.platform == "linux":
        # The kernel sends the signal when the thread ends that has started this process: that of the event loop.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The starter may have ended before the line above took effect.
        if os.getppid() != parent:
            os._exit(EXIT_ORPHANED)


def _limit(what: int, value: int) -> None:
    """Set a limit where the system has it, never above one that is set already."""
    _, hard = resource.getrlimit(what)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(what, (value, value))


def _limit_cpu(seconds: float) -> None:
    """Let the kernel end this process after this much more CPU time: the last resort if the starter does not."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = math.ceil(usage.ru_utime + usage.ru_stime + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _serve(channel: socket.socket, service: Service, limit: int, cpu_seconds: float) -> None:
    channel.sendall(pack(FrameKind.HELLO, None, limit))
    while (request := _receive(channel, limit)) is not None:
        # Before each request, because the kernel counts from the start of the process.
        _limit_cpu(cpu_seconds)
        for answer in service(unpack(request)):
            channel.sendall(pack(FrameKind.ANSWER, answer, limit))
        channel.sendall(pack(FrameKind.END, None, limit))


def _receive(channel: socket.socket, limit: int) -> bytearray | None:
    """The payload of one request, None at the end of the channel."""
    header = _exactly(channel, HEADER.size)
    if header is None:
        return None
    _, size = unpack_header(bytes(header), limit)
    return _exactly(channel, size)


def _exactly(channel: socket.socket, size: int) -> bytearray | None:
    data = bytearray(size)
    view, filled = memoryview(data), 0
    while filled < size:
        count = channel.recv_into(view[filled:])
        if not count:
            return None
        filled += count
    return data


if __name__ == "__main__":
    main()
