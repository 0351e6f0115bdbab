"""The same JobSets with simulated controllers and on a real control plane: a difference is a bug of the simulation."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import pytest

from gangctl.sandbox.simulated import add_nodes
from tests.controlplane.api import Object, path_of
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.nodes import add_nodes as add_real_nodes
from tests.controlplane.nodes import remove_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.sandbox.stage import Stage, stage

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(900)]

JOBSETS = ("jobset.x-k8s.io/v1alpha2", "jobsets")
KINDS = (JOBSETS, ("batch/v1", "jobs"), ("v1", "pods"), ("v1", "services"))
POOL = "gangctl.dev/simulated"
RETRIES_SECONDS = 0.3
"""SimulatedControllers try again sooner than this, unless they have failed half a dozen times."""

Picture = dict[str, Object]
Story = list[tuple[str, Picture]]

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_ELSEWHERE = frozenset(
    {"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "apiVersion", "kind"}
)
"""Fields that the conformance suite compares, and fields that cannot be compared."""

_NOT_PLAYED = frozenset(
    {
        # By JobSet's pod webhook.
        "jobset.sigs.k8s.io/priority",
        # Made from the namespace's name.
        "jobset.sigs.k8s.io/job-key",
        # By the ServiceAccount admission plugin.
        "volumes",
        "volumeMounts",
        # Of the kubelets, which are simulated on both grounds.
        "hostIP",
        "lastState",
        "startedAt",
        "nodeName",
        "nodeSelector",
    }
)


class Ground(Protocol):
    """Where a story takes place."""

    async def idle(self) -> None: ...
    async def list(self, kind: tuple[str, str]) -> Sequence[Object]: ...
    async def create(self, body: Object) -> None: ...
    async def suspend(self, name: str, value: bool) -> None: ...
    async def end(self, pod: Object, *, well: bool) -> None: ...


class Real:
    """A real control plane with the harness's kubelet."""

    def __init__(self, plane: ControlPlane, namespace: str, kubelet: Kubelet) -> None:
        self._plane, self._namespace, self._kubelet = plane, namespace, kubelet

    async def idle(self) -> None:
        """Not known of a real control plane."""

    async def list(self, kind: tuple[str, str]) -> Sequence[Object]:
        return await self._plane.api.list(path_of(*kind, namespace=self._namespace))

    async def create(self, body: Object) -> None:
        own = {**body, "metadata": {**body["metadata"], "namespace": self._namespace}}
        for each in own["spec"]["replicatedJobs"]:
            each["template"]["spec"]["template"]["spec"]["nodeSelector"] = {POOL: self._namespace}
        await self._plane.api.create(path_of(*JOBSETS, namespace=self._namespace), own)

    async def suspend(self, name: str, value: bool) -> None:
        path = path_of(*JOBSETS, namespace=self._namespace, name=name)
        await self._plane.api.patch(path, {"spec": {"suspend": value}})

    async def end(self, pod: Object, *, well: bool) -> None:
        await (self._kubelet.finish(pod) if well else self._kubelet.fail(pod))


class Played:
    """The sandbox."""

    def __init__(self, on: Stage) -> None:
        self._on = on

    async def idle(self) -> None:
        """No controller writes any more, nor after a pause: timers of one loop fire in the order of their times."""
        revision = -1
        while revision != self._on.api.store.revision:
            revision = self._on.api.store.revision
            await asyncio.sleep(RETRIES_SECONDS)
            await self._on.idle()

    async def list(self, kind: tuple[str, str]) -> Sequence[Object]:
        version, plural = kind
        group = version.partition("/")[0] if "/" in version else ""
        return (await self._on.api.list(self._on.api.kind(f"{plural}.{group}" if group else plural))).items

    async def create(self, body: Object) -> None:
        await self._on.create_jobset(body)

    async def suspend(self, name: str, value: bool) -> None:
        await self._on.patch("jobsets.jobset.x-k8s.io", name, {"spec": {"suspend": value}})

    async def end(self, pod: Object, *, well: bool) -> None:
        kubelet = self._on.simulated.kubelet
        await (kubelet.finish(pod) if well else kubelet.fail(pod))


def plain(value: Any, names: dict[str, str]) -> Any:
    """A value without identities, times and what is not simulated; conditions by type."""
    if isinstance(value, dict):
        kept = {k: plain(v, names) for k, v in value.items() if k not in _ELSEWHERE | _NOT_PLAYED and v is not None}
        return {k: v for k, v in kept.items() if v != {}}
    if isinstance(value, list):
        items = [plain(item, names) for item in value]
        return sorted(items, key=json.dumps) if value and isinstance(value[0], dict) and "type" in value[0] else items
    if isinstance(value, str):
        for old, new in names.items():
            value = value.replace(old, new)
        return _TIME.sub("<time>", value)
    return value


async def picture(ground: Ground) -> Picture:
    """Everything there is, by what it is called on both grounds."""
    listed = {plural: await ground.list((version, plural)) for version, plural in KINDS}
    names = {
        obj["metadata"]["uid"]: f"<{obj['metadata']['name']}>"
        for plural in ("jobsets", "jobs")
        for obj in listed[plural]
    }
    for objects in listed.values():
        for obj in objects:
            names.setdefault(obj["metadata"].get("namespace", ""), "<namespace>")
    names.pop("t", None)
    found: Picture = {}
    for plural, objects in listed.items():
        for obj in sorted(objects, key=lambda each: str(each["metadata"]["name"])):
            name = str(obj["metadata"]["name"])
            if plural == "pods":
                name = name.rpartition("-")[0]
            base, number = name, 2
            while f"{plural}/{name}" in found:
                name, number = f"{base}#{number}", number + 1
            own = {**names, obj["metadata"]["name"]: base}
            metadata = {k: v for k, v in obj["metadata"].items() if k != "namespace"}
            found[f"{plural}/{name}"] = plain({**obj, "metadata": metadata}, own)
    return found


def differences(real: Any, played: Any, path: str) -> list[str]:
    """Where two pictures differ, one line each."""
    if isinstance(real, dict) and isinstance(played, dict):
        keys = sorted({*real, *played})
        return [line for key in keys for line in differences(real.get(key), played.get(key), f"{path}.{key}")]
    if isinstance(real, list) and isinstance(played, list) and len(real) == len(played):
        pairs = enumerate(zip(real, played, strict=True))
        return [line for at, (one, other) in pairs for line in differences(one, other, f"{path}[{at}]")]
    return [] if real == played else [f"{path}: real {real!r}, played {played!r}"]


async def settled(ground: Ground, like: Picture | None = None) -> Picture:
    """The state once nothing is left to be done: simulated controllers report it, for real ones the test waits."""
    await ground.idle()
    if like is None:
        return await picture(ground)

    async def alike() -> Picture:
        seen = await picture(ground)
        if wrong := differences(seen, like, ""):
            raise NotYet("\n".join(wrong))
        return seen

    return await wait_for(alike, what="everything to settle", interval=0.25)


async def tell(ground: Ground, like: Story | None = None) -> Story:
    """A life: started, suspended, resumed, restarted, done; one that fails; one that starts in order.

    Each step is waited for until it is like that of another story, where there is one.
    """
    story: Story = []
    others = dict(like or ())

    async def look(what: str) -> None:
        story.append((what, await settled(ground, others.get(what))))

    async def end(prefix: str, *, well: bool) -> None:
        for pod in await ground.list(("v1", "pods")):
            if pod["metadata"]["name"].startswith(prefix) and pod["status"]["phase"] == "Running":
                await ground.end(pod, well=well)

    first = jobset("js", rj("a", 1, 1, 1), rj("b", 2, 2, 2), failurePolicy={"maxRestarts": 1}, namespace="t")
    await ground.create(first)
    await look("running")
    await ground.suspend("js", True)
    await look("suspended")
    await ground.suspend("js", False)
    await look("resumed")
    await end("js-b-1-1", well=False)
    await look("restarted")
    await end("js-a", well=True)
    await look("half done")
    await end("js-", well=True)
    await look("done")
    await ground.create(jobset("bad", rj("w", 1, 2, 2), namespace="t"))
    await look("another")
    await end("bad-w-0-1", well=False)
    await look("failed")
    order = {"startupPolicyOrder": "InOrder"}
    await ground.create(jobset("ord", rj("x", 1, 1, 1), rj("y", 1, 1, 1), startupPolicy=order, namespace="t"))
    await look("in order")
    return story


@asynccontextmanager
async def real(plane: ControlPlane, namespace: str) -> AsyncIterator[Real]:
    nodes = await add_real_nodes(plane.api, 1, labels={POOL: namespace}, prefix=namespace)
    try:
        async with Kubelet(plane.api) as kubelet:
            yield Real(plane, namespace, kubelet)
    finally:
        await remove_nodes(plane.api, nodes)


async def real_story_of(plane: ControlPlane, namespace: str, like: Story) -> Story:
    async with real(plane, namespace) as ground:
        return await tell(ground, like)


async def simulated_story(minor: str) -> Story:
    async with stage(minor) as on:
        await add_nodes(on.api, 1)
        return await tell(Played(on))


async def test_simulated_controllers_act_as_the_real_ones(plane: ControlPlane, namespace: str) -> None:
    played = await simulated_story(plane.minor.name)
    real_story = await real_story_of(plane, namespace, played)
    assert [what for what, _ in played] == [what for what, _ in real_story]
    wrong: list[str] = []
    for (what, expected), (_, found) in zip(real_story, played, strict=True):
        wrong += differences(expected, found, what)
    assert wrong == []
