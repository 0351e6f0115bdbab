"""One small cluster in one event loop: the sandbox, its simulated controllers, and gangctl itself, in virtual time."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from gangctl.manager import process
from gangctl.manager.metrics import measure_lag
from gangctl.manager.process import Process, prepared
from gangctl.manager.settings import load_settings
from gangctl.sandbox import writes
from gangctl.sandbox.errors import StatusError
from gangctl.sandbox.requests import DEFAULT_WRITE, Caller, DeleteOptions
from gangctl.sandbox.server import SandboxOptions
from gangctl.sandbox.simulated import SimulatedControllers, add_nodes
from gangctl.sandbox.store import StoredChange
from gangctl.sandbox.writes import Write
from tests.controlplane.ports import Ports
from tests.faults import pathways, policies
from tests.sandbox.faults import CutBefore, FaultySandbox, Match

Object = dict[str, Any]
USER = "gangctl"
NAMESPACE = "t"
ADMIN = Caller("admin", ("system:masters",))
VERSIONS = {"1.35": "v1alpha1", "1.36": "v1alpha2", "1.37": "v1beta1"}
REST_SECONDS = 50.0
"""Long enough for every back-off and a periodic look or two."""

SETTLING_SECONDS = 5.0
"""How long something may happen after a step when nothing fails; what is asked after that only looks."""

READY_SECONDS = 300.0
_HASH = re.compile(r"-[0-9a-f]{8}-[0-9a-f]{4}(?![0-9a-f])")


@dataclass(frozen=True)
class Outcome:
    """What a scenario leaves, which has to be as it is without a fault; hashes of UIDs are taken out of names."""

    gangs: dict[str, Any]
    """spec of every Workload and PodGroup, by kind and name."""
    references: dict[str, Any]
    """The scheduling reference of every Job."""
    pods: dict[str, int]
    """Pods by Job and phase."""
    jobsets: dict[str, Any]
    """terminalState and restarts by JobSet."""
    said: dict[str, int]
    """gangctl's events by JobSet and reason. Only a creation is counted: other events may be split."""
    created: dict[str, int]
    """How often each Workload and PodGroup was created."""
    orphans: tuple[str, ...]
    """Workloads and PodGroups whose owner does not exist."""
    policies: dict[str, Any] = field(default_factory=dict)
    """Where there are policies: their statuses, the reports, and what is registered for them."""
    pathways: dict[str, Any] = field(default_factory=dict)
    """Where there are PathwaysJobs: their statuses."""
    answers: tuple[str, ...] = ()
    """The answers to requests that create a JobSet, in order."""


class World:
    """The administrator's hands, and what there is to see."""

    def __init__(
        self, sandbox: FaultySandbox, simulated: SimulatedControllers, directory: Path, about: frozenset[str]
    ) -> None:
        self.sandbox = sandbox
        self.has_policies = about >= policies.ABOUT
        self.has_pathways = about >= pathways.ABOUT
        self.api = sandbox.api
        self.simulated = simulated
        self.minor = sandbox.options.minor
        self.has_groups = self.minor != "1.35"
        self.version = VERSIONS[self.minor]
        self._directory = directory
        self._ports = Ports()
        self.quiet: list[range] = []
        """Numbers of requests, in the order of the audit, that were asked when everything had settled."""
        self._created: Counter[str] = Counter()
        self._answers: list[str] = []
        self.api.store.listen(self._saw)
        self._process: Process | None = None
        self._running: asyncio.Task[None] | None = None
        self.flags: Object = {}
        """Flags of gangctl beside, or instead of, those that every world has."""

    # gangctl

    async def start_gangctl(self) -> None:
        """Run gangctl in this loop until it is ready."""
        if not self._directory.joinpath("kubeconfig").exists():
            self._directory.mkdir(exist_ok=True)
            self._directory.joinpath("kubeconfig").write_text(self.sandbox.kubeconfig(user=USER))
            self._address = f"127.0.0.1:{self._ports.take()}", f"127.0.0.1:{self._ports.take()}"
        webhooks, metrics = self._address
        flags = {
            "kubeconfig": str(self._directory / "kubeconfig"),
            "webhook_url": f"https://{webhooks}",
            "metrics_bind_address": metrics,
            "leader_elect": False,
            # Looking for definitions that are missing would double the requests, each of which is a case of its own.
            "policies": "auto" if self.has_policies else "off",
            "pathways": self.has_pathways,
            **self.flags,
        }
        settings = load_settings(flags, None)
        started = asyncio.Event()

        async def run() -> None:
            async with prepared(settings) as process:
                self._process = process
                started.set()
                await process.run()

        self._running = asyncio.create_task(run(), name="gangctl")
        await started.wait()
        async with asyncio.timeout(READY_SECONDS):
            while not await self._is_registered():
                await self.rest(1)

    async def _is_registered(self) -> bool:
        """Whether the webhooks are registered, which happens when they can answer."""
        found = await asyncio.gather(
            *(
                self.api.list(self.api.kind(f"{kind}webhookconfigurations.admissionregistration.k8s.io"))
                for kind in ("mutating", "validating")
            )
        )
        return all(page.items for page in found)

    async def stop_gangctl(self) -> None:
        """Ask it to end, and wait."""
        if self._process is not None and self._running is not None:
            self._process.stop()
            await self._running
        self._process = self._running = None

    async def crash_gangctl(self) -> None:
        """End it so that none of its requests arrives any more."""
        cut = self.sandbox.faults.add(Match(USER), CutBefore(), times=1_000)
        await self.stop_gangctl()
        self.sandbox.faults.rules.remove(cut)

    async def close(self) -> None:
        """End gangctl and give its ports back."""
        try:
            await self.stop_gangctl()
        finally:
            self._ports.release()

    async def restart_gangctl(self) -> None:
        """End it and start it again."""
        await self.stop_gangctl()
        await self.start_gangctl()

    async def rest(self, seconds: float = REST_SECONDS) -> None:
        """Let everything happen that is going to."""
        settling = min(seconds, SETTLING_SECONDS)
        await asyncio.sleep(settling)
        settled = self.sandbox.audit.total
        await asyncio.sleep(seconds - settling)
        self.quiet.append(range(settled, self.sandbox.audit.total))
        if self._running is not None and self._running.done():
            self._running.result()
            raise AssertionError("gangctl ended by itself")

    # policies

    async def put(self, *objects: Object) -> None:
        """Create policies, exceptions and parameters, or replace them."""
        for raw in objects:
            await policies.put(self.api, raw, ADMIN, NAMESPACE)

    async def drop(self, *objects: Object) -> None:
        """Delete them."""
        for raw in objects:
            await policies.drop(self.api, raw, ADMIN, NAMESPACE)

    # PathwaysJobs

    async def submit(self) -> None:
        """Create a PathwaysJob."""
        await pathways.submit(self.api, ADMIN, NAMESPACE)

    async def withdraw(self) -> None:
        """Delete it."""
        await pathways.delete(self.api, ADMIN, NAMESPACE)

    # JobSets

    async def create(self, raw: Object) -> None:
        """Create a JobSet."""
        await self.api.create(self._jobsets, NAMESPACE, _copy(raw), ADMIN)

    async def attempt(self, raw: Object) -> None:
        """Create a JobSet, and keep the answer."""
        reported: list[str] = []
        try:
            write = Write(self.api.backend, self._jobsets, NAMESPACE, ADMIN, DEFAULT_WRITE, reported)
            await writes.create(write, _copy(raw))
        except StatusError as error:
            self._answers.append(f"{error.code} {error.message}")
        else:
            self._answers.append(f"created{''.join(f', {each}' for each in reported)}")

    async def patch(self, name: str, patch: Object) -> None:
        """Merge-patch a JobSet."""
        await self.api.patch(self._jobsets, NAMESPACE, name, patch, "merge", ADMIN)

    async def delete(self, name: str) -> None:
        """Delete a JobSet."""
        await self.api.delete(self._jobsets, NAMESPACE, name, ADMIN, DeleteOptions(propagation="Background"))

    async def resize(self, name: str, pods: int) -> None:
        """Give the first ReplicatedJob another number of pods."""
        live = await self.api.get(self._jobsets, NAMESPACE, name)
        live["spec"]["replicatedJobs"][0]["template"]["spec"] |= {"parallelism": pods, "completions": pods}
        await self.patch(name, {"spec": {"replicatedJobs": live["spec"]["replicatedJobs"]}})

    async def finish(self, name: str, pods: int | None = None) -> None:
        """Let running pods of a JobSet succeed, all or the first so many."""
        for pod in (await self._running_pods(name))[:pods]:
            await self.simulated.kubelet.finish(pod)

    async def fail(self, name: str) -> None:
        """Let the first running pod of a JobSet fail."""
        await self.simulated.kubelet.fail((await self._running_pods(name))[0])

    async def create_scheduling(self, plural: str, raw: Object) -> None:
        """Create a Workload or PodGroup by hand."""
        await self.api.create(self._scheduling(plural), NAMESPACE, _copy(raw), ADMIN)

    async def damage(self) -> None:
        """Delete every Workload; where minCount can be changed, change that of every PodGroup."""
        for workload in (await self.api.list(self._scheduling("workloads"), NAMESPACE)).items:
            await self.api.delete(self._scheduling("workloads"), NAMESPACE, workload["metadata"]["name"], ADMIN)
        if self.minor != "1.37":
            return
        patch = {"spec": {"schedulingPolicy": {"gang": {"minCount": 7}}}}
        for group in (await self.api.list(self._scheduling("podgroups"), NAMESPACE)).items:
            name = group["metadata"]["name"]
            await self.api.patch(self._scheduling("podgroups"), NAMESPACE, name, patch, "merge", ADMIN)

    async def empty(self) -> tuple[str, ...]:
        """Delete every JobSet; what is left, a while later, of the objects that belonged to them."""
        if self.has_pathways and await pathways.found(self.api):
            await self.withdraw()
            await self.rest()
        for jobset in (await self.api.list(self._jobsets, NAMESPACE)).items:
            await self.delete(jobset["metadata"]["name"])
        await self.rest()
        return tuple(name for name, obj in (await self.gangs()).items() if _owners(obj))

    # what there is to see

    async def outcome(self) -> Outcome:
        """Look at everything."""
        jobsets = (await self.api.list(self._jobsets, NAMESPACE)).items
        jobs = (await self.api.list(self.api.kind("jobs.batch"), NAMESPACE)).items
        events = (await self.api.list(self.api.kind("events.events.k8s.io"), NAMESPACE)).items
        gangs = await self.gangs()
        uids = {jobset["metadata"]["uid"] for jobset in jobsets}
        pods = (await self.api.list(self.api.kind("pods"), NAMESPACE)).items
        return Outcome(
            gangs={name: _without_hashes(obj["spec"]) for name, obj in gangs.items()},
            references={job["metadata"]["name"]: _without_hashes(_reference(job)) for job in jobs},
            pods=dict(Counter(f"{_job_of(pod)} {pod['status'].get('phase')}" for pod in pods)),
            jobsets={jobset["metadata"]["name"]: _ended(jobset) for jobset in jobsets},
            said=_said(events),
            created=dict(self._created),
            orphans=tuple(name for name, obj in gangs.items() if not _owners(obj) <= uids),
            policies=await policies.found(self.api) if self.has_policies else {},
            pathways=await pathways.found(self.api) if self.has_pathways else {},
            answers=tuple(self._answers),
        )

    async def gangs(self) -> dict[str, Object]:
        """Workloads and PodGroups by plural and name without hash; two that differ in the hash only get a number."""
        found: dict[str, Object] = {}
        for plural in self._plurals:
            for obj in (await self.api.list(self._scheduling(plural), NAMESPACE)).items:
                name = f"{plural}/{_HASH.sub('', obj['metadata']['name'])}"
                found[f"{name} again" if name in found else name] = obj
        return found

    def _saw(self, storage: str, change: StoredChange) -> None:
        """Count what is created."""
        if change.old is None and (storage.endswith(".scheduling.k8s.io") or self._is_made(storage)):
            self._created[f"{storage.partition('.')[0]}/{_HASH.sub('', change.key[1])}"] += 1

    def _is_made(self, storage: str) -> bool:
        """Whether it is gangctl that makes JobSets."""
        return self.has_pathways and storage.endswith(".jobset.x-k8s.io")

    @property
    def _plurals(self) -> tuple[str, ...]:
        return ("workloads", "podgroups") if self.has_groups else ("workloads",)

    @property
    def _jobsets(self) -> Any:
        return self.api.kind("jobsets.jobset.x-k8s.io")

    def _scheduling(self, plural: str) -> Any:
        return self.api.kind(f"{plural}.scheduling.k8s.io")

    async def _running_pods(self, name: str) -> list[Object]:
        labels = f"jobset.sigs.k8s.io/jobset-name={name}"
        pods = (await self.api.list(self.api.kind("pods"), NAMESPACE, labels=labels)).items
        running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
        return sorted(running, key=lambda pod: str(pod["metadata"]["name"]))


@asynccontextmanager
async def world(
    minor: str, directory: Path, *, about: frozenset[str] = frozenset(), gates: Mapping[str, bool] | None = None
) -> AsyncIterator[World]:
    """A world with room for every scenario; what it is not ``about`` is not defined there, and not looked for."""
    options = SandboxOptions(minor=minor, gates=gates or {})
    async with FaultySandbox(options) as sandbox, SimulatedControllers(sandbox.api) as simulated:
        await sandbox.api.create(
            sandbox.api.kind("namespaces"),
            "",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
            ADMIN,
        )
        await add_nodes(sandbox.api, 4, cpu="8")
        built = World(sandbox, simulated, directory, about)
        if built.has_policies:
            await policies.define(sandbox.api, ADMIN)
        if built.has_pathways:
            await pathways.define(sandbox.api, ADMIN)
        # A process that looks four times a second how late it is would keep the clock from jumping further than that.
        seldom = patch.object(process, "measure_lag", partial(measure_lag, period_seconds=3600))
        try:
            with policies.evaluated_locally() if built.has_policies else nullcontext(), seldom:
                yield built
        finally:
            await built.close()


def _copy(raw: Object) -> Object:
    return {**raw, "metadata": {**raw["metadata"], "namespace": NAMESPACE}}


def _without_hashes(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_hashes(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_hashes(item) for item in value]
    return _HASH.sub("", value) if isinstance(value, str) else value


def _said(events: list[Object]) -> dict[str, int]:
    ours = [event for event in events if event.get("reportingController") == "gangctl.dev/gangctl"]
    counts = Counter(f"{event['regarding']['name']} {event['reason']}" for event in ours)
    return {reported: count if reported.endswith("WorkloadCreated") else 1 for reported, count in counts.items()}


def _reference(job: Object) -> Any:
    spec = job["spec"]["template"]["spec"]
    return spec.get("schedulingGroup") or spec.get("workloadRef")


def _job_of(pod: Object) -> str:
    return str((pod["metadata"].get("labels") or {}).get("batch.kubernetes.io/job-name", "?"))


def _ended(jobset: Object) -> Any:
    status = jobset.get("status") or {}
    return status.get("terminalState"), status.get("restarts", 0)


def _owners(obj: Object) -> set[str]:
    return {reference["uid"] for reference in obj["metadata"].get("ownerReferences") or []}
