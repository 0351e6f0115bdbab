"""The rule files by themselves: complete, of one kind, and the same for those with and without the operator."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

import yaml

from gangctl.gang.reasons import Reason
from gangctl.readiness.causes import TIERS
from gangctl.readiness.result import GangPhase
from release.homepage import DOCS
from tests.manager.families import families
from tests.manifests.files import documents, one
from tests.monitoring import prometheusrule
from tests.monitoring.rulefiles import MONITORING, Rule, alerts, groups, paths, recordings, rules
from tests.rows import each

INTENDED: Final = frozenset({"Suspended", "AdmissionGated", "PodsGated"})
"""Intended by a user, as long as the gang was not ready."""
LATER: Final = frozenset({"QueueConflict"})
"""It still waits: what comes of it once it is admitted has alerts, of FailedToStart and of what does not fit."""
TURN: Final = frozenset({"WaitingForQuota", "QueueBackoff"})
"""It ends by itself; QueueStarved and QueueBlocked report queues in which it does not."""
ASKED: Final = frozenset({"ScaleUpRefused"})
"""Commands alone find it: of the controller it is Unschedulable."""
FOREIGN: Final = re.compile(r"(kueue|scheduler|apiserver|up)\b|(kueue|scheduler|apiserver)_\w+")
VALUES: Final = {"phase": {phase.label for phase in GangPhase}, "reason": {reason.value for reason in Reason}}

ids = [rule.name for rule in alerts()]


def _reasons(rule: Rule) -> list[str]:
    found = re.findall(r'gangctl_oldest_blocked_gang_timestamp_seconds\{reason=~?"([^"]+)"', rule.expression)
    return [reason for each in found for reason in each.split("|")]


def test_the_prometheusrules_equal_the_rule_files() -> None:
    assert prometheusrule.PLACE.read_text(encoding="utf-8") == prometheusrule.render()
    objects = documents(prometheusrule.PLACE)
    assert [each["spec"]["groups"] for each in objects] == [groups(path) for path in paths()]
    assert {each["kind"] for each in objects} == {"PrometheusRule"}


def test_names_are_used_once() -> None:
    names = [rule.name for rule in rules()] + [group["name"] for path in paths() for group in groups(path)]
    assert [name for name, times in Counter(names).items() if times > 1] == []


@each("rule", alerts(), ids=ids)
def test_an_alert_has_summary_description_and_links(rule: Rule) -> None:
    assert set(rule.annotations) == {"summary", "description", "runbook_url", "dashboard_url"}
    assert rule.labels.keys() == {"severity"}
    assert rule.labels["severity"] in {"critical", "warning", "info"}
    assert rule.wait
    assert "{{" not in rule.annotations["summary"]
    assert (
        "$value" in rule.annotations["description"]
        or "absent(" in rule.expression
        or "max by (cluster) (gangctl_leader_election_master_status)" in rule.expression
        or "max by (cluster, shard) (gangctl_shard_leader_election_master_status)" in rule.expression
    )
    assert not re.search(r"\s$|[.!]$", rule.annotations["summary"])
    assert rule.annotations["runbook_url"] == f"{DOCS}/runbooks/{rule.name}.md"


@each("rule", recordings(), ids=lambda rule: rule.name)
def test_recordings_are_named_level_metric_operation(rule: Rule) -> None:
    level, metric, operation = rule.name.split(":")
    assert level
    assert operation
    stem = re.sub(r"(_count|_ratio|_errors?_ratio|_error_ratio|_unready_ratio|_unready|_ready)$", "", metric)
    assert any(family.name.startswith(stem) for family in families())


@each("rule", rules(), ids=lambda rule: rule.name)
def test_every_metric_exists(rule: Rule) -> None:
    """Labels are compared in tests/monitoring/test_expressions.py, where Prometheus parses the expression."""
    expression = re.sub(r'"[^"]*"|#[^\n]*', "", rule.expression)
    known = {name for family in families() for name in family.series} | {each.name for each in recordings()}
    named = set(re.findall(r"[a-z_]+:[\w:]+|gangctl_\w+", expression))
    assert named or FOREIGN.search(expression)
    assert named - known == set()


@each("rule", rules(), ids=lambda rule: rule.name)
def test_phases_and_reasons_are_of_the_closed_lists(rule: Rule) -> None:
    for label, _, values in re.findall(r'\b(phase|reason)(=~|!~|!=|=)"([^"]+)"', rule.expression):
        assert set(values.removeprefix("|").split("|")) <= VALUES[label]


def test_every_blocking_reason_has_one_alert_or_a_justification() -> None:
    reported = Counter(reason for rule in alerts() for reason in _reasons(rule))
    assert {reason: times for reason, times in reported.items() if times > 1} == {}
    (lost,) = (family for family in families() if family.name == "gangctl_guarantee_lost_gangs")
    guarantees = set(re.findall(r"\w+", lost.help.rpartition(":")[2]))
    assert guarantees == {"SchedulingGateOff", "FieldDropped", "NotGanged"}
    possible = {reason.value for _, reasons in TIERS for reason in reasons}
    assert possible - set(reported) - guarantees == INTENDED | TURN | ASKED | LATER
    assert set(reported) <= possible


def test_a_degraded_gang_is_reported_by_its_cause_or_as_degraded() -> None:
    by_name = {rule.name: rule for rule in alerts()}
    waiting = [by_name[name] for name in ("GangStuckPending", "GangUnschedulable")]
    assert [rule for rule in alerts() if 'phase!="degraded"' in rule.expression] == waiting
    (reasons,) = re.findall(r'phase="degraded",reason=~"([^"]+)"', by_name["GangDegraded"].expression)
    waited = [reason for rule in waiting for reason in _reasons(rule)]
    assert sorted(reasons.split("|")) == sorted(["", "PodsGated", *waited])


def test_the_namespace_label_is_that_of_the_jobset() -> None:
    monitor = one(MONITORING / "servicemonitor.yaml")
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["honorLabels"] is True
    (service,) = (
        each
        for each in documents(MONITORING.parent / "base" / "services.yaml")
        if each["metadata"]["name"] == "gangctl-metrics"
    )
    base = one(MONITORING.parent / "base" / "kustomization.yaml")
    labels = {**service["metadata"]["labels"], **base["labels"][0]["pairs"]}
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert labels[monitor["spec"]["jobLabel"]] == "gangctl"
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert monitor["metadata"]["namespace"] == service["metadata"]["namespace"]


def test_the_component_lists_what_is_beside_it() -> None:
    listed = one(MONITORING / "kustomization.yaml")["resources"]
    assert set(listed) == {path.name for path in MONITORING.glob("*.yaml")} - {"kustomization.yaml"}


def test_a_rule_file_has_only_rules() -> None:
    for path in paths():
        assert set(yaml.safe_load(path.read_text())) == {"groups"}
