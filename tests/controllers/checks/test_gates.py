"""The gate's controller over an API server: one patch, only when it is time, and no false alarm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gangctl.api.jobset import JobSet
from gangctl.api.meta import ADMISSION_GATED_BY, QUEUE_NAME
from gangctl.client.client import Client
from gangctl.client.config import load_cluster
from gangctl.client.resources import JOBSETS, NAMESPACES
from gangctl.client.transport import Transport
from gangctl.controllers.caches import GangCaches
from gangctl.controllers.gates import GateKeeper
from gangctl.errors import ApiError, InvalidError
from gangctl.gang.reasons import Notice
from gangctl.kueue.checks import Progress, Status
from gangctl.kueue.names import GATE
from gangctl.kueue.objects import Condition, QueuedWorkload
from gangctl.runtime.informer import Entry, Store
from gangctl.sandbox.faults import Match, conflict, error
from gangctl.sandbox.server import Sandbox, SandboxOptions
from tests.controlplane.wait import wait_for
from tests.jobsets import jobset, rj

KEY = ("t", "js")
DONE = Status(Progress.DONE, "all there")
UNDER_WAY = Status(Progress.UNDER_WAY, "not yet")
FOREIGN = "example.com/budget"


@dataclass
class Statuses:
    """Returns what a test sets."""

    now: Status = DONE

    def of_objects(self, _: JobSet) -> Status:
        return self.now


@dataclass
class Yard:
    """A sandbox with one gated JobSet, seen by gangctl."""

    client: Client
    caches: GangCaches
    sandbox: Sandbox
    uid: str = ""
    statuses: Statuses = field(default_factory=Statuses)
    events: list[str] = field(default_factory=list)
    workloads: Store[QueuedWorkload] = field(default_factory=lambda: Store({"owner": lambda each: [each.owner_uid]}))

    @property
    def keeper(self) -> GateKeeper:
        return GateKeeper(
            self.client,
            self.client,
            self.caches,
            self.workloads,
            statuses=self.statuses,  # type: ignore[arg-type]  # the one question that is asked
            record=self._say,
        )

    def _say(self, jobset: JobSet, notice: Notice) -> None:
        assert jobset.key == KEY
        self.events.append(notice.reason.value)

    async def create(self, value: str = GATE) -> None:
        raw = jobset("js", rj("w", 1, 2, 2, mode="Gang"), annotations={ADMISSION_GATED_BY: value}, suspend=True)
        raw["metadata"]["labels"] = {QUEUE_NAME: "main"}
        self.uid = (await self.client.create(JOBSETS, raw, "t"))["metadata"]["uid"]
        await self.seen(value)

    async def seen(self, value: str | None) -> None:
        async def met() -> bool:
            found = self.caches.jobset(KEY)
            return found is not None and found.annotations.get(ADMISSION_GATED_BY) == value

        await wait_for(met, what=f"gate {value} to be seen", interval=0.01)

    def queue(self, *gates: str, reserved: bool = False) -> None:
        """Have Kueue's Workload seen with these gates."""
        found = QueuedWorkload(
            "t", "wl", "u", owner_uid=self.uid, gates=gates, conditions={"QuotaReserved": Condition(reserved)}
        )
        self.workloads.put(("t", "wl"), Entry("u", str(len(gates)), found))

    async def gates(self) -> str | None:
        live = await self.client.get(JOBSETS, "js", "t")
        found: str | None = (live["metadata"].get("annotations") or {}).get(ADMISSION_GATED_BY)
        return found

    def patches(self) -> int:
        return sum(each.verb == "patch" for each in self.sandbox.audit)


@pytest.fixture
async def yard(tmp_path: Path) -> AsyncIterator[Yard]:
    async with Sandbox(SandboxOptions(tls=False)) as sandbox:
        path = tmp_path / "kubeconfig"
        path.write_text(sandbox.kubeconfig())
        async with Transport(await load_cluster(kubeconfig=str(path))) as transport:
            client = Client(transport)
            await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t"}})
            caches = GangCaches(client, lambda _key, _seconds: None, asyncio.get_running_loop().time)
            task = asyncio.create_task(caches.run())
            yield Yard(client, caches, sandbox)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_the_gate_is_removed_with_one_patch(yard: Yard) -> None:
    await yard.create()
    assert yard.keeper.waiting() == [KEY]
    yard.queue(GATE)
    await yard.keeper.reconcile(KEY)
    assert await yard.gates() is None
    assert (yard.patches(), yard.events) == (1, ["AdmissionGateRemoved"])
    await yard.seen(None)
    await yard.keeper.reconcile(KEY)
    assert (yard.patches(), yard.events) == (1, ["AdmissionGateRemoved"])


async def test_gates_of_other_controllers_are_kept(yard: Yard) -> None:
    await yard.create(f"{FOREIGN},{GATE}")
    yard.queue(FOREIGN, GATE)
    await yard.keeper.reconcile(KEY)
    assert await yard.gates() == FOREIGN


async def test_the_gate_waits_for_the_gang_and_for_kueue(yard: Yard) -> None:
    await yard.create()
    await yard.keeper.reconcile(KEY)
    yard.queue(GATE)
    yard.statuses.now = UNDER_WAY
    await yard.keeper.reconcile(KEY)
    assert await yard.gates() == GATE
    assert (yard.patches(), yard.events) == (0, [])


@pytest.mark.parametrize("reserved", [True, False])
async def test_a_kueue_that_ignores_gates_is_reported(yard: Yard, *, reserved: bool) -> None:
    await yard.create()
    yard.queue(*([GATE] if reserved else []), reserved=reserved)
    yard.statuses.now = UNDER_WAY
    await yard.keeper.reconcile(KEY)
    assert (await yard.gates(), yard.events) == (GATE, ["AdmissionGateNotHonoured"])
    yard.statuses.now = DONE
    await yard.keeper.reconcile(KEY)
    assert await yard.gates() is None
    assert set(yard.events) == {"AdmissionGateNotHonoured"}


async def test_a_gate_removed_by_another_replica_is_not_reported(yard: Yard) -> None:
    await yard.create()
    jobset = yard.caches.jobset(KEY)
    assert jobset is not None
    await yard.client.merge_patch(JOBSETS, "js", {"metadata": {"annotations": {ADMISSION_GATED_BY: None}}}, "t")
    await yard.seen(None)
    stale = Entry(jobset.uid, "1", jobset)
    yard.queue(reserved=True)
    yard.caches.jobsets.store.put(KEY, stale)
    await yard.keeper.reconcile(KEY)
    yard.queue(GATE)
    yard.caches.jobsets.store.put(KEY, stale)
    await yard.keeper.reconcile(KEY)
    assert yard.events == []
    assert await yard.gates() is None


async def test_a_gate_list_that_changed_is_read_again(yard: Yard) -> None:
    await yard.create()
    jobset = yard.caches.jobset(KEY)
    assert jobset is not None
    both = f"{GATE},{FOREIGN}"
    await yard.client.merge_patch(JOBSETS, "js", {"metadata": {"annotations": {ADMISSION_GATED_BY: both}}}, "t")
    await yard.seen(both)
    yard.queue(GATE)
    yard.caches.jobsets.store.put(KEY, Entry(jobset.uid, "1", jobset))
    assert (await yard.keeper.reconcile(KEY)).after_seconds is not None
    assert (await yard.gates(), yard.events) == (both, [])


async def test_a_refused_patch_is_reported_and_retried(yard: Yard) -> None:
    await yard.create()
    yard.queue(GATE)
    refusal = error(422, "Invalid", "GangPolicy 'p' denied request: not any more")
    yard.sandbox.faults.add(Match("admin", frozenset({"patch"}), "jobsets.jobset.x-k8s.io"), refusal)
    with pytest.raises(InvalidError, match="not any more"):
        await yard.keeper.reconcile(KEY)
    assert (await yard.gates(), yard.events) == (GATE, ["FailedCreate"])
    await yard.keeper.reconcile(KEY)
    assert (await yard.gates(), yard.events) == (None, ["FailedCreate", "AdmissionGateRemoved"])


async def test_a_failed_read_is_not_reported_as_a_refused_patch(yard: Yard) -> None:
    await yard.create()
    yard.queue(GATE)
    for verb, answer in (("patch", conflict()), ("get", error(403, "Forbidden", "no look"))):
        yard.sandbox.faults.add(Match("admin", frozenset({verb}), "jobsets.jobset.x-k8s.io"), answer)
    with pytest.raises(ApiError, match="no look"):
        await yard.keeper.reconcile(KEY)
    assert yard.events == []


async def test_a_deleted_or_finished_jobset_is_left_alone(yard: Yard) -> None:
    await yard.keeper.reconcile(("t", "nobody"))
    await yard.create()
    yard.queue(reserved=True)
    await yard.client.merge_patch(
        JOBSETS, "js", {"status": {"terminalState": "Completed", "restarts": 0}}, "t", subresource="status"
    )

    async def finished() -> bool:
        found = yard.caches.jobset(KEY)
        return found is not None and found.finished

    await wait_for(finished, what="the end to be seen", interval=0.01)
    await yard.keeper.reconcile(KEY)
    assert (yard.events, await yard.gates()) == ([], GATE)
