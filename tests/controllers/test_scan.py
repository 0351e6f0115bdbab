"""Scans of the JobSets of a sandbox: what is counted, reported, and not written again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from gangctl.client.client import Client
from gangctl.client.pacing import Clock
from gangctl.client.resources import JOBSETS, NAMESPACES
from gangctl.client.transport import Transport
from gangctl.controllers.policy_sources import GANG_POLICIES
from gangctl.controllers.scan import POLICY_REPORTS, PolicyScan, ScanMetrics, ScanOptions
from gangctl.errors import InvalidError
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.verdict import Finding, Outcome, Result, ValidationAction
from gangctl.sandbox.server import SandboxOptions
from tests.controlplane.wait import wait_for
from tests.credentials import StaticCredentials
from tests.jobsets import jobset, rj
from tests.manifests.definitions.policies import definitions
from tests.policy.reportcrd import policy_report_definition
from tests.resources import CUSTOM_RESOURCE_DEFINITIONS
from tests.sandbox.faults import FaultySandbox, Match, Rule, error

POLICY = {
    "apiVersion": "gangctl.dev/v1alpha1",
    "kind": "GangPolicy",
    "metadata": {"name": "bad-names", "annotations": {"policies.gangctl.dev/severity": "low"}},
    "spec": {"validations": [{"name": "name", "expression": "!object.metadata.name.startsWith('bad')"}]},
}


class View:
    """Reports that a JobSet whose name begins with ``bad`` violates the one rule."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.policy: LoadedPolicy = load_policy(POLICY)
        self.wanted = True
        self.seen: list[str] = []
        self.live: dict[str, Any] | None = None
        self.others: list[Mapping[str, Any]] = []

    def scanned(self) -> Sequence[LoadedPolicy]:
        return [self.policy] if self.wanted else []

    def documents(self) -> Sequence[Mapping[str, Any]]:
        return [*([self.live] if self.live is not None else []), *self.others]

    async def refresh(self) -> None:
        self.live = await self._client.get(GANG_POLICIES, "bad-names")

    async def evaluate(self, jobset: Mapping[str, Any]) -> tuple[Outcome, ...] | None:
        name = jobset["metadata"]["name"]
        self.seen.append(name)
        if jobset["metadata"]["namespace"] == "left-alone":
            return None
        result = Result.FAIL if name.startswith("bad") else Result.PASS
        finding = Finding("bad-names", "name", result, "call it otherwise" if result is Result.FAIL else "")
        return (Outcome("bad-names", matched=True, actions=frozenset({ValidationAction.DENY}), findings=(finding,)),)


class Ground:
    """A sandbox with namespaces, JobSets, and the policy."""

    def __init__(self, client: Client, sandbox: FaultySandbox) -> None:
        self.client = client
        self.sandbox = sandbox
        self.view = View(client)
        self.observed: list[tuple[int, Mapping[str, Counter[Result]]]] = []
        ground = self

        class Metrics(ScanMetrics):
            def scan_done(self, jobsets: int, seconds: float, results: Mapping[str, Counter[Result]]) -> None:
                assert seconds >= 0
                super().scan_done(jobsets, seconds, results)
                ground.observed.append((jobsets, results))

        self.registry = CollectorRegistry()
        options = ScanOptions(page=2, settle_seconds=0.01)
        metrics = Metrics(self.registry, self.view.scanned)
        self.scan = PolicyScan(client, client, self.view, options=options, metrics=metrics, now=Clock().wall)

    async def add(self, namespace: str, *names: str) -> None:
        for name in names:
            await self.client.create(JOBSETS, jobset(name, rj("w"), namespace=namespace))

    def exported(self) -> dict[str, list[float]]:
        """Values of each gauge."""
        families = [family for family in self.registry.collect() if family.type == "gauge"]
        return {
            family.name.removeprefix("gangctl_policy_"): [sample.value for sample in family.samples]
            for family in families
        }

    async def reports(self) -> dict[str, dict[str, Any]]:
        return {each["metadata"]["namespace"]: each for each in (await self.client.list(POLICY_REPORTS)).items}


@pytest.fixture
async def ground() -> AsyncIterator[Ground]:
    async with opened() as found:
        for namespace in ("a", "a-b", "left-alone"):
            await found.client.create(NAMESPACES, {"metadata": {"name": namespace}})
        yield found


@asynccontextmanager
async def opened() -> AsyncIterator[Ground]:
    async with (
        FaultySandbox(SandboxOptions(tls=False)) as sandbox,
        Transport(StaticCredentials(sandbox.url, token=sandbox.token())) as transport,
    ):
        client = Client(transport)
        for definition in definitions().values():
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        ground = Ground(client, sandbox)

        async def created() -> bool:
            await client.create(GANG_POLICIES, POLICY)
            return True

        await wait_for(created, tolerate=(Exception,))
        await ground.view.refresh()
        yield ground


async def with_reports(ground: Ground) -> None:
    await ground.client.create(CUSTOM_RESOURCE_DEFINITIONS, policy_report_definition())

    async def served() -> bool:
        await ground.client.list(POLICY_REPORTS)
        return True

    await wait_for(served, tolerate=(Exception,))


async def test_the_status_has_counts_of_all_and_by_namespace(ground: Ground) -> None:
    await ground.add("a", "good", "bad-1", "bad-2")
    await ground.add("a-b", "bad-3")
    await ground.add("left-alone", "bad-4")
    await ground.scan.scan()
    await ground.view.refresh()
    assert ground.view.live is not None
    status = ground.view.live["status"]
    assert status["results"] == {"pass": 1, "fail": 3, "error": 0, "exempt": 0}
    assert status["violations"] == [{"namespace": "a", "count": 2}, {"namespace": "a-b", "count": 1}]
    assert ground.observed == [(4, {"bad-names": Counter({Result.FAIL: 3, Result.PASS: 1})})]


async def test_a_scan_without_a_difference_writes_nothing(ground: Ground) -> None:
    await with_reports(ground)
    await ground.add("a", "good", "bad-1")
    await ground.scan.scan()
    await ground.view.refresh()
    assert ground.view.live is not None
    before = (ground.view.live["metadata"]["resourceVersion"], await ground.reports())
    await ground.scan.scan()
    await ground.view.refresh()
    assert (ground.view.live["metadata"]["resourceVersion"], await ground.reports()) == before


async def test_a_policy_that_is_no_longer_scanned_has_no_counts(ground: Ground) -> None:
    await ground.add("a", "bad-1")
    await ground.scan.scan()
    await ground.client.merge_patch(
        GANG_POLICIES, "bad-names", {"status": {"observedGeneration": 1}}, subresource="status"
    )
    await ground.view.refresh()
    assert ground.view.live is not None
    assert {"results", "violations"} <= set(ground.view.live["status"])
    ground.view.wanted = False
    await ground.scan.scan()
    await ground.view.refresh()
    assert ground.view.live["status"] == {"observedGeneration": 1}
    before = ground.view.live["metadata"]["resourceVersion"]
    await ground.scan.scan()
    await ground.view.refresh()
    assert ground.view.live["metadata"]["resourceVersion"] == before


async def test_each_namespace_has_a_report(ground: Ground) -> None:
    await with_reports(ground)
    await ground.add("a", "good", "bad-1")
    await ground.add("a-b", "fine")
    await ground.scan.scan()
    reports = await ground.reports()
    assert {name: report["summary"]["fail"] for name, report in reports.items()} == {"a": 1, "a-b": 0}
    (result,) = reports["a"]["results"]
    assert (result["policy"], result["rule"], result["result"], result["severity"]) == (
        "bad-names",
        "name",
        "fail",
        "low",
    )
    assert result["resources"][0]["name"] == "bad-1"
    assert reports["a"]["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "gangctl"}


async def test_a_report_follows_its_violations_and_is_deleted_with_the_last(ground: Ground) -> None:
    await with_reports(ground)
    await ground.add("a", "bad-1")
    await ground.scan.scan()
    await ground.client.delete(JOBSETS, "bad-1", "a")
    await ground.add("a-b", "fine")
    await ground.scan.scan()
    assert set(await ground.reports()) == {"a-b"}


async def test_reports_of_other_tools_are_kept(ground: Ground) -> None:
    await with_reports(ground)
    theirs = {"metadata": {"name": "gangctl", "namespace": "a"}, "summary": {"pass": 7}}
    await ground.client.create(
        POLICY_REPORTS, {"apiVersion": "wgpolicyk8s.io/v1alpha2", "kind": "PolicyReport", **theirs}
    )
    await ground.scan.scan()
    assert (await ground.reports())["a"]["summary"] == {"pass": 7}


async def test_a_refused_status_write_does_not_stop_the_others(ground: Ground) -> None:
    await ground.add("a", "bad-1")
    other = await ground.client.create(GANG_POLICIES, {**POLICY, "metadata": {"name": "other"}})
    stale = {"results": {"pass": 7}, "lastScanTime": "2026-01-01T00:00:00Z"}
    other = await ground.client.merge_patch(GANG_POLICIES, "other", {"status": stale}, subresource="status")
    await ground.view.refresh()
    ground.view.others = [other]
    match = Match("admin", verbs=frozenset({"patch"}), name="bad-names")
    rule = ground.sandbox.faults.add(match, error(422, "Invalid", "no"))
    with pytest.raises(InvalidError):
        await ground.scan.scan()
    assert rule.fired == 1
    assert "results" not in (await ground.client.get(GANG_POLICIES, "other"))["status"]


async def test_a_report_that_the_server_fails_to_write_does_not_stop_the_others(ground: Ground) -> None:
    """The API server answers 500 for one that etcd does not take, and at each scan again."""
    await with_reports(ground)
    await ground.add("a", "bad-1")
    await ground.add("a-b", "bad-2")

    def fails(verb: str, namespace: str) -> Rule:
        match = Match("admin", frozenset({verb}), "policyreports.wgpolicyk8s.io", namespace=namespace)
        return ground.sandbox.faults.add(match, error(500, "", "etcdserver: request is too large"), times=100)

    refused = fails("create", "a")
    await ground.scan.scan()
    assert set(await ground.reports()) == {"a-b"}
    await ground.view.refresh()
    assert ground.view.live is not None
    assert ground.view.live["status"]["results"]["fail"] == 2
    await ground.client.delete(JOBSETS, "bad-2", "a-b")
    kept = fails("delete", "a-b")
    await ground.scan.scan()
    assert set(await ground.reports()) == {"a-b"}
    assert refused.fired
    assert kept.fired
    assert [jobsets for jobsets, _ in ground.observed] == [2, 1]


async def test_a_scan_that_takes_longer_than_the_server_keeps_history_is_complete(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ground.add("a", "a", "bad-b", "c", "d", "e")
    evaluate = ground.view.evaluate

    async def slow(jobset: Mapping[str, Any]) -> tuple[Outcome, ...] | None:
        await ground.client.create(NAMESPACES, {"metadata": {"generateName": "n-"}})
        ground.sandbox.api.store.compact()
        return await evaluate(jobset)

    monkeypatch.setattr(ground.view, "evaluate", slow)
    await ground.scan.scan()
    assert ground.view.seen == ["a", "bad-b", "c", "d", "e"]
    assert [jobsets for jobsets, _ in ground.observed] == [5]


async def test_other_tasks_run_between_two_jobsets(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    await ground.add("a", "a", "b", "c", "d")
    turns, seen = 0, []

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def evaluate(jobset: Mapping[str, Any]) -> None:
        assert jobset
        seen.append(turns)

    monkeypatch.setattr(ground.view, "evaluate", evaluate)
    task = asyncio.create_task(others())
    try:
        await ground.scan.scan()
    finally:
        task.cancel()
    assert len(set(seen)) == 4


async def test_a_requested_scan_runs_soon(ground: Ground) -> None:
    task = asyncio.create_task(ground.scan.run())
    try:

        async def scans(count: int) -> bool:
            return len(ground.observed) >= count

        await wait_for(lambda: scans(1))
        await ground.add("a", "bad-1")
        ground.scan.wake()
        await wait_for(lambda: scans(2))
        assert ground.observed[1][0] == 1
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_replica_that_scans_no_longer_has_no_results(ground: Ground) -> None:
    await ground.add("a", "bad-1")
    before = ground.exported()
    task = asyncio.create_task(ground.scan.run())

    async def scanned() -> bool:
        return len(ground.observed) == 1

    await wait_for(scanned)
    assert (ground.exported()["violations"], ground.exported()["scanned_jobsets"]) == ([1], [1])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert ground.exported() == before


async def test_without_jobsets_there_are_no_reports(ground: Ground) -> None:
    await ground.scan.scan()
    assert ground.observed == [(0, {"bad-names": Counter()})]
