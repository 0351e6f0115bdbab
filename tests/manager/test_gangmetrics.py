"""Metrics of a process that creates gangs: objects created, objects repaired, and gangs by phase."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from tests.faults import pathways, policies, virtual_time
from tests.faults.world import World, world
from tests.jobsets import jobset, rj
from tests.manager.families import families


def translations(registry: CollectorRegistry) -> dict[tuple[str, str], float]:
    return {
        (sample.labels["level"], sample.labels["result"]): sample.value
        for sample in samples(registry)
        if sample.name == "gangctl_translations_total" and sample.labels["result"] != "unchanged"
    }


def repairs(registry: CollectorRegistry) -> dict[tuple[str, str], float]:
    return {
        (sample.labels["kind"], sample.labels["field_class"]): sample.value
        for sample in samples(registry)
        if sample.name == "gangctl_drift_repairs_total"
    }


def samples(registry: CollectorRegistry) -> Iterator[Any]:
    return (sample for family in registry.collect() for sample in family.samples)


def registry_of(here: World) -> CollectorRegistry:
    assert here._process is not None
    return here._process._metrics.registry


def test_created_and_repaired_objects_are_counted_once(tmp_path: Path) -> None:
    async def story() -> None:
        async with world("1.37", tmp_path) as here:
            await here.start_gangctl()
            registry = registry_of(here)
            await here.create(jobset("js", rj("w", 2, 2, 2, mode="Gang")))
            await here.rest()
            assert translations(registry) == {("ReplicatedJob", "created"): 1}
            assert repairs(registry) == {}
            await here.damage()
            await here.rest()
            assert sum(count for (_, result), count in translations(registry).items() if result != "created") >= 1
            assert repairs(registry) == {("Workload", "existence"): 1, ("PodGroup", "min_count"): 1}
            await here.patch("js", {"spec": {"suspend": True}})
            await here.rest()
            await here.patch("js", {"spec": {"suspend": False}})
            await here.rest()
            assert translations(registry)["ReplicatedJob", "created"] == 2
            assert translations(registry)["ReplicatedJob", "deleted"] >= 1
            assert len(repairs(registry)) == 2

    virtual_time.run(story())


@pytest.mark.parametrize(
    ("minor", "support"),
    [
        ("1.35", {("workloads", "v1alpha1", "workloadRef")}),
        ("1.37", {("workloads", "v1beta1", "schedulingGroup"), ("podgroups", "v1beta1", "schedulingGroup")}),
    ],
)
def test_the_scheduling_api_version_is_exported(minor: str, support: set[tuple[str, str, str]], tmp_path: Path) -> None:
    async def story() -> None:
        async with world(minor, tmp_path) as here:
            await here.start_gangctl()
            assert {
                (sample.labels["resource"], sample.labels["version"], sample.labels["link_field"])
                for sample in samples(registry_of(here))
                if sample.name == "gangctl_api_support_info"
            } == support

    virtual_time.run(story())


def test_both_formats_of_a_process_can_be_read(tmp_path: Path) -> None:
    async def story() -> tuple[str, str]:
        async with world("1.37", tmp_path, about=policies.ABOUT) as here:
            await here.start_gangctl()
            await here.create(jobset("js", rj("w", 2, 2, 2, mode="Gang")))
            await here.rest()
            return await scraped(here, "text/plain"), await scraped(here, "application/openmetrics-text")

    plain, open_metrics = virtual_time.run(story())
    assert open_metrics.endswith("# EOF\n")
    families = {family.name: family for family in parse_openmetrics(open_metrics)}  # type: ignore[no-untyped-call]
    exemplars = {str(each.exemplar.labels) for family in families.values() for each in family.samples if each.exemplar}
    assert exemplars == {"{'jobset': 't/js'}"}
    assert {family.name for family in parse_plain(plain)} >= set(families)
    assert " # {" not in plain


async def scraped(here: World, accept: str) -> str:
    url = f"http://{here._address[1]}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url, headers={"Accept": accept}) as response:
        return await response.text()


def test_a_process_exports_what_is_listed_and_nothing_else(tmp_path: Path) -> None:
    async def story() -> dict[str, set[str]]:
        async with world("1.37", tmp_path, about=policies.ABOUT | pathways.ABOUT) as here:
            here.flags = {**here.flags, "evict_stranded": True}
            await here.start_gangctl()
            await here.create(jobset("js", rj("w", 2, 2, 2, mode="Gang")))
            await here.submit()
            await here.rest()
            found: dict[str, set[str]] = {}
            for family in registry_of(here).collect():
                name = f"{family.name}_total" if family.type == "counter" else family.name
                labels = {label for sample in family.samples for label in sample.labels} - {"le"}
                found[name] = labels
            return found

    listed = {family.name: set(family.labels) for family in families()}
    found = virtual_time.run(story())
    assert set(found) == set(listed)
    assert {name: labels for name, labels in found.items() if labels and labels != listed[name]} == {}
    filled = {name for name, labels in found.items() if labels}
    assert {"gangctl_gangs", "gangctl_gang_info", "gangctl_gang_time_to_ready_seconds"} <= filled
