"""A small cluster in virtual time: JobSet, Job and kubelets, a scheduler, and Kueue with one ClusterQueue per team.

It writes what these controllers write, as far as gangctl reads it, and nothing that it does not read.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from random import Random
from typing import Any, Final

from gangctl.api.meta import JOB_INDEX, JOBSET_NAME, JOBSET_UID, REPLICATED_JOB_NAME, RESTART_ATTEMPT
from gangctl.api.scheduling import NEWEST
from gangctl.api.scheduling_versions import ADAPTERS
from tests.cli.kueueobjects import QUEUE, cluster_queue, flavor, local_queue, workload
from tests.gang.pipeline import assessed, child_job, stored
from tests.jobsets import jobset, rj
from tests.monitoring.weeks.watched import START, Watched

Object = dict[str, Any]

GPU: Final = "nvidia.com/gpu"
LINGER: Final = 2 * 86_400
"""Seconds for which a finished JobSet stays (ttlSecondsAfterFinished)."""
NO_ROOM: Final = "0/16 nodes are available: 16 Insufficient nvidia.com/gpu."
REJECTED: Final = "DeactivatedDueToAdmissionCheck"
NO_QUOTA: Final = "couldn't assign flavors to pod set w: insufficient unused quota for nvidia.com/gpu in flavor f"


@dataclass
class Shape:
    """A JobSet that a user submits: ``pods`` run for ``seconds`` after they took ``start`` seconds to be ready."""

    name: str
    pods: int
    seconds: float
    namespace: str = "team-a"
    start: float = 60.0
    queue: str = "q"
    replicas: int = 1
    end: str = "Completed"
    fault: Fault | None = None
    """What prevents it from starting, for ``repair`` seconds."""
    repair: float = 0.0
    stamped: bool = True
    """Whether gangctl's webhook has seen it."""


class Fault(Enum):
    """What can be wrong with a start."""

    HALF = "half of the pods get nodes"
    REFUSED = "the scheduler finds no room"
    SILENT = "the scheduler does not answer"
    GROUPS = "the groups are not made"
    JOBS = "the Jobs are refused"
    IMAGE = "an image cannot be pulled"
    CONFIG = "a ConfigMap is missing"
    PROBE = "the containers run and are not ready"


class Cluster:
    """Everything that runs in a week. Times are seconds since its first minute."""

    def __init__(self, teams: dict[str, int], *, strategy: str = "StrictFIFO", ready_timeout: str = "") -> None:
        """``teams`` have one namespace and one ClusterQueue each: pods that its quota is for."""
        self.random = Random(20171106)
        self.queues = {name: Queue(self, name, pods, strategy) for name, pods in teams.items()}
        self.nodes = {f"node-{number}": _node(f"node-{number}") for number in range(16)}
        self._next_node = 0
        objects: list[Object] = [flavor(), *self.nodes.values()]
        for queue in self.queues.values():
            objects += [queue.raw, local_queue("q", queue.name, queue.name), _namespace(queue.name)]
        configuration: Object = {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "integrations": {"frameworks": ["jobset.x-k8s.io/jobset"]},
        }
        if ready_timeout:
            configuration["waitForPodsReady"] = {"timeout": ready_timeout}
        self.watched = Watched([configuration, *objects])
        self.gangs: dict[str, Gang] = {}
        self.finished = 0

    @property
    def now(self) -> float:
        """Seconds since the first minute."""
        return self.watched.clock.now()

    @property
    def stamp(self) -> str:
        """The time as the API has it."""
        return (START + timedelta(seconds=int(self.now))).strftime("%Y-%m-%dT%H:%M:%SZ")

    def later(self, seconds: float, call: Callable[..., object], *args: Any) -> None:
        """Call it after some time."""
        asyncio.get_running_loop().call_later(seconds, call, *args)

    def submit(self, shape: Shape) -> Gang:
        """Create a JobSet."""
        gang = Gang(self, shape)
        self.gangs[shape.name] = gang
        gang.create()
        return gang

    def node(self) -> str:
        """The next node that is ready."""
        for _ in self.nodes:
            self._next_node += 1
            name = f"node-{self._next_node % len(self.nodes)}"
            if self.nodes[name]["status"]["conditions"][0]["status"] == "True":
                break
        return name

    def set_node(self, name: str, *, ready: bool) -> None:
        """A kubelet stops to answer, or answers again."""
        raw = self.nodes[name]
        reason = "KubeletReady" if ready else "NodeStatusUnknown"
        raw["status"]["conditions"] = [
            {
                "type": "Ready",
                "status": "True" if ready else "Unknown",
                "reason": reason,
                "lastTransitionTime": self.stamp,
            }
        ]
        self.watched.deliver(raw)


class Queue:
    """A ClusterQueue as Kueue runs it: those that wait, in order, and those that hold quota."""

    def __init__(self, cluster: Cluster, name: str, pods: int, strategy: str) -> None:
        self.cluster, self.name, self.pods, self.strategy = cluster, name, pods, strategy
        quota = {"f": {GPU: str(pods)}}
        self.raw = cluster_queue(name, quota, queueingStrategy=strategy)
        self.raw["status"] = {
            "conditions": [{"type": "Active", "status": "True", "reason": "Ready", "message": "", **_AT_START}]
        }
        self.waiting: list[Gang] = []
        self.holding: dict[str, Gang] = {}
        self.admissions = 0
        self.stopped = False

    def join(self, gang: Gang) -> None:
        """It waits from now on."""
        self.waiting.append(gang)
        self.schedule()

    def leave(self, gang: Gang) -> None:
        """It waits no more, and holds nothing."""
        self.waiting = [other for other in self.waiting if other is not gang]
        self.holding.pop(gang.shape.name, None)
        self.cluster.later(1, self.schedule)

    def schedule(self) -> None:
        """Admit what fits."""
        for gang in [] if self.stopped else list(self.waiting):
            free = self.pods - sum(other.size for other in self.holding.values())
            if gang.size <= free:
                self.waiting.remove(gang)
                self.holding[gang.shape.name] = gang
                self.admissions += 1
                gang.admit()
            else:
                gang.set_workload("QuotaReserved", False, "Pending", NO_QUOTA)
                if self.strategy == "StrictFIFO":
                    return

    def stop(self, *, stopped: bool) -> None:
        """Set ``stopPolicy``."""
        self.stopped = stopped
        self.raw["spec"]["stopPolicy"] = "Hold" if stopped else "None"
        self.cluster.watched.deliver(self.raw)
        self.schedule()


@dataclass
class Gang:
    """One JobSet with everything that is made for it."""

    cluster: Cluster
    shape: Shape
    raw: Object = field(default_factory=dict)
    workload: Object = field(default_factory=dict)
    jobs: list[Object] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)
    groups: list[Object] = field(default_factory=list)
    size: int = 0
    attempt: int = 0
    over: bool = False
    _turn: int = 0
    """What was to happen in an earlier turn does not."""

    @property
    def queue(self) -> Queue | None:
        """Its ClusterQueue."""
        return self.cluster.queues[self.shape.namespace] if self.shape.queue else None

    def create(self) -> None:
        """The JobSet, suspended where it has a queue; with its Workload of Kueue."""
        shape, queue = self.shape, self.queue
        self.size = shape.pods * shape.replicas
        main = {"name": "main", "image": "none", "resources": {"limits": {GPU: "1"}}}
        raw = jobset(
            shape.name,
            rj("w", shape.replicas, shape.pods, shape.pods, pod={"containers": [main]}),
            mode="Gang",
            namespace=shape.namespace,
            uid=f"uid-{shape.name}",
            suspend=queue is not None,
        )
        self.raw = stored(raw) if shape.stamped else raw
        self.raw["metadata"]["creationTimestamp"] = self.cluster.stamp
        self.raw["status"] = {"restarts": 0, "conditions": []}
        if queue is not None:
            self.raw["metadata"]["labels"] = {QUEUE: shape.queue}
            self.workload = workload(
                shape.name, "q", namespace=shape.namespace, pods=self.size, created=self.cluster.stamp
            )
            # Names and UIDs are of one JobSet each.
            self.workload["metadata"]["uid"] = f"workload-{shape.name}"
            self.set_workload("QuotaReserved", False, "Pending", NO_QUOTA)
        self.deliver(self.raw)
        if queue is not None:
            queue.join(self)
        else:
            self.start()

    def deliver(self, raw: Object) -> None:
        """An object has changed."""
        self.cluster.watched.deliver(copy.deepcopy(raw))

    def later(self, seconds: float, call: Callable[..., object], *args: Any) -> None:
        """Call it after some time, unless it was stopped before."""
        turn = self._turn

        def due() -> None:
            if turn == self._turn:
                call(*args)

        self.cluster.later(seconds, due)

    def set_workload(self, kind: str, status: bool, reason: str, message: str = "") -> None:
        """A condition of its Workload."""
        if self.workload:
            self._condition(self.workload, kind, status, reason, message)
            self.deliver(self.workload)

    def admit(self) -> None:
        """Kueue gives it quota, and it starts."""
        self.workload["status"]["admission"] = {
            "clusterQueue": self.shape.namespace,
            "podSetAssignments": [
                {
                    "name": "w",
                    "count": self.size,
                    "flavors": {GPU: "f"},
                    "resourceUsage": {GPU: str(self.size)},
                }
            ],
        }
        self._condition(self.workload, "QuotaReserved", True, "QuotaReserved")
        self._condition(self.workload, "PodsReady", False, "WaitForStart")
        self.set_workload("Admitted", True, "Admitted")
        self.raw["spec"]["suspend"] = False
        self._condition(self.raw, "Suspended", False, "ResumeJobs")
        self.deliver(self.raw)
        self.start()

    def start(self) -> None:
        """Groups, Jobs and pods of an attempt."""
        self._turn += 1
        plan = assessed(self.raw).plan
        if plan is not None and self.size:
            adapter = ADAPTERS[NEWEST]
            self.groups = [adapter.workload(plan.workload), *(adapter.pod_group(group) for group in plan.groups)]
            for raw in self.groups:
                raw["metadata"] |= {"uid": f"uid-{raw['metadata']['name']}", "creationTimestamp": self.cluster.stamp}
                if self.shape.fault is not Fault.GROUPS:
                    self.deliver(raw)
        if self.shape.fault is not None:
            self.later(self.shape.repair, self.heal)
        if self.shape.fault is Fault.JOBS:
            self.deliver(_refusal(self.raw, self.cluster.stamp))
        else:
            self.make_jobs()

    def make_jobs(self) -> None:
        """The Jobs of an attempt, and soon their pods."""
        plan = assessed(self.raw).plan
        references = [job.reference for job in plan.jobs()] if plan is not None else []
        self.jobs = [child_job(self.raw, 0, index) for index in range(self.shape.replicas)]
        for index, job in enumerate(self.jobs):
            job["metadata"]["labels"][RESTART_ATTEMPT] = str(self.attempt)
            job["metadata"]["uid"] = f"{job['metadata']['name']}-{self.attempt}"
            if references and (reference := references[index]) is not None:
                job["spec"] = copy.deepcopy(job["spec"])
                job["spec"]["template"]["spec"]["schedulingGroup"] = ADAPTERS[NEWEST].reference(reference)
            job["status"] = {"active": self.shape.pods}
            self.deliver(job)
        self.later(2, self.make_pods)

    def make_pods(self) -> None:
        """The Jobs' pods."""
        for index in range(self.shape.replicas):
            for number in range(self.shape.pods):
                self.make_pod(index, number)
        if self.shape.fault is not Fault.GROUPS:
            self.later(3, self.place)

    def make_pod(self, index: int, number: int, again: int = 0) -> Object:
        """One pod."""
        template = self.jobs[index]["spec"]["template"]["spec"]
        name = f"{self.shape.name}-w-{index}-{number}-{self.attempt}-{again}"
        labels = {
            JOBSET_NAME: self.shape.name,
            JOBSET_UID: self.raw["metadata"]["uid"],
            REPLICATED_JOB_NAME: "w",
            JOB_INDEX: str(index),
            RESTART_ATTEMPT: str(self.attempt),
        }
        pod: Object = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": self.shape.namespace,
                "uid": name,
                "labels": labels,
                "creationTimestamp": self.cluster.stamp,
            },
            "spec": {part: template[part] for part in ("schedulingGroup",) if part in template},
            "status": {"phase": "Pending", "conditions": []},
        }
        self.pods.append(pod)
        self.deliver(pod)
        return pod

    def place(self) -> None:
        """The scheduler finds nodes for all pods, and their containers start."""
        fault = self.shape.fault
        if fault is Fault.SILENT:
            return
        for group in self.groups if fault is not Fault.REFUSED else ():
            if group["kind"] == "PodGroup":
                self._condition(group, "PodGroupInitiallyScheduled", True, "Scheduled")
                self.deliver(group)
        for number, pod in enumerate(self.pods):
            if fault is Fault.REFUSED or (fault is Fault.HALF and number % 2):
                self.refuse(pod)
            elif "nodeName" not in pod["spec"]:
                self.bind(pod)
                self._let_run(pod)
        if fault is None:
            self.containers_run()

    def _let_run(self, pod: Object) -> None:
        """What becomes of the containers of a pod that has got its node."""
        fault = self.shape.fault
        if fault is Fault.HALF:
            self.container_runs(pod)
        elif fault is Fault.PROBE:
            pod["status"]["phase"] = "Running"
            self.set_container(pod, {"running": {"startedAt": self.cluster.stamp}}, ready=False)
        elif fault in _WAITING:
            reason = _WAITING[fault]
            self.set_container(pod, {"waiting": {"reason": reason, "message": "no"}}, ready=False)

    def heal(self) -> None:
        """What prevented it is put right."""
        fault, self.shape.fault = self.shape.fault, None
        if fault is Fault.GROUPS:
            for raw in self.groups:
                self.deliver(raw)
        if fault is Fault.JOBS:
            self.make_jobs()
        else:
            self.place()

    def refuse(self, pod: Object) -> None:
        """The scheduler finds no node for a pod."""
        self._condition(pod, "PodScheduled", False, "Unschedulable", NO_ROOM)
        self.deliver(pod)

    def bind(self, pod: Object) -> None:
        """A pod gets a node."""
        pod["spec"]["nodeName"] = self.cluster.node()
        self._condition(pod, "PodScheduled", True, "")
        self.set_container(pod, {"waiting": {"reason": "ContainerCreating"}}, ready=False)

    def containers_run(self) -> None:
        """Containers start one after another; the JobSet runs until its end."""
        for place, pod in enumerate(self.pods):
            share = 0.5 + 0.5 * (place + 1) / len(self.pods)
            self.later(self.shape.start * share, self.container_runs, pod)
        self.later(self.shape.start + 1, self.whole)
        self.later(self.shape.start + self.shape.seconds, self.finish)

    def container_runs(self, pod: Object, restarts: int | None = None) -> None:
        """A container of a pod runs, and is ready."""
        pod["status"]["phase"] = "Running"
        self.set_container(pod, {"running": {"startedAt": self.cluster.stamp}}, ready=True, restarts=restarts)

    def set_container(
        self, pod: Object, state: Object, *, ready: bool, restarts: int | None = None, ended: Object | None = None
    ) -> None:
        """State of its container, and with it of the pod."""
        known = pod["status"].get("containerStatuses", [{}])[0]
        count = known.get("restartCount", 0) if restarts is None else restarts
        last = ended if ended is not None else known.get("lastState", {})
        pod["status"]["containerStatuses"] = [
            {"name": "main", "ready": ready, "restartCount": count, "state": state, "lastState": last}
        ]
        self._condition(pod, "Ready", ready, "" if ready else "ContainersNotReady")
        self.deliver(pod)

    def whole(self) -> None:
        """Kueue notices that all pods are ready."""
        self.set_workload("PodsReady", True, "Started")
        if self.attempt:
            self._condition(self.raw, "RestartingJobSet", False, "Restarted")
            self.deliver(self.raw)

    def crash(self, pod: Object, pause: float) -> None:
        """A container ends, and the kubelet starts it again after ``pause`` seconds."""
        count = pod["status"]["containerStatuses"][0]["restartCount"] + 1
        ended = {"terminated": {"reason": "Error", "exitCode": 1, "finishedAt": self.cluster.stamp}}
        waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
        self.set_container(pod, waiting, ready=False, restarts=count, ended=ended)
        self.later(pause, self.container_runs, pod)

    def drop_pods(self) -> None:
        """All pods end."""
        for pod in self.pods:
            self.cluster.watched.withdraw(pod)
        self.pods = []

    def drop_attempt(self) -> None:
        """What was made for an attempt goes."""
        self.drop_pods()
        for raw in (*self.jobs, *self.groups):
            self.cluster.watched.withdraw(raw)
        self.jobs, self.groups = [], []

    def finish(self) -> None:
        """It ends, and stays for a while."""
        self._turn += 1
        self.over = True
        end = self.shape.end
        self.drop_pods()
        for job in self.jobs:
            job["status"] = {"succeeded": self.shape.pods} if end == "Completed" else {"failed": 1}
            self._condition(job, "Complete" if end == "Completed" else "Failed", True, "")
            self.deliver(job)
        self._condition(self.raw, end, True, "AllJobsCompleted" if end == "Completed" else "FailedJobs")
        self.raw["status"]["terminalState"] = end
        self.deliver(self.raw)
        self.set_workload("Finished", True, "Succeeded" if end == "Completed" else "Failed")
        if self.queue is not None:
            self.queue.leave(self)
        self.cluster.finished += 1
        self.cluster.later(LINGER, self.delete)

    def delete(self) -> None:
        """Everything goes."""
        self._turn += 1
        if not self.over and self.queue is not None:
            self.queue.leave(self)
        self.over = True
        self.drop_attempt()
        if self.workload:
            self.cluster.watched.withdraw(self.workload)
        self.cluster.watched.withdraw(self.raw)

    def restart(self, pause: float = 10) -> None:
        """A Job failed: JobSet deletes all Jobs, and makes them anew."""
        self._turn += 1
        self.attempt += 1
        self.raw["status"]["restarts"] = self.attempt
        self._condition(self.raw, "RestartingJobSet", True, "Restarting")
        self.deliver(self.raw)
        self.set_workload("PodsReady", False, "WaitForRecovery")

        def anew() -> None:
            self.drop_attempt()
            self.start()

        self.later(pause, anew)

    def replace_pod(self, pause: float = 30) -> None:
        """A pod is lost, and its Job makes another one."""
        if not self.pods:
            return
        pod = self.pods.pop(0)
        self.cluster.watched.withdraw(pod)
        self.jobs[0]["status"] = {"active": self.shape.pods, "failed": 1}
        self.deliver(self.jobs[0])
        another = self.make_pod(0, 0, again=int(self.cluster.now))

        def come() -> None:
            self.bind(another)
            self.later(self.shape.start, self.container_runs, another)

        self.later(pause, come)

    def suspend(self, seconds: float) -> None:
        """Its owner suspends it for a while: it gives back its quota."""
        if self.over or self.queue is None or self.shape.name not in self.queue.holding:
            return
        self._stop("Suspended")
        self.workload["spec"]["active"] = False
        self._condition(self.workload, "Evicted", True, "Deactivated", "The workload is deactivated")
        self.deliver(self.workload)
        self.queue.leave(self)
        self.later(seconds, self._reactivate)

    def _reactivate(self) -> None:
        self.workload["spec"]["active"] = True
        self._condition(self.workload, "Evicted", False, "QuotaReserved")
        self.deliver(self.workload)
        if self.queue is not None:
            self.queue.join(self)

    def evict(self, pause: float) -> None:
        """waitForPodsReady takes its quota, and Kueue queues it again after a pause."""
        if self.queue is None or self.over:
            return
        self._stop("Evicted")
        count = self.workload["status"].get("requeueState", {}).get("count", 0) + 1
        at = (START + timedelta(seconds=int(self.cluster.now + pause))).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.workload["status"]["requeueState"] = {"count": count, "requeueAt": at}
        self._condition(self.workload, "Evicted", True, "PodsReadyTimeout", "Exceeded the PodsReady timeout")
        self._condition(self.workload, "Requeued", False, "PodsReadyTimeout")
        self.deliver(self.workload)
        self.queue.leave(self)
        self.later(pause, self._requeue)

    def _requeue(self) -> None:
        self.workload["status"]["requeueState"].pop("requeueAt")
        self.set_workload("Requeued", True, "BackoffFinished")
        if self.queue is not None:
            self.queue.join(self)

    def reject(self) -> None:
        """An admission check rejects it: Kueue deactivates its Workload."""
        self._stop("Rejected")
        self.workload["spec"]["active"] = False
        self._condition(self.workload, "Evicted", True, REJECTED, "check a said no")
        self.deliver(self.workload)
        if self.queue is not None:
            self.queue.leave(self)

    def _stop(self, reason: str) -> None:
        self._turn += 1
        self.drop_attempt()
        self.workload["status"].pop("admission", None)
        self._condition(self.workload, "QuotaReserved", False, "Pending", reason)
        self._condition(self.workload, "Admitted", False, "NoReservation")
        self.raw["spec"]["suspend"] = True
        self._condition(self.raw, "Suspended", True, "SuspendedJobs")
        self.deliver(self.raw)

    def resize(self, pods: int) -> None:
        """Its owner changes how many pods it has: only the new ones start, or the last ones go."""
        spec = self.raw["spec"]["replicatedJobs"][0]["template"]["spec"]
        spec["parallelism"] = spec["completions"] = pods
        self.shape.pods, before = pods, self.shape.pods
        self.deliver(self.raw)
        self.jobs[0]["spec"] = {**self.jobs[0]["spec"], "parallelism": pods, "completions": pods}
        self.deliver(self.jobs[0])
        while len(self.pods) > pods:
            self.cluster.watched.withdraw(self.pods.pop())
        for number in range(before, pods):
            pod = self.make_pod(0, number)
            self.later(3, self.bind, pod)
            self.later(3 + self.shape.start, self.container_runs, pod)
        self.size = pods

    def _condition(self, raw: Object, kind: str, status: bool, reason: str, message: str = "") -> None:
        conditions = raw.setdefault("status", {}).setdefault("conditions", [])
        known = next((found for found in conditions if found["type"] == kind), None)
        text = "True" if status else "False"
        if known is None:
            known = {"type": kind}
            conditions.append(known)
        if known.get("status") != text:
            known |= {"status": text, "lastTransitionTime": self.cluster.stamp}
        known |= {"reason": reason or kind, "message": message}


_WAITING: Final = {Fault.IMAGE: "ImagePullBackOff", Fault.CONFIG: "CreateContainerConfigError"}
_AT_START: Final = {"lastTransitionTime": START.strftime("%Y-%m-%dT%H:%M:%SZ")}


def _node(name: str) -> Object:
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", **_AT_START}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"allocatable": {"cpu": "96", GPU: "8", "pods": "110"}, "conditions": [ready]},
    }


def _refusal(raw: Object, at: str) -> Object:
    name = raw["metadata"]["name"]
    about = {"kind": "JobSet", **{part: raw["metadata"][part] for part in ("name", "namespace", "uid")}}
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{name}.1", "namespace": raw["metadata"]["namespace"], "creationTimestamp": at},
        "regarding": about,
        "reason": "JobCreationFailed",
        "note": 'admission webhook "quota.example" denied the request: no',
        "eventTime": at,
    }


def _namespace(name: str) -> Object:
    labels = {"kubernetes.io/metadata.name": name}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": name, "labels": labels}}
