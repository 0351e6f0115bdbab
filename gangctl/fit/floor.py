"""Nodes as the scheduler sees them: capacity, labels, taints, and which pods they accept by these.

The rules of taints and of required node affinity are the scheduler's (``k8s.io/component-helpers``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gangctl.api.objects import condition_of, object_at, objects_at
from gangctl.api.pods import REQUIRED, beyond, integer, tolerates
from gangctl.fit.requests import PodSet
from gangctl.kueue.amounts import read_amounts
from gangctl.kueue.objects import Amounts

_PASSING: Final = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "ToBeDeletedByClusterAutoscaler",
    "DeletionCandidateOfClusterAutoscaler",
    *(f"{kind}-taint.cluster-autoscaler.kubernetes.io/" for kind in ("startup", "status", "ignore")),
    "karpenter.sh/",
    # Cluster API, and the Node Readiness Controller of SIG Node, by whose rules a taint must begin so.
    "node.cluster.x-k8s.io/",
    "readiness.k8s.io/",
    # AWS and GKE announce with these that they take the node.
    "aws-node-termination-handler/",
    "cloud.google.com/impending-node-termination",
)
"""Prefixes of taints that components add and remove: a node is not ready, drained, short of memory, starts, or ends."""
_STARTING: Final = "/agent-not-ready"
"""The name of those that Cilium and CSI drivers remove once they run on a node."""


_LEFT_LATER: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


@dataclass(frozen=True, slots=True)
class NodeShape:
    """Capacity of a node for pods.

    ``capacity`` is the most that it can have, empty before the kubelet reports it; ``allocatable`` is the present
    amount, if that is less: devices fail and return. ``passing`` are taints that components add and remove.
    """

    name: str
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, Any], ...]
    capacity: Amounts
    allocatable: Amounts | None = None
    passing: tuple[Mapping[str, Any], ...] = ()
    cordoned: bool = False
    unready: bool = False
    features: frozenset[str] = frozenset()
    """Of its kubelet."""

    @property
    def closed(self) -> bool:
        """Whether it is cordoned or not ready."""
        return self.cordoned or self.unready

    def admits(self, podset: PodSet, *, hopeful: bool) -> bool:
        """Whether taints that components add let these pods in now, and whether a node that is not ready has them.

        A node that is not ready gets its taint in a moment: until then the scheduler still uses it.
        """
        if not (self.passing or self.closed) or podset.pod_spec.get("nodeName"):
            return True
        tolerations = objects_at(podset.pod_spec, "tolerations")
        if hopeful:
            # Admission (DefaultTolerationSeconds) adds these.
            added = ({"key": key, "operator": "Exists", "effect": "NoExecute"} for key in _LEFT_LATER)
            tolerations = [*tolerations, *added]
        if untolerated(self.passing, tolerations) is not None:
            return False
        cordoned = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
        if self.cordoned and untolerated([cordoned], tolerations) is not None:
            return False
        # With a taint in `passing` the tolerations have decided already.
        return hopeful or not self.unready or bool(self.passing)

    @property
    def unreported(self) -> frozenset[str]:
        """Resources whose device plugin is not registered now: the kubelet keeps the name, with a capacity of 0."""
        return frozenset(name for name, amount in self.capacity.items() if amount == 0 and "/" in name)

    @property
    def present(self) -> Amounts:
        """The present amounts."""
        return self.capacity if self.allocatable is None else self.allocatable


def _passes(key: str) -> bool:
    return key.startswith(_PASSING) or key.endswith(_STARTING)


def read_node(raw: Mapping[str, Any]) -> NodeShape:
    """Project a raw Node; total."""
    metadata, spec, status = (object_at(raw, key) for key in ("metadata", "spec", "status"))
    taints = objects_at(spec, "taints")
    passing = [taint for taint in taints if _passes(str(taint.get("key", "")))]
    capacity = read_amounts(status.get("capacity"))
    allocatable = read_amounts(status.get("allocatable")) or capacity
    # Failed devices are missing in allocatable until they are repaired. Of CPU and memory the kubelet reserves a part,
    # so that their capacity is more than pods can ever have.
    devices = {name: max(amount, allocatable.get(name, 0)) for name, amount in capacity.items() if "/" in name}
    # Nodes of files may have no conditions: these count as ready.
    ready = condition_of(raw, "Ready").get("status", "True") == "True"
    name, features = metadata.get("name"), status.get("declaredFeatures")
    return NodeShape(
        name if isinstance(name, str) else "",
        {key: value for key, value in object_at(metadata, "labels").items() if isinstance(value, str)},
        tuple(taint for taint in taints if taint not in passing),
        {**allocatable, **devices},
        allocatable,
        tuple(passing),
        cordoned=bool(spec.get("unschedulable")),
        unready=not ready,
        features=frozenset(map(str, features if isinstance(features, list) else ())),
    )


# PreferNoSchedule keeps no pod from a node.
_REPELLING: Final = ("NoSchedule", "NoExecute")
_NAME_FIELD: Final = "metadata.name"
"""The field of nodes that ``matchFields`` can be about."""
# Kubernetes parses 64 bits, and a longer text is no number there.


def untolerated(
    taints: Sequence[Mapping[str, Any]], tolerations: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The first taint that repels pods without a matching toleration."""
    for taint in taints:
        if taint.get("effect") in _REPELLING and not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def affinity_allows(
    pod_spec: Mapping[str, Any], labels: Mapping[str, str], name: str = "", *, only_keys: Collection[str] | None = None
) -> bool:
    """:func:`affinity_of`, for one node."""
    return affinity_of(pod_spec, only_keys=only_keys)(labels, name)


def affinity_of(
    pod_spec: Mapping[str, Any], *, only_keys: Collection[str] | None = None
) -> Callable[[Mapping[str, str], str], bool]:
    """Whether nodeSelector and required node affinity match a node with these labels and this name.

    With ``only_keys``, requirements on other labels are ignored, as Kueue does for a flavor; a term without other
    requirements matches everything. Without a name ``matchFields`` are ignored, as for a flavor. A requirement that the
    API server would reject matches everything, so that nothing is rejected by mistake.
    """
    # Read once for all nodes: a cluster has thousands of them, and a pod spec one affinity.
    selector = [
        (key, value)
        for key, value in object_at(pod_spec, "nodeSelector").items()
        if isinstance(value, str) and (only_keys is None or key in only_keys)
    ]
    written = list(affinity_terms(pod_spec))
    terms = [
        ([expression for expression in term if only_keys is None or _is_about(expression, only_keys)], fields)
        for term, fields in written
        # An empty term matches no node, and every flavor.
        if term or fields or only_keys is not None
    ]

    def allows(labels: Mapping[str, str], name: str = "") -> bool:
        own = {_NAME_FIELD: name}
        return all(labels.get(key) == value for key, value in selector) and (
            not written
            or any(
                all(_holds(expression, labels) for expression in term)
                and (not name or all(_holds(field, own) for field in fields))
                for term, fields in terms
            )
        )

    return allows


def _is_about(requirement: Mapping[str, Any], keys: Collection[str]) -> bool:
    key = requirement.get("key")
    return isinstance(key, str) and key in keys


def affinity_keys(pod_spec: Mapping[str, Any]) -> Iterator[str]:
    """Labels of nodes that nodeSelector and required node affinity are about."""
    yield from object_at(pod_spec, "nodeSelector")
    for term, _ in affinity_terms(pod_spec):
        yield from (str(requirement.get("key")) for requirement in term)


def names_nodes(pod_spec: Mapping[str, Any]) -> bool:
    """Whether required node affinity decides between nodes that have the same labels."""
    return any(fields for _, fields in affinity_terms(pod_spec))


def affinity_terms(pod_spec: Mapping[str, Any]) -> Iterator[tuple[list[dict[str, Any]], list[dict[str, Any]]]]:
    """Requirements of each term of the required node affinity, one of which has to hold: on labels, and on fields."""
    affinity = object_at(object_at(pod_spec, "affinity"), "nodeAffinity")
    for term in objects_at(object_at(affinity, REQUIRED), "nodeSelectorTerms"):
        yield objects_at(term, "matchExpressions"), objects_at(term, "matchFields")


def _holds(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key = requirement.get("key")
    values = requirement.get("values")
    if not isinstance(key, str) or not isinstance(values, list | None):
        return True
    label, wanted = labels.get(key), values or []
    match requirement.get("operator"):
        case "In":
            return not wanted or label in wanted
        case "NotIn":
            # A node without the label matches, too.
            return label not in wanted
        case "Exists":
            return label is not None
        case "DoesNotExist":
            return label is None
        case "Gt" | "Lt" as operator:
            bound = integer(wanted[0]) if len(wanted) == 1 else None
            return bound is None or beyond(operator, integer(label), bound)
    return True


def features_of(pod_spec: Mapping[str, Any]) -> frozenset[str]:
    """Features that a pod needs of the kubelet (``k8s.io/component-helpers/nodedeclaredfeatures`` of 1.37)."""
    containers = [*objects_at(pod_spec, "containers"), *objects_at(pod_spec, "initContainers")]
    rules = (rule for container in containers for rule in objects_at(container, "restartPolicyRules"))
    mounts = (mount for container in containers for mount in objects_at(container, "volumeMounts"))
    needs = {
        "RestartAllContainersOnContainerExits": any(rule.get("action") == "RestartAllContainers" for rule in rules),
        "UserNamespacesHostNetworkSupport": pod_spec.get("hostNetwork") is True and pod_spec.get("hostUsers") is False,
        "VolumeBindMountOptions": any(mount.get("bindMountOptions") for mount in mounts),
    }
    return frozenset(name for name, needed in needs.items() if needed)


def takes(node: NodeShape, podset: PodSet, added: Collection[Mapping[str, Any]] = ()) -> bool:
    """Whether a node's labels, taints and features allow these pods; taints of pods with a nodeName are not checked.

    ``added`` are tolerations besides those of the pods.
    """
    spec = podset.pod_spec
    if spec.get("nodeName"):
        return True
    return (
        untolerated(node.taints, [*objects_at(spec, "tolerations"), *added]) is None
        and affinity_allows(spec, node.labels, node.name)
        and features_of(spec) <= node.features
    )
