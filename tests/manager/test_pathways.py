"""PathwaysJobs as metrics, and what renderings depend on by what discovery has found."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from prometheus_client import CollectorRegistry

from gangctl.api.scheduling import ApiState, Feature, Generation
from gangctl.controllers.pathways.controller import MOST_NAMESPACES, PathwaysController, PathwaysMetrics
from gangctl.pathways.result import RenderingInputs, Without
from gangctl.pathways.status import JobCondition, PathwaysFacts, PathwaysJobStatus, PathwaysPhase
from gangctl.runtime.families import OTHERS
from tests.manager.test_wiring import wired


def job(phase: PathwaysPhase | None, namespace: str = "a", name: str = "pw") -> PathwaysFacts:
    conditions = (JobCondition(phase, "True"),) if phase is not None else ()
    return PathwaysFacts(namespace, name, "uid", 1, PathwaysJobStatus(conditions))


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def shown(registry: CollectorRegistry) -> dict[tuple[str, str], float]:
    samples = [each for family in registry.collect() for each in family.samples if each.name == "gangctl_pathways_jobs"]
    return {(each.labels["namespace"], each.labels["phase"]): each.value for each in samples}


def test_pathwaysjobs_are_counted_by_phase(registry: CollectorRegistry) -> None:
    metrics = PathwaysMetrics(registry)
    metrics.on_status_change(None, job(None))
    metrics.on_status_change(None, job(PathwaysPhase.RUNNING, name="other"))
    assert shown(registry) == {("a", "new"): 1, ("a", "running"): 1}
    metrics.on_status_change(job(None), job(PathwaysPhase.RUNNING))
    assert shown(registry) == {("a", "running"): 2}
    metrics.on_status_change(job(PathwaysPhase.RUNNING), None)
    assert shown(registry) == {("a", "running"): 1}
    metrics.set_deferring(deferring=True)
    assert registry.get_sample_value("gangctl_pathways_deferring") == 1
    metrics.forget()
    assert shown(registry) == {}
    assert registry.get_sample_value("gangctl_pathways_deferring") == 0


def test_namespaces_beyond_the_limit_are_counted_together(registry: CollectorRegistry) -> None:
    metrics = PathwaysMetrics(registry)
    names: Iterator[str] = (f"n{number}" for number in count())
    first = next(names)
    metrics.on_status_change(None, job(PathwaysPhase.PENDING, first))
    for _ in range(MOST_NAMESPACES + 2):
        metrics.on_status_change(None, job(PathwaysPhase.PENDING, next(names)))
    found = shown(registry)
    assert len(found) == MOST_NAMESPACES + 1
    assert found[OTHERS, "pending"] == 3
    metrics.on_status_change(job(PathwaysPhase.PENDING, first), None)
    metrics.on_status_change(
        job(PathwaysPhase.PENDING, f"n{MOST_NAMESPACES}"), job(PathwaysPhase.FAILED, f"n{MOST_NAMESPACES}")
    )
    found = shown(registry)
    assert (found[OTHERS, "pending"], found[f"n{MOST_NAMESPACES}", "failed"]) == (2, 1)


@pytest.mark.parametrize(
    ("state", "setting"),
    [
        (
            ApiState(None, "off", unserved=True),
            RenderingInputs(gangs=False, topology=False, reason="off", without=Without.UNASKED),
        ),
        (
            ApiState(None, "upgrading"),
            RenderingInputs(gangs=False, topology=False, reason="upgrading", without=Without.NONE),
        ),
        (ApiState(Generation.V1ALPHA1), RenderingInputs(topology=False)),
        (ApiState(Generation.V1BETA1), RenderingInputs(composite=True)),
        (
            ApiState(Generation.V1BETA1, lacks=frozenset({Feature.TOPOLOGY, Feature.COMPOSITE})),
            RenderingInputs(topology=False),
        ),
    ],
)
async def test_renderings_follow_the_capabilities_of_the_cluster(state: ApiState, setting: RenderingInputs) -> None:
    wiring = wired(pathways=True)
    assert wiring.pathways is not None
    wiring.gangs.discovery.state = state
    assert wiring.pathways._setting() == setting


async def test_pathwaysjobs_run_without_their_gang_where_jobsets_may() -> None:
    wiring = wired(pathways=True, unavailable="allow")
    assert wiring.pathways is not None
    wiring.gangs.discovery.state = ApiState(None, "upgrading")
    assert wiring.pathways._setting().without is Without.ALL


async def test_pathwaysjobs_are_checked_again_when_gangs_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = []
    monkeypatch.setattr(PathwaysController, "recheck_all", lambda _: checks.append(1))
    wiring = wired(pathways=True)
    for call in wiring.gangs.on_state:
        call(ApiState(Generation.V1BETA1))
    assert checks
