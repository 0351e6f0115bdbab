"""Nodes without machines, and the kubelet of every one: runs bound pods, ends them by a policy, confirms deletions.

A node is an object with capacity, ready because its status says so. The pods of a deleted node fail and are deleted, as
by the garbage collector of pods, which on a real cluster waits for some 40 seconds. Pods that do not tolerate a
NoExecute taint of their node are deleted, as by the taint eviction controller. Pod statuses are strategic merge
patches: conditions of other writers stay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final, Literal

from gangctl.api.meta import JOBSET_NAME
from gangctl.api.objects import Key, copy
from gangctl.api.pods import HOSTNAME, is_finished, tolerates
from gangctl.apiserver.minors import MINORS
from gangctl.sandbox.api import Api
from gangctl.sandbox.objects import Object, name_of, namespace_of, now
from gangctl.sandbox.requests import Caller
from gangctl.sandbox.simulated.controller import Recorder, SimulatedController, is_deleted, key_of

KILLED: Final = 137
"""Exit code of a container that was ended from outside."""


def running(pod: Object) -> Object:
    """Every container runs and is ready."""
    moment = now()
    return {
        "phase": "Running",
        "startTime": moment,
        "hostIP": "127.0.0.1",
        "podIP": "127.0.0.1",
        "podIPs": [{"ip": "127.0.0.1"}],
        "conditions": [_condition(kind, "True") for kind in ("Initialized", "ContainersReady", "Ready")],
        "containerStatuses": _containers(pod["spec"]["containers"], {"running": {"startedAt": moment}}, ready=True),
        **_initialized(pod),
    }


def succeeded(pod: Object) -> Object:
    """Every container has ended well."""
    return _ended(pod, "Succeeded", 0, "Completed")


def failed(pod: Object, exit_code: int = 1) -> Object:
    """Every container has ended with this code."""
    return _ended(pod, "Failed", exit_code, "Error")


def orphaned() -> Object:
    """The node is gone."""
    condition = _condition("DisruptionTarget", "True", "DeletionByPodGC")
    return {"phase": "Failed", "conditions": [{**condition, "message": "PodGC: node no longer exists"}]}


def evicted() -> Object:
    """The node has a taint that the pod does not tolerate."""
    condition = _condition("DisruptionTarget", "True", "DeletionByTaintManager")
    return {"conditions": [{**condition, "message": "Taint manager: deleting due to NoExecute taint"}]}


def _ended(pod: Object, phase: str, exit_code: int, reason: str) -> Object:
    why = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    started = (pod.get("status") or {}).get("startTime")
    ended = {"exitCode": exit_code, "reason": reason, "startedAt": started, "finishedAt": now()}
    state = {"terminated": ended}
    return {
        "phase": phase,
        "conditions": [_condition(kind, "False", why) for kind in ("ContainersReady", "Ready")],
        "containerStatuses": _containers(pod["spec"]["containers"], state, ready=False),
    }


def _initialized(pod: Object) -> Object:
    """Init containers have run before a pod runs; those that restart always are sidecars and still run."""
    statuses: list[Object] = []
    for container in pod["spec"].get("initContainers") or []:
        moment = now()
        ended = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": moment, "finishedAt": moment}}
        sidecar = container.get("restartPolicy") == "Always"
        statuses += _containers([container], {"running": {"startedAt": moment}} if sidecar else ended, ready=True)
    return {"initContainerStatuses": statuses} if statuses else {}


def _containers(containers: Sequence[Object], state: Object, *, ready: bool) -> list[Object]:
    return [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "imageID": "",
            "ready": ready,
            "started": ready,
            "restartCount": 0,
            "lastState": {},
            # A container is in one state: null removes the previous one.
            "state": {"running": None, "waiting": None, "terminated": None, **state},
        }
        for container in containers
    ]


def _condition(kind: str, status: str, reason: str = "") -> Object:
    condition = {"type": kind, "status": status, "lastTransitionTime": now()}
    return {**condition, "reason": reason} if reason else condition


_PLATFORM: Final = {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
"""Labels that a kubelet gives its node."""

_CALLER: Final = Caller("system:sandbox:nodes", ("system:masters",))


async def add_nodes(
    api: Api,
    count: int,
    *,
    cpu: str = "4",
    memory: str = "16Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    extended: Mapping[str, str] | None = None,
    prefix: str = "node",
) -> list[str]:
    """Add ready nodes; returns their names, numbered after existing ones. ``extended`` are further resources."""
    kind = api.kind("nodes")
    taken = {name_of(node) for node in (await api.list(kind)).items}
    free = (name for index in range(len(taken) + count) if (name := f"{prefix}-{index}") not in taken)
    names = [name for name, _ in zip(free, range(count), strict=False)]
    resources = {"cpu": cpu, "memory": memory, "pods": str(pods), **(extended or {})}
    for name in names:
        node: Object = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "labels": {HOSTNAME: name, **_PLATFORM, **(labels or {})},
            },
            "spec": {"taints": [dict(taint) for taint in taints]} if taints else {},
        }
        created = copy(await api.create(kind, "", node, _CALLER))
        created["status"] = {
            "nodeInfo": {
                "kubeletVersion": MINORS[api.registry.minor].release,
                "operatingSystem": _PLATFORM["kubernetes.io/os"],
                "architecture": _PLATFORM["kubernetes.io/arch"],
            },
            "capacity": dict(resources),
            "allocatable": dict(resources),
            "conditions": [
                {
                    "type": "Ready",
                    "status": "True",
                    "reason": "KubeletReady",
                    "message": "played by the sandbox",
                    "lastTransitionTime": now(),
                }
            ],
        }
        await api.update(kind, "", name, created, _CALLER, subresource="status")
    return names


Outcome = Literal["Succeeded", "Failed"]

Policy = Callable[[Object, Sequence[Object]], Outcome | None]
"""Called for a running pod whenever a pod of its JobSet changes: the pod, and all bound pods of its JobSet."""


def run_forever(_pod: Object, _jobset: Sequence[Object]) -> Outcome | None:
    """Pods run until a caller ends them."""
    return None


class Kubelet(SimulatedController[Key]):
    """All kubelets."""

    name: ClassVar[str] = "kubelet"

    def __init__(self, api: Api, policy: Policy = run_forever, *, work_seconds: float = 0.0) -> None:
        """``work_seconds`` pass between the policy's verdict on a pod and its end."""
        super().__init__(api)
        self.policy = policy
        self._work_seconds = work_seconds
        self._filled = False
        self._pods = self.mirror("pods", self._changed, index=_jobset_of)
        self._nodes = self.mirror("nodes", self._node_changed)
        self._filled = True
        self._gone: set[str] = set()
        """Names of deleted nodes."""
        self._verdicts: dict[str, tuple[Outcome, float]] = {}
        self._tainted: dict[str, float] = {}
        """When a NoExecute taint of its node was first seen, by a pod's UID."""
        self._events = Recorder(api, self.caller, "taint-eviction-controller")

    @property
    def pods(self) -> list[Object]:
        """The bound pods."""
        return [pod for pod in self._pods if pod["spec"].get("nodeName")]

    def review(self) -> None:
        """Evaluate the policy for every pod again, because its result has changed."""
        for pod in self._pods:
            self.queue.add(key_of(pod))

    async def finish(self, pod: Object) -> None:
        """End a pod with success."""
        await self._write_status(pod, succeeded(pod))

    async def fail(self, pod: Object, *, exit_code: int = 1) -> None:
        """End a pod with failure."""
        await self._write_status(pod, failed(pod, exit_code))

    def _changed(self, pod: Object) -> None:
        self.queue.add(key_of(pod))
        # Pods that exist at the start are all queued.
        jobset = _jobset_of(pod) if self._filled else None
        for peer in self._pods.indexed(jobset) if jobset else []:
            if (peer.get("status") or {}).get("phase") == "Running":
                self.queue.add(key_of(peer))

    def _node_changed(self, node: Object) -> None:
        if not self._filled:
            return
        name = name_of(node)
        if self._nodes.get(key_of(node)) is None:
            self._gone.add(name)
        else:
            self._gone.discard(name)
            if not _expelling(node) and not self._tainted:
                return
        for pod in self.pods:
            if pod["spec"]["nodeName"] == name:
                self.queue.add(key_of(pod))

    async def reconcile(self, key: Key) -> None:
        """Perform a bound pod's next step."""
        pod = self._pods.get(key)
        if pod is None or not pod["spec"].get("nodeName"):
            return
        if pod["spec"]["nodeName"] in self._gone:
            await self._collect(pod)
        elif is_deleted(pod):
            # Report the end of a deleted pod, then remove it; with a grace of 0 the server waits only for finalizers.
            self._forget(pod)
            if not is_finished(pod):
                await self._write_status(pod, failed(pod, KILLED))
            if pod["metadata"].get("deletionGracePeriodSeconds"):
                await self.delete(self._pods, pod, grace_seconds=0)
        elif self._is_expelled(pod):
            await self._evict(pod)
        elif pod["status"].get("phase") == "Pending":
            await self._write_status(pod, running(pod))
        elif not is_finished(pod):
            await self._decide(pod)

    def _forget(self, pod: Object) -> None:
        """A pod that ends needs no verdict and no time."""
        self._verdicts.pop(pod["metadata"]["uid"], None)
        self._tainted.pop(pod["metadata"]["uid"], None)

    def _is_expelled(self, pod: Object) -> bool:
        """Whether the taints of its node delete a pod now; for one that tolerates them for a time it is asked again."""
        # processPodOnNode of kube-controller-manager.
        uid = pod["metadata"]["uid"]
        taints = _expelling(self._nodes.get(("", pod["spec"]["nodeName"])) or {})
        if not taints:
            self._tainted.pop(uid, None)
            return False
        seconds = []
        for taint in taints:
            fitting = (one for one in pod["spec"].get("tolerations") or [] if tolerates(one, taint))
            toleration = next(fitting, None)
            if toleration is None:
                return True
            seconds.append(toleration.get("tolerationSeconds"))
        limits = [limit for limit in seconds if limit is not None]
        if not limits:
            return False
        moment = asyncio.get_running_loop().time()
        left: float = self._tainted.setdefault(uid, moment) + min(limits) - moment
        if left > 0:
            self.queue.add_after(key_of(pod), left)
        return left <= 0

    async def _evict(self, pod: Object) -> None:
        """Delete a pod, with a condition that says why."""
        what = f"Marking for deletion Pod {'/'.join(key_of(pod))}"
        await self._events.record(pod, "v1", "TaintManagerEviction", what)
        await self._write_status(pod, evicted())
        await self.delete(self._pods, pod)

    async def _collect(self, pod: Object) -> None:
        """Fail and delete a pod whose node is gone."""
        self._forget(pod)
        if not is_finished(pod):
            await self._write_status(pod, orphaned())
        if not is_deleted(pod) or pod["metadata"].get("deletionGracePeriodSeconds"):
            await self.delete(self._pods, pod, grace_seconds=0)

    async def _decide(self, pod: Object) -> None:
        """Evaluate the policy; its first verdict is final, and is applied when the work is done."""
        uid = pod["metadata"]["uid"]
        moment = asyncio.get_running_loop().time()
        if uid not in self._verdicts:
            jobset = _jobset_of(pod)
            peers = self._pods.indexed(jobset) if jobset else [pod]
            outcome = self.policy(pod, [peer for peer in peers if peer["spec"].get("nodeName")])
            if outcome is None:
                return
            self._verdicts[uid] = outcome, moment + self._work_seconds
        outcome, due = self._verdicts[uid]
        if due > moment:
            self.queue.add_after(key_of(pod), due - moment)
            return
        await (self.finish(pod) if outcome == "Succeeded" else self.fail(pod))
        del self._verdicts[uid]

    async def _write_status(self, pod: Object, status: Object) -> None:
        await self.patch(self._pods, pod, {"status": status}, "status")


def _expelling(node: Object) -> list[Object]:
    """The taints that delete pods that run."""
    return [taint for taint in (node.get("spec") or {}).get("taints") or [] if taint["effect"] == "NoExecute"]


def _jobset_of(pod: Object) -> str | None:
    name = (pod["metadata"].get("labels") or {}).get(JOBSET_NAME)
    return f"{namespace_of(pod)}/{name}" if name else None
