"""Simulates the scheduler: plain pods in order of arrival, gangs all or nothing; by priority, without preemption.

The order is that of arrival, and there is no backoff: every change triggers a retry of all pods. Topology constraints
of groups are ignored, and of pods volumes, topology spread and affinity to other pods. On 1.35 a pod names its
group by ``workloadRef``: a policy in the Workload, one group for each replica key. Later it is ``schedulingGroup``: a
PodGroup object of its own with the policy in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final

from gangctl.api.fieldpath import FieldPath
from gangctl.api.labelselector import Requirement
from gangctl.api.meta import DEFAULT_SCHEDULER
from gangctl.api.objects import condition_of, copy
from gangctl.api.pods import REQUIRED, is_finished, tolerates
from gangctl.api.requests import Requests, read_list
from gangctl.apiserver.pods import containers
from gangctl.sandbox.api import Api
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.objects import Object, name_of, namespace_of, now, put_condition
from gangctl.sandbox.rules import podamounts
from gangctl.sandbox.simulated import controller
from gangctl.sandbox.simulated.controller import Mirror, Recorder, SimulatedController, is_deleted, key_of

_PODS: Final = "pods"
_PORT: Final = "port "
_KEEPS_AWAY: Final = frozenset({"NoSchedule", "NoExecute"})
# Who tolerates this taint is placed on unschedulable nodes, also on those that do not have it.
_CORDONED: Final = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def requests_of(pod: Object) -> Requests:
    """What a pod requests of a node, one pod included, and one of each of its host ports."""
    ports = (port for container in containers(pod["spec"]) for port in container.get("ports") or ())
    claimed = {f"{_PORT}{port.get('protocol', 'TCP')}/{port['hostPort']}" for port in ports if port.get("hostPort")}
    return {**podamounts.requests_of(pod), _PODS: Fraction(1), **dict.fromkeys(claimed, Fraction(1))}


def _unlisted(name: str) -> Fraction:
    """How much a node has of what its status does not list: each port once."""
    return Fraction(name.startswith(_PORT))


class FreeCapacity:
    """Free capacity of all nodes, while pods are being placed; a copy is for a trial."""

    def __init__(self, nodes: Iterable[Object]) -> None:
        """Nodes that are not ready accept no pods, and are not counted."""
        self._nodes = {name_of(node): node for node in nodes if controller.is_true(node, "Ready")}
        self._total = {name: _allocatable(node) for name, node in self._nodes.items()}
        self._left = {name: dict(resources) for name, resources in self._total.items()}

    def __len__(self) -> int:
        return len(self._nodes)

    def draft(self) -> FreeCapacity:
        """A copy for a trial."""
        other = FreeCapacity(())
        other._nodes, other._total = self._nodes, self._total
        other._left = {name: dict(left) for name, left in self._left.items()}
        return other

    def take(self, node: str, requests: Requests) -> None:
        """Reserve the requests of a pod, even beyond the capacity."""
        left = self._left.get(node)
        if left is not None:
            for name, value in requests.items():
                left[name] = left.get(name, _unlisted(name)) - value

    def place(self, pod: Object, requests: Requests) -> str | None:
        """Reserve the pod's requests on the emptiest eligible node: its name, or None."""
        fitting = [name for name, node in self._nodes.items() if not _refusals(node, pod) and self._has(name, requests)]
        if not fitting:
            return None
        # Of equal nodes the first by name: a run with the same seed must place the same pods.
        chosen = max(sorted(fitting), key=self._free_share)
        self.take(chosen, requests)
        return chosen

    def why_not(self, pod: Object, requests: Requests) -> str:
        """Why no node accepts a pod, as in kube-scheduler's message."""
        reasons: dict[str, int] = {}
        for name, node in self._nodes.items():
            for reason in _refusals(node, pod) or self._shortages(name, requests):
                reasons[reason] = reasons.get(reason, 0) + 1
        listed = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
        return (
            f"0/{len(self._nodes)} nodes are available: {listed}." if listed else "no nodes available to schedule pods"
        )

    def _has(self, node: str, requests: Requests) -> bool:
        return not self._shortages(node, requests)

    def _shortages(self, node: str, requests: Requests) -> list[str]:
        left = self._left[node]
        short = [name for name, value in requests.items() if value and left.get(name, _unlisted(name)) < value]
        # NodePorts comes before NodeResourcesFit.
        if any(name.startswith(_PORT) for name in short):
            return ["node(s) didn't have free ports for the requested pod ports"]
        return ["Too many pods" if name == _PODS else f"Insufficient {name}" for name in short]

    def _free_share(self, node: str) -> float:
        """The mean share of CPU and memory that is free."""
        left, total = self._left[node], self._total[node]
        # The resources that LeastAllocated of NodeResourcesFit scores by default.
        names = [name for name in ("cpu", "memory") if total.get(name)]
        # As floats: arithmetic on fractions took up to a fifth of the CPU of a simulated JobSet.
        return sum(float(left[name]) / float(total[name]) for name in names) / max(1, len(names))


def _allocatable(node: Object) -> Requests:
    status = node.get("status") or {}
    resources = status.get("allocatable") or status.get("capacity") or {}
    return read_list(resources, FieldPath(), [])


def _refusals(node: Object, pod: Object) -> list[str]:
    # One reason for each node: kube-scheduler's filters end with the first that refuses it. The order is theirs.
    spec, tolerations = node.get("spec") or {}, pod["spec"].get("tolerations") or []
    if spec.get("unschedulable") and not any(tolerates(toleration, _CORDONED) for toleration in tolerations):
        return ["node(s) were unschedulable"]
    for taint in spec.get("taints") or []:
        if taint["effect"] in _KEEPS_AWAY and not any(tolerates(toleration, taint) for toleration in tolerations):
            return [f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value', '')}}}"]
    labels = node["metadata"].get("labels") or {}
    selector = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in selector.items()) or not _in_affinity(node, pod["spec"]):
        return ["node(s) didn't match Pod's node affinity/selector"]
    return []


def _in_affinity(node: Object, spec: Object) -> bool:
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    if required is None:
        return True
    metadata = node["metadata"]
    parts = (("matchExpressions", metadata.get("labels") or {}), ("matchFields", {"metadata.name": metadata["name"]}))
    # One term is enough, and an empty one matches no node.
    return any(
        any(term.get(part) for part, _ in parts)
        and all(
            Requirement(wanted["key"], wanted["operator"], tuple(wanted.get("values") or ())).matches(values)
            for part, values in parts
            for wanted in term.get(part) or ()
        )
        for term in required.get("nodeSelectorTerms") or ()
    )


GroupKey = tuple[str, ...]
"""Namespace, object, and on 1.35 the entry of its list and the replica key."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Policy of a group: ``min_count`` 0 is the basic policy, pod by pod."""

    min_count: int
    priority: int | None = None
    """Priority of the group, if the scheduler requires it of pods (1.37)."""


def group_of(pod: Object) -> GroupKey | None:
    """The group that a pod names."""
    spec, namespace = pod["spec"], namespace_of(pod)
    group = spec.get("schedulingGroup")
    if group:
        return namespace, str(group["podGroupName"])
    workload = spec.get("workloadRef")
    if workload:
        return (
            namespace,
            str(workload["name"]),
            str(workload["podGroup"]),
            str(workload.get("podGroupReplicaKey") or ""),
        )
    return None


def policy_in_workload(workload: Object | None, entry: str) -> Policy | None:
    """The policy of one entry of a Workload of 1.35; None while there is none."""
    for pod_group in (workload or {"spec": {}})["spec"].get("podGroups") or []:
        if pod_group["name"] == entry:
            return Policy(_min_count(pod_group["policy"]))
    return None


def policy_in_group(group: Object | None, *, holds_priority: bool) -> Policy | None:
    """The policy of a PodGroup; None while there is none."""
    if group is None:
        return None
    priority = int(group["spec"].get("priority") or 0) if holds_priority else None
    return Policy(_min_count(group["spec"]["schedulingPolicy"]), priority)


def _min_count(policy: Mapping[str, Any]) -> int:
    gang = policy.get("gang")
    return int(gang["minCount"]) if gang else 0


_EVERYTHING: Final = "everything"
"""The binder's only key: it always processes all pods."""

_GROUP_CONDITION: Final = {
    "v1alpha2": "PodGroupScheduled",
    "v1beta1": "PodGroupInitiallyScheduled",
    "v1": "PodGroupInitiallyScheduled",
}
_HOLDS_PRIORITY: Final = frozenset({"v1beta1", "v1"})
_UNSCHEDULABLE: Final = "pod group is unschedulable"


@dataclass
class _Turn:
    """One plain pod, or the waiting pods of one group, to schedule next."""

    group: GroupKey | None
    waiting: list[Object]

    @property
    def priority(self) -> int:
        """Of the pods; in a group they have the same."""
        return max(_priority(pod) for pod in self.waiting)


class Binder(SimulatedController[str]):
    """Binds pods to nodes, as ``default-scheduler``."""

    name: ClassVar[str] = "scheduler"

    def __init__(self, api: Api) -> None:
        """Run beside ``api``; the kind of groups depends on what it serves."""
        super().__init__(api)
        self._pods = self.mirror("pods", self._changed, index=_group_index)
        self._nodes = self.mirror("nodes", self._changed)
        self._groups = self._mirror_if_served("podgroups.scheduling.k8s.io")
        self._workloads = None if self._groups else self._mirror_if_served("workloads.scheduling.k8s.io")
        self._events = Recorder(api, self.caller, DEFAULT_SCHEDULER)

    def _mirror_if_served(self, resource: str) -> Mirror | None:
        served = {kind.qualified_name for kind in self.api.registry}
        return self.mirror(resource, self._changed) if resource in served else None

    def _changed(self, _obj: Object) -> None:
        self.queue.add(_EVERYTHING)

    async def reconcile(self, key: str) -> None:  # noqa: ARG002 -- there is only one
        """Try to schedule every waiting pod and group once, in order."""
        free = FreeCapacity(self._nodes)
        for pod in self._pods:
            if pod["spec"].get("nodeName") and not is_finished(pod):
                free.take(pod["spec"]["nodeName"], requests_of(pod))
        for turn in sorted(_turns(self._pods), key=lambda turn: -turn.priority):
            policy = self._policy(turn.group)
            if turn.group is None or (policy is not None and not policy.min_count):
                for pod in turn.waiting:
                    requests = requests_of(pod)
                    node = free.place(pod, requests)
                    if node is None:
                        await self._refuse(pod, free.why_not(pod, requests))
                    else:
                        await self._bind(pod, node)
            elif policy is not None:
                free = await self._all_or_nothing(turn, policy, free)

    def _policy(self, group: GroupKey | None) -> Policy | None:
        if group is None:
            return None
        if self._groups is not None:
            holds = self._groups.kind.version in _HOLDS_PRIORITY
            return policy_in_group(self._groups.get((group[0], group[1])), holds_priority=holds)
        if self._workloads is not None and len(group) > len(("namespace", "name")):
            return policy_in_workload(self._workloads.get((group[0], group[1])), group[2])
        return None

    async def _all_or_nothing(self, turn: _Turn, policy: Policy, free: FreeCapacity) -> FreeCapacity:
        """Bind as many pods of a group as fit, if that is its quorum; returns the free capacity."""
        assert turn.group is not None  # noqa: S101 -- groups only
        members = [pod for pod in self._pods.indexed(_index(turn.group)) if not is_finished(pod)]
        if len(members) < policy.min_count:
            return free  # Ignored: no condition, no event.
        if policy.priority is not None and (odd := _odd_priority(members, policy.priority)) is not None:
            await self._refuse_group(turn, odd, reason="SchedulerError")
            return free
        draft = free.draft()
        places = [(pod, draft.place(pod, requests_of(pod))) for pod in turn.waiting]
        bound = sum(bool(pod["spec"].get("nodeName")) for pod in members)
        if bound + sum(node is not None for _, node in places) < policy.min_count:
            # All of them fit where others of the group are gated or leave: there are too few to begin with.
            first = next((pod for pod, node in places if node is None), None)
            lacking = f"minCount ({policy.min_count}) cannot be satisfied: {bound} scheduled, {len(places)} remaining"
            why = lacking if first is None else draft.why_not(first, requests_of(first))
            await self._refuse_group(turn, f"{_UNSCHEDULABLE}: {why}", reason="Unschedulable")
            return free
        for pod, node in places:
            if node is None:
                await self._refuse(pod, draft.why_not(pod, requests_of(pod)))
            else:
                await self._bind(pod, node)
        await self._write_condition(turn.group, status="True", reason="Scheduled", message="")
        return draft

    async def _bind(self, pod: Object, node: str) -> None:
        namespace, name = key_of(pod)
        try:
            await self.api.bind(namespace, name, pod["metadata"]["uid"], node, self.caller)
        except StatusError as error:
            if not error.about_another:
                raise
            return
        message = f"Successfully assigned {namespace}/{name} to {node}"
        await self._events.record(pod, "v1", "Scheduled", message)

    async def _refuse(self, pod: Object, why: str, reason: str = "Unschedulable") -> None:
        old = condition_of(pod, "PodScheduled")
        # Every write of a pod triggers the binder again, so that an equal one would never end.
        if (old.get("status"), old.get("reason"), old.get("message")) == ("False", reason, why):
            return
        since = old.get("lastTransitionTime") if old.get("status") == "False" else None
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": why,
            "lastTransitionTime": since or now(),
        }
        if await self.patch(self._pods, pod, {"status": {"conditions": [condition]}}, "status"):
            await self._events.record(pod, "v1", "FailedScheduling", why, warning=True)

    async def _refuse_group(self, turn: _Turn, why: str, *, reason: str) -> None:
        for pod in turn.waiting:
            await self._refuse(pod, why, reason)
        assert turn.group is not None  # noqa: S101 -- groups only
        await self._write_condition(turn.group, status="False", reason=reason, message=why)

    async def _write_condition(self, group: GroupKey, *, status: str, reason: str, message: str) -> None:
        """Write the condition of a PodGroup; True stays."""
        if self._groups is None:
            return
        stored = self._groups.get((group[0], group[1]))
        kind = _GROUP_CONDITION[self._groups.kind.version]
        if stored is None or controller.is_true(stored, kind):
            return
        changed = copy(stored)
        new = {"type": kind, "status": status, "reason": reason, "message": message}
        if not put_condition(changed.setdefault("status", {}), new):
            return
        try:
            await self.update(self._groups, changed, "status")
        except StatusError as error:
            if not error.about_another:
                raise


def _priority(pod: Object) -> int:
    return int(pod["spec"].get("priority") or 0)


def _odd_priority(members: Iterable[Object], wanted: int) -> str | None:
    for pod in members:
        if _priority(pod) != wanted:
            message = "all pods in a single pod group should have the same priority as the pod group's priority"
            return f"{message}, got {_priority(pod)} and {wanted}"
    return None


def _index(group: GroupKey) -> str:
    return "/".join(group)


def _group_index(pod: Object) -> str | None:
    group = group_of(pod)
    return _index(group) if group is not None else None


def _turns(pods: Iterable[Object]) -> list[_Turn]:
    """Pods without a node, alone or with their group, in the order of arrival."""
    turns: list[_Turn] = []
    groups: dict[GroupKey, _Turn] = {}
    for pod in pods:
        if not _waits(pod):
            continue
        group = group_of(pod)
        if group is not None and group in groups:
            groups[group].waiting.append(pod)
            continue
        turns.append(_Turn(group, [pod]))
        if group is not None:
            groups[group] = turns[-1]
    return turns


def _waits(pod: Object) -> bool:
    spec = pod["spec"]
    ours = spec.get("schedulerName", DEFAULT_SCHEDULER) == DEFAULT_SCHEDULER
    return (
        ours
        and not spec.get("nodeName")
        and not spec.get("schedulingGates")
        and not is_finished(pod)
        and not is_deleted(pod)
    )
