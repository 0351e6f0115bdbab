"""Labels and annotations: which of a PathwaysJob's are copied, to which level, and gangctl's own, as those of gangs.

Bookkeeping keys of other tools are not copied: an applied configuration belongs to another object, and a GitOps tool
prunes objects that have its labels. Keys of Kueue and JobSet are requests: each is copied to the one level to which it
applies.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from gangctl.api.meta import (
    EXCLUSIVE_TOPOLOGY,
    GANG_MODE,
    GANG_OPTIONS,
    GANG_REF,
    GANGS,
    MANAGED_BY,
    MANAGER,
    NODE_SELECTOR_STRATEGY,
)
from gangctl.api.pods import HOSTNAME
from gangctl.gang.config import GangMode
from gangctl.gang.reasons import Notice, Reason
from gangctl.pathways import words
from gangctl.pathways.job import (
    NO_GANGS,
    TOPOLOGY_REQUESTS,
    GangLevels,
    PathwaysJob,
    asks_for_mode,
    asks_for_topology,
    gangs,
    placed_by_kueue,
    queued,
    sliced,
    wants_gang,
)
from gangctl.pathways.options import Slicing
from gangctl.pathways.result import From, Profile, RenderingInputs, rule

TOPOLOGY_KEY: Final = "topologyKey"
"""Option of a gang: all of its pods are placed on nodes with one value of this label."""
COMPOSITE: Final = "composite"
"""Option of gangs: they start together."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The gangs, and their annotations; None omits one."""

    gangs: GangLevels
    jobset: From | None = None
    """Mode of the JobSet."""
    worker: From | None = None
    """Mode of the workers, on their Job template."""
    options: From | None = None
    """Options of all gangs, on the JobSet; without them the PathwaysJob's are copied."""
    notices: tuple[Notice, ...] = ()


def choose(job: PathwaysJob, setting: RenderingInputs) -> Choice:
    """The requested gangs, if the cluster supports gangs, or defaults for the job and the profile."""
    asked = asks_for_mode(job)
    if setting.profile is Profile.XPK and not asked:
        return Choice(NO_GANGS)
    wanted = gangs(job)
    together = setting.composite and not asked and _slices_together(job, wanted)
    if together:
        wanted = GangLevels(GangMode.OFF, GangMode.REPLICATED_GANG)
    if wants_gang(job) and not setting.gangs:
        off = rule(str(GangMode.OFF), setting.reason)
        rest = "affinity keeps head and workers together" if job.colocated else "its workers keep exclusive placement"
        no_api = Notice(Reason.GANG_CHOICE, f"No gang: {setting.reason}; {rest}.")
        return Choice(NO_GANGS, off, notices=(no_api,))
    choice = _chosen(job, wanted)
    if asked:
        choice = Choice(wanted)
        if GANGS not in job.annotations:  # a copy of the list is enough
            modes = (GANG_MODE, job.gang_mode), (words.WORKER_MODE, job.worker_mode)
            jobset, worker = (
                None if mode is None else From(str(mode), job.origin(words.annotation(key))) for key, mode in modes
            )
            choice = Choice(wanted, jobset, worker)
    notices = () if asked or together else tuple(_choice_notices(job, wanted))
    options = _options(job, wanted, composite=together) if setting.topology and GANGS not in job.annotations else None
    return replace(choice, options=options, notices=notices)


def _slices_together(job: PathwaysJob, wanted: GangLevels) -> bool:
    """Whether gangs of one slice each should start together: all slices are needed, and no queue reserves them."""
    several = wanted.worker is not GangMode.OFF and job.slices > 1
    given = json.loads(job.annotations.get(GANG_OPTIONS, "{}"))
    return several and not (job.elastic_slices or queued(job)) and COMPOSITE not in given


def _chosen(job: PathwaysJob, wanted: GangLevels) -> Choice:
    if not wanted.any:
        elastic = "a gang of head and workers could not start, or recover, with a slice missing"
        why = "Kueue chooses the workers' nodes" if placed_by_kueue(job) else elastic
        return Choice(wanted, jobset=rule(str(GangMode.OFF), why))
    if wanted.jobset is GangMode.GANG:
        return Choice(wanted, jobset=rule(str(GangMode.GANG), "head and workers compete for the same nodes"))
    whole = "the job" if wanted.worker is GangMode.GANG else "a slice"
    return Choice(wanted, worker=rule(str(wanted.worker), f"{whole} is of no use unless all of its pods run"))


def _options(job: PathwaysJob, wanted: GangLevels, *, composite: bool) -> From | None:
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
    added: dict[str, Any] = {} if TOPOLOGY_KEY in given else {TOPOLOGY_KEY: words.GKE_NODEPOOL}
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
    origin = job.origin(words.annotation(GANG_OPTIONS))
    return From(text, replace(origin, why=f"with {' and '.join(added)}: {why}"))


def _choice_notices(job: PathwaysJob, wanted: GangLevels) -> Iterator[Notice]:
    """Notices about the limits of a default choice."""
    if job.colocated and job.elastic_slices:
        message = (
            "No gang: one of head and workers could not start, or recover, with a slice missing, and elasticSlices is "
            f'{job.elastic_slices}. With {words.WORKER_MODE}: "ReplicatedGang" each slice starts whole, '
            "apart from the head."
        )
        yield Notice(Reason.GANG_CHOICE, message)
    elif wanted.worker is GangMode.REPLICATED_GANG and job.slices > 1 and not (job.elastic_slices or queued(job)):
        message = (
            f"Each of the {job.slices} slices is a gang of its own, because {TOPOLOGY_KEY} is of each gang: two jobs "
            "can each hold slices that the other one waits for. A queue of Kueue reserves all of them at once; without "
            f"{TOPOLOGY_KEY} they start together."
        )
        yield Notice(Reason.GANG_CHOICE, message)


Tree = dict[str, Any]

XPK_LABEL: Final = "xpk.google.com/workload"
BOOKKEEPING: Final = (
    "kubectl.kubernetes.io/", "applyset.kubernetes.io/", "app.kubernetes.io/instance", "app.kubernetes.io/managed-by",
    "argocd.argoproj.io/", "kustomize.toolkit.fluxcd.io/", "helm.toolkit.fluxcd.io/", "meta.helm.sh/", "helm.sh/",
    "kapp.k14s.io/", "config.kubernetes.io/", "internal.config.kubernetes.io/", "config.k8s.io/",
    "configmanagement.gke.io/", "configsync.gke.io/", "objectset.rio.cattle.io/",
)  # fmt: skip
"""Prefixes of keys by which kubectl, Helm, Argo CD, Flux, kapp, kpt, Config Sync and Fleet find their objects."""

_OWN: Final = "gangctl.dev/"
_OF_PATHWAYS: Final = "gangctl.dev/pathways-"
_REQUESTS: Final = (
    _OWN,
    "kueue.x-k8s.io/",
    "provreq.kueue.x-k8s.io/",
    "jobset.sigs.k8s.io/",
    "alpha.jobset.sigs.k8s.io/",
)
"""Prefixes of keys that are requests to JobSet; on pods they would be repeated, or requests of the pods."""

_REQUIRED_TOPOLOGY: Final = "kueue.x-k8s.io/podset-required-topology"
_SLICE_TOPOLOGY: Final = "kueue.x-k8s.io/podset-slice-required-topology"
_SLICE_SIZE: Final = "kueue.x-k8s.io/podset-slice-size"
_PARTITIONED: Final = "tpu7x"
"""The generation whose nodes are labelled by partition, not by slice."""


def jobset_metadata(job: PathwaysJob, setting: RenderingInputs, choice: Choice) -> Tree:
    """``metadata`` of the JobSet."""
    metadata: Tree = {"name": From(job.name, job.origin("metadata.name"))}
    if job.namespace:
        metadata["namespace"] = From(job.namespace, job.origin("metadata.namespace"))
    metadata["labels"] = {
        **_travelling(job, "labels", job.labels),
        MANAGED_BY: rule(MANAGER, "who made this JobSet"),
        **_own_labels(job),
        **_xpk_labels(job, setting),
    }
    # Requests for a topology are those of the workers' pods: with them Kueue would find no node for the head.
    kept_back = (GANG_MODE, GANG_REF, TOPOLOGY_REQUESTS, *(() if setting.gangs else (GANGS,)))
    annotations = _travelling(job, "annotations", job.annotations, kept_back=kept_back)
    annotations |= _present({GANG_MODE: choice.jobset, GANG_OPTIONS: choice.options})
    return {**metadata, **_filled("annotations", annotations), **_owner(job)}


def head_job_metadata(job: PathwaysJob) -> Tree:
    """``metadata`` of the head's Job template."""
    annotations = _travelling(job, "annotations", job.annotations, kept_back=_REQUESTS)
    return _filled("annotations", {**annotations, **_present({EXCLUSIVE_TOPOLOGY: exclusive_head(job)})})


def head_pod_metadata(job: PathwaysJob) -> Tree:
    """``metadata`` of the head's pod: the template's, the PathwaysJob's for keys that the template has not."""
    given: Mapping[str, Any] = (job.template or {}).get("metadata") or {}
    labels = {
        **_travelling(job, "labels", job.labels, kept_back=_REQUESTS),
        **_of_template(job, "labels", given),
        **_own_labels(job),
    }
    annotations = {
        **_travelling(job, "annotations", job.annotations, kept_back=_REQUESTS),
        **_of_template(job, "annotations", given),
    }
    return {**_filled("labels", labels), **_filled("annotations", annotations)}


def worker_job_metadata(job: PathwaysJob, choice: Choice) -> Tree:
    """``metadata`` of the workers' Job template: their gang and their exclusive placement."""
    annotations = {GANG_MODE: choice.worker, EXCLUSIVE_TOPOLOGY: exclusive_workers(job, choice)}
    strategy = job.annotations.get(NODE_SELECTOR_STRATEGY)
    if annotations[EXCLUSIVE_TOPOLOGY] is not None and strategy is not None:
        # JobSet takes the strategy from where it takes the topology, and that of the JobSet does not apply here.
        origin = job.origin(f"metadata.annotations[{NODE_SELECTOR_STRATEGY}]")
        annotations[NODE_SELECTOR_STRATEGY] = From(strategy, origin)
    return _filled("annotations", _present(annotations))


def worker_pod_metadata(job: PathwaysJob, setting: RenderingInputs) -> Tree:
    """``metadata`` of the workers' pods: requests to Kueue and GKE about their nodes are only here."""
    labels = {**_own_labels(job), **_xpk_labels(job, setting)}
    asked = _travelling(job, "annotations", _topology_requests(job))
    return {"labels": labels, **_filled("annotations", {**_slice_requests(job), **asked})}


def exclusive_head(job: PathwaysJob) -> From | None:
    """The head's exclusive placement: harmless in any gang, as its Job has one pod."""
    if job.colocated:
        return None
    return rule(HOSTNAME, "two heads on one node would compete for ports and mix up connections")


def exclusive_workers(job: PathwaysJob, choice: Choice) -> From | None:
    """The workers' exclusive placement, if it neither deadlocks nor conflicts with other options."""
    if job.colocated or sliced(job) or deadlocks(job, choice):
        return None
    return rule(words.GKE_NODEPOOL, "one slice per node pool")


def deadlocks(job: PathwaysJob, choice: Choice) -> bool:
    """Whether exclusive placement and a gang of the workers would wait for each other."""
    return choice.gangs.any and job.slice.vms > 1 and NODE_SELECTOR_STRATEGY not in job.annotations


def metadata_notices(job: PathwaysJob) -> tuple[Notice, ...]:
    """Notices about the copied annotations."""
    moved = _topology_requests(job)
    if not moved:
        return ()
    message = f"On the workers' pods only, the head's nodes are others: {', '.join(moved)}."
    return (Notice(Reason.METADATA_MOVED, message),)


def _travelling(
    job: PathwaysJob, part: str, keys: Mapping[str, str], *, kept_back: tuple[str, ...] = ()
) -> dict[str, From]:
    """Keys that may be copied from the PathwaysJob, each with its origin."""
    stays = (*BOOKKEEPING, _OF_PATHWAYS, *(job.options.drop_metadata or ()), *kept_back)
    travels = {key: value for key, value in keys.items() if not key.startswith(stays)}
    return {key: From(value, job.origin(f"metadata.{part}[{key}]")) for key, value in travels.items()}


def _of_template(job: PathwaysJob, part: str, metadata: Mapping[str, Any]) -> dict[str, From]:
    path = f"spec.controller.template.metadata.{part}"
    values: Mapping[str, str] = metadata.get(part) or {}
    return {key: From(value, job.origin(f"{path}[{key}]")) for key, value in values.items()}


def _topology_requests(job: PathwaysJob) -> dict[str, str]:
    return {key: value for key, value in job.annotations.items() if key.startswith(TOPOLOGY_REQUESTS)}


def _slice_requests(job: PathwaysJob) -> dict[str, From]:
    """How slices that are no node pools are requested: of GKE by topology, of Kueue by the node label of a slice."""
    if not sliced(job):
        return {}
    why = f"slicing: {job.options.slicing}"
    requests = {words.GKE_SLICE_TOPOLOGY: From(job.slice.topology, job.origin("spec.workers[0].topology"))}
    if job.options.slicing is Slicing.SUPER or asks_for_topology(job.annotations):
        return requests
    kind = "partition" if job.slice.accelerator.generation == _PARTITIONED else "slice"
    level = f"cloud.google.com/gke-tpu-{kind}-{job.slice.topology}-id"
    if job.slices == 1:
        return {**requests, _REQUIRED_TOPOLOGY: rule(level, why)}
    return {**requests, _SLICE_TOPOLOGY: rule(level, why), _SLICE_SIZE: rule(str(job.slice.vms), why)}


def _own_labels(job: PathwaysJob) -> dict[str, From]:
    return {words.JOB_LABEL: rule(job.name, "whose JobSet and pods these are")}


def _xpk_labels(job: PathwaysJob, setting: RenderingInputs) -> dict[str, From]:
    if setting.profile is not Profile.XPK:
        return {}
    return {XPK_LABEL: rule(job.name, "by which XPK lists workloads", "xpk")}


def _owner(job: PathwaysJob) -> Tree:
    if not job.uid:
        return {}
    owner = {
        "apiVersion": rule(words.API_VERSION, "its PathwaysJob"),
        "kind": rule(words.KIND, "its PathwaysJob"),
        "name": From(job.name, job.origin("metadata.name")),
        "uid": From(job.uid, job.origin("metadata.uid")),
        "controller": rule(True, "deleted with the PathwaysJob, and of no other owner"),
        "blockOwnerDeletion": rule(True, "the PathwaysJob waits for it"),
    }
    return {"ownerReferences": [owner]}


def _present(values: Mapping[str, From | None]) -> dict[str, From]:
    return {key: value for key, value in values.items() if value is not None}


def _filled(key: str, value: Mapping[str, From]) -> Tree:
    return {key: value} if value else {}
