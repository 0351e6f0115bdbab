"""User and options of a request: the arguments that every verb shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Propagation = Literal["Background", "Foreground", "Orphan"]


@dataclass(frozen=True, slots=True)
class Caller:
    """The user a request is made by."""

    name: str
    groups: tuple[str, ...] = ()
    user_agent: str = ""


SYSTEM: Final = Caller("system:sandbox", ("system:masters",))
"""The server's own user: simulated controllers and the garbage collector."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """``CreateOptions``, ``UpdateOptions`` and ``PatchOptions`` in one.

    ``field_validation`` is Ignore, Warn or Strict; ``force`` is for apply.
    """

    dry_run: bool = False
    field_manager: str = ""
    field_validation: str = "Warn"
    force: bool = False


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """``metav1.DeleteOptions``; ``uid`` and ``resource_version`` are preconditions."""

    propagation: Propagation | None = None
    grace_seconds: int | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False


DEFAULT_WRITE: Final = WriteOptions()
DEFAULT_DELETE: Final = DeleteOptions()
