"""gangctl as the real process beside a real control plane, as its own user with its own rights."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import aiohttp

from gangctl.gang.generation import names_its_group, stamped_proof_job
from gangctl.webhooks.configurations import Endpoint, WebhookSettings
from gangctl.webhooks.jobpolicy import build_job_policy
from gangctl.webhooks.registration import fingerprinted
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.ports import Ports
from tests.controlplane.process import Process
from tests.controlplane.wait import HUNG_SECONDS, NotYet, wait_for, wait_until
from tests.live.observe import webhooks_noticed
from tests.manifests.files import MANIFESTS
from tests.manifests.rbac import rbac_objects

USER = "gangctl"
OWN_NAMESPACE = "gangctl-system"
POLICY = build_job_policy(WebhookSettings(Endpoint(), ("kube-system", OWN_NAMESPACE)))


async def prepare(plane: ControlPlane, user: str = USER, manifests: Path = MANIFESTS) -> None:
    """Give ``user`` the rights of the manifests, and no others, and the API server the policy for Jobs where it can.

    Harmless where both are there.
    """
    namespace: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": OWN_NAMESPACE}}
    await _apply(plane, path_of("v1", "namespaces", name=OWN_NAMESPACE), namespace)
    for each in rbac_objects(user, OWN_NAMESPACE, manifests):
        await _apply(plane, path_to(each), each)
    if has_policies(plane):
        await install_policy(plane)


def has_policies(plane: ControlPlane) -> bool:
    """Whether the API server goes by MutatingAdmissionPolicies, and keeps what gangctl's writes.

    With the gate off it serves them all the same.
    """
    command = " ".join(plane.process("kube-apiserver").command)
    off = [gate for gate in ("MutatingAdmissionPolicy", "GenericWorkload") if f"{gate}=false" in command]
    return plane.minor.name != "1.35" and not off


async def install_policy(plane: ControlPlane) -> None:
    """The policy for Jobs, as a gangctl of these tests would register it; returns once it is in effect."""
    for each in POLICY:
        await _apply(plane, path_to(each), fingerprinted(each))
    await policy_noticed(plane)


async def policy_noticed(plane: ControlPlane, *, there: bool = True) -> None:
    """Wait until the API server goes by the policy for Jobs, or no longer does.

    Where it does not, a webhook for Jobs refuses the Job: it has no owner.
    """

    async def noticed() -> bool:
        path = path_of("batch/v1", "jobs", namespace="default")
        try:
            job = await plane.api.create(path, stamped_proof_job("default"), dryRun="All")
        except ApiFailure as failure:
            if "jobs.gangs.gangctl.dev" not in failure.message:
                raise
            return not there
        return names_its_group(job) is there

    await wait_for(noticed, what="the API server to notice the policy for Jobs")


def path_to(each: Object) -> str:
    """Where an object of a manifest is."""
    kind, meta = each["kind"].lower(), each["metadata"]
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    return path_of(each["apiVersion"], plural, namespace=meta.get("namespace"), name=meta["name"])


async def _apply(plane: ControlPlane, path: str, body: Object) -> None:
    await plane.api.patch(path, body, kind="apply", fieldManager="test", force=True)


class Gangctl:
    """One gangctl process; the same object before, between and after its runs."""

    def __init__(
        self,
        plane: ControlPlane,
        *arguments: str,
        name: str = "gangctl",
        user: str = USER,
        kubeconfig: Path | None = None,
        program: Sequence[str] = ("-m", "gangctl"),
        webhook_url: str | None = None,
    ) -> None:
        """``arguments`` are further flags; ports are the process's own for its life.

        ``webhook_url`` is where API servers go instead, a balancer for one; ``program`` is what Python runs.
        """
        self.plane = plane
        self.user = user
        self._ports = Ports()
        self.webhook_address = f"127.0.0.1:{self._ports.take()}"
        self.webhook_url = webhook_url or f"https://{self.webhook_address}"
        self.metrics_url = f"http://127.0.0.1:{(port := self._ports.take())}"
        self._kubeconfig = kubeconfig or plane.kubeconfig_for(user)
        command = [
            *(sys.executable, *program, "controller"),
            *("--kubeconfig", str(self._kubeconfig)),
            *("--webhook-url", self.webhook_url),
            *("--webhook-bind-address", self.webhook_address),
            *("--metrics-bind-address", f"127.0.0.1:{port}"),
            "--leader-elect=false",
            *("--log-level", "debug"),
            # The longest that there is: a machine that stands still for a while refuses nothing.
            *("--webhook-timeout", "30"),
            *arguments,
        ]
        self.process = Process(name, command, plane.directory / f"{name}.log", ready=self.is_ready)
        plane.add_guest(self.process)

    async def __aenter__(self) -> Self:
        await prepare(self.plane, self.user)
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Start the process; returns once it is ready, and the API server has noticed the webhooks it registered."""
        await self.process.start()
        await webhooks_noticed(self.plane)

    @property
    def log(self) -> str:
        """Its whole output."""
        return self.process.log.read_text()

    async def end(self) -> None:
        """Ask the process to end, and wait until it has, however long it takes: nothing is cut short."""
        self.process.terminate()
        await self.ended()

    async def ended(self) -> None:
        """Wait until the process, which was asked to end, has."""
        await wait_until(lambda: not self.process.running, f"{self.process.name} to end")

    async def close(self) -> None:
        """End the process and give its ports back."""
        if self.process.running:
            await self.process.stop()
        self._ports.release()

    @asynccontextmanager
    async def through(self, kubeconfig: Path) -> AsyncIterator[None]:
        """Run with another kubeconfig for a while."""
        command = self.process.command
        await self.process.stop()
        self.process.command = [str(kubeconfig) if part == str(self._kubeconfig) else part for part in command]
        try:
            await self.process.start()
            yield
        finally:
            self.process.command = command
            await self.process.restart()

    async def is_ready(self) -> bool:
        """Whether /readyz returns 200; another answer is the reason of a timeout."""
        try:
            status, text = await self.fetch("/readyz?verbose")
        except (aiohttp.ClientError, OSError) as error:
            raise NotYet(str(error)) from error
        if status != 200:
            raise NotYet(text)
        return True

    async def fetch(self, path: str) -> tuple[int, str]:
        """Status and text of a page on the metrics address."""
        timeout = aiohttp.ClientTimeout(total=HUNG_SECONDS)
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
            session.get(self.metrics_url + path) as response,
        ):
            return response.status, await response.text()

    async def metric(self, name: str, labels: Mapping[str, str] | None = None) -> float:
        """Sum of a metric's samples that have these labels."""
        _, text = await self.fetch("/metrics")
        wanted = [f'{key}="{value}"' for key, value in (labels or {}).items()]
        total = 0.0
        for line in text.splitlines():
            sample, _, value = line.rpartition(" ")
            if sample.partition("{")[0] == name and all(part in sample for part in wanted):
                total += float(value)
        return total

    async def settle(self, reconciles: int = 1) -> None:
        """Wait until at least so many reconciles are over and the work queue is empty."""

        async def quiet() -> bool:
            done = await self.metric("gangctl_reconcile_duration_seconds_count")
            waiting = await self.metric("gangctl_workqueue_depth")
            if done < reconciles or waiting:
                raise NotYet(f"{done:.0f} reconciles, {waiting:.0f} waiting")
            return True

        await wait_for(quiet, what="gangctl to be idle")


class Closable(Protocol):
    """What the tests of a module share: a plane, or a gangctl."""

    async def close(self) -> None: ...


Shared = TypeVar("Shared", bound=Closable)


def shared(start: Callable[[], Coroutine[Any, Any, Shared]]) -> Iterator[Shared]:
    """The body of a fixture: what ``start`` gives, and its end."""
    made = asyncio.run(start())
    yield made
    asyncio.run(made.close())


def shared_gangctl(gangctl: Gangctl) -> Iterator[Gangctl]:
    """The same for a gangctl, which must not have failed in the end; a test that stops it starts it again."""
    asyncio.run(gangctl.start())
    yield gangctl
    asyncio.run(gangctl.close())
    assert "Traceback" not in gangctl.log


async def create_namespaces(plane: ControlPlane, names: Sequence[str]) -> None:
    """Create namespaces, with their default ServiceAccount: pods are refused before it is there.

    Without a controller-manager there is none, and there are no pods.
    """
    for name in names:
        try:
            body: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await plane.api.create(path_of("v1", "namespaces"), body)
        except ApiFailure as failure:
            if failure.reason != "AlreadyExists":
                raise
    for name in names if plane.options.controller_manager else ():
        await wait_for(
            partial(plane.api.get, path_of("v1", "serviceaccounts", namespace=name, name="default")),
            what=f"the default ServiceAccount of {name}",
            tolerate=(ApiFailure,),
        )
