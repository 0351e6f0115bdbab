"""When the objects of a JobSet that has ended are deleted: once none of its own pods is left."""

from __future__ import annotations

import json
from typing import Any

from prometheus_client import CollectorRegistry

from gangctl.api.jobset import JobSet, read_jobset
from gangctl.api.meta import GANGS, JOBSET_NAME, JOBSET_UID
from gangctl.api.scheduling import ApiState, Generation, Observed
from gangctl.api.store import Entry
from gangctl.controllers.caches import GangCaches
from gangctl.controllers.gangs import PODS_RETRY_SECONDS, Assessments, GangController, PodReader
from gangctl.controllers.reporter import GangMetrics, GangReporter
from gangctl.controllers.writer import Writer
from gangctl.gang.desired import Lifecycle
from gangctl.gang.resolve import ClusterRules
from gangctl.runtime.controller import retry
from gangctl.sandbox.api import SYSTEM
from tests.controllers.stage import NAMESPACE, stage
from tests.gang.pipeline import stored
from tests.jobsets import FIXTURE_UID, jobset, rj
from tests.readiness.snapshots import NOW, condition
from tests.rows import each
from tests.sandbox.faults import FaultySandbox


def finished() -> JobSet:
    raw = stored(jobset("js", rj("w", 1, 2, 2), mode="Gang", uid=FIXTURE_UID))
    return read_jobset({**raw, "status": {"conditions": [condition("Completed", NOW)]}})[0]


def evicted() -> JobSet:
    """It has a ResourceClaim: Kueue may admit another gang that needs the device."""
    claims = [{"name": "net", "resourceClaimTemplateName": "channel"}]
    gangs = json.dumps([{"name": "g", "replicatedJobs": ["w"], "resourceClaims": claims}])
    worker = rj("w", 1, 2, 2, pod={"resourceClaims": claims})
    return read_jobset(stored(jobset("js", worker, annotations={GANGS: gangs}, suspend=True, uid=FIXTURE_UID)))[0]


def unwritten(_: Generation) -> Writer:
    raise AssertionError("a pod of it has not finished")


async def make_pod(sandbox: FaultySandbox, name: str, **labels: str) -> None:
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    await sandbox.api.create(sandbox.api.kind("pods"), NAMESPACE, pod, SYSTEM)


async def test_pods_of_another_jobset_with_its_name_do_not_count() -> None:
    """Of a deleted one whose node is lost they stay for days, and any user may give a pod this label."""
    async with stage() as (sandbox, client):
        pods = PodReader(client)
        await make_pod(sandbox, "of-an-earlier-one", **{JOBSET_NAME: "js", JOBSET_UID: "another"})
        await make_pod(sandbox, "of-a-user", **{JOBSET_NAME: "js"})
        assert not await pods.any_unfinished(finished())
        await make_pod(sandbox, "its-own", **{JOBSET_NAME: "js", JOBSET_UID: FIXTURE_UID})
        assert await pods.any_unfinished(finished())


@each("ended", [finished(), evicted()])
async def test_its_own_pods_are_read_again_with_a_growing_delay(ended: JobSet) -> None:
    async with stage() as (sandbox, client):
        await make_pod(sandbox, "its-own", **{JOBSET_NAME: "js", JOBSET_UID: FIXTURE_UID})
        gangs = GangCaches(client, lambda *_: None, lambda: 0.0)
        gangs.jobsets.store.put(ended.key, Entry(FIXTURE_UID, "1", ended))
        workload = Observed(NAMESPACE, f"js-{FIXTURE_UID[:13]}", "w", "1", FIXTURE_UID, "js", False, "", ())
        gangs.overlay.wrote("Workload", workload)
        controller = GangController(
            gangs,
            unwritten,
            PodReader(client),
            GangReporter(lambda *_: None, GangMetrics(CollectorRegistry())),
            Assessments(lambda: ApiState(Generation.V1BETA1), ClusterRules, lambda _: Lifecycle.KEPT),
            concerns=lambda _: True,
        )
        assert await controller.reconcile(ended.key) == retry(PODS_RETRY_SECONDS)
