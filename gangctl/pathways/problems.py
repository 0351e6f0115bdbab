"""Problems of a PathwaysJob: a closed list of reasons, safe to match in scripts and conditions.

Also helpers for messages about PathwaysJobs: quotes, suggestions and lists.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Final

from gangctl.errors import ErrorKind, FieldError

MOST_PROBLEMS: Final = 100
"""Maximum of problems of one object."""
SHOWN: Final = 64
"""Characters of a value in a message."""


class InvalidReason(StrEnum):
    """Why a PathwaysJob, or flags in its place, cannot become a JobSet."""

    MALFORMED = "Malformed"
    """A field of another type than the API's, an unknown enum value, a value that is no object."""
    INVALID_NAME = "InvalidName"
    NAME_TOO_LONG = "NameTooLong"
    INVALID_WORKERS = "InvalidWorkers"
    """Not exactly one worker group."""
    INVALID_NUM_SLICES = "InvalidNumSlices"
    INVALID_ELASTIC_SLICES = "InvalidElasticSlices"
    INVALID_RESTARTS = "InvalidRestarts"
    """``maxRestarts`` or ``maxSliceRestarts``."""
    INVALID_GRACE_PERIOD = "InvalidGracePeriod"
    UNKNOWN_ACCELERATOR = "UnknownAccelerator"
    INVALID_TOPOLOGY = "InvalidTopology"
    INVALID_DIRECTORY = "InvalidDirectory"
    MISSING_CONTAINERS = "MissingContainers"
    MISSING_MAIN_CONTAINER = "MissingMainContainer"
    RESERVED_CONTAINER_NAME = "ReservedContainerName"
    PORT_CONFLICT = "PortConflict"
    INVALID_COMPONENT = "InvalidComponent"
    INVALID_ENVIRONMENT = "InvalidEnvironment"
    INVALID_RESOURCES = "InvalidResources"
    INVALID_OPTIONS = "InvalidOptions"
    INVALID_GANG_MODE = "InvalidGangMode"
    GANG_DEADLOCK = "GangDeadlock"
    """A gang in a deadlock with other pods."""
    ELASTIC_GANG = "ElasticGang"
    """A gang that could not start, or recover, without all slices."""
    INVALID_SLICING = "InvalidSlicing"
    INVALID_IMAGE = "InvalidImage"
    INVALID_JOBSET = "InvalidJobSet"
    """The API server, JobSet or gangctl would reject the JobSet."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem: a stable reason, the place, and what is allowed."""

    reason: InvalidReason
    error: FieldError

    def __str__(self) -> str:
        return f"{self.error} ({self.reason})"


def problem(reason: InvalidReason, path: str, detail: str, kind: ErrorKind = ErrorKind.INVALID) -> Problem:
    """A problem of the field at ``path``; ``detail`` says what is allowed."""
    return Problem(reason, FieldError(path, kind, detail))


class RefusedValueError(ValueError):
    """An invalid value; the caller, which knows its field, converts it to a :class:`Problem`."""

    def __init__(self, reason: InvalidReason, detail: str) -> None:
        """``detail`` has the value and what is allowed."""
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def near(word: str, known: Iterable[str]) -> str:
    """The probably intended word, as the end of a sentence; empty if none is near."""
    words = sorted(known)
    matches = get_close_matches(word[:SHOWN], words, n=1, cutoff=0.6)
    matches = matches or [known_word for known_word in words if word and known_word.startswith(word)]
    return f"; did you mean {matches[0]}?" if matches else ""


def listed(words: Iterable[str]) -> str:
    """What is allowed, as a list in a sentence."""
    return ", ".join(words)
