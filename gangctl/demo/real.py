"""The demo on a cluster of the user's: in a separate namespace, which is always deleted at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from gangctl.api.meta import JOBSET_NAME, MANAGER
from gangctl.api.scheduling import Generation
from gangctl.client.client import Client
from gangctl.client.config import ClusterConfig, load_cluster
from gangctl.client.resources import JOBSETS, MUTATING_WEBHOOK_CONFIGURATIONS, NAMESPACES, NODES, PODS
from gangctl.client.transport import Transport
from gangctl.controllers.discovery import discover
from gangctl.demo import nodes
from gangctl.demo.acts import DEMO, Act, Attend, Patience, Stage
from gangctl.demo.child import controller
from gangctl.demo.display import Display, Verdict
from gangctl.demo.scenario import IMAGE, Size, size
from gangctl.demo.scenario import JOBSETS as COUNT
from gangctl.demo.scenario import PODS as PODS_OF_A_JOBSET
from gangctl.errors import ClusterUnavailableError, ForbiddenError, NotFoundError
from gangctl.webhooks.configurations import NAME as WEBHOOKS

_QUIET_SECONDS: Final = 15.0
_BACKOFF_SECONDS: Final = 90.0
_PERMIT_SECONDS: Final = 700.0
"""On 1.35 incomplete gangs can hold nodes for five minutes before the scheduler releases them and retries."""

Confirm = Callable[[list[str]], None]
"""Called with the planned objects; returns if the user agrees, raises otherwise."""


async def play_on_cluster(
    kubeconfig: str | None,
    context: str | None,
    display: Display,
    confirm: Confirm,
    *,
    own_nodes: bool,
    start_controller: bool,
) -> Verdict:
    """Both acts; :class:`ClusterUnavailableError` if the cluster does not support them."""
    config = await load_cluster(kubeconfig=kubeconfig, context=context)
    async with Transport(config) as transport:
        client = Client(transport)
        generation = await _check(client, config, start_controller=start_controller)
        version = str((await client.discovery.version()).get("gitVersion", ""))
        found = None if own_nodes else size((await client.list(NODES)).items, (await client.list(PODS)).items)
        confirm(_intentions(config, version, found, start_controller=start_controller))
        async with _namespace(client) as namespace:
            display.say(f"Kubernetes {version} at {config.server}, namespace {namespace}.")
            async with AsyncExitStack() as stack:
                if found is None:
                    places = await stack.enter_async_context(nodes.own_nodes(client, namespace))
                    stage = Stage(client, namespace, places, nodes.placement(namespace))
                    attend: Attend = partial(nodes.attend, stage)
                else:
                    stage = Stage(client, namespace, found.places, found.placement)
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
        verdict = Verdict(version, False, *results, total)
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
            hint="install it (kubectl apply -k manifests/base), or --start-controller where the API server can reach "
            "127.0.0.1 of this machine",
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
    labels = {DEMO: "true", "app.kubernetes.io/managed-by": MANAGER}
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
