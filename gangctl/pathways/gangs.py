"""Gangs of a PathwaysJob: the requested ones, or defaults.

A job needs complete slices, and all of them: two jobs could each hold slices that the other one waits for, so that all
workers are one group. If a queue of Kueue reserves all slices at once, or the job continues without some
(``elasticSlices``), a slice is the unit that is lost and restarted, and a separate group. A colocated head competes
with the workers for the same nodes: then all are one group. Kueue's topology-aware scheduling chooses nodes itself, and
a job with a colocated head and elastic slices cannot be one group; neither gets any.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gangctl.api.meta import GANG_OPTIONS, QUEUE_NAME
from gangctl.gang.config import GangMode, read_options
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.options import Slicing, Startup

TOPOLOGY_REQUESTS: Final = "kueue.x-k8s.io/podset-"
"""Prefix of the annotations that request a placement by Kueue."""


@dataclass(frozen=True, slots=True)
class Gangs:
    """At most one of the two levels is a gang."""

    jobset: GangMode
    """``Gang`` is head and workers together."""
    worker: GangMode

    @property
    def any(self) -> bool:
        """Whether there is a gang at all."""
        return self.jobset is GangMode.GANG or self.worker is not GangMode.OFF


NO_GANGS: Final = Gangs(GangMode.OFF, GangMode.OFF)


def gangs(job: PathwaysJob) -> Gangs:
    """The gangs of a job: requested on either level, or gangctl's choice."""
    if job.gang_mode is GangMode.GANG:
        return Gangs(GangMode.GANG, GangMode.OFF)
    if job.worker_mode is not None:
        return Gangs(GangMode.OFF, job.worker_mode)
    if job.gang_mode is GangMode.OFF or placed_by_kueue(job):
        return NO_GANGS
    if job.colocated:
        return NO_GANGS if job.elastic_slices else Gangs(GangMode.GANG, GangMode.OFF)
    at_once = job.slices > 1 and not (job.elastic_slices or queued(job) or _has_topology(job))
    return Gangs(GangMode.OFF, GangMode.GANG if at_once else GangMode.REPLICATED_GANG)


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
