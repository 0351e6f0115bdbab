"""The Helm chart renders what kustomize does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from gangctl import __version__
from gangctl.cli.install.components import COMPONENTS, NAMES
from gangctl.cli.install.rendering import InstallationOptions, place, render
from tests.controlplane.api import Object
from tests.manifests import chart
from tests.manifests.chart import CHART, value_of
from tests.manifests.combinations import COMBINATIONS, title
from tests.manifests.files import MANIFESTS
from tests.manifests.helm import Helm
from tests.manifests.kubectl import Kubectl
from tests.manifests.templating import ABSENT, Choice, branch, emit

WHOLE = {"createNamespace": True, "crds.keep": False}
ELSEWHERE: dict[str, Object] = {
    "shards": {"shards": 2},
    "monitoring": {"metrics.serviceMonitor.enabled": True, "metrics.prometheusRule.enabled": True},
    "monitoring/secured": {"metrics.secure": True},
}
"""Values of components that are not among ``components``."""


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(tmp_path)


def chosen(components: tuple[str, ...]) -> Object:
    values: Object = {}
    for each in COMPONENTS:
        if each.name in components:
            values |= ELSEWHERE.get(each.name, {f"components.{value_of(each)}": True})
    return values


def test_the_templates_are_those_of_the_manifests() -> None:
    found = {path.name: path.read_text(encoding="utf-8") for path in chart.PLACE.glob("*.yaml")}
    assert found == chart.render(), "run python -m tests.manifests.chart"


def test_the_dashboards_are_those_of_grafana() -> None:
    found = {path.name: path.read_text(encoding="utf-8") for path in (CHART / "dashboards").glob("*.json")}
    assert found == chart.dashboards(), "run python -m tests.manifests.chart"


def test_the_chart_is_of_this_version() -> None:
    said = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (said["version"], said["appVersion"]) == (__version__, __version__)


def test_a_false_condition_keeps_the_original_text() -> None:
    tree = branch({"a": {"b": 1}}, {"op": "replace", "path": "/a/b", "value": "{{ x }}"}, ".on")
    tree = branch(tree, {"op": "add", "path": "/a/c", "value": {"d": []}}, ".off")
    assert tree == {"a": {"b": Choice(".on", "{{ x }}", 1), "c": Choice(".off", {"d": []}, ABSENT)}}
    assert [line.strip() for line in emit(tree)] == [
        *("a:", "{{- if .on }}", "b: '{{ \"{{\" }} x }}'", "{{- else }}", "b: 1", "{{- end }}"),
        *("{{- if .off }}", "c:", "d: []", "{{- end }}"),
    ]


@pytest.mark.controlplane
class TestHelm:
    def test_helm_lint_passes(self, helm: Helm) -> None:
        assert "0 chart(s) failed" in helm.run("lint", "--strict", str(CHART))

    @pytest.mark.parametrize("components", COMBINATIONS, ids=title)
    def test_renders_what_kustomize_does(self, components: tuple[str, ...], helm: Helm) -> None:
        """``test_installation.py`` shows that it is kustomize's."""
        found = helm.template({**WHOLE, **chosen(components)})
        assert sorted(found, key=place) == render(InstallationOptions(frozenset(components)))

    def test_renders_another_namespace_and_release_name(self, helm: Helm) -> None:
        found = helm.template({**WHOLE, **chosen(NAMES)}, namespace="2024", release="other")
        assert sorted(found, key=place) == render(InstallationOptions(frozenset(NAMES), namespace="2024"))

    def test_renders_common_changes_as_kustomize_does(self, helm: Helm) -> None:
        flags = ["--kueue-namespace=queues", '--pathways-options={"startup": "DependsOn"}']
        image = {"repository": "registry.example:5000/team/gangctl", "tag": "1.2.3"}
        values = {**WHOLE, "image": image, "replicaCount": 4, "extraArgs": flags, "logLevel": "debug"}
        values |= {"webhook.failurePolicy": "Ignore", **chosen(("pathways",))}
        wanted = InstallationOptions(
            frozenset({"pathways"}),
            image="registry.example:5000/team/gangctl:1.2.3",
            replicas=4,
            flags=(*flags, "--log-level=debug"),
            failure_policy="Ignore",
        )
        assert sorted(helm.template(values), key=place) == render(wanted)

    @pytest.mark.parametrize("shards", [1, 2, 3, 9, 64])
    def test_renders_any_number_of_shards_as_kustomize_does(self, shards: int, helm: Helm) -> None:
        found = helm.template({**WHOLE, "shards": shards})
        assert sorted(found, key=place) == render(InstallationOptions(shards=shards))
        components = ("high-availability", "tenants/managed")
        found = helm.template({**WHOLE, **chosen(components), "shards": shards, "replicaCount": 65})
        assert sorted(found, key=place) == render(
            InstallationOptions(frozenset(components), shards=shards, replicas=65)
        )

    async def test_has_the_dashboards_of_kustomize(self, helm: Helm) -> None:
        """The same JSON; the chart's copies have no line breaks."""
        kustomized = await Kubectl(helm.home).run("kustomize", str(MANIFESTS / "monitoring" / "dashboards"))
        wanted = list(yaml.safe_load_all(kustomized.text))
        found = [each for each in helm.template({"grafana.enabled": True}) if each["kind"] == "ConfigMap"]
        for each in (*found, *wanted):
            each["data"] = {name: json.loads(text) for name, text in each["data"].items()}
        assert sorted(found, key=place) == sorted(wanted, key=place)

    def test_keeps_definitions_and_makes_no_namespace_by_default(self, helm: Helm) -> None:
        objects = helm.template(chosen(NAMES))
        definitions = [item for item in objects if item["kind"] == "CustomResourceDefinition"]
        assert len(definitions) == 5
        for item in definitions:
            assert item["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
        assert "Namespace" not in {item["kind"] for item in objects}
