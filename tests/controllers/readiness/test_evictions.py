"""Evictions of stranded gangs, in virtual time, against a sandbox: which requests are sent, counted and reported."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

from structlog.testing import capture_logs

from gangctl.api.jobset import JobSet
from gangctl.client.client import Client
from gangctl.client.pacing import Clock, micro_time
from gangctl.controllers.readiness.evictions import CHECK_SECONDS, Evictions, Pods
from gangctl.gang.reasons import Notice, Reason
from gangctl.readiness.facts import PodFacts, Snapshot
from gangctl.readiness.result import Counts, GangPhase, Readiness
from gangctl.runtime.controller import ControllerObserver
from gangctl.runtime.manager import Manager
from gangctl.sandbox.api import SYSTEM
from gangctl.sandbox.errors import StatusError
from tests.controllers.stage import NAMESPACE, USER, Observed, beside, stage, while_leading
from tests.faults import virtual_time
from tests.jobsets import jobset, rj
from tests.readiness import snapshots
from tests.readiness.snapshots import NOW, READY, REFUSED, nodes
from tests.sandbox.faults import FaultySandbox, Match, Refuse, error

AFTER = "gangctl.dev/evict-stranded-after"
DELAY = 60.0


class _Clock(Clock):
    """Of which the time of day goes on with the virtual time."""

    def __init__(self) -> None:
        self._began = self.now()

    def wall(self) -> datetime:
        return datetime.fromtimestamp(NOW + self.now() - self._began, UTC)


class Context:
    """A gang of four of which one pod was lost just now, and the sandbox that has its pods."""

    def __init__(
        self, sandbox: FaultySandbox, client: Client, default: float | None, annotations: dict[str, str]
    ) -> None:
        self.sandbox = sandbox
        self.gang = snapshots.Context(
            jobset("js", rj("w", 1, 4, 4), mode="Gang", namespace=NAMESPACE, annotations=annotations)
        )
        lost = replace(self.gang.pods(REFUSED)[3], created=NOW)
        self.pods: list[PodFacts] = [*self.gang.pods(READY)[:3], lost]
        self.server_pods: list[PodFacts] | None = None
        """What the API server has, where the cache lags."""
        self.on_read: Callable[[], None] = lambda: None
        """Called when the pods are read from the API server."""
        self.uids: dict[str, str] = {}
        self.events: list[Notice] = []
        self.manager = Manager(client, while_leading(client, lambda: True), metrics=Observed(ControllerObserver()))
        self.evictions = Evictions(
            self.manager,
            jobset=lambda _: self.gang.jobset,
            snapshot=self._snapshot,
            record_event=self._record,
            default=default,
            pods=self._read,
            clock=_Clock(),
        )

    def _snapshot(self, jobset: JobSet, now: datetime) -> Snapshot:
        del jobset, now
        return self.gang.snapshot(self.pods, nodes=nodes("n0"))

    async def _read(self, client: Client, jobset: JobSet) -> Pods:
        del client
        assert jobset is self.gang.jobset
        self.on_read()
        pods = self.pods if self.server_pods is None else self.server_pods
        return {pod.name: (pod, self.uids.get(pod.name, "")) for pod in pods}

    def _record(self, jobset: JobSet, notice: Notice) -> None:
        assert jobset is self.gang.jobset
        self.events.append(notice)

    def stranded(self, pods: int = 3) -> None:
        counts = Counts(4, 4, 4, 4, pods, pods, stranded=pods)
        jobset = self.gang.jobset
        self.evictions.on_status_change(None, Readiness(NAMESPACE, "js", jobset.uid, GangPhase.DEGRADED, 1, counts, ()))

    async def create_pods(self) -> None:
        for pod in self.pods:
            body = {
                "metadata": {"name": pod.name, "namespace": NAMESPACE},
                "spec": {"containers": [{"name": "m", "image": "none"}], "terminationGracePeriodSeconds": 0},
            }
            created = await self.sandbox.api.create(self.sandbox.api.kind("pods"), NAMESPACE, body, SYSTEM)
            self.uids[pod.name] = str(created["metadata"]["uid"])

    def evicted(self) -> list[str]:
        """Pods of which an eviction was answered with success."""
        return [
            one.name for one in self.sandbox.audit.writes_by(USER) if one.subresource == "eviction" and one.code < 300
        ]

    def counted(self, name: str, **labels: str) -> float:
        return self.manager.metrics.registry.get_sample_value(name, labels) or 0.0


Act = Callable[[Context], Awaitable[None]]


def play(act: Act, *, default: float | None = DELAY, after: str = "") -> None:
    """Run a test in virtual time, while the evictions run."""

    async def main() -> None:
        async with stage() as (sandbox, client):
            written = {AFTER: after} if after else {}
            context = Context(sandbox, client, default, written)
            await context.create_pods()
            async with beside(context.evictions.run()):
                await act(context)

    virtual_time.run(main())


def test_a_stranded_gang_is_evicted_after_its_delay_with_one_event() -> None:
    async def act(context: Context) -> None:
        context.stranded()
        await asyncio.sleep(DELAY - 5)
        assert context.evicted() == []
        await asyncio.sleep(10)
        assert context.evicted() == [pod.name for pod in context.pods[:3]]
        (notice,) = context.events
        assert notice.reason is Reason.GANG_EVICTED
        assert notice.message.startswith("Evicted 3 pods of js-")
        assert "1 pod that it needs has no node, for more than 1m" in notice.message
        assert context.counted("gangctl_stranded_gangs_evicted_total") == 1
        assert context.counted("gangctl_stranded_pod_evictions_total", result="evicted") == 3
        context.pods = context.gang.pods(REFUSED)
        context.stranded(0)
        await asyncio.sleep(10 * DELAY)
        assert len(context.evicted()) == 3

    play(act)


def test_without_a_delay_nothing_is_evicted() -> None:
    async def act(context: Context) -> None:
        context.stranded()
        await asyncio.sleep(100 * DELAY)
        assert context.evicted() == []

    play(act, default=None)
    play(act, after="never")


def test_the_annotation_of_a_jobset_is_its_delay() -> None:
    async def act(context: Context) -> None:
        context.stranded()
        await asyncio.sleep(15)
        assert len(context.evicted()) == 3

    play(act, default=None, after="10s")


def test_a_budget_holds_and_the_rest_is_evicted_later() -> None:
    async def act(context: Context) -> None:
        blocked = context.pods[1].name
        details = {"causes": [{"reason": "DisruptionBudget", "message": "The budget b needs 1 healthy pods"}]}
        refusal = Refuse(StatusError(429, "TooManyRequests", "Cannot evict pod", details))
        context.sandbox.faults.add(
            Match(USER, frozenset({"create"}), "pods", "eviction", name=blocked), refusal, times=1000
        )
        context.stranded()
        await asyncio.sleep(DELAY + 5)
        assert context.evicted() == [context.pods[0].name, context.pods[2].name]
        assert context.counted("gangctl_stranded_pod_evictions_total", result="blocked") == 1
        context.pods = [context.pods[1], *(replace(pod, created=pod.created) for pod in context.gang.pods(REFUSED)[2:])]
        context.pods.append(replace(context.gang.pods(REFUSED)[0]))
        context.sandbox.faults.clear()
        await asyncio.sleep(2 * CHECK_SECONDS)
        assert context.evicted()[-1] == blocked
        assert len(context.events) == 1, "it is one cure"

    play(act)


def test_a_refused_eviction_does_not_keep_the_others() -> None:
    async def act(context: Context) -> None:
        context.sandbox.faults.add(
            Match(USER, frozenset({"create"}), "pods", "eviction", name=context.pods[0].name), error(), times=1000
        )
        context.stranded()
        await asyncio.sleep(DELAY + 5)
        assert context.evicted() == [pod.name for pod in context.pods[1:3]]
        assert context.counted("gangctl_stranded_pod_evictions_total", result="failed") == 1

    play(act)


def test_an_autoscaler_is_asked_before_anything_is_evicted() -> None:
    async def act(context: Context) -> None:
        event = _event(context.pods[3].name, "TriggeredScaleUp")
        await context.sandbox.api.create(context.sandbox.api.kind("events.events.k8s.io"), NAMESPACE, event, SYSTEM)
        context.stranded()
        await asyncio.sleep(5 * DELAY)
        assert context.evicted() == []
        await asyncio.sleep(1000)
        assert len(context.evicted()) == 3

    play(act)


def test_without_the_right_to_read_events_nothing_is_evicted() -> None:
    async def act(context: Context) -> None:
        forbidden = Refuse(StatusError(403, "Forbidden", "no"))
        context.sandbox.faults.add(Match(USER, frozenset({"list"}), "events.events.k8s.io"), forbidden, times=1000)
        context.stranded()
        with capture_logs() as logs:
            await asyncio.sleep(5 * DELAY)
        assert context.evicted() == []
        assert any("events may not be read" in str(entry) for entry in logs)

    play(act)


def test_a_cache_that_lags_evicts_nothing() -> None:
    async def act(context: Context) -> None:
        context.server_pods = context.gang.pods(READY)
        context.stranded()
        await asyncio.sleep(5 * DELAY)
        assert context.evicted() == []

    play(act)


def test_a_pod_whose_uid_was_not_read_is_not_evicted() -> None:
    async def act(context: Context) -> None:
        del context.uids[context.pods[0].name]
        context.stranded()
        await asyncio.sleep(DELAY + 5)
        assert context.evicted() == [pod.name for pod in context.pods[1:3]]

    play(act)


def test_a_pod_of_the_same_name_is_not_evicted_in_the_place_of_another() -> None:
    async def act(context: Context) -> None:
        context.uids[context.pods[0].name] = "another"
        context.stranded()
        await asyncio.sleep(DELAY + 5)
        assert context.evicted() == [pod.name for pod in context.pods[1:3]]

    play(act)


def test_a_gang_that_is_whole_again_is_forgotten() -> None:
    async def act(context: Context) -> None:
        context.stranded()
        await asyncio.sleep(DELAY / 2)
        context.pods = context.gang.pods(READY)
        context.stranded(0)
        await asyncio.sleep(5 * DELAY)
        assert context.evicted() == []

    play(act)


def test_a_gang_that_ends_during_a_check_is_not_evicted_and_forgotten() -> None:
    async def act(context: Context) -> None:
        context.on_read = lambda: context.stranded(0)
        context.stranded()
        await asyncio.sleep(5 * DELAY)
        assert context.evicted() == []
        assert not context.evictions._seen

    play(act)


def test_a_gang_that_ends_while_it_is_evicted_is_forgotten() -> None:
    async def act(context: Context) -> None:
        writer = context.manager.writer
        evict = writer.evict

        async def ends(namespace: str, pod: str, *, uid: str) -> None:
            await evict(namespace, pod, uid=uid)
            context.stranded(0)

        with patch.object(writer, "evict", ends):
            context.stranded()
            await asyncio.sleep(5 * DELAY)
        assert context.evicted()
        assert (context.evictions._seen, context.evictions._begun) == ({}, set())

    play(act)


def _event(pod: str, reason: str) -> dict[str, Any]:
    return {
        "metadata": {"generateName": "e-", "namespace": NAMESPACE},
        "regarding": {"kind": "Pod", "name": pod, "namespace": NAMESPACE, "apiVersion": "v1"},
        "reason": reason,
        "note": "pod triggered scale-up",
        "type": "Normal",
        "action": "ScaleUp",
        "eventTime": micro_time(datetime.fromtimestamp(NOW, UTC)),
        "reportingController": "cluster-autoscaler",
        "reportingInstance": "a",
    }
