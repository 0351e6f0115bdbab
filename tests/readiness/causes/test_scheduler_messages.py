"""What the filters of Kubernetes 1.37 refuse with: each message is known, so that what helps is known."""

from __future__ import annotations

from dataclasses import replace

from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.filters import CLAIMS
from gangctl.readiness.causes.messages import of_the_group, read_refusal
from gangctl.readiness.onnodes import OnNodes
from tests.jobsets import jobset, rj
from tests.readiness.causes.finding import the
from tests.readiness.snapshots import NOW, REFUSED, Context
from tests.rows import each

POD, NODES = "0/2 nodes are available: {}.", "0/2 nodes are available: 2 {}."
"""A refusal by a PreFilter, before any node is looked at, and by a Filter, of two nodes."""
MESSAGES = (
    ("NodeUnschedulable", NODES, "node(s) were unschedulable"),
    ("TaintToleration", NODES, "node(s) had untolerated taint(s)"),
    ("NodeAffinity", POD, "pod affinity terms conflict"),
    ("NodeAffinity", NODES, "node(s) didn't match scheduler-enforced node affinity"),
    ("NodeAffinity", NODES, "node(s) didn't match Pod's node affinity/selector"),
    ("NodePorts", NODES, "node(s) didn't have free ports for the requested pod ports"),
    ("NodeResourcesFit", NODES, "Too many pods"),
    ("NodeResourcesFit", NODES, "Insufficient cpu"),
    ("NodeResourcesFit", NODES, "Insufficient ephemeral-storage"),
    ("NodeResourcesFit", NODES, "Insufficient nvidia.com/gpu"),
    ("NodeDeclaredFeatures", NODES, "node(s) didn't match Pod's required features"),
    ("VolumeRestrictions", POD, 'persistentvolumeclaim "data" not found'),
    ("VolumeRestrictions", NODES, "node(s) had no available disk"),
    (
        "VolumeRestrictions",
        NODES,
        (
            "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
            "another pod"
        ),
    ),
    ("NodeVolumeLimits", NODES, "node(s) exceed max volume count"),
    ("NodeVolumeLimits", NODES, "csi.example.com CSI driver is not installed on the node"),
    ("NodeVolumeLimits", NODES, 'looking up PVC ml/data: persistentvolumeclaim "data" not found'),
    ("VolumeBinding", POD, "pod has unbound immediate PersistentVolumeClaims"),
    ("VolumeBinding", POD, 'persistentvolumeclaim "data" not found'),
    ("VolumeBinding", POD, 'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv1"'),
    ("VolumeBinding", POD, 'persistentvolumeclaim "data" is being deleted'),
    (
        "VolumeBinding",
        POD,
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "w-0-scratch"',
    ),
    ("VolumeBinding", POD, "PVC ml/w-0-scratch was not created for pod ml/w-0 (pod is not owner)"),
    ("VolumeBinding", NODES, "node(s) didn't find available persistent volumes to bind"),
    ("VolumeBinding", NODES, "node(s) didn't match PersistentVolume's node affinity"),
    ("VolumeBinding", NODES, "node(s) did not have enough free storage"),
    ("VolumeBinding", NODES, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"),
    ("VolumeZone", POD, "PersistentVolumeClaim had no name"),
    ("VolumeZone", POD, "PersistentVolumeClaim had no pv name and storageClass name"),
    ("VolumeZone", POD, 'VolumeBindingMode not set for StorageClass "fast"'),
    ("VolumeZone", POD, "PersistentVolume had no name"),
    ("VolumeZone", POD, 'storageclass.storage.k8s.io "fast" not found'),
    ("VolumeZone", POD, 'persistentvolume "pv1" not found'),
    ("VolumeZone", NODES, "node(s) had no available volume zone"),
    ("PodTopologySpread", NODES, "node(s) didn't match pod topology spread constraints"),
    ("PodTopologySpread", NODES, "node(s) didn't match pod topology spread constraints (missing required label)"),
    ("InterPodAffinity", NODES, "node(s) didn't satisfy existing pods anti-affinity rules"),
    ("InterPodAffinity", NODES, "node(s) didn't match pod affinity rules"),
    ("InterPodAffinity", NODES, "node(s) didn't match pod anti-affinity rules"),
    ("DynamicResources", POD, 'resourceclaim "gpus" not found'),
    ("DynamicResources", POD, 'resourceclaim "gpus" is being deleted'),
    ("DynamicResources", POD, 'pod "ml/w-0": ResourceClaim not created yet'),
    ("DynamicResources", POD, "ResourceClaim ml/gpus was not created for Pod ml/w-0 (Pod is not owner)"),
    (
        "DynamicResources",
        POD,
        "ResourceClaim ml/gpus was not created for Pod ml/w-0 (neither Pod nor PodGroup g is the owner)",
    ),
    ("DynamicResources", POD, "resourceclaim in use"),
    ("DynamicResources", POD, "resource claim ml/gpus is in the process of being allocated"),
    (
        "DynamicResources",
        POD,
        "resource claim ml/gpus, request r: has subrequests, but the DRAPrioritizedList feature is disabled",
    ),
    ("DynamicResources", POD, "resource claim ml/gpus, request r: unknown request type"),
    ("DynamicResources", POD, "request r: device class gpu.example.com does not exist"),
    ("DynamicResources", NODES, "cannot allocate all claims"),
    ("DynamicResources", NODES, "resourceclaim not available on the node"),
    ("DynamicResources", NODES, "invalid resource pools were encountered"),
    (
        "DynamicResources",
        NODES,
        "resource claim ml/gpus allocation requires DRAOptionalNodeOperations feature on the node",
    ),
    ("DynamicResources", NODES, "cannot schedule extended resource claim"),
    ("DynamicResources", NODES, "cannot fit resource"),
    ("DynamicResources", NODES, "Insufficient hugepages-2Mi"),
    (
        "DynamicResources",
        NODES,
        "node allocatable resource claim gpus has a mapped device and cannot be shared across pods",
    ),
    (
        "DynamicResources",
        NODES,
        "pod level request for cpu is insufficient to cover the aggregated container and node-allocatable DRA requests",
    ),
    (
        "DynamicResources",
        NODES,
        (
            "pod level limit for hugepages-2Mi is insufficient to cover the aggregated container and node-allocatable "
            "DRA limits"
        ),
    ),
    (
        "DynamicResources",
        NODES,
        "pod level limit for cpu is insufficient to cover the limit and DRA overhead for container main",
    ),
    ("framework", POD, "node(s) didn't satisfy plugin NodeAffinity"),
    ("framework", POD, "node(s) didn't satisfy plugin(s) [NodeAffinity NodeName] simultaneously"),
    ("framework", NODES, "node(s) didn't satisfy plugin(s) [NodeAffinity]"),
)
"""By plugin, ``NewStatus(fwk.Unschedulable...)`` in ``pkg/scheduler/framework`` of 1.37.2.

Left out: of pods that have a node and are resized (DeferredPodScheduling, NodeName), of what the API server refuses
("parsing pod" of InterPodAffinity), and of nodes that are left out because others are enough ("asked by caller to stop
allocating devices"). Those before a pod is queued and after the filters have no nodes in them.
"""


@each(("plugin", "form", "text"), MESSAGES, ids=lambda value: str(value)[:60])
def test_a_refusal_of_the_scheduler_is_known(plugin: str, form: str, text: str) -> None:
    refusal = read_refusal([form.format(text)])
    assert not refusal.unknown, plugin
    assert all(known.remedy for known in refusal.filters)
    assert text not in refusal.short, "in short words"


@each(
    ("text", "reason", "words"),
    [
        (
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv1"',
            Reason.VOLUME_NOT_BOUND,
            "the volume",
        ),
        ('persistentvolumeclaim "data" is being deleted', Reason.VOLUME_NOT_BOUND, "create it anew"),
        (
            "2 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            Reason.VOLUME_NOT_BOUND,
            "the volume",
        ),
        ("2 node(s) did not have enough free storage", Reason.UNSCHEDULABLE, "storage"),
        ("2 node(s) had no available disk", Reason.UNSCHEDULABLE, "a volume for each pod"),
        ("2 resourceclaim not available on the node", Reason.UNSCHEDULABLE, "claim"),
        ("2 node(s) didn't match Pod's required features", Reason.UNSCHEDULABLE, "declaredFeatures"),
    ],
)
def test_the_scheduler_is_not_contradicted_about_volumes_claims_and_features(
    text: str, reason: Reason, words: str
) -> None:
    """Also long after the refusal: gangctl knows why its own count has room."""
    context = Context(jobset("js", rj("w", 1, 4, 4), mode="Gang"))
    (group,) = context.groups()
    pods = [replace(pod, refusal=POD.format(text), refused_at=NOW - 1800) for pod in context.pods(REFUSED)]
    cause = the(reason, context.snapshot(pods, on_nodes=OnNodes({group: True})))
    assert words in cause.remedy
    assert "gangctl's count" not in str(cause.evidence)


def test_messages_about_claims_are_those_that_no_node_changes() -> None:
    assert [text for _, form, text in MESSAGES if not read_refusal([form.format(text)]).filters.isdisjoint(CLAIMS)] == [
        'persistentvolumeclaim "data" not found',
        'looking up PVC ml/data: persistentvolumeclaim "data" not found',
        "pod has unbound immediate PersistentVolumeClaims",
        'persistentvolumeclaim "data" not found',
        'persistentvolumeclaim "data" bound to non-existent persistentvolume "pv1"',
        'persistentvolumeclaim "data" is being deleted',
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "w-0-scratch"',
        "PVC ml/w-0-scratch was not created for pod ml/w-0 (pod is not owner)",
        "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
        "PersistentVolumeClaim had no name",
        "PersistentVolumeClaim had no pv name and storageClass name",
        'VolumeBindingMode not set for StorageClass "fast"',
        "PersistentVolume had no name",
        'storageclass.storage.k8s.io "fast" not found',
        'persistentvolume "pv1" not found',
    ]


def test_the_time_that_a_pod_of_1_35_has_waited_for_its_gang_is_against_no_node() -> None:
    waited = (
        "0/1 nodes are available: 1 rejected due to timeout after waiting 4m59.987654321s at plugin GangScheduling."
    )
    refusal = read_refusal([waited, "0/4 nodes are available: 4 Insufficient cpu."])
    assert refusal.counted
    assert refusal.short == "of 4 nodes, 4 short of cpu"
    assert of_the_group(waited)
