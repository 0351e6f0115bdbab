"""A JobSet of a week with everything that is made for it, as JobSet, Job, the kubelets and the scheduler write it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from gangctl.api.meta import JOB_INDEX, JOBSET_NAME, JOBSET_UID, REPLICATED_JOB_NAME, RESTART_ATTEMPT
from gangctl.api.scheduling import NEWEST
from gangctl.api.scheduling_versions import ADAPTERS
from tests.cli.kueueobjects import QUEUE
from tests.gang.pipeline import assessed, child_job, stored
from tests.jobsets import jobset, rj
from tests.monitoring.weeks.kueue import GPU, Object, Workload

if TYPE_CHECKING:  # a cluster has gangs
    from tests.monitoring.weeks.cluster import Cluster

LINGER: Final = 2 * 86_400
"""Seconds for which a finished JobSet stays (ttlSecondsAfterFinished)."""
NO_ROOM: Final = "0/16 nodes are available: 16 Insufficient nvidia.com/gpu."


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


@dataclass
class Gang:
    """One JobSet with everything that is made for it."""

    cluster: Cluster
    shape: Shape
    raw: Object = field(default_factory=dict)
    workload: Workload | None = None
    """Kueue's, where it has a queue."""
    jobs: list[Object] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)
    groups: list[Object] = field(default_factory=list)
    size: int = 0
    attempt: int = 0
    over: bool = False
    _turn: int = 0
    """What was to happen in an earlier turn does not."""

    def create(self) -> None:
        """The JobSet, suspended where it has a queue; with its Workload of Kueue."""
        shape = self.shape
        self.size = shape.pods * shape.replicas
        main = {"name": "main", "image": "none", "resources": {"limits": {GPU: "1"}}}
        raw = jobset(
            shape.name,
            rj("w", shape.replicas, shape.pods, shape.pods, pod={"containers": [main]}),
            mode="Gang",
            namespace=shape.namespace,
            uid=f"uid-{shape.name}",
            suspend=bool(shape.queue),
        )
        self.raw = stored(raw) if shape.stamped else raw
        self.raw["metadata"]["creationTimestamp"] = self.cluster.stamp
        self.raw["status"] = {"restarts": 0, "conditions": []}
        if shape.queue:
            self.raw["metadata"]["labels"] = {QUEUE: shape.queue}
            self.workload = Workload(self, self.cluster.queues[shape.namespace])
        self.deliver(self.raw)
        if self.workload is not None:
            self.workload.queue.join(self.workload)
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

    def resume(self) -> None:
        """It was suspended, and starts."""
        self.raw["spec"]["suspend"] = False
        self.cluster.condition(self.raw, "Suspended", False, "ResumeJobs")
        self.deliver(self.raw)
        self.start()

    def stop(self) -> None:
        """It is suspended, and all of an attempt goes."""
        self._turn += 1
        self.drop_attempt()
        self.raw["spec"]["suspend"] = True
        self.cluster.condition(self.raw, "Suspended", True, "SuspendedJobs")
        self.deliver(self.raw)

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
                self.cluster.condition(group, "PodGroupInitiallyScheduled", True, "Scheduled")
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
        self.cluster.condition(pod, "PodScheduled", False, "Unschedulable", NO_ROOM)
        self.deliver(pod)

    def bind(self, pod: Object) -> None:
        """A pod gets a node."""
        pod["spec"]["nodeName"] = self.cluster.node()
        self.cluster.condition(pod, "PodScheduled", True, "")
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
        self.cluster.condition(pod, "Ready", ready, "" if ready else "ContainersNotReady")
        self.deliver(pod)

    def whole(self) -> None:
        """Kueue notices that all pods are ready."""
        if self.workload is not None:
            self.workload.set("PodsReady", True, "Started")
        if self.attempt:
            self.cluster.condition(self.raw, "RestartingJobSet", False, "Restarted")
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
            self.cluster.condition(job, "Complete" if end == "Completed" else "Failed", True, "")
            self.deliver(job)
        self.cluster.condition(self.raw, end, True, "AllJobsCompleted" if end == "Completed" else "FailedJobs")
        self.raw["status"]["terminalState"] = end
        self.deliver(self.raw)
        if self.workload is not None:
            self.workload.set("Finished", True, "Succeeded" if end == "Completed" else "Failed")
            self.workload.queue.leave(self.workload)
        self.cluster.finished += 1
        self.cluster.later(LINGER, self.delete)

    def delete(self) -> None:
        """Everything goes."""
        self._turn += 1
        if not self.over and self.workload is not None:
            self.workload.queue.leave(self.workload)
        self.over = True
        self.drop_attempt()
        if self.workload is not None:
            self.cluster.watched.withdraw(self.workload.raw)
        self.cluster.watched.withdraw(self.raw)

    def restart(self, pause: float = 10) -> None:
        """A Job failed: JobSet deletes all Jobs, and makes them anew."""
        self._turn += 1
        self.attempt += 1
        self.raw["status"]["restarts"] = self.attempt
        self.cluster.condition(self.raw, "RestartingJobSet", True, "Restarting")
        self.deliver(self.raw)
        if self.workload is not None:
            self.workload.set("PodsReady", False, "WaitForRecovery")

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


_WAITING: Final = {Fault.IMAGE: "ImagePullBackOff", Fault.CONFIG: "CreateContainerConfigError"}


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
