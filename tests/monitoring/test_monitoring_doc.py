"""docs/monitoring.md: what it shows is built by kustomize, read by Prometheus, and names alerts that there are."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.controlplane.components.prometheus import Prometheus
from tests.docpages import ROOT, Page
from tests.manifests.files import MANIFESTS
from tests.manifests.kubectl import Kubectl
from tests.monitoring.rulefiles import RULES, alerts, paths, recordings
from tests.monitoring.test_expressions import ACROSS
from tests.rows import each

PAGE: Final = Page("monitoring.md")
NAMES: Final = {rule.name for rule in alerts()}
RUNBOOKS_AT: Final = {f"https://wiki.example/gangctl/runbooks/{name}.md" for name in NAMES}
DASHBOARDS_AT: Final = {f"https://grafana.example{rule.annotations['dashboard_url']}" for rule in alerts()}


async def built(tmp_path: Path, *, patch: str = "") -> list[dict[str, Any]]:
    """What kustomize makes of the overlay that is shown."""
    copy = tmp_path / "manifests"
    shutil.copytree(MANIFESTS, copy, ignore=shutil.ignore_patterns("dashboards"))
    overlay = copy / "mine"
    overlay.mkdir()
    PAGE.write_files(overlay)
    if patch:
        path = overlay / "kustomization.yaml"
        body = yaml.safe_load(path.read_text())
        body["patches"].append({"target": {"kind": "PrometheusRule", "name": "gangctl-gangs"}, "path": patch})
        path.write_text(yaml.safe_dump(body))
    output = await Kubectl(tmp_path).run("kustomize", str(overlay))
    return list(yaml.safe_load_all(output.text))


def rules_of(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rules of all PrometheusRules."""
    return [
        rule
        for each in objects
        if each["kind"] == "PrometheusRule"
        for group in each["spec"]["groups"]
        for rule in group["rules"]
    ]


async def test_the_overlay_builds_what_the_page_describes(tmp_path: Path) -> None:
    objects = await built(tmp_path)
    woken = [rule for rule in rules_of(objects) if "alert" in rule]
    assert {rule["alert"] for rule in woken} == NAMES
    assert {rule["annotations"]["runbook_url"] for rule in woken} == RUNBOOKS_AT
    assert {rule["annotations"]["dashboard_url"] for rule in woken} == DASHBOARDS_AT
    ours = [each for each in objects if each["apiVersion"].startswith("monitoring.coreos.com/")]
    assert {each["metadata"]["labels"]["release"] for each in ours} == {"kube-prometheus-stack"}
    assert {each["kind"] for each in ours} == {"PrometheusRule", "ServiceMonitor"}
    assert "addresses" not in {each["metadata"]["name"] for each in objects}


async def test_a_number_can_be_patched(tmp_path: Path) -> None:
    rules = {rule.get("alert"): rule for rule in rules_of(await built(tmp_path, patch="slower.yaml"))}
    assert rules["GangPartiallyPlaced"]["for"] == "30m"


@pytest.mark.usefixtures("prometheus_binary")
async def test_prometheus_reads_the_configuration(tmp_path: Path) -> None:
    config = yaml.safe_load(PAGE.files["prometheus.yml"])
    (scrape,) = config["scrape_configs"]
    assert scrape["honor_labels"] is True
    # The Prometheus of the tests is built without the clients of clusters.
    scrape["static_configs"] = [{"targets": []}]
    del scrape["kubernetes_sd_configs"], config["rule_files"]
    async with Prometheus(tmp_path, config, rules=paths()) as prometheus:
        loaded = await prometheus.rules()
    assert {rule["name"] for rule in loaded} == NAMES | {rule.name for rule in recordings()}


def test_the_addresses_can_be_set_in_plain_files(tmp_path: Path) -> None:
    (line,) = re.findall(r"^    (sed .*)$", PAGE.prose, flags=re.MULTILINE)
    shutil.copytree(RULES, tmp_path / "rules")
    command = line.replace("/etc/prometheus/gangctl/", f"{tmp_path}/rules/")
    subprocess.run(["bash", "-c", command], check=True, timeout=300)
    texts = "".join(path.read_text() for path in (tmp_path / "rules").glob("*.yaml"))
    assert set(re.findall(r"runbook_url: (\S+)", texts)) == RUNBOOKS_AT
    assert set(re.findall(r"dashboard_url: (\S+)", texts)) == DASHBOARDS_AT


def _matchers() -> list[tuple[str, str, str]]:
    lines = re.findall(r"(?:source_|target_)?matchers: \[(.*)\]", PAGE.files["alertmanager.yml"])
    found = [each for line in lines for each in re.findall(r'(\w+)(=~|!~|=)"([^"]+)"', line)]
    assert len(found) >= 8
    return found


@each("pattern", [value for label, _, value in _matchers() if label == "alertname"])
def test_alerts_that_are_routed_exist(pattern: str) -> None:
    for item in pattern.split("|"):
        assert [name for name in NAMES if re.fullmatch(item, name)], item


def test_platform_alerts_and_tenant_alerts_are_routed_separately() -> None:
    config = yaml.safe_load(PAGE.files["alertmanager.yml"])
    pattern = re.findall(r'"(.*)"', config["route"]["routes"][0]["matchers"][0])[0]
    platform = {name for name in NAMES if re.fullmatch(pattern, name)}
    assert set(ACROSS) <= platform
    critical = {rule.name for rule in alerts() if rule.labels["severity"] == "critical"}
    assert critical <= platform
    assert {"GangNeverFits", "GangImagePullFailing", "QueueWorkloadStuck", "GangDegraded"} <= NAMES - platform


def test_every_recording_rule_is_listed_and_no_other() -> None:
    listed = re.findall(r"^\| `([a-z_]+:[\w:]+)` \|", PAGE.prose, flags=re.MULTILINE)
    assert sorted(listed) == sorted(rule.name for rule in recordings())


def test_links_and_alerts_exist() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE.prose):
        assert (ROOT / "docs" / target).exists(), target
    words = re.findall(r"\b((?:Gang|Gangctl|Queue)[A-Z]\w+)\b(?!`)", PAGE.prose)
    assert set(words) <= NAMES
