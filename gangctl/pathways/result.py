"""Results of reading and rendering: problems with a closed list of reasons, and values with their origins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, Final

from gangctl.api.fieldpath import FieldPath
from gangctl.api.scheduling import Feature
from gangctl.errors import ErrorKind, FieldError
from gangctl.gang.reasons import Notice
from gangctl.gang.resolve import ClusterRules

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
    found = get_close_matches(word[:SHOWN], words, n=1, cutoff=0.6)
    found = found or [each for each in words if word and each.startswith(word)]
    return f"; did you mean {found[0]}?" if found else ""


def listed(words: Iterable[str]) -> str:
    """What is allowed, as a list in a sentence."""
    return ", ".join(words)


_ROOT: Final = FieldPath()


class OriginKind(StrEnum):
    """Kind of an origin."""

    FIELD = "field"
    """A field of the PathwaysJob."""
    FLAG = "flag"
    """A flag of the command line."""
    OPTION = "option"
    """An entry of the options: annotation, settings of the controller, or a flag of the same name."""
    DEFAULT = "default"
    """The API's default."""
    TABLE = "table"
    """The table of accelerators."""
    RULE = "rule"
    """A rule of gangctl."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value comes from: ``place`` is a field path, a flag, or the name of the rule; ``why`` a sentence."""

    kind: OriginKind
    place: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class From:
    """A value, or a tree, with the origin of all its values without a nearer one."""

    value: Any
    origin: Origin


def field(value: Any, path: str) -> From:
    """A value taken from the PathwaysJob's field at ``path``."""
    return From(value, Origin(OriginKind.FIELD, path))


def rule(value: Any, why: str, place: str = "gangctl") -> From:
    """A value that a rule sets."""
    return From(value, Origin(OriginKind.RULE, place, why))


def option(value: Any, name: str, why: str = "") -> From:
    """A value from an entry of the options, by its name in JSON: ``imageRegistry``."""
    return From(value, Origin(OriginKind.OPTION, name, why))


def plain(tree: Any) -> Any:
    """The tree without origins, as a deep copy."""
    if isinstance(tree, From):
        return plain(tree.value)
    if isinstance(tree, Mapping):
        return {key: plain(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [plain(value) for value in tree]
    return tree


def origins(tree: Any) -> dict[str, Origin]:
    """The origin of every leaf by its field path; ValueError for a leaf without one."""
    found: dict[str, Origin] = {}
    for path, _, origin in leaves(tree):
        if origin is None:
            raise ValueError(f"{path} comes from nowhere")
        found[path] = origin
    return found


def leaves(
    tree: Any, path: FieldPath = _ROOT, nearest: Origin | None = None
) -> Iterator[tuple[str, Any, Origin | None]]:
    """Field path, value and origin of every leaf: a value, or an empty container."""
    if isinstance(tree, From):
        yield from leaves(tree.value, path, tree.origin)
    elif isinstance(tree, Mapping) and tree:
        for key, value in tree.items():
            yield from leaves(value, path.child(key), nearest)
    elif isinstance(tree, list | tuple) and tree:
        for index, value in enumerate(tree):
            yield from leaves(value, path.index(index), nearest)
    else:
        yield str(path), tree, nearest


class Profile(StrEnum):
    """Which conventions a rendering follows."""

    GANG = "gang"
    """gangctl's own: gangs, affinity instead of exclusive placement where a gang would deadlock."""
    XPK = "xpk"
    """Those of AI-Hypercomputer/xpk: no gang, exclusive placement, host settings."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Inputs of a rendering besides the PathwaysJob."""

    profile: Profile = Profile.GANG
    gangs: bool = True
    """Whether the cluster has an API for gangs; without one the workers keep exclusive placement."""
    topology: bool = True
    """Whether a gang can require one node pool, which needs Kubernetes 1.36 or later."""
    composite: bool = False
    """Whether several gangs can start together, each placed as a whole (CompositePodGroups)."""


def setting_for(rules: ClusterRules, profile: Profile = Profile.GANG, *, gangs: bool = True) -> Setting:
    """The setting for a cluster, or for a Kubernetes minor."""
    topology = rules.generation.capabilities.constraints and Feature.TOPOLOGY not in rules.lacks
    return Setting(profile, gangs, topology, composite=rules.known and rules.composite)


@dataclass(frozen=True, slots=True)
class Rendering:
    """The JobSet, and notices for the user."""

    jobset: Mapping[str, Any]
    origins: Mapping[str, Origin]
    """By field path of the JobSet, for every leaf."""
    notices: tuple[Notice, ...]
    head_requests: Mapping[str, int]
    """What the head's pod asks of its node: milli-CPU, bytes, counts."""
