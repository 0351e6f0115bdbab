"""What decides where the pods of a JobSet may be, and is not looked at: each with its field, and what answers it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gangctl.api.jobset import JobSet, pod_path
from gangctl.api.meta import (
    DEFAULT_SCHEDULER,
    EXCLUSIVE_TOPOLOGY,
    JOBSET_NAME,
    JOBSET_PRIORITY,
    NODE_SELECTORS,
    REPLICATED_JOB_NAME,
    RESTART_ATTEMPT,
)
from gangctl.api.objects import object_at, objects_at, text_at, within
from gangctl.api.pods import HOSTNAME, REQUIRED
from gangctl.api.volumes import volume_claims
from gangctl.errors import one_line
from gangctl.fit.members import OF_JOBS, Neighbours
from gangctl.fit.placedpods import host_ports, spreads, texts
from gangctl.fit.requests import PodSet
from gangctl.kueue.names import GROUP

ADMISSION: Final = "what admission plugins and webhooks change in its pods (kubectl get pod -o yaml shows it)"
# Without its driver a node takes no pod with a volume, if the CSIDriver has preventPodSchedulingIfMissing.
ATTACHED: Final = (
    "how many volumes the nodes can attach, and whether they have the driver of each (kubectl get csinodes)"
)
# Those that the filter VolumeRestrictions compares with the volumes of other pods on a node.
_EXCLUSIVE_VOLUMES: Final = ("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd")
# The last two are older names of labels of the Job controller.
_OF_KUEUE: Final = f"{GROUP}/"
_OF_CONTROLLERS: Final = ("batch.kubernetes.io/", "jobset.sigs.k8s.io/", _OF_KUEUE, "controller-uid", "job-name")
_CHOICE: Final = "which nodes Kueue chooses, by resources, labels and taints alone (topologyName of its flavor)"
_KNOWN: Final = OF_JOBS | {JOBSET_NAME, REPLICATED_JOB_NAME, RESTART_ATTEMPT}


def deciding(jobset: JobSet, podset: PodSet, neighbours: Neighbours) -> Iterator[str]:
    """Facts without which it is not certain that the scheduler places the pods of a podset."""
    path = pod_path(podset.index)
    spec = podset.pod_spec
    if spec.get("schedulingGates"):
        yield f"{path}.schedulingGates: who removes them"
    if (name := spec.get("schedulerName")) not in {None, "", DEFAULT_SCHEDULER}:
        yield f"{path}.schedulerName: what {one_line(name, 80)} does"
    if spec.get("nodeName"):
        yield f"{path}.nodeName: whether the kubelet admits its pods, which no scheduler places"
    # Pods that exist have passed admission.
    if podset.name not in neighbours.admitted:
        yield from _of_namespace(path, spec, neighbours.annotations)
    yield from _of_volumes(path, podset, neighbours)
    yield from exclusive(jobset, podset)


def exclusive(jobset: JobSet, podset: PodSet) -> Iterator[str]:
    """The annotation by which JobSet places each Job in a domain of its own."""
    for place, notes in (
        ("metadata.annotations", jobset.annotations),
        (f"spec.replicatedJobs[{podset.index}].template.metadata.annotations", _annotations(jobset, podset)),
    ):
        if EXCLUSIVE_TOPOLOGY in notes:
            yield f"{place}[{EXCLUSIVE_TOPOLOGY}]: which domain JobSet gives to each Job"


def _of_namespace(path: str, spec: Mapping[str, object], annotations: Mapping[str, str]) -> Iterator[str]:
    own = object_at(spec, "nodeSelector")
    for name in NODE_SELECTORS:
        pairs = (part.partition("=")[::2] for part in annotations.get(name, "").split(","))
        labels = {key.strip(): value.strip() for key, value in pairs if key.strip()}
        if not labels.items() <= own.items():
            shown = one_line(",".join(f"{key}={value}" for key, value in labels.items()), 160)
            yield f"{path}.nodeSelector: whether admission adds {shown} (annotation {name} of its namespace)"


def _of_volumes(path: str, podset: PodSet, neighbours: Neighbours) -> Iterator[str]:
    spec = podset.pod_spec
    for index, claim in volume_claims(spec):
        if neighbours.volume_of(claim) is None:
            shown, place = one_line(claim, 80), f"{path}.volumes[{index}].persistentVolumeClaim"
            if claim in podset.policy_claims:
                place = "spec.volumeClaimPolicies"
            yield (
                f"{place}: whether pods can use {shown}, and where its volume is "
                f"(kubectl get pvc {shown}; --queues takes it with its PersistentVolume)"
            )
    for index, volume in enumerate(objects_at(spec, "volumes")):
        kind = next((kind for kind in ("ephemeral", *_EXCLUSIVE_VOLUMES) if volume.get(kind)), "")
        if kind:
            yield f"{path}.volumes[{index}].{kind}: on which nodes the volume can be used"


def of_accounts(podsets: Iterable[PodSet]) -> Iterator[str]:
    """ServiceAccounts that pods name, without which the API server refuses them; that of the namespace is made."""
    for podset in podsets:
        name = podset.pod_spec.get("serviceAccountName") if podset.pods else None
        if isinstance(name, str) and name not in {"", "default"}:
            shown = one_line(name, 80)
            yield f"{pod_path(podset.index)}.serviceAccountName: whether {shown} exists (kubectl get sa {shown})"


def of_kueue(podset: PodSet, level: str, *, repelled: bool) -> Iterator[str]:
    """What Kueue does not look at where it chooses nodes, or domains of a ``level``; ``repelled`` by pods there."""
    yield from in_topology(podset)
    if any(volume_claims(podset.pod_spec)):
        yield f"{pod_path(podset.index)}.volumes[*].persistentVolumeClaim: {_CHOICE}"
    if repelled:
        yield f"podAntiAffinity of pods on the nodes: {_CHOICE}"
    if level != HOSTNAME:
        path = pod_path(podset.index)
        yield f"{path}: whether single nodes have room in a domain of {one_line(level, 80)} that Kueue chooses"


def in_topology(podset: PodSet) -> Iterator[str]:
    """What of the rules of its pods for each other Kueue does not look at there."""
    path, spec = pod_path(podset.index), podset.pod_spec
    affinity = object_at(spec, "affinity")
    parts = ("podAffinity", "podAntiAffinity")
    fields = [f"affinity.{part}" for part in parts if objects_at(object_at(affinity, part), REQUIRED)]
    fields += ["topologySpreadConstraints"] * any(spreads(spec, {}))
    fields += ["containers[*].ports[*].hostPort"] * any(host_ports(spec))
    for field in fields:
        yield f"{path}.{field}: {_CHOICE}"


def in_one_domain(podset: PodSet, key: str) -> str:
    """Kueue does not read the topologyKey of a gang."""
    return (
        f"{pod_path(podset.index)}: whether the nodes that Kueue chooses are in one domain of {one_line(key, 80)}, "
        "the topologyKey of its gang"
    )


def unread(podset: PodSet) -> str:
    """Where Kueue may give its pods nodes that do not take them."""
    return (
        f"{pod_path(podset.index)}: whether the nodes that Kueue chooses take its pods: it reads taints, node "
        f"selectors, affinity and the room of single nodes only where the lowest level is {HOSTNAME}, and not for the "
        "leader of a group"
    )


def _annotations(jobset: JobSet, podset: PodSet) -> Mapping[str, str]:
    return jobset.replicated_jobs[podset.index].annotations if podset.index < len(jobset.replicated_jobs) else {}


def of_labels(podset: PodSet, neighbours: Neighbours) -> Iterator[str]:
    """Rules about labels that controllers give to pods, with values that are not known here."""
    path, spec = pod_path(podset.index), podset.pod_spec
    labels = object_at(object_at(podset.template, "metadata"), "labels")
    certain = neighbours.priority_of(text_at(spec, "priorityClassName")) is not None or JOBSET_PRIORITY in labels
    known = _KNOWN | {JOBSET_PRIORITY} if certain else _KNOWN
    rules = [
        (f"affinity.{part}", raw)
        for part in ("podAffinity", "podAntiAffinity")
        for raw in objects_at(within(spec, "affinity", part), REQUIRED)
    ]
    rules += [("topologySpreadConstraints", raw) for raw in objects_at(spec, "topologySpreadConstraints")]
    for place, raw in rules:
        selector = object_at(raw, "labelSelector")
        expressions = objects_at(selector, "matchExpressions")
        written = {*object_at(selector, "matchLabels"), *(str(expression.get("key")) for expression in expressions)}
        listed = {*texts(raw.get("matchLabelKeys")), *texts(raw.get("mismatchLabelKeys"))}
        keys = {key for key in written | listed if key.startswith(_OF_CONTROLLERS)}
        # Kueue starts no pods whose template has another value of its labels.
        keys -= {key for key in labels if key.startswith(_OF_KUEUE)}
        # matchLabelKeys need no value of OF_JOBS: it only has to differ between Jobs. A selector that is written has
        # the hash of a job-key, which is not computed here.
        unknown = sorted((keys - known) | (written & OF_JOBS))
        if unknown:
            yield f"{path}.{place}: pods with the label {unknown[0]}"
