"""Result of rendering, the origins of its fields, and its inputs besides the PathwaysJob.

A rendering is a tree of dicts, lists and values in which a :class:`From` gives a value, or everything below it, an
origin. :func:`plain` is the object without the marks, :func:`origins` the marks by path.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from gangctl.api.fieldpath import FieldPath
from gangctl.api.scheduling import Feature
from gangctl.gang.reasons import Notice
from gangctl.gang.resolve import ClusterRules

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
    sources: dict[str, Origin] = {}
    for path, _, origin in leaves(tree):
        if origin is None:
            raise ValueError(f"{path} comes from nowhere")
        sources[path] = origin
    return sources


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


class Without(StrEnum):
    """Which PathwaysJobs run without their gang where none can be made; the others wait."""

    ALL = "all"
    UNASKED = "unasked"
    """Those for which gangctl would have chosen a gang, and not the user."""
    NONE = "none"


@dataclass(frozen=True, slots=True)
class RenderingInputs:
    """Inputs of a rendering besides the PathwaysJob."""

    profile: Profile = Profile.GANG
    gangs: bool = True
    """Whether the cluster has an API for gangs; without one the workers keep exclusive placement."""
    topology: bool = True
    """Whether a gang can require one node pool, which needs Kubernetes 1.36 or later."""
    composite: bool = False
    """Whether several gangs can start together, each placed as a whole (CompositePodGroups)."""
    reason: str = "this cluster has no API for gangs"
    """Why no gang can be made."""
    without: Without = Without.ALL


def setting_for(rules: ClusterRules, profile: Profile = Profile.GANG, *, gangs: bool = True) -> RenderingInputs:
    """The setting for a cluster, or for a Kubernetes minor."""
    topology = rules.generation.capabilities.constraints and Feature.TOPOLOGY not in rules.lacks
    return RenderingInputs(profile, gangs, topology, composite=rules.known and rules.composite)


@dataclass(frozen=True, slots=True)
class Rendering:
    """The JobSet, and notices for the user."""

    jobset: Mapping[str, Any]
    origins: Mapping[str, Origin]
    """By field path of the JobSet, for every leaf."""
    notices: tuple[Notice, ...]
    head_requests: Mapping[str, int]
    """What the head's pod asks of its node: milli-CPU, bytes, counts."""
