"""Only changed JobSets are evaluated again, only news is reported, and a former leader keeps no state."""

from __future__ import annotations

import asyncio
import re

import pytest
from structlog.testing import capture_logs

from gangctl.api.scheduling import ApiState
from gangctl.controllers.readiness.controller import ReadinessObserver
from gangctl.gang.reasons import Reason
from gangctl.readiness.facts import Snapshot
from gangctl.readiness.report import gang_status
from gangctl.readiness.result import GangPhase, Readiness
from tests.controllers.readiness.ground import NAMESPACE, Ground
from tests.readiness.standings import standing


@pytest.fixture
def ground() -> Ground:
    return Ground()


async def test_every_jobset_is_evaluated_once_at_the_start(ground: Ground) -> None:
    for name in ("a", "b"):
        ground.jobset(name)
        ground.pod(name)
    assert ground.looked == []
    async with ground.leading():
        assert await ground.later(0) == ["a", "b"]
        assert sorted(name for name, _ in ground.notes.news()) == ["a", "b"]


async def test_only_changed_jobsets_are_evaluated_again(ground: Ground) -> None:
    for name in ("a", "b", "c"):
        ground.jobset(name)
        ground.job(name)
        ground.pod(name)
    async with ground.leading():
        await ground.later()
        for index in range(2):
            ground.pod("a", index, node="n1", ready=True)
        assert await ground.later() == ["a"]
        ground.job("b", active=1)
        assert await ground.later() == ["b"]
        ground.jobset("c", 3)
        assert await ground.later() == ["c"]
        ground.pod("a", 0, node="n1", ready=True)
        assert await ground.later() == [], "the same again is no change"


async def test_a_gang_becomes_ready(ground: Ground) -> None:
    ground.jobset("a")
    ground.job("a")
    async with ground.leading():
        ground.notes.news()
        for index in range(2):
            ground.pod("a", index, node="n1", ready=True)
        await ground.later()
        assert ground.notes.news() == [("a", "Ready")]
        found = ground.controller.readiness((NAMESPACE, "a"))
        assert found is not None
        assert (found.counts.ready, found.phase) == (2, GangPhase.READY)
        (lag,) = [lag for lag in ground.notes.lags[1:] if lag is not None]
        assert lag == pytest.approx(0.1)


async def test_jobsets_without_a_gang_are_left_alone(ground: Ground) -> None:
    ground.jobset("plain", mode=None)
    ground.pod("plain")
    async with ground.leading():
        ground.pod("plain", 1)
        assert await ground.later() == []
        assert ground.notes.reported == []


async def test_a_change_of_a_node_affects_the_jobsets_on_it(ground: Ground) -> None:
    for node in ("n1", "n2"):
        ground.node(node)
    for name, node in (("a", "n1"), ("b", "n2"), ("c", "")):
        ground.jobset(name)
        ground.pod(name, node=node)
    async with ground.leading():
        await ground.later()
        ground.node("n1", ready=False)
        assert await ground.later() == ["a"]
        ground.drop(ground.sources.nodes.informer, "n2", "")
        assert await ground.later() == ["b"]
        nodes = ground.snapshots["b"].nodes
        assert nodes is not None
        assert sorted(nodes) == ["n1"]


async def test_whether_the_cluster_has_kueue_affects_the_jobsets_that_it_may_hold(ground: Ground) -> None:
    ground.jobset("runs")
    ground.jobset("waits", suspend=True)
    ground.jobset("queued", queue="research")
    async with ground.leading():
        await ground.later()
        ground.controller.mark_held()
        assert sorted(await ground.later()) == ["queued", "waits"]


async def test_a_refusal_event_affects_the_jobset_of_the_job_or_pod(ground: Ground) -> None:
    for name in ("a", "b"):
        ground.jobset(name)
        ground.job(name)
    async with ground.leading():
        await ground.later()
        ground.refusal("Job", "a-w-0")
        assert await ground.later() == ["a"]
        assert [each.message for each in ground.snapshots["a"].refused] == ["quota exceeded"]
        ground.refusal("JobSet", "b", "no rights")
        assert await ground.later() == ["b"]
        assert [each.message for each in ground.snapshots["b"].refused] == ["no rights"]
        ground.refusal("Job", "somebody-else")
        assert await ground.later() == []


async def test_a_pod_that_failed_for_good_is_a_cause_without_what_it_said(ground: Ground) -> None:
    ground.jobset("a")
    ground.job("a", failed=1)
    ground.pod("a", 1, node="n1", ready=True)
    async with ground.leading():
        await ground.later()
        ground.failed("a", said="token=abc")
        assert await ground.later() == ["a"]
        found = ground.controller.readiness((NAMESPACE, "a"))
        assert found is not None
        (cause,) = [cause for cause in found.causes if cause.reason is Reason.CRASH_LOOP]
        assert cause.message == "1 pod failed: container main: Error, exit code 3"
        assert "token" not in str(found)
        ground.drop(ground.sources.failed.informer, "a-w-0-0")
        assert await ground.later() == ["a"]
        found = ground.controller.readiness((NAMESPACE, "a"))
        assert found is not None
        assert Reason.CRASH_LOOP not in [cause.reason for cause in found.causes]


async def test_a_deleted_jobset_is_reported_once(ground: Ground) -> None:
    ground.jobset("a")
    async with ground.leading():
        ground.notes.news()
        ground.drop(ground.caches.jobsets, "a")
        ground.pod("a")
        await ground.later()
        assert ground.notes.news() == [("a", "")]
        assert ground.controller.readiness((NAMESPACE, "a")) is None


async def test_a_new_jobset_of_the_same_name_is_a_different_one(ground: Ground) -> None:
    ground.jobset("a", uid="first")
    async with ground.leading():
        ground.notes.reported.clear()
        ground.jobset("a", uid="second")
        await ground.later()
        (gone, nothing), (unknown, come) = ground.notes.reported
        assert gone is not None
        assert come is not None
        assert (gone.uid, nothing, unknown, come.uid) == ("first", None, None, "second")


async def test_a_standby_computes_nothing_and_remembers_nothing(ground: Ground) -> None:
    ground.jobset("a")
    ground.pod("a", node="n1")
    ground.node("n1")
    async with ground.leading():
        assert await ground.later() == ["a"]
    assert ground.notes.forgotten == 1
    assert ground.controller.readiness((NAMESPACE, "a")) is None
    assert [len(source.store) for source in ground.sources.all] == [0] * 7
    assert ground.sources.nodes_by_name() is None
    ground.jobset("a", 3)
    assert await ground.later(60) == []
    async with ground.leading():
        assert await ground.later() == ["a"]


async def test_a_jobset_is_evaluated_again_at_its_requeue_time() -> None:
    def patient(snapshot: Snapshot, now: float, _: Readiness | None) -> Readiness:
        return standing(snapshot.jobset.name, uid=snapshot.jobset.uid, namespace=NAMESPACE, look_again=now + 30)

    ground = Ground(patient)
    ground.jobset("a")
    async with ground.leading():
        await ground.later(0)
        ground.notes.news()
        assert await ground.later(28) == []
        assert await ground.later(3) == ["a"]
        assert ground.notes.news() == [], "when to look again is no news"


async def test_a_requeue_time_in_the_past_is_delayed_by_a_second() -> None:
    def hasty(snapshot: Snapshot, now: float, _: Readiness | None) -> Readiness:
        return standing(snapshot.jobset.name, uid=snapshot.jobset.uid, namespace=NAMESPACE, look_again=now - 5)

    ground = Ground(hasty)
    ground.jobset("a")
    async with ground.leading():
        await ground.later(0)
        assert 8 <= len(await ground.later(10)) <= 10


async def test_a_lasting_phase_is_reported_once(ground: Ground) -> None:
    ground.jobset("a")
    ground.job("a")
    for index in range(2):
        ground.pod("a", index, node="n1")
    ground.node("n1", ready=False)
    async with ground.leading():
        await ground.later(1000)
        ground.notes.news()
        ground.controller.mark_all()
        assert await ground.later() == ["a"]
        assert ground.notes.news() == [], "that time has passed is no news"
        found = ground.controller.readiness((NAMESPACE, "a"))
        assert found is not None
        reported = str(gang_status(found))
        assert "2026-01-01T00:00:05Z" in reported
        assert re.search(r"\d[dhms] (ago|old)|for \d+[dhms]", reported) is None


async def test_an_error_in_one_jobset_does_not_hide_the_others() -> None:
    def picky(snapshot: Snapshot, _now: float, _before: Readiness | None) -> Readiness:
        if snapshot.jobset.name == "odd":
            raise ValueError("what is this")
        return standing(snapshot.jobset.name, uid=snapshot.jobset.uid, namespace=NAMESPACE)

    ground = Ground(picky)
    for name in ("odd", "plain"):
        ground.jobset(name)
    with capture_logs() as logs:
        async with ground.leading():
            assert [name for name, _ in ground.notes.news()] == ["plain"]
            ground.pod("odd")
            assert await ground.later(0.5) != []
    assert [entry["name"] for entry in logs if entry["event"] == "readiness not computed"] == ["odd"]


async def test_a_failing_observer_does_not_block_the_others() -> None:
    class Broken(ReadinessObserver):
        def on_status_change(self, before: Readiness | None, now: Readiness | None) -> None:
            raise ValueError(f"{before} {now}")

    ground = Ground(observers=(Broken(),))
    ground.jobset("a")
    with capture_logs() as logs:
        async with ground.leading():
            assert len(ground.notes.news()) == 1
    assert {entry["observer"] for entry in logs if entry["log_level"] == "error"} == {"Broken"}


async def test_the_api_state_is_read_at_each_evaluation(ground: Ground) -> None:
    ground.jobset("a")
    async with ground.leading():
        await ground.later()
        ground.state = ApiState(None, "gone")
        ground.controller.mark_all()
        assert await ground.later() == ["a"]
        assert ground.snapshots["a"].api.reason == "gone"


async def test_pods_are_listed_after_the_caches_of_the_webhooks_are_synced(ground: Ground) -> None:
    others = asyncio.Event()

    async def known() -> None:
        await others.wait()

    ground.jobset("a")
    task = asyncio.create_task(ground.controller.run(known))
    await ground.clock.advance(60)
    followed = [ground.sources.pods.known]
    assert ground.notes.led == 1, "what ends while it still lists is for it to tell"
    others.set()
    assert await ground.later() == ["a"]
    followed.append(ground.sources.pods.known)
    assert followed == [False, True]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
