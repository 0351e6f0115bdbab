"""The Helm chart renders what kustomize does, and refuses values that it does not have."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from gangctl import __version__
from gangctl.cli.install.components import COMPONENTS, NAMES
from gangctl.cli.install.rendering import Choice, place, render
from tests.controlplane.api import Object
from tests.manifests import chart
from tests.manifests.chart import CHART
from tests.manifests.combinations import COMBINATIONS, title
from tests.manifests.helm import Helm, HelmFailed
from tests.manifests.templating import ABSENT, branch, emit
from tests.manifests.templating import Choice as Alternative
from tests.rows import each

VALUES = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
OPTIONAL = [each for each in COMPONENTS if each.name != "shards"]
"""The components that are there or not; of shards there is a number."""
WHOLE = {"createNamespace": True, "keepDefinitions": False}


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(tmp_path)


def chosen(components: tuple[str, ...]) -> Object:
    values: Object = {f"components.{each.value}": True for each in OPTIONAL if each.name in components}
    return {**values, "shards": 2} if "shards" in components else values


def deployed(objects: list[Object]) -> Object:
    """The spec of the Deployment's pod."""
    (found,) = [each["spec"]["template"]["spec"] for each in objects if each["kind"] == "Deployment"]
    return dict(found)


def test_the_templates_are_those_of_the_manifests() -> None:
    found = {path.name: path.read_text(encoding="utf-8") for path in chart.PLACE.glob("*.yaml")}
    assert found == chart.render(), "run python -m tests.manifests.chart"


def test_the_chart_is_of_this_version() -> None:
    said = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (said["version"], said["appVersion"]) == (__version__, __version__)


def test_values_are_the_components_all_off_and_the_schema_has_each_value() -> None:
    assert VALUES["components"] == {each.value: False for each in OPTIONAL}
    assert {*SCHEMA["properties"]["components"]["properties"]} == {*VALUES["components"]}
    assert {*SCHEMA["properties"]} == {*VALUES, "global"}
    for name in ("image", "webhook", "monitoring"):
        assert {*SCHEMA["properties"][name]["properties"]} == {*VALUES[name]}


def test_a_branch_keeps_what_was_there_where_the_condition_does_not_hold() -> None:
    tree = branch({"a": {"b": 1}}, {"op": "replace", "path": "/a/b", "value": "{{ x }}"}, ".on")
    tree = branch(tree, {"op": "add", "path": "/a/c", "value": {"d": []}}, ".off")
    assert tree == {"a": {"b": Alternative(".on", "{{ x }}", 1), "c": Alternative(".off", {"d": []}, ABSENT)}}
    assert [line.strip() for line in emit(tree)] == [
        *("a:", "{{- if .on }}", "b: '{{ \"{{\" }} x }}'", "{{- else }}", "b: 1", "{{- end }}"),
        *("{{- if .off }}", "c:", "d: []", "{{- end }}"),
    ]


@pytest.mark.controlplane
class TestHelm:
    def test_finds_nothing_wrong(self, helm: Helm) -> None:
        assert "0 chart(s) failed" in helm.run("lint", "--strict", str(CHART))

    @pytest.mark.parametrize("components", COMBINATIONS, ids=title)
    def test_renders_what_kustomize_does(self, components: tuple[str, ...], helm: Helm) -> None:
        """``test_installation.py`` shows that it is kustomize's."""
        found = helm.template({**WHOLE, **chosen(components)})
        assert sorted(found, key=place) == render(Choice(frozenset(components)))

    def test_in_another_namespace_under_any_name(self, helm: Helm) -> None:
        found = helm.template({**WHOLE, **chosen(NAMES)}, namespace="2024", release="other")
        assert sorted(found, key=place) == render(Choice(frozenset(NAMES), namespace="2024"))

    def test_with_what_people_change(self, helm: Helm) -> None:
        flags = ["--kueue-namespace=queues", '--pathways-options={"startup": "DependsOn"}', "--pathways=true"]
        image = {"repository": "registry.example:5000/team/gangctl", "tag": "1.2.3"}
        values = {**WHOLE, "image": image, "replicas": 4, "flags": flags, "logLevel": "debug"}
        values |= {"webhook.failurePolicy": "Ignore"}
        wanted = Choice(
            image="registry.example:5000/team/gangctl:1.2.3",
            replicas=4,
            flags=(*flags, "--log-level=debug"),
            failure_policy="Ignore",
        )
        assert sorted(helm.template(values), key=place) == render(wanted)

    @pytest.mark.parametrize("shards", [1, 2, 3, 9, 64])
    def test_with_any_number_of_shards(self, shards: int, helm: Helm) -> None:
        found = helm.template({**WHOLE, "shards": shards})
        assert sorted(found, key=place) == render(Choice(shards=shards))
        components = ("high-availability", "tenants/managed")
        found = helm.template({**WHOLE, **chosen(components), "shards": shards, "replicas": 65})
        assert sorted(found, key=place) == render(Choice(frozenset(components), shards=shards, replicas=65))

    def test_refuses_fewer_replicas_than_shards(self, helm: Helm) -> None:
        with pytest.raises(HelmFailed, match="replicas: 2 cannot lead 3 shards, one each"):
            helm.template({"shards": 3, "replicas": 2})

    def test_with_a_digest_and_what_only_pods_have(self, helm: Helm) -> None:
        digest = "sha256:" + "0" * 64
        tolerations = [{"key": "dedicated", "operator": "Exists"}]
        resources = {"requests": {"cpu": "1"}, "limits": {"memory": "4Gi"}}
        image = {"digest": digest, "pullPolicy": "Always", "pullSecrets": [{"name": "registry"}]}
        pod = deployed(helm.template({"image": image, "tolerations": tolerations, "resources": resources}))
        (container,) = pod["containers"]
        assert (container["image"], container["imagePullPolicy"]) == (f"gangctl@{digest}", "Always")
        assert (pod["imagePullSecrets"], pod["tolerations"]) == ([{"name": "registry"}], tolerations)
        assert container["resources"] == resources

    def test_sets_the_labels_and_addresses_of_monitoring(self, helm: Helm) -> None:
        labels = {"release": "kube-prometheus-stack", "numbers": "007"}
        bases = {"runbookBaseUrl": "https://wiki.example", "dashboardBaseUrl": "https://grafana.example/x"}
        found = helm.template({"components.monitoring": True, "monitoring": {"labels": labels, **bases}})
        ours = [each for each in found if each["apiVersion"] == "monitoring.coreos.com/v1"]
        assert len(ours) == 6
        assert all(labels.items() <= each["metadata"]["labels"].items() for each in ours)
        groups = [group for each in ours for group in each["spec"].get("groups", [])]
        told = {rule["alert"]: rule["annotations"] for group in groups for rule in group["rules"] if "alert" in rule}
        assert all(each["runbook_url"] == f"https://wiki.example/runbooks/{name}.md" for name, each in told.items())
        assert all(each["dashboard_url"].startswith("https://grafana.example/x/d/gangctl-") for each in told.values())

    def test_keeps_definitions_and_makes_no_namespace_if_it_is_told_nothing(self, helm: Helm) -> None:
        objects = helm.template(chosen(NAMES))
        definitions = [item for item in objects if item["kind"] == "CustomResourceDefinition"]
        assert len(definitions) == 5
        for item in definitions:
            assert item["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
        assert "Namespace" not in {item["kind"] for item in objects}

    @each(
        ("values", "word"),
        [
            ({"replica": 2}, "replica"),
            ({"components": {"kueue-gate": True}}, "kueue-gate"),
            ({"components": {"kueueGate": "yes"}}, "kueueGate"),
            ({"image": {"name": "x"}}, "name"),
            ({"image": {"repository": ""}}, "repository"),
            ({"replicas": 0}, "replicas"),
            ({"shards": 65}, "shards"),
            ({"shards": 0}, "shards"),
            ({"flags": ["--shards=3"]}, "flags"),
            ({"logLevel": "loud"}, "logLevel"),
            ({"webhook": {"failurePolicy": "Warn"}}, "failurePolicy"),
            ({"webhook": {"failure": "Fail"}}, "failure"),
            ({"flags": ["kueue=off"]}, "flags"),
            ({"resources": {"cpu": 1}}, "cpu"),
            ({"monitoring": {"runbookBaseUrl": ""}}, "runbookBaseUrl"),
            ({"monitoring": {"runbookBaseUrl": "https://wiki.example/"}}, "runbookBaseUrl"),
            ({"monitoring": {"dashboardBaseUrl": "grafana.example"}}, "dashboardBaseUrl"),
            ({"monitoring": {"labels": {"release": True}}}, "release"),
        ],
        ids=lambda each: each if isinstance(each, str) else "",
    )
    def test_refuses_values_that_there_are_not(self, values: Object, word: str, helm: Helm) -> None:
        with pytest.raises(HelmFailed, match=rf"values don't meet the specifications.*(?s:.*){word}"):
            helm.template(values)
