"""Where kube-scheduler lets pods go by their affinity to each other: the filter of its plugin InterPodAffinity.

As in Kubernetes 1.36: label keys are merged into selectors when a pod is created; only pods that match all required
terms of a pod count; the first pod of a kind, which matches its own terms, may go anywhere; and what a pod on a node
refuses to be beside does not come to it either. Preferences decide nothing of that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha1
from typing import Any, Final

Object = Mapping[str, Any]

POOL: Final = "cloud.google.com/gke-nodepool"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, eq=False)
class Pod:
    """A pod as JobSet makes it; equal to itself only."""

    namespace: str
    labels: Mapping[str, str]
    affinity: Object
    wants_tpu: bool

    @property
    def job(self) -> str:
        """Its Job, among those of all namespaces."""
        return self.labels["jobset.sigs.k8s.io/job-key"]

    @property
    def replicated_job(self) -> str:
        """The name of its ReplicatedJob."""
        return self.labels["jobset.sigs.k8s.io/replicatedjob-name"]

    def terms(self, kind: str) -> Sequence[Object]:
        """Required terms of ``podAffinity`` or ``podAntiAffinity``."""
        found: Sequence[Object] = self.affinity.get(kind, {}).get(_REQUIRED, [])
        assert all(term["topologyKey"] == POOL for term in found)
        return found


@dataclass(frozen=True)
class Node:
    """A TPU host of a node pool."""

    name: str
    pool: str


Placed = dict[Pod, Node]


def pods_of(jobset: Object, *replicated_jobs: str) -> list[Pod]:
    """The pods of a JobSet, of all its ReplicatedJobs or of some."""
    namespace, name = jobset["metadata"].get("namespace", "default"), jobset["metadata"]["name"]
    pods = []
    for entry in jobset["spec"]["replicatedJobs"]:
        spec = entry["template"]["spec"]["template"]["spec"]
        for index in range(entry["replicas"] if entry["name"] in replicated_jobs or not replicated_jobs else 0):
            key = f"{namespace}/{name}-{entry['name']}-{index}"
            labels = {
                "jobset.sigs.k8s.io/jobset-name": name,
                "jobset.sigs.k8s.io/jobset-uid": f"uid-of-{namespace}-{name}",
                "jobset.sigs.k8s.io/replicatedjob-name": entry["name"],
                "jobset.sigs.k8s.io/job-index": str(index),
                "jobset.sigs.k8s.io/job-key": sha1(key.encode(), usedforsecurity=False).hexdigest(),
                # A number in a cluster, which has that of each class.
                "jobset.sigs.k8s.io/priority": spec.get("priorityClassName", "0"),
            }
            wants_tpu = any(
                "google.com/tpu" in each.get("resources", {}).get("limits", {}) for each in spec["containers"]
            )
            for number in range(entry["template"]["spec"]["parallelism"]):
                own = labels | {"batch.kubernetes.io/job-completion-index": str(number)}
                pods.append(Pod(namespace, own, spec.get("affinity", {}), wants_tpu))
    return pods


def feasible(pod: Pod, nodes: Iterable[Node], placed: Placed) -> list[Node]:
    """Nodes on which the scheduler would let a pod run."""
    terms = pod.terms("podAffinity")
    friends = {node.pool for other, node in placed.items() if terms and all(_matches(t, pod, other) for t in terms)}
    first = not friends and all(_matches(term, pod, pod) for term in terms)
    hostile = {
        node.pool
        for other, node in placed.items()
        if any(_matches(term, pod, other) for term in pod.terms("podAntiAffinity"))
        or any(_matches(term, other, pod) for term in other.terms("podAntiAffinity"))
    }
    taken = {node for other, node in placed.items() if other.wants_tpu and pod.wants_tpu}
    return [
        node
        for node in nodes
        if node not in taken and node.pool not in hostile and (not terms or first or node.pool in friends)
    ]


def shunned(pod: Pod, placed: Placed) -> set[str]:
    """Pools that a pod avoids while there are others, for who is there."""
    terms = [each["podAffinityTerm"] for each in pod.affinity.get("podAntiAffinity", {}).get(_PREFERRED, [])]
    assert all(term["topologyKey"] == POOL for term in terms)
    return {node.pool for other, node in placed.items() if any(_matches(term, pod, other) for term in terms)}


def _matches(term: Object, owner: Pod, other: Pod) -> bool:
    """Whether a term of ``owner`` is about ``other``."""
    if term.get("namespaceSelector") is None and other.namespace != owner.namespace:
        return False
    wanted = [*term["labelSelector"].get("matchExpressions", [])]
    for key, value in term["labelSelector"].get("matchLabels", {}).items():
        wanted.append({"key": key, "operator": "In", "values": [value]})
    for keys, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        wanted += [{"key": k, "operator": operator, "values": [owner.labels[k]]} for k in term.get(keys, [])]
    return all(_holds(each, other.labels) for each in wanted)


def _holds(expression: Object, labels: Mapping[str, str]) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values", [])
    match expression["operator"]:
        case "Exists":
            return value is not None
        case "In":
            return value in values
        case "NotIn":
            return value not in values
    raise AssertionError(expression["operator"])
