"""Placement of pods: a slice on an exclusive node pool, a head on a separate node, or both on the same nodes.

A pool of TPU nodes is one slice and has as many nodes as the slice has VMs, so that "all pods of one Job in one
pool, and no other pods there" is sufficient. JobSet's exclusive placement does the same, but admits pods only after
the first of their Job has a node, which deadlocks a gang of several pods. Here pod affinity has the same effect, and
needs only the scheduler; JobSet's annotation is added if it cannot deadlock.

Every required term matches the pod that has it: the scheduler may place the first such pod anywhere, and the others
follow. Terms that match only other pods would wait for them. As Kubernetes counts only pods that match all required
terms of a pod together, none gets two of them that other pods match.

Only pods of the same priority are excluded, as by JobSet: the scheduler preempts node by node, so that one pod of lower
priority on another node of the pool would block all pods of higher priority.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gangctl.api import meta
from gangctl.api.fieldpath import FieldPath
from gangctl.api.pods import REQUIRED
from gangctl.errors import plural
from gangctl.gang.reasons import Notice, Reason
from gangctl.pathways import words
from gangctl.pathways.job import PathwaysJob, sliced
from gangctl.pathways.rendering.containers import SHARED_TMP, TMP_VOLUME
from gangctl.pathways.rendering.metadata import Choice, deadlocks, exclusive_workers
from gangctl.pathways.result import From, Origin, OriginKind, Profile, RenderingInputs, option, plain, rule

Tree = dict[str, Any]


def user_pod(job: PathwaysJob) -> Mapping[str, Any]:
    """The user's pod spec, empty without one."""
    spec: Mapping[str, Any] = (job.template or {}).get("spec") or {}
    return spec


def given(job: PathwaysJob, value: Any, path: str) -> From:
    """A value of the user's at ``path``, with nested values that have other origins."""
    origin = job.origin(path)
    if not any(source.startswith((f"{path}.", f"{path}[")) for source in job.sources):
        return From(value, origin)
    if isinstance(value, Mapping):
        place = FieldPath.parse(path)
        return From({key: given(job, entry, str(place.child(key))) for key, entry in value.items()}, origin)
    if isinstance(value, list):
        return From([given(job, entry, f"{path}[{index}]") for index, entry in enumerate(value)], origin)
    return From(value, origin)


def host_network() -> Tree:
    """The node's network, with the cluster's names: Pathways talks between nodes at full speed."""
    why = "Pathways uses the node's network"
    return {"hostNetwork": rule(True, why), "dnsPolicy": rule("ClusterFirstWithHostNet", f"{why} and cluster names")}


def worker_grace_period(job: PathwaysJob) -> Tree:
    """``terminationGracePeriodSeconds`` of the workers, where it was chosen."""
    if job.worker_grace_seconds is None:
        return {}
    path = f"{words.WORKERS}.terminationGracePeriodSeconds"
    return {"terminationGracePeriodSeconds": From(job.worker_grace_seconds, job.origin(path))}


def head_grace_period(job: PathwaysJob) -> Tree:
    """The template's, or the workers': in the head a client saves its state."""
    seconds = user_pod(job).get("terminationGracePeriodSeconds")
    if seconds is None:
        return worker_grace_period(job)
    return {"terminationGracePeriodSeconds": From(seconds, job.origin(f"{words.POD}.terminationGracePeriodSeconds"))}


def priority_classes(job: PathwaysJob) -> tuple[Tree, Tree]:
    """``priorityClassName`` of head and workers: the same, unless the PathwaysJob says two.

    A head of lower priority would be preempted, and the whole job with it.
    """
    of_head, of_workers = user_pod(job).get("priorityClassName"), job.worker_priority_class
    head = From(of_head, job.origin(f"{words.POD}.priorityClassName")) if of_head else None
    workers = From(of_workers, job.origin(f"{words.WORKERS}.priorityClassName")) if of_workers else None
    return _priority(head or workers), _priority(workers or head)


def shared_tmp(containers: Iterable[Any]) -> list[From]:
    """The volume that is the node's /tmp, where one of gangctl's own containers mounts it.

    A user's mount of that name does not get it: access to the node needs an explicit volume.
    """
    mounts = [mount for container in containers for mount in plain(container).get("volumeMounts") or ()]
    if all(mount.get("name") != SHARED_TMP for mount in mounts):
        return []
    return [rule(TMP_VOLUME, "containers mount it")]


def _priority(name: From | None) -> Tree:
    return {} if name is None else {"priorityClassName": name}


XPK_HEAD_POOL: Final = "cpu-np"
"""The node pool that XPK makes for heads."""

TPU_TOLERATION: Final = {"key": words.TPU, "operator": "Exists", "effect": "NoSchedule"}


def head_tolerations(job: PathwaysJob) -> list[From]:
    """The user's, and that of TPU nodes for a head that goes there: it requests no TPU, so GKE does not add it."""
    given = user_pod(job).get("tolerations") or []
    path = f"{words.POD}.tolerations"
    users = [From(entry, job.origin(f"{path}[{index}]")) for index, entry in enumerate(given)]
    if not job.colocated or any(_tolerates_tpu(toleration) for toleration in given):
        return users
    return [*users, rule(TPU_TOLERATION, "the head goes to TPU nodes without requesting a TPU")]


def worker_node_selector(job: PathwaysJob) -> dict[str, From]:
    """Labels of the workers' nodes; the slice's own win."""
    labels = _tpu_labels(job)
    return {**labels, **_without(_asked_of_workers(job), labels)}


def head_node_selector(job: PathwaysJob, setting: RenderingInputs) -> dict[str, From]:
    """Labels of the head's node: the template's; without any the option's; in colocate mode the workers', too."""
    given = user_pod(job).get("nodeSelector") or {}
    users = {key: From(value, job.origin(f"{words.POD}.nodeSelector[{key}]")) for key, value in given.items()}
    if job.colocated:
        labels = _tpu_labels(job)
        return {**labels, **_without(_asked_of_workers(job), labels), **_without(users, labels)}
    pod = user_pod(job)
    if users or pod.get("nodeName") or (pod.get("affinity") or {}).get("nodeAffinity"):
        return users
    chosen = job.options.head_node_selector
    if chosen is not None:
        flag = job.sources.get(words.option_path("headNodeSelector"))
        if flag is not None:
            return {key: From(value, flag) for key, value in chosen.items()}
        return {key: option(value, f"headNodeSelector.{key}") for key, value in chosen.items()}
    if setting.profile is Profile.XPK:
        return {words.GKE_NODEPOOL: rule(XPK_HEAD_POOL, "the node pool that XPK makes for heads", "xpk")}
    return {}


def _tpu_labels(job: PathwaysJob) -> dict[str, From]:
    """Of a node with the slice's VMs; cut out or put together, its node pool has another topology than the slice."""
    accelerator = job.slice.accelerator
    origin = Origin(OriginKind.TABLE, accelerator.machine_type, "label of its nodes")
    labels = {words.GKE_ACCELERATOR: From(accelerator.label, origin)}
    if not sliced(job):
        labels[words.GKE_TOPOLOGY] = From(job.slice.topology, job.origin(f"{words.WORKERS}.topology"))
    return labels


def _asked_of_workers(job: PathwaysJob) -> dict[str, From]:
    return {
        key: From(value, job.origin(f"{words.WORKERS}.nodeSelector[{key}]"))
        for key, value in job.worker_node_selector.items()
    }


def _without(labels: Mapping[str, From], taken: Mapping[str, Any]) -> dict[str, From]:
    return {key: value for key, value in labels.items() if key not in taken}


def _tolerates_tpu(toleration: Mapping[str, Any]) -> bool:
    key = toleration.get("key") or ""
    everything = not key and toleration.get("operator") == "Exists"
    return (key == words.TPU or everything) and toleration.get("effect") in {None, "", "NoSchedule"}


_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
# The maximum of the API.
_HEAVIEST: Final = 100


def placement_notices(job: PathwaysJob, choice: Choice) -> tuple[Notice, ...]:
    """Notices about the placement."""
    if job.colocated:
        return _head_notices(job)
    if sliced(job) or not deadlocks(job, choice):
        return ()
    message = (
        f"Without {meta.EXCLUSIVE_TOPOLOGY} on the workers: it would deadlock with gangs of "
        f"{plural(job.slice.vms, 'pod')} per slice. Pod affinity keeps each slice on a node pool of its own."
    )
    return (Notice(Reason.GANG_DISABLED, message),)


def _head_notices(job: PathwaysJob) -> tuple[Notice, ...]:
    """Notice for a colocated head if its placement beside the workers is only preferred."""
    if sliced(job):
        why = "Kueue chooses the workers' nodes, whatever the head needs"
    elif _requires_pods(job):
        path = job.origin(f"{words.POD}.affinity.podAffinity").place
        why = f"{path} requires other pods, and Kubernetes counts only pods that match all required terms"
    else:
        return ()
    message = f"The head is beside the workers if there is room, and elsewhere if not: {why}."
    return (Notice(Reason.HEAD_MAY_BE_APART, message),)


def worker_affinity(job: PathwaysJob, setting: RenderingInputs, choice: Choice) -> Tree:
    """The ``affinity`` of workers, empty if another component places them: Kueue slices, JobSet for XPK."""
    if sliced(job) or (setting.profile is Profile.XPK and exclusive_workers(job, choice) is not None):
        return {}
    if not job.colocated:
        return {
            "podAffinity": {REQUIRED: [_own_slice(job)]},
            "podAntiAffinity": {REQUIRED: [rule(_OTHER_JOBS, "no other Job's pods in the slice's node pool")]},
        }
    own = _own_pods(job, "head and workers in one node pool")
    alone = [*_other_jobsets(job), rule(_OTHER_WORKERS, "a node pool holds one slice")]
    strangers = {REQUIRED: alone}
    if job.slices == 1:
        return {"podAffinity": {REQUIRED: [own]}, "podAntiAffinity": strangers}
    beside_head = _preferred(_own_pods(job, "one of the slices goes to the head's node pool"))
    affinity = {REQUIRED: [_own_slice(job)], _PREFERRED: [beside_head]}
    return {"podAffinity": affinity, "podAntiAffinity": strangers}


def head_affinity(job: PathwaysJob) -> Tree:
    """The ``affinity`` of the head: the user's, and beside the workers in colocate mode."""
    affinity = user_pod(job).get("affinity") or {}
    given = {key: From(value, job.origin(f"{words.POD}.affinity.{key}")) for key, value in affinity.items()}
    if not job.colocated:
        return given
    pods, strangers = _marked(given.get("podAffinity"), job), _marked(given.get("podAntiAffinity"), job)
    own = _own_pods(job, "head and workers in one node pool")
    if sliced(job) or _requires_pods(job):
        # Kueue places the workers regardless of the head; and with a required term of the user's only pods that
        # match both would count, which no worker does.
        pods[_PREFERRED] = [*pods.get(_PREFERRED, []), _preferred(own)]
    else:
        pods[REQUIRED] = [own]
    if sliced(job):
        return {**given, "podAffinity": pods}
    strangers[REQUIRED] = [*strangers.get(REQUIRED, []), *_other_jobsets(job)]
    # In a pool of another priority a head may fit, but not the workers that have to follow it.
    why = "a node pool without other JobSets' pods, of whatever priority, if there is one"
    empty = _preferred(rule(_pods(*_others(job), namespaceSelector={}), why))
    strangers[_PREFERRED] = [*strangers.get(_PREFERRED, []), empty]
    return {**given, "podAffinity": pods, "podAntiAffinity": strangers}


def _requires_pods(job: PathwaysJob) -> bool:
    affinity: Mapping[str, Any] = user_pod(job).get("affinity") or {}
    return bool((affinity.get("podAffinity") or {}).get(REQUIRED))


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
    return {"labelSelector": {"matchExpressions": list(expressions)}, **more, "topologyKey": words.GKE_NODEPOOL}


def _preferred(term: From) -> Tree:
    return {"weight": rule(_HEAVIEST, "before all else that is only preferred"), "podAffinityTerm": term}


def _own_pods(job: PathwaysJob, why: str) -> From:
    return rule(_pods(_expression(meta.JOBSET_NAME, "In", job.name)), why)


def _own_slice(job: PathwaysJob) -> From:
    term = _pods(_expression(meta.JOBSET_NAME, "In", job.name), matchLabelKeys=[meta.JOB_KEY])
    return rule(term, "all pods of a slice in one node pool")


def _other_jobsets(job: PathwaysJob) -> list[From]:
    """Pods of JobSets with other names, and of those with this name in other namespaces (JobSet 0.10 and later)."""
    namesakes = _strangers(_expression(meta.JOBSET_NAME, "In", job.name), mismatchLabelKeys=[meta.JOBSET_UID])
    return [
        rule(_strangers(*_others(job)), "no other JobSet's pods in the node pool"),
        rule(namesakes, "nor those of a JobSet with this name in another namespace"),
    ]


def _others(job: PathwaysJob) -> tuple[Tree, Tree]:
    return _expression(meta.JOBSET_NAME, "Exists"), _expression(meta.JOBSET_NAME, "NotIn", job.name)


def _strangers(*expressions: Tree, **more: Any) -> Tree:
    """A term about pods of all namespaces, of the priority of the pod that has it."""
    # The empty selector is that of all namespaces: without one a term is about the namespace of its pod.
    return _pods(*expressions, matchLabelKeys=[meta.JOBSET_PRIORITY], **more, namespaceSelector={})


_OTHER_JOBS: Final = _strangers(_expression(meta.JOBSET_NAME, "Exists"), mismatchLabelKeys=[meta.JOB_KEY])
_OTHER_WORKERS: Final = _strangers(
    _expression(meta.REPLICATED_JOB_NAME, "In", words.WORKER), mismatchLabelKeys=[meta.JOB_KEY]
)
