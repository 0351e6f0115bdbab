"""The demo on a cluster of the user's: in a separate namespace, which is always deleted at the end, and its own nodes.

These are objects that only its pods tolerate, and a simulated kubelet for them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from gangctl.api.meta import JOBSET_NAME, MANAGED_BY, MANAGER
from gangctl.api.pods import HOSTNAME
from gangctl.api.scheduling import Generation
from gangctl.client.client import Client
from gangctl.client.config import ClusterConfig, load_cluster
from gangctl.client.pacing import micro_time
from gangctl.client.resources import JOBSETS, LEASES, MUTATING_WEBHOOK_CONFIGURATIONS, NAMESPACES, NODES, PODS
from gangctl.client.transport import Transport, TransportOptions
from gangctl.controllers.discovery import discover
from gangctl.demo import scenario
from gangctl.demo.acts import DEMO, Act, Attend, Patience, Stage
from gangctl.demo.child import controller
from gangctl.demo.display import DemoVerdict, Display
from gangctl.demo.scenario import IMAGE, Size, size
from gangctl.demo.scenario import JOBSETS as COUNT
from gangctl.demo.scenario import PODS as PODS_OF_A_JOBSET
from gangctl.errors import ApiError, ClusterUnavailableError, ConflictError, ForbiddenError, NotFoundError
from gangctl.sandbox.objects import now
from gangctl.sandbox.simulated import kubelet
from gangctl.webhooks.configurations import NAME as WEBHOOKS

_NODES: Final = 2
_LEASES: Final = "kube-node-lease"
# As a kubelet: a quarter of the 40 seconds that a Lease lasts.
_BEAT_SECONDS: Final = 10.0


def placement(namespace: str) -> scenario.PodNeeds:
    """Only pods of the demo in ``namespace`` run on its own nodes."""
    toleration = {"key": DEMO, "operator": "Equal", "value": namespace, "effect": "NoSchedule"}
    return scenario.PodNeeds(node_selector={DEMO: namespace}, tolerations=(toleration,))


@asynccontextmanager
async def added_nodes(client: Client, namespace: str) -> AsyncIterator[dict[str, int]]:
    """Add nodes while the context lasts: the capacity for pods of each. Their Leases are renewed, as by a kubelet."""
    places = {f"{namespace}-{i}": scenario.CPUS // _NODES for i in range(_NODES)}
    async with AsyncExitStack() as stack:
        for name, cpus in places.items():
            # Before it is added: of a node that is only half made, the object may be there.
            stack.push_async_callback(_remove, client, name)
            await _add(client, name, namespace, cpus)
            await _renew(client, name)
        beat = asyncio.create_task(_beat(client, tuple(places)), name="demo-nodes")
        try:
            yield places
        finally:
            beat.cancel()
            # Not awaited itself, which would raise its CancelledError here.
            await asyncio.wait({beat})


async def _remove(client: Client, name: str) -> None:
    with suppress(NotFoundError):
        await client.delete(NODES, name)


async def _add(client: Client, name: str, namespace: str, cpus: int) -> None:
    taint = {"key": DEMO, "value": namespace, "effect": "NoSchedule"}
    labels = {HOSTNAME: name, "kubernetes.io/os": "linux", DEMO: namespace}
    await client.create(NODES, {"metadata": {"name": name, "labels": labels}, "spec": {"taints": [taint]}})
    resources = {"cpu": str(cpus), "memory": "16Gi", "pods": "110"}
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "played by gangctl demo",
        "lastTransitionTime": now(),
        "lastHeartbeatTime": now(),
    }
    status = {"capacity": resources, "allocatable": resources, "conditions": [ready]}
    await client.merge_patch(NODES, name, {"status": status}, subresource="status")
    # The node lifecycle controller taints every new node until it is ready.
    await client.merge_patch(NODES, name, {"spec": {"taints": [taint]}})


async def _beat(client: Client, names: Sequence[str]) -> None:
    """Renew the nodes' Leases; a Lease outlasts an error, and the demo ends by itself where no request succeeds."""
    while True:
        await asyncio.sleep(_BEAT_SECONDS)
        for name in names:
            with suppress(ApiError):
                await _renew(client, name)


async def _renew(client: Client, name: str) -> None:
    """Renew the Lease by which the control plane checks a node; it is deleted with the node."""
    spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": micro_time(datetime.now(UTC))}
    node = await client.get(NODES, name)
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
    metadata = {"name": name, "ownerReferences": [owner]}
    await client.apply(LEASES, {"metadata": metadata, "spec": spec}, _LEASES, force=True)


async def attend_nodes(stage: Stage, may_finish: bool) -> None:
    """Run bound pods, end those of complete JobSets if allowed, confirm deletions: one step for each at every poll."""
    pods = [pod for pod in await stage.pods() if pod["spec"].get("nodeName")]
    peers = Counter(map(_jobset, pods))
    for pod in pods:
        phase, metadata = pod["status"].get("phase"), pod["metadata"]
        with suppress(NotFoundError, ConflictError):
            if metadata.get("deletionTimestamp"):
                await stage.client.delete(
                    PODS, metadata["name"], metadata["namespace"], uid=metadata["uid"], grace_period_seconds=0
                )
            elif phase == "Pending":
                await _write(stage.client, pod, kubelet.running(pod))
            elif phase == "Running" and may_finish and peers[_jobset(pod)] >= scenario.PODS:
                await _write(stage.client, pod, kubelet.succeeded(pod))


async def _write(client: Client, pod: dict[str, Any], status: dict[str, Any]) -> None:
    """A merge patch replaces lists: include the conditions of other writers."""
    own = {condition["type"] for condition in status["conditions"]}
    others = [condition for condition in pod["status"].get("conditions") or [] if condition["type"] not in own]
    patch = {
        "metadata": {"uid": pod["metadata"]["uid"]},
        "status": {**status, "conditions": [*others, *status["conditions"]]},
    }
    await client.merge_patch(PODS, pod["metadata"]["name"], patch, pod["metadata"]["namespace"], subresource="status")


def _jobset(pod: Mapping[str, Any]) -> str:
    return str((pod["metadata"].get("labels") or {}).get(JOBSET_NAME, ""))


_QUIET_SECONDS: Final = 15.0
_BACKOFF_SECONDS: Final = 90.0
_PERMIT_SECONDS: Final = 700.0
"""On 1.35 incomplete gangs can hold nodes for five minutes before the scheduler releases them and retries."""

Confirm = Callable[[list[str]], None]
"""Called with the planned objects; returns if the user agrees, raises otherwise."""


async def play_on_cluster(
    kubeconfig: str | None,
    context: str | None,
    options: TransportOptions,
    display: Display,
    confirm: Confirm,
    *,
    own_nodes: bool,
    start_controller: bool,
) -> DemoVerdict:
    """Both acts; :class:`ClusterUnavailableError` if the cluster does not support them."""
    config = await load_cluster(kubeconfig=kubeconfig, context=context)
    async with Transport(config, options) as transport:
        client = Client(transport)
        generation = await _check(client, config, start_controller=start_controller)
        version = str((await client.discovery.version()).get("gitVersion", ""))
        sizing = None if own_nodes else size((await client.list(NODES)).items, (await client.list(PODS)).items)
        confirm(_intentions(config, version, sizing, start_controller=start_controller))
        async with _namespace(client) as namespace:
            display.say(f"Kubernetes {version} at {config.server}, namespace {namespace}.")
            async with AsyncExitStack() as stack:
                if sizing is None:
                    places = await stack.enter_async_context(added_nodes(client, namespace))
                    stage = Stage(client, namespace, places, placement(namespace))
                    attend: Attend = partial(attend_nodes, stage)
                else:
                    stage = Stage(client, namespace, sizing.places, sizing.placement)
                    attend = partial(_end_complete, stage)
                stack.push_async_callback(stage.clear)
                log = Path(stack.enter_context(TemporaryDirectory(prefix="gangctl-demo-")), "gangctl.log")
                gangs = _PERMIT_SECONDS if generation is Generation.V1ALPHA1 else _BACKOFF_SECONDS
                total = sum(stage.places.values())
                results = await Act(stage, display, Patience(_QUIET_SECONDS, gangs), attend).play_both(
                    f"1. {COUNT} JobSets of {PODS_OF_A_JOBSET} pods in {total} places, without gangs",
                    "2. The same with one annotation: gangctl.dev/gang-mode: Gang",
                    controller(kubeconfig, context, log) if start_controller else nullcontext(),
                )
        verdict = DemoVerdict(version, False, *results, total)
    for line in ("", *verdict.lines):
        display.say(line)
    return verdict


async def _check(client: Client, config: ClusterConfig, *, start_controller: bool) -> Generation:
    """Check the requirements: JobSet, the scheduling API, gangctl."""
    if not await client.discovery.serves(JOBSETS):
        raise ClusterUnavailableError(
            f"{config.server} has no JobSets ({JOBSETS.api_version})", hint="install JobSet 0.10 or later"
        )
    state = await discover(client, config.namespace or "default")
    if state.generation is None:
        raise ClusterUnavailableError(state.reason, hint="gangctl demo without --kubeconfig simulates a cluster")
    if start_controller:
        return state.generation
    try:
        await client.get(MUTATING_WEBHOOK_CONFIGURATIONS, WEBHOOKS)
    except NotFoundError as missing:
        raise ClusterUnavailableError(
            f"gangctl does not run on {config.server}",
            hint="install it (gangctl install --image IMAGE | kubectl apply -f -), or --start-controller where the API "
            "server can reach 127.0.0.1 of this machine",
        ) from missing
    except ForbiddenError:
        # Without the right to read webhooks the demo still runs; the second act shows whether gangctl is installed.
        return state.generation
    return state.generation


def _intentions(config: ClusterConfig, version: str, found: Size | None, *, start_controller: bool) -> list[str]:
    """The objects to create on the cluster, for the user's confirmation."""
    lines = [
        f"On {config.server} ({config.origin}, Kubernetes {version}) this will create, and delete at the end:",
        "- a namespace gangctl-demo-...",
    ]
    total = COUNT * PODS_OF_A_JOBSET
    if found is None:
        lines += [
            "- two Node objects without machines, tainted so that only the demo's pods tolerate them",
            f"- in two acts, {COUNT} JobSets of together {total} pods on these nodes only: no container starts",
        ]
    else:
        lines += [
            f"- in two acts, {COUNT} JobSets of together {total} pods of {IMAGE}, {found.cpu} milli-CPUs each,",
            f"  on {', '.join(found.hostnames)}: for about two minutes they claim nearly all CPU that is free there",
        ]
    if start_controller:
        lines.append("- webhook configurations, a Secret and a Lease of a gangctl controller that runs here meanwhile")
    return lines


@asynccontextmanager
async def _namespace(client: Client) -> AsyncIterator[str]:
    """The demo's own namespace."""
    labels = {DEMO: "true", MANAGED_BY: MANAGER}
    made = await client.create(NAMESPACES, {"metadata": {"generateName": "gangctl-demo-", "labels": labels}})
    name = str(made["metadata"]["name"])
    try:
        yield name
    finally:
        await client.delete(NAMESPACES, name)


async def _end_complete(stage: Stage, may_finish: bool) -> None:
    """End the JobSets all of whose pods run, by deletion: on real nodes their containers never end."""
    if not may_finish:
        return
    running: Counter[str] = Counter(
        str(pod["metadata"]["labels"][JOBSET_NAME])
        for pod in await stage.pods()
        if pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
    )
    for name, count in running.items():
        if count >= PODS_OF_A_JOBSET:
            await stage.finish(name)
