"""Alerts and dashboards against the real thing: every one of them, on a control plane where all of it happens.

Prometheus scrapes gangctl, Kueue, the scheduler and the API server every second. The rules are the shipped ones with
their durations divided; promtool proves what they are (``tests/monitoring``).
"""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.grafana.queries import may_be_empty
from tests.live.monitored import SCALE
from tests.live.watched import Seen, play
from tests.monitoring.rulefiles import alerts
from tests.monitoring.scaled import PATIENCE

pytestmark = [
    pytest.mark.controlplane,
    pytest.mark.xdist_group("monitoring"),
    pytest.mark.timeout(3600),
    pytest.mark.full("in real time; the first tier proves rules and queries with promtool and recorded series"),
]

NOTHING: Final = {
    "gangctl-health/Calls that failed, as API servers count/B": "gangctl's webhooks are registered to fail closed",
    "gangctl-health/Objects it could not read/A": "there is no such bug",
    "gangctl-queues/From admission to ready, p95/B": "Kueue measures this where it waits for ready pods",
    "gangctl-scheduler/Errors in an hour/A": "the scheduler has had no error",
}
"""Queries that have no answer here, and why; what has one is not to be listed."""

NEVER: Final[dict[str, str]] = {}
"""Alerts that cannot be had here, and why."""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory, prometheus_binary: Path) -> Seen:
    """What came of it; made once for all tests."""
    assert prometheus_binary.exists()
    return asyncio.run(play(tmp_path_factory.mktemp("monitoring"), NOTHING))


def test_every_gang_has_its_phase_in_the_metrics(seen: Seen) -> None:
    assert seen.phases == {}


def test_every_alert_fires_in_its_situation(seen: Seen) -> None:
    known = {rule.name for rule in alerts()}
    assert seen.fired.keys() == known - NEVER.keys(), seen.stages


@pytest.mark.parametrize(
    ("alert", "labels", "value"),
    [
        ("GangNeverFits", {"namespace": "team-q", "local_queue": "main", "cluster_queue": "main"}, None),
        ("QueueBlocked", {"namespace": "team-q", "local_queue": "held", "cluster_queue": "held"}, None),
        ("QueueStarved", {"cluster_queue": "starved"}, 1),
        ("GangRestartLoop", {"namespace": "team-a"}, 1),
        ("GangMutualDeadlock", {}, 2),
        ("GangGuaranteeLost", {"namespace": "team-a", "cause": "NotGanged"}, 1),
        ("GangPolicyKilled", {"policy": "runaway"}, None),
        ("GangReadySlow", {"cluster_queue": "main"}, None),
    ],
)
def test_an_alert_has_its_labels_and_counts_each_gang_once(
    seen: Seen, alert: str, labels: dict[str, str], value: float | None
) -> None:
    reported = [each for each in seen.fired[alert] if labels.items() <= each["labels"].items()]
    assert reported, seen.fired[alert]
    if value is not None:
        assert [seen.values[frozenset(each["labels"].items())] for each in reported] == [value], reported


def test_alerts_about_one_gang_have_its_duration(seen: Seen) -> None:
    """In seconds of this cluster: longer than the rule waits, and no longer than the gangs have been there."""
    for alert in ("GangNeverFits", "GangUnschedulable", "GangDegraded", "QueueBlocked", "QueueWorkloadStuck"):
        (waits,) = PATIENCE[alert]
        for labels in (frozenset(each["labels"].items()) for each in seen.fired[alert]):
            assert waits / SCALE < seen.values[labels] < sum(seen.stages.values()), labels


def test_no_query_and_no_rule_fails(seen: Seen) -> None:
    assert seen.errors == {}


def test_every_query_has_a_result_if_its_event_occurred(seen: Seen) -> None:
    assert sorted(seen.nothing) == sorted(NOTHING)
    panels = {tuple(name.split("/")[:2]) for name in NOTHING}
    assert panels <= may_be_empty().keys()


def test_series_end_with_their_gangs(seen: Seen) -> None:
    assert seen.left == []


def test_promtool_accepts_the_exported_metrics(seen: Seen, promtool: Path) -> None:
    assert "gangctl_gang_info{" in seen.exposition
    text = seen.exposition.encode()
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, timeout=300, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
