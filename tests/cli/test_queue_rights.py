"""What ``gangctl queue`` says to users who may read only some objects of a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from gangctl.cli.queue.report import COHORT, NAMESPACE, POSITIONS, USAGE
from gangctl.fit.clusterstate import UNREAD
from tests.cli.httpserver import ask
from tests.cli.kueueobjects import CONFIGURATION, GPU, cluster, cluster_queue, flavor, local_queue, reserving, workload
from tests.cli.kueueserver import labelled, serving
from tests.cli.publishedschemas import schema_of
from tests.cli.schema import violations
from tests.cli.test_queue import KUEUE, busy

_POSITIONS = POSITIONS.format("what waits in other namespaces may not be read")
_USAGE = USAGE.format(UNREAD)


async def test_usage_is_not_known_to_those_who_read_workloads_of_one_namespace(tmp_path: Path) -> None:
    held = workload("theirs", "v", held={"a100": {GPU: "4"}}, namespace="u")
    there = [item for item in busy() if item is not CONFIGURATION] + [local_queue("v", "cq", "u"), held]
    async with serving(*there, forbidden={f"{KUEUE}/workloads"}) as (_, url):
        described = await ask(tmp_path, url, "queue", "describe", "q", "-o", "json")
        table = await ask(tmp_path, url, "queue", "describe", "q")
        listed = await ask(tmp_path, url, "queue", "list", "-o", "wide")
        (summary, *_) = (await ask(tmp_path, url, "queue", "list", "-o", "json")).json["items"]
    report = described.json
    assert violations(summary, schema_of("queue-list")) == []
    assert violations(report, schema_of("queue-describe")) == []
    quota = {"nominal": "8", "borrowable": "8", "used": None, "borrowed": None, "free": None}
    assert report["quotas"][0] == {"flavor": "a100", "resource": GPU, **quota}
    assert (report["borrowers"], report["unknown"]) == (None, [_USAGE, _POSITIONS])
    # Of the LocalQueue all is known.
    assert (summary["pending"], summary["admitted"], summary["unknown"]) == (4, 1, [_USAGE])
    assert ["a100", GPU, "unknown", "8", "8", "unknown"] in [line.split() for line in table.out.splitlines()]
    assert f"! not known: {_USAGE}" in table.out
    assert f"a100/{GPU}=unknown/8" in listed.out


async def test_usage_is_that_of_the_status_to_those_who_read_workloads_of_one_namespace(tmp_path: Path) -> None:
    status = {"cq": {GPU: "16", "cpu": "4"}, "strict": {GPU: "0", "cpu": "0"}}
    there = [
        reserving(item, a100=status[item["metadata"]["name"]]) if item["kind"] == "ClusterQueue" else item
        for item in busy()
        if item is not CONFIGURATION
    ]
    async with serving(*there, forbidden={f"{KUEUE}/workloads"}) as (_, url):
        described = await ask(tmp_path, url, "queue", "describe", "q", "-o", "json")
        listed = await ask(tmp_path, url, "queue", "list", "-o", "wide")
    report = described.json
    assert violations(report, schema_of("queue-describe")) == []
    quota = {"nominal": "8", "borrowable": "8", "used": "16", "borrowed": "8", "free": "0"}
    assert report["quotas"][0] == {"flavor": "a100", "resource": GPU, **quota}
    borrowed = {"clusterQueue": "cq", "flavor": "a100", "resource": GPU, "borrowed": "8"}
    assert (report["borrowers"], report["unknown"]) == ([borrowed], [_POSITIONS])
    assert f"a100/{GPU}=16/8" in listed.out


@pytest.mark.parametrize(("cohort", "free"), [("all", None), ("", "8")])
async def test_what_a_cohort_lends_is_not_known_without_cohorts(cohort: str, free: str | None, tmp_path: Path) -> None:
    there = [cluster_queue("cq", {"f": {"cpu": 8}}, cohortName=cohort), flavor(), local_queue("q", "cq")]
    async with serving(*there, forbidden={f"{KUEUE}/cohorts"}) as (_, url):
        report = (await ask(tmp_path, url, "queue", "describe", "q", "-o", "json")).json
        table = await ask(tmp_path, url, "queue", "describe", "q")
    (quota,) = report["quotas"]
    assert (quota["used"], quota["free"], quota["borrowable"]) == ("0", free, None if cohort else "0")
    assert report["unknown"] == ([COHORT.format("cohorts may not be read")] if cohort else [])
    assert table.out.count("unknown") == (2 if cohort else 0)


@pytest.mark.parametrize(("labels", "unknown"), [({"team": "a"}, [NAMESPACE]), ({}, [])])
async def test_whether_a_queue_takes_a_namespace_may_not_be_known(
    labels: dict[str, str], unknown: list[str], tmp_path: Path
) -> None:
    there = [item for item in cluster("8", namespaceSelector={"matchLabels": labels}) if item is not CONFIGURATION]
    async with serving(*there, labelled("t"), forbidden={"/api/v1/namespaces/t"}) as (_, url):
        answer = await ask(tmp_path, url, "queue", "list", "-o", "json")
    (report,) = answer.json["items"]
    assert (report["state"], report["unknown"]) == ("active", unknown)
    assert answer.err == "".join(f"note: not known: {fact}\n" for fact in unknown)
