"""Situations in which gangs do not become ready, made on a real control plane side by side, and gangctl's causes."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import Command
from tests.cases import object_name
from tests.cli.run import Answer
from tests.cli.run import gangctl as run_gangctl
from tests.controlplane import pod_status
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.nodes import NODES, add_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.live.cluster import Cluster
from tests.live.gangctl import Gangctl, create_namespaces
from tests.live.queued import Queued
from tests.suggestions import Shell, command_of

POOL: Final = "gangctl.dev/causes"
AILS: Final = "test.gangctl.dev/ails"
"""Annotation of pods: what the simulated kubelet reports of them."""
LINGERS: Final = "test.gangctl.dev/lingers"
"""Annotation of pods that the simulated kubelet does not end when they are deleted."""
NAME: Final = "js"
"""Of the JobSet that a situation is about."""

# click's runner takes over the streams of the process: one question at a time, whichever plane it is about.
_ASKER: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="asking")

_IN_BRACKETS: Final = re.compile(r"^\s+\((\w+)[,)]", re.MULTILINE)
"""The reason of a cause as people read it."""
_SUGGESTED: Final = re.compile(r"^\s+\$ (.+)$", re.MULTILINE)
_AT_ONCE: Final = 4
"""Suggestions that are run at the same time."""

Maker = Callable[["Place"], "Awaitable[None] | AsyncGenerator[None]"]


@dataclass(frozen=True)
class Situation:
    """One way to a cause. ``make`` produces it; what is before its ``yield`` is done while everything still runs.

    ``command`` is what the cause suggests there, ``code`` the exit code of that, and ``shows`` a part of its output,
    if not the name of the object that it is about; ``{namespace}`` in it is that of the situation.
    """

    id: str
    reason: Reason
    when: str
    how: str
    make: Maker
    blocking: bool | None
    """None where it turns into one that blocks after some minutes."""
    command: Command
    code: int = 0
    shows: str = ""
    later: Reason | None = None
    """The cause that it turns into after some minutes, which pass on a slow machine."""

    @property
    def namespace(self) -> str:
        """Its own."""
        return self.id.replace("_", "-")

    def is_reported(self, reported: Explanation) -> bool:
        """Whether it is named first, and as what it is, with the command that fits it."""
        if self.later is not None and reported.first == self.later:
            return True
        if reported.first != self.reason or self.blocking not in {None, reported.blocking}:
            return False
        return bool(reported.suggestion) and command_of(reported.suggestion) is self.command


@dataclass
class Situations:
    """All of one control plane, in the order of their stages."""

    ground: str
    known: list[Situation] = field(default_factory=list)

    def __call__(
        self,
        reason: Reason,
        how: str,
        command: Command,
        *,
        when: str,
        blocking: bool | None = True,
        code: int = 0,
        shows: str = "",
        later: Reason | None = None,
    ) -> Callable[[Callable[[Place], Any]], Callable[[Place], Any]]:
        """Take a function in, by its name."""

        def take(make: Callable[[Place], Any]) -> Callable[[Place], Any]:
            self.known.append(Situation(make.__name__, reason, when, how, make, blocking, command, code, shows, later))
            return make

        return take

    def at(self, when: str) -> list[Situation]:
        """Those of one stage."""
        return [each for each in self.known if each.when == when]


@dataclass(frozen=True)
class Explanation:
    """The output of ``gangctl why``: reasons in order, whether the first one blocks, its message, the exit code."""

    phase: str = ""
    reasons: tuple[str, ...] = ()
    blocking: bool = False
    message: str = ""
    code: int = -1
    trouble: str = ""
    suggestion: str = ""
    """The next command of the first cause."""
    answer: Answer | None = None
    """What came of it, while the situation was there."""

    @property
    def first(self) -> str:
        """The reason that is named first."""
        return self.reasons[0] if self.reasons else ""


@dataclass(frozen=True)
class Place:
    """A namespace for one situation on a plane."""

    plane: ControlPlane
    gangctl: Gangctl
    kubelet: Kubelet
    namespace: str
    logs: int = 0
    """Port of :func:`tests.controlplane.container_logs.container_logs`."""

    @cached_property
    def cluster(self) -> Cluster:
        """Reads and writes."""
        return Cluster(self.plane, self.namespace)

    @cached_property
    def queued(self) -> Queued:
        """The same namespace, with queues."""
        return Queued(self.plane, self.namespace)

    async def nodes(self, count: int = 1, cpu: str = "4", **labels: str) -> list[str]:
        """Nodes that only pods of :meth:`gang` look for."""
        mine = {POOL: self.namespace, **labels}
        return await add_nodes(self.plane.api, count, cpu=cpu, labels=mine, prefix=self.namespace)

    def gang(
        self,
        pods: int,
        *,
        name: str = NAME,
        notes: dict[str, str] | None = None,
        pod: Object | None = None,
        job: Object | None = None,
        **whole: Any,
    ) -> Object:
        """So many pods of one CPU that have to start together; ``notes`` are annotations of the pods."""
        spec = {"nodeSelector": {POOL: self.namespace}, **(pod or {})}
        raw = jobset(name, rj("w", 1, pods, pods, cpu="1", pod=spec, job=job), mode="Gang", **whole)
        if notes:
            for each in raw["spec"]["replicatedJobs"]:
                each["template"]["spec"]["template"]["metadata"] = {"annotations": notes}
        return raw

    async def create(self, raw: Object) -> Object:
        """Create a JobSet here."""
        return await self.cluster.create_jobset(raw)

    async def make(self, kind: str, name: str, *, api_version: str = "v1", **body: Any) -> Object:
        """Create a namespaced object."""
        raw = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **body}
        return await self.plane.api.create(self.cluster.path(api_version, f"{kind.lower()}s"), raw)

    async def skip(self) -> None:
        """Label the namespace so that gangctl is not asked, and wait until API servers have noticed."""
        await self._skip("true")

        async def unasked() -> bool:
            return "gang-ref" not in str(await self.cluster.create_jobset(self.gang(1, name="try"), dry_run=True))

        await wait_for(unasked, what="the label to be noticed", tolerate=(ApiFailure,))

    async def skip_no_more(self) -> None:
        """Take that label off, and wait until gangctl is asked again."""
        await self._skip(None)
        await self.cluster.asked()

    async def _skip(self, value: str | None) -> None:
        path = path_of("v1", "namespaces", name=self.namespace)
        await self.plane.api.patch(path, {"metadata": {"labels": {"gangctl.dev/skip": value}}})

    async def group(self, scope: str = "jobset", name: str = NAME) -> str:
        """Name of the PodGroup of a JobSet, once it is there."""
        wanted = object_name(name, (await self.cluster.jobset(name))["metadata"]["uid"], scope)

        async def made() -> bool:
            if wanted not in (names := (await self.cluster.gangs()).names):
                raise NotYet(f"only {names}")
            return True

        await wait_for(made, f"PodGroup {wanted}")
        return wanted

    async def pods(self, count: int, test: Callable[[Object], bool] = lambda _: True) -> list[Object]:
        """Wait until so many pods are as wanted."""

        async def there() -> list[Object]:
            pods = await self.cluster.pods()
            found = [each for each in pods if test(each)]
            if len(found) != count:
                raise NotYet(f"{len(found)} of {len(pods)} pods")
            return found

        return await wait_for(there, f"{count} pods in {self.namespace}", interval=0.2)

    async def condition(self, pod: Object, kind: str, status: str) -> None:
        """Write a condition of a pod, as the node lifecycle controller does."""
        name = pod["metadata"]["name"]
        entry = {"type": kind, "status": status, "lastTransitionTime": pod_status.now()}
        path = f"{self.cluster.path('v1', 'pods', name)}/status"
        await self.plane.api.patch(path, {"status": {"conditions": [entry]}}, kind="strategic")

    async def event(self, pod: Object, reason: str, note: str) -> None:
        """Write an event about a pod, as an autoscaler does."""
        about = {"apiVersion": "v1", "kind": "Pod", "namespace": self.namespace}
        about |= {key: pod["metadata"][key] for key in ("name", "uid")}
        who = {"reportingController": "cluster-autoscaler", "reportingInstance": "test", "action": "ScaleUp"}
        moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        body = {"regarding": about, "reason": reason, "note": note, "type": "Normal", "eventTime": moment, **who}
        await self.make("Event", f"{pod['metadata']['name']}.autoscaler", api_version="events.k8s.io/v1", **body)


def running(pod: Object) -> bool:
    """Whether a pod runs and is not on its way out."""
    return pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")


def refused(pod: Object) -> bool:
    """Whether the scheduler has found no node for a pod."""
    reported = pod["status"].get("conditions") or []
    return any(each["type"] == "PodScheduled" and each["status"] == "False" for each in reported)


def placed(pod: Object) -> bool:
    """Whether a pod has a node."""
    return bool(pod["spec"].get("nodeName"))


def status_of(pod: Object) -> Object:
    """What the simulated kubelet reports of a pod: that it runs, or the content of its annotation."""
    match (pod["metadata"].get("annotations") or {}).get(AILS, ""):
        case "":
            return pod_status.running(pod)
        case "unready":
            return pod_status.unready(pod)
        case "CrashLoopBackOff" as reason:
            return pod_status.waiting(pod, reason, "back-off 5m0s restarting failed container", restarts=3)
        case reason:
            return pod_status.waiting(pod, reason, f"played: {reason}")


def ends(pod: Object) -> bool:
    """Whether a deleted pod ends at once."""
    return LINGERS not in (pod["metadata"].get("annotations") or {})


class Theatre:
    """Makes situations of one plane and evaluates them repeatedly, until each is reported."""

    def __init__(self, plane: ControlPlane, gangctl: Gangctl, kubelet: Kubelet, logs: int = 0) -> None:
        """Nothing is made yet."""
        self.plane, self.gangctl, self.kubelet, self._logs = plane, gangctl, kubelet, logs
        self._shell = Shell(plane.directory / "shell", plane.kubeconfig)
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self.reported: dict[str, Explanation] = {}
        self._half: dict[str, AsyncGenerator[None]] = {}

    def place(self, situation: Situation) -> Place:
        """The namespace of a situation."""
        return Place(self.plane, self.gangctl, self.kubelet, situation.namespace, self._logs)

    async def prepare(self, situations: Sequence[Situation]) -> None:
        """Make namespaces, and what has to be there before anything is broken."""
        await create_namespaces(self.plane, [self.place(each).namespace for each in situations])
        await asyncio.gather(*map(self._prepare, situations))

    async def _prepare(self, situation: Situation) -> None:
        if not inspect.isasyncgenfunction(situation.make):
            return
        self._half[situation.id] = half = situation.make(self.place(situation))
        try:
            await anext(half)
        except Exception as error:  # noqa: BLE001 -- one that cannot be made is reported with the others
            self.reported[situation.id] = Explanation(trouble=f"preparing it: {error!r}")

    async def make(self, situations: Sequence[Situation]) -> None:
        """Produce them side by side."""
        await asyncio.gather(*map(self._make, situations))

    async def _make(self, situation: Situation) -> None:
        if situation.id in self.reported:
            return
        try:
            if situation.id in self._half:
                async for _ in self._half[situation.id]:
                    pass
            else:
                made = situation.make(self.place(situation))
                assert inspect.isawaitable(made)
                await made
        except Exception as error:  # noqa: BLE001 -- as above
            self.reported[situation.id] = Explanation(trouble=f"making it: {error!r}")

    async def ask(self, situations: Iterable[Situation]) -> None:
        """Evaluate each until it is reported as expected, and run what is suggested; else the last report is kept."""
        left = [each for each in situations if not self.reported.get(each.id, Explanation()).trouble]
        runs: list[asyncio.Task[None]] = []

        async def all_reported() -> bool:
            for situation in list(left):
                self.reported[situation.id] = reported = await why(self.plane, self.place(situation).namespace)
                if situation.is_reported(reported):
                    left.remove(situation)
                    runs.append(asyncio.create_task(self._run_suggestion(situation)))
            if left:
                raise NotYet(", ".join(each.id for each in left))
            return True

        with suppress(TimeoutError):
            # Each look is a run of gangctl for each situation, and some causes are named after a minute.
            await wait_for(all_reported, "causes to be named", interval=2)
        await asyncio.gather(*runs)

    async def _run_suggestion(self, situation: Situation) -> None:
        reported = self.reported[situation.id]
        async with self._turns:
            answer = await self._shell.run(reported.suggestion)
        self.reported[situation.id] = replace(reported, answer=answer)


async def why(plane: ControlPlane, namespace: str, name: str = NAME) -> Explanation:
    """The output of ``gangctl why`` for one gang, as the administrator."""
    arguments = ("why", name, "-n", namespace, "--kubeconfig", str(plane.kubeconfig))
    loop = asyncio.get_running_loop()
    answer = await loop.run_in_executor(_ASKER, lambda: run_gangctl(*arguments, "-o", "json"))
    if not answer.out:
        return Explanation(code=answer.code, message=answer.err)
    status = answer.json["status"]
    causes = status.get("causes") or []
    suggestions = [each["command"] for each in causes]
    if status["phase"] == "Ready":
        # Of what runs there is nothing to explain, but that it has no guarantee: that is for people to read.
        text = (await loop.run_in_executor(_ASKER, lambda: run_gangctl(*arguments))).out
        causes = [{"reason": each, "blocking": False, "message": text} for each in _IN_BRACKETS.findall(text)]
        suggestions = _SUGGESTED.findall(text)
    return Explanation(
        phase=status["phase"],
        reasons=tuple(each["reason"] for each in causes),
        blocking=bool(causes and causes[0]["blocking"]),
        message=causes[0]["message"] if causes else "",
        code=answer.code,
        suggestion=suggestions[0] if suggestions else "",
    )


async def node_is(plane: ControlPlane, name: str, *, ready: bool) -> None:
    """Write a node's condition Ready, as for a node whose lease is not renewed."""
    entry = {"type": "Ready", "status": str(ready) if ready else "Unknown", "reason": "NodeStatusUnknown"}
    entry |= {"lastTransitionTime": pod_status.now(), "message": "Kubelet stopped posting node status."}
    await plane.api.patch(f"{NODES}/{name}/status", {"status": {"conditions": [entry]}}, kind="strategic")
