"""Rules and runbooks ask for labels that there are; Prometheus parses what they ask."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from tests.controlplane.components.prometheus import Prometheus
from tests.manager.families import families
from tests.monitoring.expressions import CLUSTER, FOREIGN, TARGET, Labels, Reader
from tests.monitoring.rulefiles import Rule, alerts, recordings, rules
from tests.monitoring.runbooks import runbook
from tests.rows import each

Trees = Mapping[str, Mapping[str, Any]]

QUEUE: Final = frozenset({"namespace", "local_queue", "cluster_queue"})
ACROSS: Final = {
    "GangMutualDeadlock": "those who hold each other up are of several namespaces",
    "GangMetricsTruncated": "it is about the metrics",
    "QueueStarved": "it is about all who use the ClusterQueue",
}
WRONG: Final = {
    "gangctl_gangz": "there is no gangctl_gangz",
    'gangctl_gangs{queue="a"}': "gangctl_gangs has no queue",
    "sum by (reason) (gangctl_gangs)": "sum has no reason",
    "gangctl_gangs and on (pod) gangctl_leader_election_master_status": "on of and has no pod",
    "gangctl_gangs / gangctl_gang_stranded_pods": "never match",
    "histogram_quantile(0.9, rate(gangctl_readiness_lag_seconds_count[5m]))": "histogram_quantile has no le",
}


def _asked() -> list[str]:
    pages = [expression for rule in alerts() for expression in runbook(rule.name).expressions]
    return sorted({*(rule.expression for rule in rules()), *pages, *WRONG})


@pytest.fixture(scope="session")
def trees(prometheus_binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Trees:
    """The syntax tree of every expression, by one Prometheus."""
    assert prometheus_binary.exists()

    async def parse() -> Trees:
        async with Prometheus(tmp_path_factory.mktemp("prometheus"), {}) as prometheus:
            return {each: await prometheus.parse(each) for each in _asked()}

    return asyncio.run(parse())


@pytest.fixture(scope="session")
def known(trees: Trees) -> Mapping[str, Labels]:
    """Labels by the name of every series that there can be."""
    found = dict(FOREIGN)
    for family in families():
        for name in family.series:
            le = {"le"} if name.endswith("_bucket") else set()
            found[name] = frozenset(family.labels) | TARGET | le
    for rule in recordings():
        found[rule.name] = Reader(found).labels(trees[rule.expression])
    return found


@each("rule", rules(), ids=lambda rule: rule.name)
def test_a_rule_uses_existing_labels(rule: Rule, trees: Trees, known: Mapping[str, Labels]) -> None:
    reader = Reader(known)
    labels = reader.labels(trees[rule.expression])
    assert reader.problems == []
    reported = set(re.findall(r"\$labels\.(\w+)", " ".join(rule.annotations.values())))
    assert reported <= labels
    assert "severity" not in labels or not rule.is_alert


@each("rule", alerts(), ids=lambda rule: rule.name)
def test_an_alert_has_the_labels_for_routing(rule: Rule, trees: Trees, known: Mapping[str, Labels]) -> None:
    reader = Reader(known)
    labels = reader.labels(trees[rule.expression])
    possible = frozenset[str]().union(*(known[name] for name in reader.seen)) & QUEUE
    assert possible <= labels or rule.name in ACROSS


@each("rule", rules(), ids=lambda rule: rule.name)
def test_a_rule_keeps_clusters_apart(rule: Rule, trees: Trees, known: Mapping[str, Labels]) -> None:
    """In one store with several clusters; tests/monitoring/test_rules.py runs all of them in two."""
    assert CLUSTER in Reader(known).labels(trees[rule.expression])


@each("name", [rule.name for rule in alerts()])
def test_a_runbook_uses_existing_labels(name: str, trees: Trees, known: Mapping[str, Labels]) -> None:
    reader = Reader(known)
    for expression in runbook(name).expressions:
        assert CLUSTER in reader.labels(trees[expression]), expression
    assert reader.problems == []


@each("expression", WRONG)
def test_an_invalid_expression_is_detected(expression: str, trees: Trees, known: Mapping[str, Labels]) -> None:
    reader = Reader(known)
    reader.labels(trees[expression])
    assert [problem for problem in reader.problems if WRONG[expression] in problem]
