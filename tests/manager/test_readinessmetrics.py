"""Gangs as series: what is exported follows what is there, within the bounds that are published."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from gangctl.gang.reasons import Reason
from gangctl.manager.readinessmetrics import ReadinessMetrics
from gangctl.readiness.metrics import OTHERS, RowLimits
from gangctl.readiness.result import PODS, Counts, GangPhase, Readiness, Usage
from gangctl.runtime.families import new_registry
from gangctl.runtime.probes import ProbeServer
from tests.manager import metricspage
from tests.manager.families import families
from tests.manager.metricspage import READINESS as BOUNDS
from tests.readiness.standings import cause, standing

HERE = {"namespace": "ns", "local_queue": "local", "cluster_queue": "cluster"}
START = {"cluster_queue": "cluster", "level": "JobSet"}
JS = {"namespace": "ns", "jobset": "js"}
READY: dict[str, Any] = {"phase": GangPhase.READY, "placed_at": 1_010, "first_ready_at": 1_020, "ready_at": 1_030}


class World:
    """A registry, its metrics, and the two clocks by which they go."""

    def __init__(self, limits: RowLimits | None = None) -> None:
        self.seconds = 500.0
        self.registry = new_registry()
        self.metrics = ReadinessMetrics(
            self.registry, limits=limits, monotonic=lambda: self.seconds, wall=lambda: self.seconds + 500
        )
        self.metrics.leads()

    def value(self, name: str, /, **labels: str) -> float | None:
        return self.registry.get_sample_value(name, labels)

    def tell(self, *story: Readiness) -> None:
        for now in story:
            self.metrics.on_status_change(None, now)


@pytest.fixture
def world() -> World:
    return World()


def test_gauges_count_gangs_by_phase(world: World) -> None:
    pods = Counts(desired=8, minimum=6, wanted=7, created=5, placed=4, ready=3, finished=1, stranded=4)
    lost = cause(Reason.FIELD_DROPPED, blocking=False)
    blocked = cause(Reason.UNSCHEDULABLE, since=77)
    world.tell(standing("js", lost, blocked, phase=GangPhase.PARTIALLY_PLACED, counts=pods), standing("other"))
    assert world.value("gangctl_gangs", **HERE, phase="partiallyplaced") == 1
    assert world.value("gangctl_gangs", **HERE, phase="scheduling") == 1
    expected = {"missing": 2, "unscheduled": 5, "unready": 1, "ready": 3, "succeeded": 1}
    for state, count in expected.items():
        assert world.value("gangctl_gang_pods", **HERE, state=state) == count, state
    assert world.value("gangctl_gangs_desired_pods", **HERE) == sum(expected.values()) == 12
    assert world.value("gangctl_gangs_min_pods", **HERE) == 10
    assert world.value("gangctl_gang_stranded_pods", **HERE) == 4
    assert world.value("gangctl_gangs_blocked", **HERE, reason="Unschedulable") == 1
    here = {**HERE, "reason": "Unschedulable", "phase": "partiallyplaced"}
    assert world.value("gangctl_oldest_blocked_gang_timestamp_seconds", **here) == 77
    assert world.value("gangctl_oldest_gang_timestamp_seconds", **here) == 1_000
    assert world.value("gangctl_guarantee_lost_gangs", namespace="ns", cause="FieldDropped") == 1
    assert world.value("gangctl_gang_info", **HERE, jobset="js", level="JobSet") == 1
    assert world.value("gangctl_gang_status_phase", **JS, phase="partiallyplaced") == 1
    assert world.value("gangctl_gang_status_reason", **JS, reason="FieldDropped") == 1
    others = {name for name in names(world, "status_reason") if name != "js"}
    assert others == set(), "without a cause there is no series"
    assert world.value("gangctl_gang_ready_pods", **JS) == 3
    assert world.value("gangctl_gang_wanted_pods", **JS) == 7
    assert world.value("gangctl_gang_phase_timestamp_seconds", **JS) == 1_000
    assert world.value("gangctl_gangs_without_series") == 0


def test_gauges_end_with_their_last_gang_and_counters_keep_their_sums(world: World) -> None:
    gang = standing("js", Reason.NOT_GANGED, phase=GangPhase.DEGRADED, placed_at=1_010, usage=(Usage(PODS, 4, 2),))
    world.tell(gang)
    assert any(sample.labels.get("namespace") == "ns" for sample in samples(world.registry))
    world.seconds += 10
    world.metrics.on_status_change(gang, None)
    world.seconds += 10
    left = {sample.name: sample.value for sample in samples(world.registry) if "namespace" in sample.labels}
    assert left == {
        "gangctl_gang_degraded_seconds_total": 10,
        "gangctl_gang_attempts_total": 1,
        "gangctl_gang_allocated_resource_seconds_total": 40,
        "gangctl_gang_ready_resource_seconds_total": 20,
        "gangctl_gang_incomplete_resource_seconds_total": 40,
        "gangctl_gang_restart_resource_seconds_total": 0,
    }


def test_a_finished_jobset_gives_its_series_to_the_next(world: World) -> None:
    world = World(RowLimits(gangs=1))
    world.tell(standing("first"), standing("second"))
    assert names(world, "info") == {"first"}
    world.tell(standing("first", phase=GangPhase.SUCCEEDED))
    assert names(world, "info") == names(world, "status_phase") == {"second"}
    assert world.value("gangctl_gangs_without_series") == 0
    assert world.value("gangctl_gangs", **HERE, phase="succeeded") == 1


def names(world: World, family: str) -> set[str]:
    """JobSets that have a series of a family."""
    return {s.labels["jobset"] for s in samples(world.registry) if s.name == f"gangctl_gang_{family}"}


def test_no_family_has_created_series(world: World) -> None:
    world.tell(standing(), standing(**READY))
    assert not [sample.name for sample in samples(world.registry) if sample.name.endswith("_created")]


def test_the_stages_of_starts_are_of_those_that_became_ready(world: World) -> None:
    world.tell(standing(admitted_at=1_005), standing(admitted_at=1_005, **READY), standing("placed", placed_at=1_900))
    for stage, seconds in (("admission", 5), ("scheduling", 5), ("containers", 20)):
        assert world.value("gangctl_gang_start_stage_seconds_total", **START, stage=stage) == seconds
    assert world.value("gangctl_gang_time_to_ready_seconds_sum", **START) == 30


def test_series_of_an_unspecific_loss_begin_at_0(world: World) -> None:
    """It is counted when it ends: without a sample before that, its increase would be lost."""
    labels = {"cluster_queue": "cluster", "reason": "ContainersNotReady"}
    families = "gangctl_gang_disruptions_total", "gangctl_gang_recovery_seconds_count"
    world.tell(standing(**READY))
    world.tell(standing("js", Reason.NOT_READY, phase=GangPhase.DEGRADED, since=1_100, been_ready=True))
    assert [world.value(family, **labels) for family in families] == [0, 0]
    world.tell(standing(**{**READY, "ready_at": 1_110, "since": 1_110, "been_ready": True}))
    assert [world.value(family, **labels) for family in families] == [1, 1]


def test_a_loss_is_measured_until_the_gang_is_ready_again(world: World) -> None:
    gpus = (Usage("nvidia.com/gpu", 32, 24), Usage(PODS, 4, 3))
    degraded = standing("js", Reason.NODE_LOST, phase=GangPhase.DEGRADED, since=1_100, been_ready=True, usage=gpus)
    world.tell(standing(**READY, usage=(Usage("nvidia.com/gpu", 32, 32),)))
    world.seconds += 100
    world.tell(degraded)
    labels = {"cluster_queue": "cluster", "reason": "NodeLost"}
    assert world.value("gangctl_gang_recovery_seconds_count", **labels) == 0, "the first recovery is an increase"
    world.seconds += 10
    world.tell(standing(attempt=1, phase=GangPhase.RESTARTING, since=1_110, usage=gpus))
    world.seconds += 5
    again = {**READY, "placed_at": 1_112, "ready_at": 1_115, "since": 1_115, "been_ready": True}
    world.tell(standing(attempt=1, usage=gpus, **again))
    assert world.value("gangctl_gang_recovery_seconds_sum", **labels) == 15
    assert world.value("gangctl_gang_recovery_seconds_count", **labels) == 1
    assert world.value("gangctl_gang_attempts_total", **HERE) == 2
    sums = {"allocated": 32 * 115, "ready": 32 * 100 + 24 * 15, "incomplete": 32 * 15, "restart": 32 * 5}
    for name, seconds in sums.items():
        family = f"gangctl_gang_{name}_resource_seconds_total"
        assert world.value(family, **HERE, resource="nvidia.com/gpu") == seconds, name


def test_a_resync_and_a_new_leader_count_nothing_twice(world: World) -> None:
    usage = (Usage(PODS, 4, 4),)
    world.tell(*[standing(**READY, usage=usage)] * 3)
    world.seconds += 10
    world.tell(standing(**READY, usage=usage))
    assert world.value("gangctl_gang_allocated_resource_seconds_total", **HERE, resource=PODS) == 40
    assert world.value("gangctl_gang_attempts_total", **HERE) == 1
    world.metrics.forget()
    world.seconds += 2_000
    world.metrics.leads()
    world.tell(standing(**READY, usage=usage))
    world.seconds += 1
    assert world.value("gangctl_gang_allocated_resource_seconds_total", **HERE, resource=PODS) == 4
    assert world.value("gangctl_gang_attempts_total", **HERE) == 0


def test_resources_beyond_the_limit_are_counted_together() -> None:
    world = World()
    world.tell(standing(usage=tuple(Usage(f"example.com/r{number:04}", 1, 1) for number in range(1_100))))
    world.seconds += 10
    family = "gangctl_gang_allocated_resource_seconds_total"
    assert sum(s.value for s in samples(world.registry) if s.name == family) == 11_000
    assert world.value(family, **HERE, resource="example.com/r0999") == 10
    assert world.value(family, namespace=OTHERS, local_queue=OTHERS, cluster_queue=OTHERS, resource=OTHERS) == 1_000
    assert world.value("gangctl_series_dropped_total", family=family) == 100


def test_attempts_of_a_new_queue_take_the_series_of_the_queue_without_gangs() -> None:
    """A user who may create JobSets can name any queue: the names must not use up the series."""
    world = World(RowLimits(queues=2))
    family = "gangctl_gang_attempts_total"

    def attempts() -> dict[str, float]:
        return {
            sample.labels["local_queue"]: sample.value for sample in samples(world.registry) if sample.name == family
        }

    running, ended = standing("a", local_queue="a", **READY), standing("b", local_queue="b", **READY)
    world.tell(running, ended)
    beyond = standing("c", local_queue="c", placed_at=1_010)
    world.tell(beyond)
    assert attempts() == {"a": 1, "b": 1, OTHERS: 1}
    assert world.value("gangctl_series_dropped_total", family=family) == 1
    world.metrics.on_status_change(ended, replace(ended, phase=GangPhase.SUCCEEDED))
    assert attempts() == {"a": 1, "b": 1, OTHERS: 1}, "a counter stays until its place is needed"
    world.tell(standing("d", local_queue="d", **READY), replace(beyond, attempt=1))
    assert attempts() == {"a": 1, "d": 1, OTHERS: 2}
    # It took part in one attempt, of which nothing was seen while it ran.
    world.metrics.on_status_change(running, None)
    over = standing("e", local_queue="e", phase=GangPhase.SUCCEEDED, placed_at=1_010)
    world.tell(over, standing("f", local_queue="f"))
    assert attempts() == {"f": 0, "d": 1, OTHERS: 2}, "its place is free at once"


def test_starts_are_measured_and_name_a_jobset(world: World) -> None:
    world.tell(standing(admitted_at=1_005), standing(admitted_at=1_005, **READY))
    for family, seconds in (
        ("time_to_scheduled", 10), ("time_to_ready", 30), ("admitted_to_ready", 25), ("ready_spread", 10),
    ):  # fmt: skip
        assert world.value(f"gangctl_gang_{family}_seconds_sum", **START) == seconds, family
        assert world.value(f"gangctl_gang_{family}_seconds_count", **START) == 1, family
    assert world.value("gangctl_gang_time_to_ready_seconds_bucket", **START, le="20.0") == 0
    assert world.value("gangctl_gang_time_to_ready_seconds_bucket", **START, le="40.0") == 1


def test_a_new_leader_does_not_count_earlier_starts(world: World) -> None:
    world.metrics.forget()
    world.seconds = 2_000
    world.metrics.leads()
    world.tell(standing(**READY), standing("new"))
    assert world.value("gangctl_gang_time_to_ready_seconds_count", **START) is None
    assert not [sample for sample in samples(world.registry) if sample.name.endswith("transitions_total")]
    assert world.value("gangctl_gangs", **HERE, phase="ready") == 1


def test_a_new_leader_counts_starts_during_its_first_list(world: World) -> None:
    world.seconds += 1_000
    world.tell(standing(**READY))
    assert world.value("gangctl_gang_time_to_ready_seconds_count", **START) == 1


def test_a_former_leader_exports_no_gang_series(world: World) -> None:
    world.tell(standing("js", Reason.NOT_GANGED, phase=GangPhase.DEGRADED), standing("ready", **READY))
    world.metrics.forget()
    world.seconds += 10
    assert [sample.name for sample in samples(world.registry) if "namespace" in sample.labels] == []
    assert world.value("gangctl_gang_time_to_ready_seconds_count", **START) == 1
    world.metrics.leads()
    world.tell(standing("js", phase=GangPhase.READY))
    assert world.value("gangctl_gangs", **HERE, phase="ready") == 1
    assert world.value("gangctl_gang_disruptions_total", cluster_queue="cluster", reason="NotGanged") is None


def test_a_leader_does_not_count_what_happened_before_it_led_again(world: World) -> None:
    world.tell(standing())
    world.metrics.forget()
    world.seconds = 2_000
    world.metrics.leads()
    world.tell(standing(**READY))
    assert world.value("gangctl_gang_time_to_ready_seconds_count", **START) is None


def test_changes_of_phase_and_disturbances_are_counted(world: World) -> None:
    degraded = standing("js", Reason.NODE_LOST, phase=GangPhase.DEGRADED)
    world.tell(standing(), standing(**READY), degraded, standing(**READY))
    assert world.value("gangctl_gang_phase_transitions_total", **{"from": "scheduling", "to": "ready"}) == 1
    assert world.value("gangctl_gang_phase_transitions_total", **{"from": "ready", "to": "degraded"}) == 1
    assert world.value("gangctl_gang_disruptions_total", cluster_queue="cluster", reason="NodeLost") == 1


def test_time_degraded_runs_while_a_gang_is_degraded(world: World) -> None:
    degraded = standing("js", phase=GangPhase.DEGRADED)
    world.tell(degraded, standing("other", phase=GangPhase.DEGRADED))
    world.seconds += 10
    assert world.value("gangctl_gang_degraded_seconds_total", **HERE) == 20
    world.tell(standing(**READY))
    world.seconds += 10
    assert world.value("gangctl_gang_degraded_seconds_total", **HERE) == 30
    world.tell(replace(degraded, cluster_queue="another"))
    world.tell(replace(degraded, cluster_queue="third"))
    world.seconds += 1
    third = {**HERE, "cluster_queue": "third"}
    assert world.value("gangctl_gang_degraded_seconds_total", **third) == 1
    assert world.value("gangctl_gang_degraded_seconds_total", **{**HERE, "cluster_queue": "another"}) == 0


def test_gangs_beyond_the_limits_are_counted_together_and_reported() -> None:
    world = World(RowLimits(gangs=1, queues=1, reasons=1, namespaces=1))
    for number in range(3):
        namespace = f"ns-{number}"
        world.tell(standing("js", Reason.NOT_GANGED, namespace=namespace, phase=GangPhase.DEGRADED))
    others = {"namespace": OTHERS, "local_queue": OTHERS, "cluster_queue": OTHERS}
    assert world.value("gangctl_gangs", **others, phase="degraded") == 2
    assert world.value("gangctl_gangs_blocked", **others, reason="NotGanged") == 2
    assert world.value("gangctl_guarantee_lost_gangs", namespace=OTHERS, cause="NotGanged") == 2
    assert world.value("gangctl_gangs_without_series") == 2
    for family in ("gang_info", "gangs", "gangs_blocked", "guarantee_lost_gangs", "gang_degraded_seconds_total"):
        assert world.value("gangctl_series_dropped_total", family=f"gangctl_{family}") == 2, family


def test_the_counter_of_omitted_series_starts_at_zero(world: World) -> None:
    found = {
        sample.labels["family"]: sample.value
        for family in world.registry.collect()
        for sample in family.samples
        if sample.name == "gangctl_series_dropped_total"
    }
    assert found["gangctl_gang_info"] == found["gangctl_gang_time_to_ready_seconds"] == 0
    assert not any(found.values())


def test_a_scrape_is_consistent_during_changes(world: World) -> None:
    gang = standing("js", Reason.NOT_GANGED, phase=GangPhase.DEGRADED)
    world.tell(gang)
    then = list(world.registry.collect())
    before = sorted(str(sample) for family in world.registry.collect() for sample in family.samples)
    world.seconds += 100
    world.metrics.on_status_change(gang, replace(gang, phase=GangPhase.READY, causes=(), local_queue="another"))
    world.tell(standing("other"))
    written = [sample for family in then for sample in family.samples]
    gauges = [str(sample) for sample in written if "ns" in sample.labels.values()]
    assert gauges
    assert set(gauges) <= set(before)


def test_histograms_of_many_queues_are_merged(world: World) -> None:
    for number in range(50):
        queue = f"queue-{number}"
        world.tell(standing(f"js-{number}", cluster_queue=queue, **READY))
    name = "gangctl_gang_time_to_ready_seconds_count"
    assert world.value(name, cluster_queue="queue-39", level="JobSet") == 1
    assert world.value(name, cluster_queue="queue-40", level="JobSet") is None
    assert world.value(name, cluster_queue=OTHERS, level="JobSet") == 10


def test_evaluations_are_counted(world: World) -> None:
    world.metrics.evaluated(0.002, 0.2)
    world.metrics.evaluated(0.002, None)
    assert world.value("gangctl_readiness_evaluation_duration_seconds_count") == 2
    assert world.value("gangctl_readiness_evaluation_duration_seconds_sum") == pytest.approx(0.004)
    assert world.value("gangctl_readiness_lag_seconds_count") == 1


async def scraped(registry: CollectorRegistry, accept: str) -> str:
    async with (
        ProbeServer(("127.0.0.1", 0), registry=registry) as server,
        aiohttp.ClientSession() as session,
        session.get("http://{}:{}/metrics".format(*server.address), headers={"Accept": accept}) as response,
    ):
        return await response.text()


async def test_openmetrics_has_exemplars_units_and_an_end(world: World) -> None:
    long = "n" * 63, "j" * 63
    world.tell(standing(), standing(**READY), standing(long[1], namespace=long[0], **READY))
    text = await scraped(world.registry, "application/openmetrics-text; version=1.0.0")
    assert text.endswith("# EOF\n")
    families = {family.name: family for family in parse_openmetrics(text)}  # type: ignore[no-untyped-call]
    ready = families["gangctl_gang_time_to_ready_seconds"]
    assert ready.unit == "seconds"
    assert families["gangctl_gang_degraded_seconds"].unit == "seconds"
    exemplars = [sample.exemplar for sample in ready.samples if sample.exemplar is not None]
    assert [exemplar.labels for exemplar in exemplars] == [{"jobset": "/".join(long)[:122]}]
    assert exemplars[0].value == 30


async def test_the_plain_format_has_no_exemplars(world: World) -> None:
    world.tell(standing(), standing("js", Reason.STARTING), standing(**READY))
    text = await scraped(world.registry, "text/plain")
    families = {family.name: family for family in parse_plain(text)}
    assert "gangctl_gangs" in families
    assert "gangctl_gang_time_to_ready_seconds" in families
    assert " # {" not in text


def test_ten_thousand_gangs_in_the_worst_shape_stay_below_42000_series(world: World) -> None:
    for number in range(10_000):
        gang = worst(number)
        world.tell(replace(gang, causes=(), **READY), gang)
        if number < 400:
            world.tell(*(replace(gang, attempt=attempt) for attempt in (1, 2, 3)))
            world.tell(replace(gang, causes=(), **READY), gang)
    assert 30_000 < sum(1 for _ in samples(world.registry)) < 42_000
    bounds = {each.name: metricspage.series_at_most(each) for each in families() if each.name in BOUNDS}
    for family in world.registry.collect():
        name = f"{family.name}_total" if family.type == "counter" else family.name
        assert 0 < len(family.samples) <= bounds[name], name
    assert metricspage.total({each.name: each for each in families()}) < 42_000


def worst(number: int) -> Readiness:
    """Gangs of 200 namespaces with two queues each, all of them ClusterQueues; phases and reasons of any kind."""
    queue, turn = number % 400, number // 400
    reasons = metricspage.REASONS
    return standing(
        f"js-{number}",
        cause(reasons[(queue + turn) % len(reasons)]),
        *(cause(reason, blocking=False) for reason in (Reason.FIELD_DROPPED, Reason.NOT_GANGED)),
        namespace=f"namespace-{queue // 2}",
        local_queue=f"local-{queue % 2}",
        cluster_queue=f"cluster-{queue}",
        phase=list(GangPhase)[turn % len(GangPhase)],
        level=["JobSet", "ReplicatedJob", "Replica", "Mixed"][turn % 4],
        usage=tuple(Usage(f"example.com/{name}", 8, 8) for name in "abc"),
    )


def samples(registry: CollectorRegistry) -> Iterable[Any]:
    return (sample for family in registry.collect() for sample in family.samples)
