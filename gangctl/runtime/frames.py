"""Messages between a process and a worker that it started: kind, length, and a pickle.

Pickles are safe only between trusted processes, because loading one runs what it names. Both ends are this program, run
by the same user, on an unnamed socketpair: no other process can write to it. Still the worker evaluates hostile
expressions, so from its messages only the classes that the starter named are loaded.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

from gangctl.errors import GangctlError

HEADER: Final = struct.Struct(">cI")
"""Kind, and the payload's bytes."""


class Kind(Enum):
    """Kind of a frame."""

    HELLO = b"h"
    """From the worker, once: it accepts requests now."""
    REQUEST = b"r"
    ANSWER = b"a"
    """One of any number."""
    END = b"e"
    """After the last answer to a request."""


class FrameError(GangctlError):
    """The data is not a message, too large, or names a forbidden class."""

    code = "BadFrame"


def pack(kind: Kind, value: Any, limit: int) -> bytes:
    """Write one frame; :class:`FrameError` when its payload would be larger than ``limit`` bytes."""
    payload = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    if len(payload) > limit:
        raise FrameError(f"a message of {len(payload)} bytes is larger than {limit}")
    return HEADER.pack(kind.value, len(payload)) + payload


def unpack_header(header: bytes, limit: int) -> tuple[Kind, int]:
    """Read a header: the kind of frame, and how many bytes follow."""
    code, size = HEADER.unpack(header)
    try:
        kind = Kind(code)
    except ValueError:
        raise FrameError("what came is not a message") from None
    if size > limit:
        raise FrameError(f"a message of {size} bytes is larger than {limit}")
    return kind, size


class Reader:
    """Loads payloads that hold only literals of builtins and instances of the named classes."""

    def __init__(self, classes: Iterable[type]) -> None:
        """``classes`` are loaded as they are now, even if their names are rebound later."""
        self._classes = {(each.__module__, each.__qualname__): each for each in classes}

    def load(self, payload: bytes) -> Any:
        """The value; :class:`FrameError` when the payload is not a permitted one."""
        try:
            return _Unpickler(payload, self._classes).load()
        except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
            raise FrameError(f"a message cannot be read: {type(error).__name__}") from error


class _Unpickler(pickle.Unpickler):
    def __init__(self, payload: bytes, classes: dict[tuple[str, str], type]) -> None:
        super().__init__(io.BytesIO(payload))
        self._classes = classes

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        try:
            return self._classes[module_name, global_name]
        except KeyError:
            raise FrameError(f"a message names the class {module_name}.{global_name}") from None
