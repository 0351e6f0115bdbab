"""Simulates the Job controller: pods of Indexed and NonIndexed Jobs, counted exactly once.

Left out: delays before pods that failed are replaced, and the Workloads that it makes of its own with the feature gate
WorkloadWithJob.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Final

from gangctl.api.objects import condition_of, controller_owner, copy
from gangctl.api.pods import is_finished
from gangctl.sandbox.api import Api
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.objects import Object, now, seconds_since
from gangctl.sandbox.simulated import controller

_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
_IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
"""Annotations of a pod: the failures of its index before it."""


@dataclass(frozen=True, slots=True)
class _Match:
    """The rule that a failed pod matches, and a description of what matched."""

    action: str
    message: str


def _match(job: Object, pod: Object) -> _Match | None:
    for index, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        what = _exit_code(pod, rule["onExitCodes"]) if "onExitCodes" in rule else _condition(pod, rule)
        if what is not None:
            return _Match(rule["action"], f"{what} matching {rule['action']} rule at index {index}")
    return None


def _exit_code(pod: Object, wanted: Object) -> str | None:
    status = pod.get("status") or {}
    for container in (*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ())):
        code = (container["state"].get("terminated") or {}).get("exitCode")
        named = wanted.get("containerName") in {None, container["name"]}
        # A container that ended with 0 matches no rule, NotIn included.
        if code and named and (code in wanted["values"]) == (wanted["operator"] == "In"):
            return f"Container {container['name']} for pod {_place(pod)} failed with exit code {code}"
    return None


def _condition(pod: Object, rule: Object) -> str | None:
    wanted = {(pattern["type"], pattern["status"]) for pattern in rule["onPodConditions"]}
    for condition in (pod.get("status") or {}).get("conditions", ()):
        if (condition["type"], condition["status"]) in wanted:
            return f"Pod {_place(pod)} has condition {condition['type']}"
    return None


def _place(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def failing_message(job: Object, pods: Iterable[Object]) -> str:
    """Why a failed pod fails the Job by its policy; "" if none does."""
    matches = (_match(job, pod) for pod in pods if controller.is_failed(pod, job))
    return next((match.message for match in matches if match is not None and match.action == "FailJob"), "")


def is_counted(job: Object, pod: Object) -> bool:
    """Whether the failure of a pod counts towards backoff limits."""
    match = _match(job, pod)
    return match is None or match.action != "Ignore"


def has_limit_per_index(job: Object) -> bool:
    """Whether indexes fail of their own."""
    return "backoffLimitPerIndex" in job["spec"]


def failed_indexes(job: Object, pods: Iterable[Object]) -> set[int]:
    """The indexes that have failed, with those of pods that are counted now."""
    indexes = controller.parse_indexes((job.get("status") or {}).get("failedIndexes") or "")
    indexes |= {index for pod in pods if (index := controller.index_of(pod)) is not None and _fails_index(job, pod)}
    return {index for index in indexes if index < int(job["spec"]["completions"])}


def _fails_index(job: Object, pod: Object) -> bool:
    if not controller.is_failed(pod, job):
        return False
    match = _match(job, pod)
    if match is not None and match.action in {"FailIndex", "Ignore"}:
        return match.action == "FailIndex"
    return _failures(pod, _FAILURES) >= int(job["spec"]["backoffLimitPerIndex"])


def _failures(pod: Object, annotation: str) -> int:
    return int((pod["metadata"].get("annotations") or {}).get(annotation, 0))


def unreplaced(job: Object, pods: Iterable[Object], others: Collection[int | None]) -> dict[int, Object]:
    """By index the failed pod with the most failures before it, but for the indexes of ``others``."""
    failed = (
        pod
        for pod in pods
        if controller.is_tracked(pod) and controller.is_failed(pod, job) and controller.index_of(pod) not in others
    )
    ordered = sorted(failed, key=lambda pod: _failures(pod, _FAILURES) + _failures(pod, _IGNORED))
    return {index: pod for pod in ordered if (index := controller.index_of(pod)) is not None}


def next_failure_counts(job: Object, replaced: Object | None) -> dict[str, str]:
    """The annotations of a pod that replaces a failed one, or none."""
    if replaced is None:
        return {_FAILURES: "0"}
    # getNewIndexFailureCounts of the Job controller.
    counted = is_counted(job, replaced)
    ignored = _failures(replaced, _IGNORED) + (not counted)
    counts = {_FAILURES: str(_failures(replaced, _FAILURES) + counted)}
    return {**counts, _IGNORED: str(ignored)} if ignored else counts


def success_message(job: Object, succeeded: Collection[int]) -> str:
    """Which rule of its success policy the succeeded indexes of a Job satisfy; "" if none."""
    for position, rule in enumerate((job["spec"].get("successPolicy") or {}).get("rules") or ()):
        count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
        wanted = set(succeeded) if indexes is None else controller.parse_indexes(indexes)
        needed = len(wanted) if count is None else int(count)
        if succeeded and wanted and len(wanted.intersection(succeeded)) >= needed:
            return f"Matched rules at index {position}"
    return ""


JobKey = tuple[str, str, str]
"""Namespace, name and UID: pods of a deleted Job must be finalized too."""

_CONTROLLER: Final = "kubernetes.io/job-controller"
_ENDS: Final = {"SuccessCriteriaMet": "Complete", "FailureTarget": "Failed"}
"""How a Job is about to end, and how it has once all its pods have ended."""

_KEEPS_START: Final = frozenset({"1.35"})
"""Minors without MutableSchedulingDirectivesForSuspendedJobs: a suspended Job keeps its startTime."""


@dataclass
class _Look:
    """A Job, being edited, and its pods as they are now."""

    job: Object
    pods: list[Object]
    ending: str = ""
    counted: list[Object] = field(default_factory=list)
    active: list[Object] = field(default_factory=list)
    terminating: list[Object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.active = [pod for pod in self.pods if not is_finished(pod) and not controller.is_deleted(pod)]
        self.terminating = [pod for pod in self.pods if not is_finished(pod) and controller.is_deleted(pod)]
        self.ending = next((kind for kind in _ENDS if controller.is_true(self.job, kind)), "")

    @property
    def key(self) -> JobKey:
        """The Job's key."""
        return (*controller.key_of(self.job), self.job["metadata"]["uid"])

    @property
    def status(self) -> Object:
        """The status, to be edited."""
        status: Object = self.job["status"]
        return status

    @property
    def suspended(self) -> bool:
        """Whether the Job is suspended."""
        return bool(self.job["spec"].get("suspend"))

    def count(self, name: str) -> int:
        """A counter of the status."""
        return int(self.status.get(name) or 0)

    def indexes(self, name: str) -> set[int]:
        """A set of indexes in the status."""
        return controller.parse_indexes(self.status.get(name) or "")

    @property
    def unreplaced(self) -> dict[int, Object]:
        """By index the last failed pod without a successor."""
        settled = self.indexes("completedIndexes") | self.indexes("failedIndexes")
        return unreplaced(self.job, self.pods, settled | {controller.index_of(pod) for pod in self.active})


class JobController(controller.SimulatedController[JobKey]):
    """Creates, counts and deletes the pods of Jobs."""

    name: ClassVar[str] = "job"
    # --concurrent-job-syncs of kube-controller-manager.
    workers: ClassVar[int] = 5

    def __init__(self, api: Api, *, pause_seconds: float = 0.0) -> None:
        """Run beside ``api``; each worker sleeps for ``pause_seconds`` after it has created a pod."""
        super().__init__(api)
        self._jobs = self.mirror("jobs.batch", self._job_changed)
        self._pods = self.mirror("pods", self._pod_changed, index=_job_of)
        self._events = controller.Recorder(api, self.caller, "job-controller")
        self._pause = pause_seconds
        self._counted: dict[JobKey, set[str]] = {}

    def _job_changed(self, job: Object) -> None:
        self.queue.add((*controller.key_of(job), job["metadata"]["uid"]))

    def _pod_changed(self, pod: Object) -> None:
        owner = controller_owner(pod["metadata"])
        if owner is not None and owner["kind"] == "Job":
            self.queue.add((pod["metadata"]["namespace"], owner["name"], owner["uid"]))

    async def reconcile(self, key: JobKey) -> None:
        """Reconcile one Job's pods and status."""
        stored = self._jobs.get(key[:2])
        pods = self._pods.indexed(key[2])
        # A pod that is gone, or without the finalizer, is not counted again: its UID need not be kept.
        tracked = {pod["metadata"]["uid"] for pod in pods if controller.is_tracked(pod)}
        if counted := self._counted.pop(key, set()) & tracked:
            self._counted[key] = counted
        if stored is None or stored["metadata"]["uid"] != key[2]:
            await self._let_go(pods)
            return
        if stored["spec"].get("managedBy") not in {None, _CONTROLLER}:
            return
        if ended := controller.first_true(stored, _ENDS.values()):
            await self._let_go(pods)
            await self.expire(self._jobs, stored, key, ended)
            return
        job = copy(stored)
        job.setdefault("status", {})
        await self._advance(_Look(job, pods), stored)

    async def _advance(self, look: _Look, stored: Object) -> None:
        if not look.status.get("startTime") and not look.suspended:
            look.status["startTime"] = now()
        self._count(look)
        self._evaluate(look)
        error: StatusError | None = None
        if look.ending:
            for pod in look.active:
                await self.delete(self._pods, pod)
            look.terminating += look.active
            look.active = []
        # A Job that is deleted in the foreground waits for its pods: new ones would keep it.
        elif "deletionTimestamp" not in look.job["metadata"]:
            error = await self._manage(look)
            _complete(look)
            if not look.ending:
                if look.suspended:
                    changed = _set(look.job, "Suspended", status="True", reason="JobSuspended", message="Job suspended")
                    if changed and self.api.registry.minor not in _KEEPS_START:
                        look.status.pop("startTime", None)
                elif _set(look.job, "Suspended", status="False", reason="JobResumed", message="Job resumed"):
                    look.status["startTime"] = now()
        await self._write(look, stored)
        # After the status is written: pods that were created before the refused one are counted.
        if error is not None:
            raise error

    def _count(self, look: _Look) -> None:
        """Update the counters with finished pods that were not counted yet."""
        look.counted = [
            pod
            for pod in look.pods
            if controller.is_tracked(pod)
            and (controller.has_succeeded(pod) or controller.is_failed(pod, look.job) or look.ending == "FailureTarget")
        ]
        # A pod can keep its finalizer after it was counted: for the pod that replaces it, or because a release failed.
        counted = self._counted.get(look.key, ())
        fresh = [pod for pod in look.counted if pod["metadata"]["uid"] not in counted]
        # The completions of an elastic Indexed Job can become less than an index that exists.
        valid = range(int(look.job["spec"].get("completions") or 0))
        if controller.is_indexed(look.job):
            done = {i for i in look.indexes("completedIndexes") if i in valid}
            done |= {
                i
                for pod in fresh
                if controller.has_succeeded(pod) and (i := controller.index_of(pod)) is not None and i in valid
            }
            if done or "completedIndexes" in look.status:
                look.status["completedIndexes"] = controller.show_indexes(done)
            look.status["succeeded"] = len(done)
        else:
            look.status["succeeded"] = look.count("succeeded") + sum(map(controller.has_succeeded, fresh))
        failed = [pod for pod in fresh if not controller.has_succeeded(pod) and is_counted(look.job, pod)]
        if controller.is_indexed(look.job):
            failed = [pod for pod in failed if controller.index_of(pod) in valid]
        look.status["failed"] = look.count("failed") + len(failed)
        # Pods that end with their Job fail no index.
        if has_limit_per_index(look.job) and not look.ending:
            look.status["failedIndexes"] = controller.show_indexes(failed_indexes(look.job, look.counted))

    def _evaluate(self, look: _Look) -> None:
        """Check whether the Job has failed."""
        spec = look.job["spec"]
        if look.ending:
            return
        if message := failing_message(look.job, look.pods):
            _end(look, "FailureTarget", "PodFailurePolicy", message)
        elif look.count("failed") > int(spec["backoffLimit"]):
            _end(look, "FailureTarget", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
        elif (left := self._seconds_left(look)) is not None and left <= 0:
            _end(look, "FailureTarget", "DeadlineExceeded", "Job was active longer than specified deadline")
        elif has_limit_per_index(look.job):
            failed, most = len(look.indexes("failedIndexes")), spec.get("maxFailedIndexes")
            if most is not None and failed > int(most):
                message = "Job has exceeded the specified maximal number of failed indexes"
                _end(look, "FailureTarget", "MaxFailedIndexesExceeded", message)
            elif failed and failed + look.count("succeeded") >= int(spec["completions"]):
                _end(look, "FailureTarget", "FailedIndexes", "Job has failed indexes")
        _apply_success_policy(look)

    def _seconds_left(self, look: _Look) -> float | None:
        """Until the deadline of a Job that runs, when it is evaluated again; it counts from the last resume."""
        deadline, start = look.job["spec"].get("activeDeadlineSeconds"), look.status.get("startTime")
        if deadline is None or start is None or look.suspended:
            return None
        left = int(deadline) - seconds_since(start)
        if left > 0:
            self.queue.add_after(look.key, left)
        return left

    async def _manage(self, look: _Look) -> StatusError | None:
        """Create and delete pods up to the desired number of active ones; returns the error that stopped it."""
        wanted = 0 if look.suspended else _wanted(look)
        going = look.active if look.suspended else controller.surplus(look.job, look.active, wanted)
        for pod in going:
            # Before the deletion: with the finalizer the pod would be counted as failed.
            await self._release(pod)
            await self.delete(self._pods, pod)
        if going:
            gone = {pod["metadata"]["uid"] for pod in going}
            look.active = [pod for pod in look.active if pod["metadata"]["uid"] not in gone]
            # Some deleted pods wait for their kubelet, others are gone at once: events report which.
            return None
        replaced = look.terminating if look.job["spec"].get("podReplacementPolicy") == "Failed" else []
        missing = wanted - len(look.active) - len(replaced)
        for index in _free_indexes(look, missing, replaced) if controller.is_indexed(look.job) else [None] * missing:
            pod = controller.new_pod(look.job, index)
            if index is not None and has_limit_per_index(look.job):
                pod["metadata"]["annotations"] |= next_failure_counts(look.job, look.unreplaced.get(index))
            try:
                look.active.append(await self.create(self._pods, pod))
            except StatusError as error:
                await self._events.record(look.job, "batch/v1", "FailedCreate", error.message, warning=True)
                return error
            if self._pause:
                await asyncio.sleep(self._pause)
        return None

    async def _write(self, look: _Look, stored: Object) -> None:
        """Write the counters, finalize the counted pods, and only then finish the Job."""
        status = look.status
        status["active"] = len(look.active)
        status["ready"] = sum(controller.is_true(pod, "Ready") for pod in look.active)
        status["terminating"] = len(look.terminating)
        # The real controller leaves an empty object; pods between count and release are in `_counted` here.
        status["uncountedTerminatedPods"] = {}
        for counter in ("active", "succeeded", "failed"):
            if not status[counter]:
                del status[counter]
        if status != stored.get("status"):
            look.job = copy(await self.update(self._jobs, look.job, "status"))
        # Recorded before any is finalized: a later error must not count them again.
        if look.counted:
            self._counted.setdefault(look.key, set()).update(pod["metadata"]["uid"] for pod in look.counted)
        goes = look.ending or "deletionTimestamp" in look.job["metadata"]
        keep = {} if goes or not has_limit_per_index(look.job) else look.unreplaced
        kept = {pod["metadata"]["uid"] for pod in keep.values()}
        for pod in look.pods if "deletionTimestamp" in look.job["metadata"] else look.counted:
            # The pod that replaces a failed one takes over its number of failures.
            if pod["metadata"]["uid"] not in kept:
                await self._release(pod)
        if look.ending and not look.terminating:
            await self._finish(look)

    async def _finish(self, look: _Look) -> None:
        # It is what the ending was read from.
        interim = condition_of(look.job, look.ending)
        end = {key: interim[key] for key in ("reason", "message")}
        kind = _ENDS[look.ending]
        _set(look.job, kind, status="True", **end)
        if kind == "Complete":
            look.status["completionTime"] = now()
        finished = await self.update(self._jobs, look.job, "status")
        message = ("Completed", "Job completed") if kind == "Complete" else (end["reason"], end["message"])
        await self._events.record(finished, "batch/v1", *message, warning=kind == "Failed")

    async def _let_go(self, pods: list[Object]) -> None:
        for pod in pods:
            await self._release(pod)

    async def _release(self, pod: Object) -> None:
        """Remove the finalizer of a pod, if it has it."""
        if not controller.is_tracked(pod):
            return
        await self.patch(self._pods, pod, {"metadata": {"$deleteFromPrimitiveList/finalizers": [controller.FINALIZER]}})


def _job_of(pod: Object) -> str | None:
    owner = controller_owner(pod["metadata"])
    return str(owner["uid"]) if owner is not None and owner["kind"] == "Job" else None


def _wanted(look: _Look) -> int:
    """How many pods should be active."""
    parallelism = int(look.job["spec"]["parallelism"])
    completions = look.job["spec"].get("completions")
    if completions is not None:
        return max(0, min(parallelism, int(completions) - look.count("succeeded")))
    # Without completions the pods share a work queue: after the first success no other is started.
    return len(look.active) if look.count("succeeded") else parallelism


def _free_indexes(look: _Look, missing: int, replaced: list[Object]) -> list[int | None]:
    """The lowest indexes without an active or finished pod."""
    taken = look.indexes("completedIndexes") | look.indexes("failedIndexes")
    taken |= {index for pod in (*look.active, *replaced) if (index := controller.index_of(pod)) is not None}
    free = (index for index in range(int(look.job["spec"]["completions"])) if index not in taken)
    return [index for index, _ in zip(free, range(missing), strict=False)]


def _apply_success_policy(look: _Look) -> None:
    if not look.ending and (message := success_message(look.job, look.indexes("completedIndexes"))):
        _end(look, "SuccessCriteriaMet", "SuccessPolicy", message)


def _complete(look: _Look) -> None:
    """Check whether the Job has succeeded."""
    if look.active or "deletionTimestamp" in look.job["metadata"]:
        return
    completions = look.job["spec"].get("completions")
    succeeded = look.count("succeeded")
    if succeeded > 0 if completions is None else succeeded >= int(completions):
        _end(look, "SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods")


def _end(look: _Look, ending: str, reason: str, message: str) -> None:
    _set(look.job, ending, status="True", reason=reason, message=message)
    look.ending = ending


def _set(job: Object, kind: str, *, status: str, reason: str, message: str) -> bool:
    """Write a condition as the Job controller does: False only over an existing one; returns whether it changed."""
    old = condition_of(job, kind)
    if not old and status == "False":
        return False
    if (old.get("status"), old.get("reason"), old.get("message")) == (status, reason, message):
        return False
    moment = now()
    new = {"type": kind, "status": status, "lastProbeTime": moment, "lastTransitionTime": moment}
    kept = [condition for condition in job["status"].get("conditions") or [] if condition["type"] != kind]
    job["status"]["conditions"] = [*kept, {**new, "reason": reason, "message": message}]
    return True
