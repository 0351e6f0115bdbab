"""gangctl as a process beside a sandbox computes the readiness of what has changed, and of nothing else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from gangctl.sandbox.api import Caller
from gangctl.sandbox.server import Sandbox
from tests.cases import object_name
from tests.controlplane.wait import read_until
from tests.jobsets import jobset, rj
from tests.sandbox.gangctlprocess import controller

ADMIN = Caller("admin", ("system:masters",))
NAMESPACE = "default"
GANGS = 12
PODS = 3
EVALUATIONS = "gangctl_readiness_evaluation_duration_seconds_count"
DEGRADED = 'gangctl_gang_phase_transitions_total{from="ready",to="degraded"}'
FENCE = "fence"


class Ground:
    """A sandbox without simulated controllers, so that nothing changes but what a test changes; gangctl follows it."""

    def __init__(self, sandbox: Sandbox, metrics_url: str) -> None:
        self.sandbox = sandbox
        self._metrics_url = metrics_url

    async def jobset(self, name: str) -> None:
        """One that asks for a gang, with the pods that its Jobs would have made, all of them ready."""
        api = self.sandbox.api
        raw = jobset(name, rj("w", 1, PODS, PODS, mode="Gang"), namespace=NAMESPACE)
        created = await api.create(api.kind("jobsets.jobset.x-k8s.io"), NAMESPACE, raw, ADMIN)
        group = object_name(name, created["metadata"]["uid"], "rj/w")
        labels = {
            "jobset.sigs.k8s.io/jobset-name": name,
            "jobset.sigs.k8s.io/replicatedjob-name": "w",
            "jobset.sigs.k8s.io/job-index": "0",
            "jobset.sigs.k8s.io/restart-attempt": "0",
        }
        spec = {
            "nodeName": "n1",
            "schedulingGroup": {"podGroupName": group},
            "containers": [{"name": "c", "image": "i"}],
        }
        for index in range(PODS):
            pod = {"metadata": {"name": f"{name}-{index}", "labels": labels}, "spec": spec}
            await api.create(api.kind("pods"), NAMESPACE, pod, ADMIN)
            await self.turn(name, index, ready=True)

    async def turn(self, name: str, index: int, *, ready: bool) -> None:
        """Have one pod ready, or not."""
        conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": str(ready)}]
        status = {"status": {"phase": "Running", "conditions": conditions}}
        api = self.sandbox.api
        kind = api.kind("pods")
        await api.patch(kind, NAMESPACE, f"{name}-{index}", status, "merge", ADMIN, subresource="status")

    async def metrics(self) -> dict[str, float]:
        async with (
            aiohttp.ClientSession(trust_env=False) as session,
            session.get(f"{self._metrics_url}/metrics") as answer,
        ):
            lines = [line for line in (await answer.text()).splitlines() if not line.startswith("#")]
        parts = (line.rpartition(" ") for line in lines)
        return {series: float(value) for series, _, value in parts}

    async def fence(self) -> dict[str, float]:
        """All metrics once whatever has changed before is evaluated.

        A gang of its own loses a pod and has it again. Between two evaluations of one gang gangctl rests: after the
        second it has come to everything that was to be evaluated when the first began.
        """
        await self.turn(FENCE, 0, ready=False)
        await self.ready_pods(**{FENCE: PODS - 1})
        await self.turn(FENCE, 0, ready=True)
        return await self.ready_pods(**{FENCE: PODS})

    async def ready_pods(self, **wanted: int) -> dict[str, float]:
        """Wait until so many pods of these gangs are ready; all metrics then."""
        labels = {name: f'{{jobset="{name}",namespace="{NAMESPACE}"}}' for name in wanted}

        return await read_until(
            self.metrics,
            lambda series: {name: series.get(f"gangctl_gang_ready_pods{labels[name]}") for name in wanted} == wanted,
            f"{wanted}",
        )


@asynccontextmanager
async def following(tmp_path: Path, *names: str) -> AsyncIterator[Ground]:
    """gangctl beside these JobSets, once all of their pods are ready."""
    async with Sandbox() as sandbox, controller(sandbox, tmp_path) as url:
        ground = Ground(sandbox, url)
        node = {"metadata": {"name": "n1"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
        await sandbox.api.create(sandbox.api.kind("nodes"), "", node, ADMIN)
        for name in (*names, FENCE):
            await ground.jobset(name)
        await ground.ready_pods(**dict.fromkeys((*names, FENCE), PODS))
        yield ground


async def test_only_what_has_changed_is_evaluated(tmp_path: Path) -> None:
    names = [f"js{number}" for number in range(GANGS)]
    async with following(tmp_path, *names) as ground:
        before = await ground.fence()
        changed = names[:3]
        for name in changed:
            await ground.turn(name, 0, ready=False)
        await ground.ready_pods(**dict.fromkeys(changed, PODS - 1))
        after = await ground.fence()
        assert after[EVALUATIONS] - before[EVALUATIONS] == len(changed) + 2, "the fence's two, and no other"
        assert after[DEGRADED] - before[DEGRADED] == len(changed) + 1


async def test_changes_of_one_gang_in_quick_succession_are_evaluated_together(tmp_path: Path) -> None:
    async with following(tmp_path, "js") as ground:
        before = await ground.fence()
        turns = 20
        for turn in range(turns):
            for index in range(PODS):
                await ground.turn("js", index, ready=turn % 2 == 1)
        await ground.turn("js", 0, ready=False)
        await ground.ready_pods(js=PODS - 1)
        after = await ground.fence()
        assert 0 < after[EVALUATIONS] - before[EVALUATIONS] - 2 < turns
