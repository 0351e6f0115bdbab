"""
Plays the kubelet of every node: runs bound pods, ends them, and confirms their deletion.

Nothing else here would: without it a bound pod stays Pending for ever, and a deleted one keeps its node's capacity. A
policy decides when pods end, because that is what the tests differ in: gangs compete only while nobody finishes early.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Literal, Self

from tests.controlplane import pod_status
from tests.controlplane.api import UNREACHABLE, ApiClient, ApiFailure, Object, list_items, path_of

JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
Outcome = Literal["Succeeded", "Failed"]

# Asked about a running pod whenever a pod of its JobSet changes: the pod, and all bound pods of its JobSet.
Policy = Callable[[Object, Sequence[Object]], Outcome | None]

_PODS = path_of("v1", "pods")
_BOUND = "spec.nodeName!="
_RETRY_SECONDS = 0.2
_WATCH_SECONDS = 300
_TOO_MANY_REQUESTS = 429


def run_forever(_pod: Object, _jobset: Sequence[Object]) -> Outcome | None:
    """The default policy: a pod runs until a test ends it."""
    return None


def finish_when_jobset_bound(expected: Mapping[str, int] | Callable[[str], int]) -> Policy:
    """
    A policy by which a pod succeeds only once all pods of its JobSet are bound.

    `expected` tells how many those are, by the JobSet's name. Half-started JobSets then hold their nodes for ever, as
    training jobs do that wait for their peers.
    """
    count = expected if callable(expected) else expected.__getitem__

    def policy(pod: Object, jobset: Sequence[Object]) -> Outcome | None:
        name = pod["metadata"].get("labels", {}).get(JOBSET_NAME)
        return "Succeeded" if name is not None and len(jobset) >= count(name) else None

    return policy


class Kubelet:
    """All kubelets of a plane as one asyncio task; `async with Kubelet(plane.api):`."""

    def __init__(
        self,
        api: ApiClient,
        policy: Policy = run_forever,
        *,
        start: Callable[[Object], Object] = pod_status.running,
        stop: Callable[[Object], bool] = lambda _: True,
        observe: Callable[[Object, bool], None] = lambda _pod, _present: None,
    ) -> None:
        """`start` gives the status of a pod that was bound; `stop` says whether one that is deleted ends at once.

        `observe` is called with each bound pod as it is seen, and whether it is still there.
        """
        self._api = api
        self._policy = policy
        self._start = start
        self._stop = stop
        self._observe = observe
        self._pods: dict[str, Object] = {}
        self._jobsets: dict[tuple[str, str], dict[str, Object]] = {}
        self._done: set[tuple[str, str]] = set()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def pods(self) -> list[Object]:
        """The bound pods as last seen."""
        return list(self._pods.values())

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="kubelet")

    async def stop(self) -> None:
        """Stop playing; an error that ended the play early is raised here."""
        if self._task is None:
            return
        task, self._task = self._task, None
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()

    async def finish(self, pod: Object) -> None:
        """Let a pod succeed."""
        await self._write_status(pod, pod_status.succeeded(pod))

    async def fail(self, pod: Object, *, exit_code: int = 1) -> None:
        """Let a pod fail with this exit code in its containers."""
        await self._write_status(pod, pod_status.failed(pod, exit_code))

    async def _run(self) -> None:
        async with asyncio.TaskGroup() as actions:
            while True:
                try:
                    await self._follow(actions)
                except ApiFailure as error:
                    if not _passes(error):
                        raise
                    await asyncio.sleep(_RETRY_SECONDS)
                except UNREACHABLE:
                    await asyncio.sleep(_RETRY_SECONDS)

    async def _follow(self, actions: asyncio.TaskGroup) -> None:
        """One list and one watch; whatever ends the watch, the next list closes the gap."""
        answer = await self._api.get(_PODS, fieldSelector=_BOUND)
        pods = list_items(answer)
        for uid in self._pods.keys() - {pod["metadata"]["uid"] for pod in pods}:
            self._forget(self._pods[uid])
        for pod in pods:
            self._see(pod, actions)
        watch = self._api.watch(
            _PODS,
            fieldSelector=_BOUND,
            resourceVersion=answer["metadata"]["resourceVersion"],
            timeoutSeconds=_WATCH_SECONDS,
        )
        async for event in watch:
            if event.type == "DELETED":
                self._forget(event.object)
            elif event.type in {"ADDED", "MODIFIED"}:
                self._see(event.object, actions)

    def _see(self, pod: Object, actions: asyncio.TaskGroup) -> None:
        uid = pod["metadata"]["uid"]
        self._pods[uid] = pod
        self._observe(pod, True)
        jobset = self._jobsets.setdefault(_jobset_key(pod), {})
        jobset[uid] = pod
        self._act(pod, actions)
        # A pod outside any JobSet has no peers whose turn may have come with it.
        peers = list(jobset.values()) if JOBSET_NAME in pod["metadata"].get("labels", {}) else [pod]
        for peer in peers:
            self._decide(peer, peers, actions)

    def _forget(self, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        self._observe(pod, False)
        self._pods.pop(uid, None)
        jobset = self._jobsets.get(_jobset_key(pod), {})
        jobset.pop(uid, None)
        if not jobset:
            self._jobsets.pop(_jobset_key(pod), None)
        self._done -= {(uid, action) for action in ("run", "end", "delete")}

    def _act(self, pod: Object, actions: asyncio.TaskGroup) -> None:
        """Run a bound pod; confirm the deletion of one that is waited for."""
        metadata = pod["metadata"]
        if "deletionTimestamp" in metadata:
            # With a grace of 0 the API server waits for nobody but the owners of finalizers.
            if metadata.get("deletionGracePeriodSeconds") and self._stop(pod):
                self._once(pod, "delete", lambda: self._confirm_deletion(pod), actions)
        elif pod["status"].get("phase") == "Pending":
            self._once(pod, "run", lambda: self._write_status(pod, self._start(pod)), actions)

    def _decide(self, pod: Object, jobset: Sequence[Object], actions: asyncio.TaskGroup) -> None:
        if pod["status"].get("phase") != "Running" or "deletionTimestamp" in pod["metadata"]:
            return
        outcome = self._policy(pod, jobset)
        if outcome is not None:
            end = self.finish if outcome == "Succeeded" else self.fail
            self._once(pod, "end", lambda: end(pod), actions)

    def _once(
        self, pod: Object, action: str, do: Callable[[], Coroutine[None, None, None]], actions: asyncio.TaskGroup
    ) -> None:
        """Events arrive faster than writes are answered; each step of a pod's life is taken once."""
        key = (pod["metadata"]["uid"], action)
        if key not in self._done:
            self._done.add(key)
            actions.create_task(do(), name=f"kubelet-{action}-{pod['metadata']['name']}")

    async def _confirm_deletion(self, pod: Object) -> None:
        if pod["status"].get("phase") not in {"Succeeded", "Failed"}:
            # A kubelet reports how the containers ended before it lets the pod go.
            await self._write_status(pod, pod_status.failed(pod, exit_code=137))
        await self._persist(lambda: self._api.delete(_path(pod), grace=0))

    async def _write_status(self, pod: Object, status: Object) -> None:
        patch = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        await self._persist(lambda: self._api.patch(f"{_path(pod)}/status", patch, kind="strategic"))

    @staticmethod
    async def _persist(write: Callable[[], Coroutine[None, None, Object]]) -> None:
        """Write until the API server takes it, or the pod it is about is gone (404) or replaced (409)."""
        while True:
            try:
                await write()
            except ApiFailure as error:
                if error.status in {404, 409}:
                    return
                if not _passes(error):
                    raise
                await asyncio.sleep(_RETRY_SECONDS)
            except UNREACHABLE:
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                return


def _passes(error: ApiFailure) -> bool:
    """Whether a failure goes by itself: a restarting or busy server, or a watch that fell behind (410)."""
    return error.status >= 500 or error.status in {410, _TOO_MANY_REQUESTS}


def _jobset_key(pod: Object) -> tuple[str, str]:
    metadata = pod["metadata"]
    return metadata["namespace"], metadata.get("labels", {}).get(JOBSET_NAME, "")


def _path(pod: Object) -> str:
    return path_of("v1", "pods", namespace=pod["metadata"]["namespace"], name=pod["metadata"]["name"])
