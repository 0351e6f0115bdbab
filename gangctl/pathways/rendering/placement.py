"""Placement of pods: a slice on an exclusive node pool, a head on a separate node, or both on the same nodes.

A pool of TPU nodes is one slice and has as many nodes as the slice has VMs, so that "all pods of one Job in one pool,
and no other pods there" is sufficient. JobSet's exclusive placement does the same, but admits pods only after the
first of their Job has a node, which deadlocks a gang of several pods. Here pod affinity has the same effect, and
needs only the scheduler; JobSet's annotation is added if it cannot deadlock.

Every required term matches the pod that has it: the scheduler may place the first such pod anywhere, and the others
follow. Terms that match only other pods would wait for them. As Kubernetes counts only pods that match all
required terms of a pod together, none gets two of them that other pods match.

Only pods of the same priority are excluded, as by JobSet: the scheduler preempts node by node, so that one pod of
lower priority on another node of the pool would block all pods of higher priority.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.api.meta import (
    EXCLUSIVE_TOPOLOGY,
    JOB_KEY,
    JOBSET_NAME,
    JOBSET_PRIORITY,
    JOBSET_UID,
    NODE_SELECTOR_STRATEGY,
    REPLICATED_JOB_NAME,
)
from gangctl.errors import plural
from gangctl.gang.reasons import Notice, Reason
from gangctl.pathways.gangs import sliced
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.origins import From, rule
from gangctl.pathways.rendering.gang import Choice
from gangctl.pathways.rendering.pod import user_pod
from gangctl.pathways.result import Profile, Setting
from gangctl.pathways.words import GKE_NODEPOOL, HOSTNAME, POD, WORKER

Tree = dict[str, Any]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_HEAVIEST: Final = 100


def exclusive_head(job: PathwaysJob) -> From | None:
    """The head's exclusive placement: harmless in any gang, as its Job has one pod."""
    if job.colocated:
        return None
    return rule(HOSTNAME, "two heads on one node would compete for ports and mix up connections")


def exclusive_workers(job: PathwaysJob, choice: Choice) -> From | None:
    """The workers' exclusive placement, if it neither deadlocks nor conflicts with other options."""
    if job.colocated or sliced(job) or deadlocks(job, choice):
        return None
    return rule(GKE_NODEPOOL, "one slice per node pool")


def deadlocks(job: PathwaysJob, choice: Choice) -> bool:
    """Whether exclusive placement and a gang of the workers would wait for each other."""
    return choice.gangs.any and job.slice.vms > 1 and NODE_SELECTOR_STRATEGY not in job.annotations


def placement_notices(job: PathwaysJob, choice: Choice) -> tuple[Notice, ...]:
    """Notices about the placement."""
    if job.colocated:
        return _head_notices(job)
    if sliced(job) or not deadlocks(job, choice):
        return ()
    message = (
        f"Without {EXCLUSIVE_TOPOLOGY} on the workers: it would deadlock with gangs of "
        f"{plural(job.slice.vms, 'pod')} per slice. Pod affinity keeps each slice on a node pool of its own."
    )
    return (Notice(Reason.GANG_DISABLED, message),)


def _head_notices(job: PathwaysJob) -> tuple[Notice, ...]:
    """Notice for a colocated head if its placement beside the workers is only preferred."""
    if sliced(job):
        why = "Kueue chooses the workers' nodes, whatever the head needs"
    elif _requires_pods(job):
        path = job.origin(f"{POD}.affinity.podAffinity").place
        why = f"{path} requires other pods, and Kubernetes counts only pods that match all required terms"
    else:
        return ()
    message = f"The head is beside the workers if there is room, and elsewhere if not: {why}."
    return (Notice(Reason.HEAD_MAY_BE_APART, message),)


def worker_affinity(job: PathwaysJob, setting: Setting, choice: Choice) -> Tree:
    """The ``affinity`` of workers, empty if another component places them: Kueue slices, JobSet for XPK."""
    if sliced(job) or (setting.profile is Profile.XPK and exclusive_workers(job, choice) is not None):
        return {}
    if not job.colocated:
        return {
            "podAffinity": {_REQUIRED: [_own_slice(job)]},
            "podAntiAffinity": {_REQUIRED: [rule(_OTHER_JOBS, "no other Job's pods in the slice's node pool")]},
        }
    own = _own_pods(job, "head and workers in one node pool")
    alone = [*_other_jobsets(job), rule(_OTHER_WORKERS, "a node pool holds one slice")]
    strangers = {_REQUIRED: alone}
    if job.slices == 1:
        return {"podAffinity": {_REQUIRED: [own]}, "podAntiAffinity": strangers}
    weighed = {
        "weight": rule(_HEAVIEST, "before all else that is only preferred"),
        "podAffinityTerm": _own_pods(job, "one of the slices goes to the head's node pool"),
    }
    affinity = {_REQUIRED: [_own_slice(job)], _PREFERRED: [weighed]}
    return {"podAffinity": affinity, "podAntiAffinity": strangers}


def head_affinity(job: PathwaysJob) -> Tree:
    """The ``affinity`` of the head: the user's, and beside the workers in colocate mode."""
    given = _users(job, "affinity")
    if not job.colocated:
        return given
    pods, strangers = _marked(given.get("podAffinity"), job), _marked(given.get("podAntiAffinity"), job)
    own = _own_pods(job, "head and workers in one node pool")
    if sliced(job) or _requires_pods(job):
        # Kueue places the workers regardless of the head; and with a required term of the user's only pods that
        # match both would count, which no worker does.
        weighed = {"weight": rule(_HEAVIEST, "before all else that is only preferred"), "podAffinityTerm": own}
        pods[_PREFERRED] = [*pods.get(_PREFERRED, []), weighed]
    else:
        pods[_REQUIRED] = [own]
    if sliced(job):
        return {**given, "podAffinity": pods}
    strangers[_REQUIRED] = [*strangers.get(_REQUIRED, []), *_other_jobsets(job)]
    # In a pool of another priority a head may fit, but not the workers that have to follow it.
    weighed = {"weight": rule(_HEAVIEST, "before all else that is only preferred"), "podAffinityTerm": _any_other(job)}
    strangers[_PREFERRED] = [*strangers.get(_PREFERRED, []), weighed]
    return {**given, "podAffinity": pods, "podAntiAffinity": strangers}


def _users(job: PathwaysJob, field: str) -> Tree:
    given = user_pod(job).get(field) or {}
    return {key: From(value, job.origin(f"{POD}.{field}.{key}")) for key, value in given.items()}


def _requires_pods(job: PathwaysJob) -> bool:
    affinity: Mapping[str, Any] = user_pod(job).get("affinity") or {}
    return bool((affinity.get("podAffinity") or {}).get(_REQUIRED))


def _marked(part: From | None, job: PathwaysJob) -> dict[str, list[Any]]:
    """The user's pod affinity, or anti-affinity, split so that terms can be added."""
    if part is None:
        return {}
    place = part.origin.place
    return {
        key: [From(term, job.origin(f"{place}.{key}[{index}]")) for index, term in enumerate(terms)]
        for key, terms in part.value.items()
    }


def _expression(key: str, operator: str, *values: str) -> Tree:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def _pods(*expressions: Tree, **more: Any) -> Tree:
    """A term about pods that match all expressions, by node pool."""
    return {"labelSelector": {"matchExpressions": list(expressions)}, **more, "topologyKey": GKE_NODEPOOL}


def _own_pods(job: PathwaysJob, why: str) -> From:
    return rule(_pods(_expression(JOBSET_NAME, "In", job.name)), why)


def _own_slice(job: PathwaysJob) -> From:
    term = _pods(_expression(JOBSET_NAME, "In", job.name), matchLabelKeys=[JOB_KEY])
    return rule(term, "all pods of a slice in one node pool")


def _other_jobsets(job: PathwaysJob) -> list[From]:
    """Pods of JobSets with other names, and of those with this name in other namespaces (JobSet 0.10 and later)."""
    namesakes = _strangers(_expression(JOBSET_NAME, "In", job.name), mismatchLabelKeys=[JOBSET_UID])
    return [
        rule(_strangers(*_others(job)), "no other JobSet's pods in the node pool"),
        rule(namesakes, "nor those of a JobSet with this name in another namespace"),
    ]


def _any_other(job: PathwaysJob) -> From:
    term = _pods(*_others(job), namespaceSelector={})
    return rule(term, "a node pool without other JobSets' pods, of whatever priority, if there is one")


def _others(job: PathwaysJob) -> tuple[Tree, Tree]:
    return _expression(JOBSET_NAME, "Exists"), _expression(JOBSET_NAME, "NotIn", job.name)


def _strangers(*expressions: Tree, **more: Any) -> Tree:
    """A term about pods of all namespaces, of the priority of the pod that has it."""
    return _pods(*expressions, matchLabelKeys=[JOBSET_PRIORITY], **more, namespaceSelector={})


_OTHER_JOBS: Final = _strangers(_expression(JOBSET_NAME, "Exists"), mismatchLabelKeys=[JOB_KEY])
_OTHER_WORKERS: Final = _strangers(_expression(REPLICATED_JOB_NAME, "In", WORKER), mismatchLabelKeys=[JOB_KEY])
