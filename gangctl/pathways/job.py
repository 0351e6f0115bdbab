"""A PathwaysJob that was read and checked, the valid input of rendering; its gangs, and the names derived from its own.

A job needs complete slices, and all of them: two jobs could each hold slices that the other one waits for, so that all
workers are one group. If a queue of Kueue reserves all slices at once, or the job continues without some
(``elasticSlices``), a slice is the unit that is lost and restarted, and a separate group. A colocated head competes
with the workers for the same nodes: then all are one group. Kueue's topology-aware scheduling chooses nodes itself, and
a job with a colocated head and elastic slices cannot be one group; neither gets any.

The head's address, ``NAME-pathways-head-0-0.SUBDOMAIN``, is the value of a label, which holds 63 characters. JobSet
uses its own name as subdomain, so that 22 are left for the name; another subdomain allows longer names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from gangctl.api.meta import GANG_OPTIONS, GANGS, QUEUE_NAME
from gangctl.gang.config import GangMode, read_options
from gangctl.pathways.accelerators import Slice
from gangctl.pathways.options import AUTO, PathwaysOptions, Slicing, Startup
from gangctl.pathways.result import Origin, OriginKind
from gangctl.pathways.words import HEAD, NAME_CHARACTERS, WORKER

DEFAULT_MAIN_CONTAINER: Final = "main"
DEFAULT_SLICE_RESTARTS: Final = 1
_NO_OPTIONS: Final = PathwaysOptions()


class DeploymentMode(StrEnum):
    """``spec.controller.deploymentMode``."""

    COLOCATE = "colocate_head_with_workers"
    DEFAULT = "default"


class ComponentType(StrEnum):
    """``spec.customComponents[].componentType``."""

    SERVER = "pathways_server"
    WORKER = "worker"
    PROXY = "proxy_server"
    SIDECAR = "colocated_python_sidecar"


@dataclass(frozen=True, slots=True)
class ComponentChanges:
    """The user's changes to one component; ``path`` is the field path of the entry."""

    path: str
    image: str = ""
    flags: tuple[str, ...] = ()
    env: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class PathwaysJob:
    """The request with defaults, every value valid."""

    name: str
    slice: Slice
    slices: int
    """At least 1."""
    mode: DeploymentMode
    namespace: str = ""
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    max_restarts: int = 0
    pathways_dir: str = ""
    pathways_version: str = ""
    template: Mapping[str, Any] | None = None
    """PodTemplateSpec of the user's pod; None is headless."""
    main_container: str = DEFAULT_MAIN_CONTAINER
    metrics: bool = False
    elastic_slices: int = 0
    """Slices that may be missing, less than ``slices``."""
    max_slice_restarts: int = DEFAULT_SLICE_RESTARTS
    worker_grace_seconds: int | None = None
    worker_priority_class: str = ""
    worker_node_selector: Mapping[str, str] = field(default_factory=dict)
    components: Mapping[ComponentType, ComponentChanges] = field(default_factory=dict)
    options: PathwaysOptions = _NO_OPTIONS
    gang_mode: GangMode | None = None
    """Requested on the PathwaysJob: ``Off``, or ``Gang`` for head and workers together."""
    worker_mode: GangMode | None = None
    """Requested for its workers."""
    user_env_wins: bool = False
    """Whether the main container's own variables override those for the proxy, as with flags."""
    sources: Mapping[str, Origin] = field(default_factory=dict)
    """Origins of values that are not the PathwaysJob's own, by their field path there."""

    @property
    def headless(self) -> bool:
        """Whether there is no user pod: a client connects from outside."""
        return self.template is None

    @property
    def colocated(self) -> bool:
        """Whether the head runs beside the workers, also without a user pod."""
        return self.mode is DeploymentMode.COLOCATE

    @property
    def vms(self) -> int:
        """Worker pods of all slices."""
        return self.slices * self.slice.vms

    def origin(self, path: str) -> Origin:
        """The origin of the value at a field path of the PathwaysJob: that of the longest known prefix."""
        known = [source for source in self.sources if path == source or path.startswith((f"{source}.", f"{source}["))]
        return self.sources[max(known, key=len)] if known else Origin(OriginKind.FIELD, path)


TOPOLOGY_REQUESTS: Final = "kueue.x-k8s.io/podset-"
"""Prefix of the annotations that request a placement by Kueue."""


@dataclass(frozen=True, slots=True)
class GangLevels:
    """At most one of the two levels is a gang."""

    jobset: GangMode
    """``Gang`` is head and workers together."""
    worker: GangMode

    @property
    def any(self) -> bool:
        """Whether there is a gang at all."""
        return self.jobset is GangMode.GANG or self.worker is not GangMode.OFF


NO_GANGS: Final = GangLevels(GangMode.OFF, GangMode.OFF)


def asks_for_mode(job: PathwaysJob) -> bool:
    """Whether the user has chosen its gangs, or that there is none."""
    return job.gang_mode is not None or job.worker_mode is not None


def gangs(job: PathwaysJob) -> GangLevels:
    """The gangs of a job: requested on either level, or gangctl's choice."""
    if job.gang_mode is GangMode.GANG:
        return GangLevels(GangMode.GANG, GangMode.OFF)
    if job.worker_mode is not None:
        return GangLevels(GangMode.OFF, job.worker_mode)
    if job.gang_mode is GangMode.OFF or placed_by_kueue(job):
        return NO_GANGS
    if job.colocated:
        return NO_GANGS if job.elastic_slices else GangLevels(GangMode.GANG, GangMode.OFF)
    at_once = job.slices > 1 and not (job.elastic_slices or queued(job) or _has_topology(job))
    return GangLevels(GangMode.OFF, GangMode.GANG if at_once else GangMode.REPLICATED_GANG)


def wants_gang(job: PathwaysJob) -> bool:
    """Whether any of its pods start together; a list of gangs may leave out the workers."""
    return GANGS in job.annotations or gangs(job).any


def queued(job: PathwaysJob) -> bool:
    """Whether it waits in a queue of Kueue, which reserves all of its slices at once."""
    return bool(job.labels.get(QUEUE_NAME))


def _has_topology(job: PathwaysJob) -> bool:
    """Whether each gang has to be in one domain, which does not fit several slices."""
    return read_options(job.annotations.get(GANG_OPTIONS, "{}"), "", []).topology_key is not None


def sliced(job: PathwaysJob) -> bool:
    """Whether slices are parts of, or composed of, node pools."""
    return (job.options.slicing or Slicing.NONE) is not Slicing.NONE


def placed_by_kueue(job: PathwaysJob) -> bool:
    """Whether Kueue chooses the workers' nodes: with dynamic slices, or an annotation."""
    return sliced(job) or asks_for_topology(job.annotations)


def asks_for_topology(annotations: Mapping[str, str]) -> bool:
    """Whether annotations request Kueue's topology-aware scheduling."""
    return any(key.startswith(TOPOLOGY_REQUESTS) for key in annotations)


def together(job: PathwaysJob) -> bool:
    """Whether head and workers have to be created together, because the head waits for a node of a worker."""
    return job.colocated or gangs(job).jobset is GangMode.GANG


def startup(job: PathwaysJob) -> Startup:
    """The order in which head and workers are created."""
    return job.options.startup or (Startup.ANY_ORDER if together(job) else Startup.IN_ORDER)


LABEL_CHARACTERS: Final = 63
ADDRESS_CHARACTERS: Final = LABEL_CHARACTERS - len(f"-{HEAD}-0-0.")
"""Maximum length of name and subdomain together."""

_DNS_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DIGITS: Final = 7
_POD_SUFFIX: Final = "-abcde"


def is_dns_1035(text: str) -> bool:
    """Whether a text is a valid name of a Service or a Job's pod, except for its length."""
    return _DNS_1035.fullmatch(text) is not None


def subdomain(job: PathwaysJob) -> str:
    """The subdomain to write into the JobSet; empty if JobSet's default, its name, is sufficient.

    A short one depends on the name alone: it is stable over restarts, and unique in a namespace.
    """
    asked = job.options.subdomain or ""
    if asked != AUTO:
        return asked
    if len(job.name) <= NAME_CHARACTERS:
        return ""
    return f"p{hashlib.sha256(job.name.encode('utf-8', 'surrogatepass')).hexdigest()[:_DIGITS]}"


def longest_pod(job: PathwaysJob) -> str:
    """The longest name of a pod, with what the Job controller appends."""
    worker = f"{job.name}-{WORKER}-{job.slices - 1}-{job.slice.vms - 1}{_POD_SUFFIX}"
    head = f"{job.name}-{HEAD}-0-0{_POD_SUFFIX}"
    return max(worker, head, key=len)
