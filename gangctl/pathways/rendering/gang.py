"""Gangs of a rendering, and their annotations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from gangctl.api.meta import GANG_MODE, GANG_OPTIONS, GANGS
from gangctl.gang.config import GangMode
from gangctl.gang.reasons import Notice, Reason
from gangctl.pathways.gangs import NO_GANGS, Gangs, gangs, placed_by_kueue, queued
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.result import From, Profile, Setting, rule
from gangctl.pathways.words import GKE_NODEPOOL, WORKER_MODE, annotation

TOPOLOGY_KEY: Final = "topologyKey"
"""Option of a gang: all of its pods are placed on nodes with one value of this label."""
COMPOSITE: Final = "composite"
"""Option of gangs: they start together."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The gangs, and their annotations; None omits one."""

    gangs: Gangs
    jobset: From | None = None
    """Mode of the JobSet."""
    worker: From | None = None
    """Mode of the workers, on their Job template."""
    options: From | None = None
    """Options of all gangs, on the JobSet; without them the PathwaysJob's are copied."""
    notices: tuple[Notice, ...] = ()


def choose(job: PathwaysJob, setting: Setting) -> Choice:
    """The requested gangs, if the cluster supports gangs, or defaults for the job and the profile."""
    asked = job.gang_mode is not None or job.worker_mode is not None
    if setting.profile is Profile.XPK and not asked:
        return Choice(NO_GANGS)
    wanted = gangs(job)
    together = setting.composite and not asked and _slices_together(job, wanted)
    if together:
        wanted = Gangs(GangMode.OFF, GangMode.REPLICATED_GANG)
    if wanted.any and not setting.gangs:
        off = rule(str(GangMode.OFF), "this cluster has no API for gangs")
        rest = "affinity keeps head and workers together" if job.colocated else "its workers keep exclusive placement"
        no_api = Notice(Reason.GANG_CHOICE, f"No gang: this cluster has no API for gangs; {rest}.")
        return Choice(NO_GANGS, off, notices=(no_api,))
    choice = _chosen(job, wanted)
    if asked:
        choice = Choice(wanted)
        if GANGS not in job.annotations:  # a copy of the list is enough
            modes = (GANG_MODE, job.gang_mode), (WORKER_MODE, job.worker_mode)
            jobset, worker = (
                None if mode is None else From(str(mode), job.origin(annotation(key))) for key, mode in modes
            )
            choice = Choice(wanted, jobset, worker)
    notices = () if asked or together else tuple(_choice_notices(job, wanted))
    options = _options(job, wanted, composite=together) if setting.topology and GANGS not in job.annotations else None
    return replace(choice, options=options, notices=notices)


def _slices_together(job: PathwaysJob, wanted: Gangs) -> bool:
    """Whether gangs of one slice each should start together: all slices are needed, and no queue reserves them."""
    several = wanted.worker is not GangMode.OFF and job.slices > 1
    given = json.loads(job.annotations.get(GANG_OPTIONS, "{}"))
    return several and not (job.elastic_slices or queued(job)) and COMPOSITE not in given


def _chosen(job: PathwaysJob, wanted: Gangs) -> Choice:
    if not wanted.any:
        elastic = "a gang of head and workers could not start, or recover, with a slice missing"
        why = "Kueue chooses the workers' nodes" if placed_by_kueue(job) else elastic
        return Choice(wanted, jobset=rule(str(GangMode.OFF), why))
    if wanted.jobset is GangMode.GANG:
        return Choice(wanted, jobset=rule(str(GangMode.GANG), "head and workers compete for the same nodes"))
    whole = "the job" if wanted.worker is GangMode.GANG else "a slice"
    return Choice(wanted, worker=rule(str(wanted.worker), f"{whole} is of no use unless all of its pods run"))


def _options(job: PathwaysJob, wanted: Gangs, *, composite: bool) -> From | None:
    """The options with the node pool as topology, if every gang is one slice and the user set none.

    With ``composite`` these gangs start together.

    With affinity alone the scheduler repeatedly tries the pool of the best node, although not all nodes of that pool
    are free; with the topology, it tries the pools one by one.
    """
    of_slice = wanted.worker is GangMode.REPLICATED_GANG or (wanted.worker is GangMode.GANG and job.slices == 1)
    in_one_place = wanted.jobset is GangMode.GANG and job.colocated and job.slices == 1
    if not (of_slice or in_one_place) or placed_by_kueue(job):
        return None
    given = json.loads(job.annotations.get(GANG_OPTIONS, "{}"))
    added: dict[str, Any] = {} if TOPOLOGY_KEY in given else {TOPOLOGY_KEY: GKE_NODEPOOL}
    if composite:
        added[COMPOSITE] = True
    if not added:
        return None
    reasons = {
        TOPOLOGY_KEY: "a slice is a node pool: pools are tried one by one",
        COMPOSITE: "the job needs all of its slices",
    }
    text, why = json.dumps({**given, **added}), "; ".join(reasons[key] for key in added)
    if not given:
        return rule(text, why)
    origin = job.origin(annotation(GANG_OPTIONS))
    return From(text, replace(origin, why=f"with {' and '.join(added)}: {why}"))


def _choice_notices(job: PathwaysJob, wanted: Gangs) -> Iterator[Notice]:
    """Notices about the limits of a default choice."""
    if job.colocated and job.elastic_slices:
        message = (
            "No gang: one of head and workers could not start, or recover, with a slice missing, and elasticSlices is "
            f'{job.elastic_slices}. With {WORKER_MODE}: "ReplicatedGang" each slice starts whole, apart from the head.'
        )
        yield Notice(Reason.GANG_CHOICE, message)
    elif wanted.worker is GangMode.REPLICATED_GANG and job.slices > 1 and not (job.elastic_slices or queued(job)):
        message = (
            f"Each of the {job.slices} slices is a gang of its own, because {TOPOLOGY_KEY} is of each gang: two jobs "
            "can each hold slices that the other one waits for. A queue of Kueue reserves all of them at once; without "
            f"{TOPOLOGY_KEY} they start together."
        )
        yield Notice(Reason.GANG_CHOICE, message)
