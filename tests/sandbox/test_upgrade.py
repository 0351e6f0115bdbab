"""The cluster upgraded from 1.37 to 1.38 under live gangs and a gangctl that is never restarted.

Kubernetes 1.38 is not released: that it reads the objects of v1beta1 as v1 is what Kubernetes promises of every API
version that becomes stable.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gangctl.sandbox.api import SYSTEM
from gangctl.sandbox.registry import Registry
from gangctl.sandbox.server import Sandbox, SandboxOptions
from gangctl.sandbox.simulated import SimulatedControllers, add_nodes
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import jobset, rj
from tests.rows import each
from tests.sandbox.gangctlprocess import controller
from tests.sandbox.stage import NAMESPACE, Stage

KINDS = ("workloads.scheduling.k8s.io", "podgroups.scheduling.k8s.io")
RUNNING = jobset("running", rj("w", 1, 3, 3, cpu="1", mode="Gang"))
SUSPENDED = jobset("suspended", rj("w", 1, 1, 1, cpu="100m", mode="Gang"), suspend=True)
WAITING = jobset("waiting", rj("w", 1, 2, 2, cpu="3", mode="Gang"))
NEW = jobset("new", rj("w", 1, 2, 2, cpu="100m", mode="Gang"))


def labelled(name: str) -> str:
    return f"jobset.sigs.k8s.io/jobset-name={name}"


def gang(sandbox: Sandbox, name: str) -> list[Any]:
    """The Workload and the PodGroups of a JobSet, as they are stored."""
    stored = [each.obj for kind in KINDS for each in sandbox.api.store.items(kind, NAMESPACE)]
    return [obj for obj in stored if obj["metadata"]["ownerReferences"][0]["name"] == name]


def versions(sandbox: Sandbox, name: str) -> list[str]:
    """In which version each of them was last written."""
    return [obj["apiVersion"].removeprefix("scheduling.k8s.io/") for obj in gang(sandbox, name)]


async def test_gangs_stay_whole_and_new_ones_are_v1(tmp_path: Path) -> None:
    async with Sandbox(SandboxOptions("1.37")) as sandbox, controller(sandbox, tmp_path, "--discovery-period=1"):
        namespace = {"metadata": {"name": NAMESPACE}}
        await sandbox.api.create(sandbox.api.kind("namespaces"), "", namespace, SYSTEM)
        await add_nodes(sandbox.api, 1, cpu="4")
        async with SimulatedControllers(sandbox.api) as simulated:
            before = Stage(sandbox.api, simulated)
            await before.create_jobset(RUNNING)
            await before.create_jobset(SUSPENDED)
            await before.until_bound(3, labelled("running"))
            await before.create_jobset(WAITING)

            async def refused() -> bool:
                return any(obj.get("status", {}).get("conditions") for obj in gang(sandbox, "waiting"))

            await wait_for(refused, what="the scheduler to refuse the gang that waits for room")
        old = {name: gang(sandbox, name) for name in ("running", "waiting")}
        pods = {pod["metadata"]["uid"]: pod["spec"] for pod in await before.pods(labelled("running"))}

        await sandbox.close()
        sandbox.api.registry.upgrade("1.38")
        await sandbox.open()
        async with SimulatedControllers(sandbox.api) as simulated:
            after = Stage(sandbox.api, simulated)
            await _new_gangs_are_v1(sandbox, after)
            assert {name: gang(sandbox, name) for name in old} == old
            assert {pod["metadata"]["uid"]: pod["spec"] for pod in await after.pods(labelled("running"))} == pods
            await _a_tail_is_followed_in_v1(sandbox, after)
            assert await after.bound(labelled("waiting")) == []
            await add_nodes(sandbox.api, 2, cpu="4")
            await after.until_bound(2, labelled("waiting"))
        for name, objects in old.items():
            kept = [obj["metadata"]["uid"] for obj in gang(sandbox, name)]
            assert kept == [obj["metadata"]["uid"] for obj in objects]


async def _new_gangs_are_v1(sandbox: Sandbox, stage: Stage) -> None:
    """gangctl notices v1 by itself; a JobSet that is created before waits until then."""
    await stage.create_jobset(NEW)
    await stage.patch("jobsets.jobset.x-k8s.io", "suspended", {"spec": {"suspend": False}})
    for name, pods in (("new", 2), ("suspended", 1)):
        await stage.until_bound(pods, labelled(name))
        assert versions(sandbox, name) == ["v1", "v1"]


async def _a_tail_is_followed_in_v1(sandbox: Sandbox, stage: Stage) -> None:
    """One of three pods succeeds: minCount of the group that v1beta1 made is lowered."""
    pod, *_ = await stage.pods(labelled("running"))
    await stage.patch("pods", pod["metadata"]["name"], {"status": {"phase": "Succeeded"}}, "status")

    async def lowered() -> bool:
        counts = [obj["spec"]["schedulingPolicy"] for obj in gang(sandbox, "running") if obj["kind"] == "PodGroup"]
        if counts != [{"gang": {"minCount": 2}}]:
            raise NotYet(str(counts))
        return True

    await wait_for(lowered, what="minCount to follow")
    assert "v1" in versions(sandbox, "running")


@each(("old", "new"), [("1.36", "1.37"), ("1.35", "1.36"), ("1.37", "1.36"), ("1.37", "1.39")])
def test_an_upgrade_without_a_common_version_is_refused(old: str, new: str) -> None:
    registry = Registry(old)
    with pytest.raises(ValueError, match=f"{old} cannot be upgraded to {new}"):
        registry.upgrade(new)
    assert registry.minor == old
