"""Simulates the kubelet of every node: runs bound pods, ends them by a policy, confirms deletions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

from gangctl.api.meta import JOBSET_NAME
from gangctl.api.objects import Key
from gangctl.sandbox.api import Api
from gangctl.sandbox.objects import Object, namespace_of
from gangctl.sandbox.simulated import pod_status
from gangctl.sandbox.simulated.controller import SimulatedController
from gangctl.sandbox.simulated.job_pods import is_deleted, is_ended
from gangctl.sandbox.simulated.mirror import key_of

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
        self._filled = True
        self._verdicts: dict[str, tuple[Outcome, float]] = {}

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
        await self._write_status(pod, pod_status.succeeded(pod))

    async def fail(self, pod: Object, *, exit_code: int = 1) -> None:
        """End a pod with failure."""
        await self._write_status(pod, pod_status.failed(pod, exit_code))

    def _changed(self, pod: Object) -> None:
        self.queue.add(key_of(pod))
        # Pods that exist at the start are all queued.
        jobset = _jobset_of(pod) if self._filled else None
        for peer in self._pods.indexed(jobset) if jobset else []:
            if (peer.get("status") or {}).get("phase") == "Running":
                self.queue.add(key_of(peer))

    async def reconcile(self, key: Key) -> None:
        """Perform a bound pod's next step."""
        pod = self._pods.get(key)
        if pod is None or not pod["spec"].get("nodeName"):
            return
        if is_deleted(pod):
            await self._confirm(pod)
        elif pod["status"].get("phase") == "Pending":
            await self._write_status(pod, pod_status.running(pod))
        elif not is_ended(pod):
            await self._decide(pod)

    async def _confirm(self, pod: Object) -> None:
        """Report the end of a deleted pod, then remove it; with a grace of 0 the server waits only for finalizers."""
        self._verdicts.pop(pod["metadata"]["uid"], None)
        if not is_ended(pod):
            await self._write_status(pod, pod_status.failed(pod, pod_status.KILLED))
        if pod["metadata"].get("deletionGracePeriodSeconds"):
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


def _jobset_of(pod: Object) -> str | None:
    name = (pod["metadata"].get("labels") or {}).get(JOBSET_NAME)
    return f"{namespace_of(pod)}/{name}" if name else None
