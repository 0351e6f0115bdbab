"""Values of the chart: each is described once and has its effect, and others are refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from gangctl.cli.install.components import COMPONENTS
from tests.controlplane.api import Object
from tests.manifests import chartvalues
from tests.manifests.chart import CHART, value_of
from tests.manifests.files import ROOT
from tests.manifests.helm import Helm, HelmFailed
from tests.manifests.test_chart import ELSEWHERE
from tests.rows import each

README = (CHART / "README.md").read_text(encoding="utf-8")
VALUES = chartvalues.read(CHART)
NAMES = {leaf.name for value in VALUES for leaf in value.leaves}
MEANT_FOR = {"app.kubernetes.io/name": "gangctl", "app.kubernetes.io/component": "controller"}
"""Labels by which Services and the Deployment select pods."""


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(tmp_path)


def of_kind(kind: str, objects: list[Object]) -> list[Object]:
    return [each for each in objects if each["kind"] == kind]


def deployed(objects: list[Object]) -> Object:
    """The template of the Deployment's pods."""
    (found,) = of_kind("Deployment", objects)
    return dict(found["spec"]["template"])


def test_defaults_and_tables_are_those_of_the_schema() -> None:
    why = "run python -m tests.manifests.chart"
    assert (CHART / "values.yaml").read_text(encoding="utf-8") == chartvalues.values_yaml(VALUES), why
    assert chartvalues.readme(README, CHART) == README, why


def test_every_component_has_a_value() -> None:
    names = {f"components.{value_of(each)}" for each in COMPONENTS if each.name not in ELSEWHERE}
    assert {name for name in NAMES if name.startswith("components.")} == names
    assert {name for values in ELSEWHERE.values() for name in values} <= NAMES


@each("path", sorted((CHART / "ci").glob("*.yaml")), ids=lambda path: path.name)
def test_no_example_gives_the_label_cluster_to_gangctl_alone(path: Path) -> None:
    """QueueStarved joins gangctl's series with Kueue's by it."""
    metrics = yaml.safe_load(path.read_text(encoding="utf-8")).get("metrics", {})
    relabelings = metrics.get("serviceMonitor", {}).get("relabelings", [])
    assert "cluster" not in {relabeling.get("targetLabel") for relabeling in relabelings}


def test_replicas_of_the_examples_are_spread_by_version() -> None:
    """Otherwise those of the earlier version count in an upgrade."""
    examples = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in (CHART / "ci").glob("*.yaml")]
    spread = [term for values in examples for term in values.get("topologySpreadConstraints", [])]
    assert [term.get("matchLabelKeys") for term in spread] == [["pod-template-hash"]]


def test_names_that_are_compared_exist() -> None:
    rows = re.findall(
        r"^\| (`[^|]*) \|[^|]*\|[^|]*\|$", README.partition("| gangctl | cert-manager | Kueue |")[2], re.MULTILINE
    )
    compared = {name for row in rows for name in re.findall(r"`([^`]+)`", row)}
    assert len(rows) > 20
    assert compared <= NAMES


def test_commands_are_those_of_the_installation() -> None:
    """Which ``test_install_doc_live.py`` types."""
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    commands = re.findall(r"^    (helm .*)$", README, re.MULTILINE)
    assert len(commands) == 2
    assert [each for each in commands if f"    {each}" not in page] == []


def test_text_that_stands_alone_is_quoted() -> None:
    """Unquoted, YAML reads the name 1000 as a number, which API servers refuse."""
    schemas = {leaf.name: leaf.schema for value in VALUES for leaf in value.leaves}
    alone = re.compile(r"^ *(?:- )?(?:[\w-]+: )?\{\{ \.Values\.([\w.]+) \}\}$", re.MULTILINE)
    templates = [path.read_text(encoding="utf-8") for path in (CHART / "templates").rglob("*.yaml")]
    found = {name for template in templates for name in alone.findall(template)}
    assert len(found) > 5
    texts = {name for name in found if "string" in schemas[name].get("type", ())}
    assert {name for name in texts if re.search(schemas[name].get("pattern", ""), "1000")} == set()


@pytest.mark.controlplane
class TestHelm:
    def test_sets_the_pods(self, helm: Helm) -> None:
        digest = "sha256:" + "0" * 64
        image = {"repository": "registry.example/gangctl", "tag": "1", "digest": digest, "pullPolicy": "Always"}
        container = {"resources": {"requests": {"cpu": "1"}, "limits": {"memory": "4Gi"}}}
        pod = {
            "imagePullSecrets": [{"name": "registry"}],
            "nodeSelector": {"pool": "control"},
            "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
            "tolerations": [{"key": "dedicated", "operator": "Exists"}],
            "topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}],
            "priorityClassName": "platform",
        }
        env = [{"name": "TZ", "value": "UTC"}]
        metadata = {"podAnnotations": {"note": "yes"}, "podLabels": {"team": "a", "cost": "1"}}
        security = {"podSecurityContext": {"runAsNonRoot": True}, "containerSecurityContext": {"privileged": False}}
        values = {
            **security,
            "image": image,
            "extraEnv": env,
            **container,
            **pod,
            **metadata,
            "commonLabels": {"team": "b"},
        }
        template = deployed(helm.template(values))
        (found,) = template["spec"]["containers"]
        assert (found["image"], found["imagePullPolicy"]) == (f"registry.example/gangctl@{digest}", "Always")
        assert (found["resources"], found["env"]) == (container["resources"], env)
        assert (template["spec"]["securityContext"], found["securityContext"]) == (
            {"runAsNonRoot": True},
            {"privileged": False},
        )
        pod["nodeSelector"] = {"pool": "control", "kubernetes.io/os": "linux"}
        assert pod.items() <= template["spec"].items()
        assert template["metadata"]["labels"] == {**MEANT_FOR, "team": "a", "cost": "1"}
        assert template["metadata"]["annotations"]["note"] == "yes"

    def test_labels_every_object_and_changes_no_selector(self, helm: Helm) -> None:
        everything = {value: True for value in NAMES if value.endswith((".enabled", ".secure"))}
        everything |= {f"components.{value_of(each)}": True for each in COMPONENTS if each.name not in ELSEWHERE}
        objects = helm.template({**everything, "createNamespace": True, "commonLabels": {"team": "platform"}})
        assert [item for item in objects if item["metadata"]["labels"].get("team") != "platform"] == []
        (deployment,) = of_kind("Deployment", objects)
        assert deployment["spec"]["selector"] == {"matchLabels": MEANT_FOR}

    def test_omits_disabled_components(self, helm: Helm) -> None:
        kinds = {
            "crds": {"CustomResourceDefinition"},
            "flowControl": {"FlowSchema", "PriorityLevelConfiguration"},
            "networkPolicy": {"NetworkPolicy"},
            "podDisruptionBudget": {"PodDisruptionBudget"},
        }
        usual = {item["kind"] for item in helm.template()}
        less = helm.template({**{f"{name}.enabled": False for name in kinds}, "priorityClassName": ""})
        assert usual - {item["kind"] for item in less} == {"ResourceQuota"}.union(*kinds.values())
        assert "priorityClassName" not in deployed(less)["spec"]

    def test_sets_webhooks_and_their_flag(self, helm: Helm) -> None:
        objects = helm.template({"webhook": {"timeoutSeconds": 7, "failurePolicy": "Ignore"}})
        webhooks = {
            webhook["name"]: (webhook["timeoutSeconds"], webhook["failurePolicy"])
            for item in objects
            for webhook in item.get("webhooks", [])
        }
        assert {seconds for seconds, _ in webhooks.values()} == {7}
        assert {name.partition(".")[0] for name, (_, policy) in webhooks.items() if policy == "Ignore"} == {
            "jobsets",
            "keys",
            "policies",
        }
        assert "--webhook-timeout=7" in deployed(objects)["spec"]["containers"][0]["args"]

    @each(
        ("values", "wanted"),
        [
            ({"minAvailable": "50%"}, {"minAvailable": "50%"}),
            ({"minAvailable": 3}, {"minAvailable": 3}),
            ({"maxUnavailable": 1}, {"maxUnavailable": 1}),
        ],
    )
    def test_sets_the_disruption_budget(self, values: Object, wanted: Object, helm: Helm) -> None:
        (budget,) = of_kind("PodDisruptionBudget", helm.template({"podDisruptionBudget": values}))
        assert {key: value for key, value in budget["spec"].items() if key.endswith("vailable")} == wanted

    def test_annotates_the_service_account(self, helm: Helm) -> None:
        (account,) = of_kind("ServiceAccount", helm.template({"serviceAccount.annotations": {"role": "a"}}))
        assert account["metadata"]["annotations"] == {"role": "a"}

    def test_sets_what_prometheus_and_grafana_select_by(self, helm: Helm) -> None:
        labels = {"release": "kube-prometheus-stack", "numbers": "007"}
        relabelings = [{"targetLabel": "cluster", "replacement": "a"}]
        scrape = {
            "interval": "1m",
            "scrapeTimeout": "20s",
            "relabelings": relabelings,
            "metricRelabelings": relabelings,
        }
        metrics = {
            "runbookBaseUrl": "https://wiki.example",
            "dashboardBaseUrl": "https://grafana.example/x",
            "serviceMonitor": {"enabled": True, "labels": labels, **scrape},
            "prometheusRule": {"enabled": True, "labels": labels},
        }
        grafana = {"enabled": True, "namespace": "grafana", "labels": {"grafana_dashboard": "yes", "release": "a"}}
        found = helm.template({"metrics": metrics, "grafana": grafana, "commonLabels": {"release": "other"}})
        ours = [item for item in found if item["apiVersion"] == "monitoring.coreos.com/v1"]
        assert len(ours) == 6
        assert all(labels.items() <= item["metadata"]["labels"].items() for item in ours)
        (monitor,) = of_kind("ServiceMonitor", ours)
        assert scrape.items() <= monitor["spec"]["endpoints"][0].items()
        groups = [group for item in ours for group in item["spec"].get("groups", [])]
        alerts = {rule["alert"]: rule["annotations"] for group in groups for rule in group["rules"] if "alert" in rule}
        assert all(item["runbook_url"] == f"https://wiki.example/runbooks/{name}.md" for name, item in alerts.items())
        assert all(item["dashboard_url"].startswith("https://grafana.example/x/d/gangctl-") for item in alerts.values())
        dashboards = of_kind("ConfigMap", found)
        assert {item["metadata"]["namespace"] for item in dashboards} == {"grafana"}
        assert all(grafana["labels"].items() <= item["metadata"]["labels"].items() for item in dashboards)  # type: ignore[attr-defined]
        assert "https://wiki.example/runbooks" in str(dashboards)
        assert "git.example" not in str(found)

    @each(
        ("values", "wanted", "unwanted"),
        [
            ({}, ["gangctl doctor\n", "helm test any --namespace gangctl-system", "enforce=restricted"], ["managed"]),
            ({"createNamespace": True}, ["doctor"], ["enforce=restricted"]),
            ({"components": {"tenantsManaged": True}}, ["gangctl.dev/managed=true"], []),
            ({"components": {"kueueCheck": True}}, ["gangctl.dev/gang-ready"], []),
            ({"metrics": {"secure": True}}, ["gangctl-metrics-reader"], []),
            ({"webhook": {"failurePolicy": "Ignore"}}, ["start without one"], []),
            ({"replicaCount": 1}, ["one replica", "cannot be drained"], ["start without one"]),
            ({"replicaCount": 2, "components": {"highAvailability": True}}, ["2 of 2 replicas"], ["one replica"]),
            ({"replicaCount": 1, "podDisruptionBudget": {"maxUnavailable": 1}}, [], ["cannot be drained"]),
            ({"replicaCount": 3}, [], ["cannot be drained"]),
            ({"crds": {"enabled": False}}, ["no definitions"], []),
        ],
    )
    def test_names_the_next_steps(self, values: Object, wanted: list[str], unwanted: list[str], helm: Helm) -> None:
        notes = helm.notes(values)
        assert [text for text in wanted if text not in notes] == []
        assert [text for text in unwanted if text in notes] == []

    def test_tests_a_release_with_the_canary(self, helm: Helm) -> None:
        hooks = helm.hooks({"canary": {"namespace": "team-a", "timeoutSeconds": 7}, "tolerations": [{"key": "a"}]})
        assert [(item["kind"], item["metadata"]["namespace"]) for item in hooks] == [
            ("ServiceAccount", "gangctl-system"),
            ("Role", "team-a"),
            ("RoleBinding", "team-a"),
            ("Pod", "gangctl-system"),
        ]
        assert {"--namespace=team-a", "--timeout=7"} <= {*hooks[-1]["spec"]["containers"][0]["args"]}
        assert hooks[-1]["spec"]["tolerations"] == [{"key": "a"}]

    @each(
        ("values", "message"),
        [
            ({"image": {"repository": ""}}, "image.repository is not set, .* build one from Containerfile, push it"),
            (
                {"components": {"policiesNativeDeny": True}},
                "components.policiesNativeDeny: .* components.policiesNative, too",
            ),
            ({"shards": 3, "replicaCount": 2}, "replicaCount: 2 cannot lead 3 shards, one each"),
            (
                {"podDisruptionBudget": {"minAvailable": 1, "maxUnavailable": 1}},
                "podDisruptionBudget: set minAvailable or maxUnavailable, not both",
            ),
        ],
    )
    def test_refuses_contradictory_values(self, values: Object, message: str, helm: Helm) -> None:
        with pytest.raises(HelmFailed, match=message):
            helm.template(values)

    @each("namespace", ["default", "kube-system"])
    def test_refuses_a_namespace_that_others_use(self, namespace: str, helm: Helm) -> None:
        with pytest.raises(HelmFailed, match=f"namespace {namespace} is not gangctl's alone"):
            helm.template(namespace=namespace)

    @each(
        ("values", "word"),
        [
            ({"replicas": 2}, "'replicas' not allowed"),
            ({"flags": []}, "'flags' not allowed"),
            ({"keepDefinitions": True}, "'keepDefinitions' not allowed"),
            ({"image": {"pullSecrets": []}}, "at '/image': additional properties 'pullSecrets' not allowed"),
            ({"components": {"kueue-check": True}}, "kueue-check"),
            ({"components": {"kueueCheck": "yes"}}, "kueueCheck"),
            ({"components": {"monitoring": True}}, "monitoring"),
            ({"replicaCount": 0}, "replicaCount"),
            ({"shards": 65}, "shards"),
            ({"shards": 0}, "shards"),
            ({"extraArgs": ["--shards=3"]}, "extraArgs"),
            ({"extraArgs": ["--pathways=true"]}, "extraArgs"),
            ({"extraArgs": ["--namespace-selector=team=ml"]}, "extraArgs"),
            ({"extraArgs": ["--webhook-timeout=20"]}, "extraArgs"),
            ({"extraArgs": ["kueue=off"]}, "extraArgs"),
            ({"extraArgs": ["--webhook-bind-address=:10250"]}, "extraArgs"),
            ({"extraArgs": ["--metrics-bind-address=:9090"]}, "extraArgs"),
            ({"logLevel": "loud"}, "logLevel"),
            ({"webhook": {"failurePolicy": "Warn"}}, "failurePolicy"),
            ({"webhook": {"timeoutSeconds": 31}}, "timeoutSeconds"),
            ({"resources": {"cpu": 1}}, "cpu"),
            ({"podLabels": {"app.kubernetes.io/name": "x"}}, "podLabels/app.kubernetes.io~1name"),
            ({"commonLabels": {"a": 1}}, "commonLabels/a"),
            ({"podDisruptionBudget": {"minAvailable": "half"}}, "minAvailable"),
            ({"metrics": {"runbookBaseUrl": ""}}, "runbookBaseUrl"),
            ({"metrics": {"runbookBaseUrl": "https://wiki.example/"}}, "runbookBaseUrl"),
            ({"metrics": {"dashboardBaseUrl": "grafana.example"}}, "dashboardBaseUrl"),
            ({"metrics": {"serviceMonitor": {"interval": "1 minute"}}}, "interval"),
        ],
    )
    def test_refuses_values_that_do_not_exist(self, values: Object, word: str, helm: Helm) -> None:
        with pytest.raises(HelmFailed, match=rf"values don't meet the specifications.*(?s:.*){word}"):
            helm.template(values)
