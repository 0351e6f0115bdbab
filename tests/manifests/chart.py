"""Writes charts/gangctl from manifests/ (each component a condition, each of its patches a branch) and its schema.

python -m tests.manifests.chart

``test_chart.py`` has Helm render it, and compares that with what kustomize makes.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from gangctl.cli.install.components import COMPONENTS, Component
from release.homepage import DOCS
from tests.manifests import chartvalues
from tests.manifests.files import ROOT, one
from tests.manifests.kustomizations import Patch, read_component, read_root
from tests.manifests.templating import ABSENT, Choice, Fields, Items, Raw, Tree, branch, emit, stream, when

Object = dict[str, Any]

CHART = ROOT / "charts" / "gangctl"
PLACE = CHART / "templates"
DASHBOARDS = ROOT / "grafana" / "dashboards"

_HEADER = "{{- /* Written by `python -m tests.manifests.chart` from manifests/. */}}\n"
_FILES = {
    "Namespace": "namespace",
    "CustomResourceDefinition": "definitions",
    "Deployment": "deployment",
    "Service": "services",
    "NetworkPolicy": "networkpolicy",
    "PodDisruptionBudget": "availability",
    "ResourceQuota": "availability",
    "FlowSchema": "flowcontrol",
    "PriorityLevelConfiguration": "flowcontrol",
    "MutatingAdmissionPolicy": "jobpolicy",
    "MutatingAdmissionPolicyBinding": "jobpolicy",
    "MutatingWebhookConfiguration": "webhooks",
    "ValidatingWebhookConfiguration": "webhooks",
}
_RIGHTS = "rights"
_CONDITIONS = {"shards": "gt (int .Values.shards) 1", "monitoring/secured": ".Values.metrics.secure"}
"""Of components that are not among ``components`` of the values: an expression of the template engine."""
_WANTED = {
    "CustomResourceDefinition": ".Values.crds.enabled",
    "FlowSchema": ".Values.flowControl.enabled",
    "PriorityLevelConfiguration": ".Values.flowControl.enabled",
    "NetworkPolicy": ".Values.networkPolicy.enabled",
    "PodDisruptionBudget": ".Values.podDisruptionBudget.enabled",
    "PrometheusRule": ".Values.metrics.prometheusRule.enabled",
    "ResourceQuota": 'hasPrefix "system-" .Values.priorityClassName',
    "ServiceMonitor": ".Values.metrics.serviceMonitor.enabled",
    **dict.fromkeys(
        ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"),
        'semverCompare ">=1.36-0" .Capabilities.KubeVersion.Version',
    ),
}
"""Conditions of kinds."""
_BY_KIND = "monitoring"
"""The component whose objects have these conditions, and no other."""
_NUMBERED: dict[tuple[str, str], Any] = {
    ("Deployment", "/spec/template/spec/containers/0/args/-"): Raw("--shards={{ .Values.shards }}"),
    ("Deployment", "/spec/replicas"): Raw("{{ add1 .Values.shards }}"),
    ("PodDisruptionBudget", "/spec/minAvailable"): Raw("{{ .Values.shards }}"),
    ("Role", "/rules/0/resourceNames/-"): Items(
        ("{{- range $number := untilStep 1 (int .Values.shards) 1 }}", "- gangctl-shard-{{ $number }}", "{{- end }}")
    ),
}
"""What the component shards sets, by kind and place, for any number of them."""
_PODS = Raw("{{ max 10 (add 2 .Values.shards) (add1 .Values.replicaCount) | quote }}")
"""Room for every replica and the one that an update has beside them."""
_WHOLE = re.compile(r"(?m)(?<=[:-] )gangctl-system$")
_WITHIN = re.compile(r"(?<![\w-])gangctl-system(?![\w-])")


def render() -> dict[str, str]:
    """Text by file name."""
    patches = [(each, patch) for each in COMPONENTS for patch in read_component(each.name).patches]
    documents: dict[str, list[str]] = {}
    for raw in read_root("base"):
        documents.setdefault(_FILES.get(raw["kind"], _RIGHTS), []).append(_document(raw, patches))
    files = {name: stream(each) for name, each in documents.items()}
    files["deployment"] = '{{- include "gangctl.check" . }}\n' + files["deployment"]
    files["namespace"] = when(".Values.createNamespace", files["namespace"])
    for component in COMPONENTS:
        # Patches are for what comes before them.
        later = [each for each in patches if COMPONENTS.index(each[0]) >= COMPONENTS.index(component)]
        objects = [_document(raw, later) for raw in read_component(component.name).objects]
        if objects:
            text = stream(objects)
            files[component.name.replace("/", "-")] = (
                text if component.name == _BY_KIND else when(_condition(component), text)
            )
    files["dashboards"] = when(".Values.grafana.enabled", stream(_dashboards()))
    return {f"{name}.yaml": _HEADER + text for name, text in files.items()}


def value_of(component: Component) -> str:
    """The name of a component in the values: ``monitoringSecured`` of ``monitoring/secured``."""
    return re.sub(r"[-/](\w)", lambda found: found[1].upper(), component.name)


def _condition(component: Component) -> str:
    return _CONDITIONS.get(component.name, f".Values.components.{value_of(component)}")


def _document(raw: Object, patches: list[tuple[Component, Patch]]) -> str:
    tree = copy.deepcopy(raw)
    for component, patch in patches:
        for operation in patch.operations if patch.concerns(raw) else ():
            tree = branch(tree, _numbered(component, raw["kind"], operation), _condition(component))
    _adjust(tree)
    text = "".join(f"{line}\n" for line in emit(tree))
    if tree["kind"] in _WANTED:
        text = when(_WANTED[tree["kind"]], text)
    return _WITHIN.sub("{{ .Release.Namespace }}", _WHOLE.sub("{{ .Release.Namespace | quote }}", text))


def _numbered(component: Component, kind: str, operation: Object) -> Object:
    if component.name != "shards" or operation["op"] == "test":
        return operation
    return {**operation, "value": _NUMBERED[kind, operation["path"]]}


def _dashboards() -> Iterator[str]:
    """A ConfigMap for each, as kustomize makes it; the files are copies, because a chart reads nothing else."""
    said = one(DASHBOARDS / "kustomization.yaml")
    options = said["generatorOptions"]
    fixed = {key: value for key, value in options["labels"].items() if key.startswith("app.kubernetes.io/")}
    for each in said["configMapGenerator"]:
        (file,) = each["files"]
        data = f'.Files.Get "dashboards/{file}" | replace "{DOCS}" .Values.metrics.runbookBaseUrl | toJson'
        metadata = {
            "name": each["name"],
            "namespace": Raw("{{ .Values.grafana.namespace | default .Release.Namespace | quote }}"),
            "labels": {**fixed, "...": _common(".Values.grafana.labels")},
            "annotations": Choice(".Values.grafana.annotations", Tree(".Values.grafana.annotations")),
        }
        tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {file: Raw(f"{{{{ {data} }}}}")}}
        yield "".join(f"{line}\n" for line in emit(tree))


def _common(labels: str) -> Fields:
    """These labels, and those of every object that they do not have."""
    return Fields(f"merge (dict) {labels} .Values.commonLabels")


def _adjust(tree: Object) -> None:
    """Let values change an object."""
    metadata = tree["metadata"]
    if "labels" in metadata:
        metadata["labels"]["..."] = Fields(".Values.commonLabels")
    else:
        metadata["labels"] = _tree("commonLabels")
    if adjust := _ADJUST.get(tree["kind"]):
        adjust(metadata, tree.get("spec", tree))


def _adjust_account(metadata: Object, _: Object) -> None:
    metadata["annotations"] = _tree("serviceAccount.annotations")


def _adjust_quota(_: Object, spec: Object) -> None:
    spec["hard"]["pods"] = _PODS
    (scope,) = spec["scopeSelector"]["matchExpressions"]
    scope["values"] = [_text("priorityClassName")]


def _adjust_budget(_: Object, spec: Object) -> None:
    most, least = "podDisruptionBudget.maxUnavailable", "podDisruptionBudget.minAvailable"
    enough = Choice(f".Values.{least}", _value(least), spec["minAvailable"])
    spec["minAvailable"] = Choice(f"not .Values.{most}", enough)
    spec["maxUnavailable"] = Choice(f".Values.{most}", _value(most))


def _adjust_monitor(metadata: Object, spec: Object) -> None:
    metadata["labels"]["..."] = _common(".Values.metrics.serviceMonitor.labels")
    (endpoint,) = spec["endpoints"]
    for name in ("interval", "scrapeTimeout"):
        endpoint[name] = _value(f"metrics.serviceMonitor.{name}")
    for name in ("relabelings", "metricRelabelings"):
        endpoint[name] = _tree(f"metrics.serviceMonitor.{name}")


def _adjust_rules(metadata: Object, spec: Object) -> None:
    metadata["labels"]["..."] = _common(".Values.metrics.prometheusRule.labels")
    for rule in (rule for group in spec["groups"] for rule in group["rules"] if "annotations" in rule):
        _set_base(rule["annotations"], "runbook_url", DOCS, "runbookBaseUrl")
        _set_base(rule["annotations"], "dashboard_url", "", "dashboardBaseUrl")


def _set_base(annotations: Object, name: str, base: str, value: str) -> None:
    assert annotations[name].startswith(base)
    annotations[name] = Raw(f"{{{{ .Values.metrics.{value} }}}}{annotations[name].removeprefix(base)}")


def _adjust_webhooks(_: Object, configuration: Object) -> None:
    for webhook in configuration.get("webhooks", []):
        webhook["timeoutSeconds"] = _value("webhook.timeoutSeconds")
        if webhook["name"].startswith("jobsets."):
            webhook["failurePolicy"] = _value("webhook.failurePolicy")


def _adjust_definition(metadata: Object, _: Object) -> None:
    policy = "helm.sh/resource-policy"
    if "annotations" in metadata:
        metadata["annotations"][policy] = Choice(".Values.crds.keep", "keep")
    else:
        metadata["annotations"] = Choice(".Values.crds.keep", {policy: "keep"})


def _value(name: str) -> Raw:
    return Raw(f"{{{{ .Values.{name} }}}}")


def _text(name: str) -> Raw:
    """A value of any text: 1000 and true are names, too."""
    return Raw(f"{{{{ .Values.{name} | quote }}}}")


def _tree(name: str, otherwise: Any = ABSENT) -> Choice:
    """A value of any form, unless it is empty."""
    return Choice(f".Values.{name}", Tree(f".Values.{name}"), otherwise)


def _adjust_deployment(_: Object, spec: Object) -> None:
    spec["replicas"] = Choice(".Values.replicaCount", _value("replicaCount"), spec["replicas"])
    metadata, pod = spec["template"]["metadata"], spec["template"]["spec"]
    metadata["annotations"]["..."] = Fields(".Values.podAnnotations")
    metadata["labels"]["..."] = _common(".Values.podLabels")
    (container,) = pod["containers"]
    container["image"] = Raw('{{ include "gangctl.image" . }}')
    container["imagePullPolicy"] = _value("image.pullPolicy")
    timeout = Raw("--webhook-timeout={{ .Values.webhook.timeoutSeconds }}")
    container["args"].append(Choice("ne (int .Values.webhook.timeoutSeconds) 10", timeout))
    container["args"].append(Items(("{{- range .Values.extraArgs }}", "- {{ . | quote }}", "{{- end }}")))
    container["args"].append(Choice(".Values.logLevel", Raw("--log-level={{ .Values.logLevel }}")))
    container["env"] = _tree("extraEnv")
    container["resources"] = _tree("resources", container["resources"])
    container["securityContext"] = _tree("containerSecurityContext", container["securityContext"])
    pod["securityContext"] = _tree("podSecurityContext", pod["securityContext"])
    pod["priorityClassName"] = Choice(".Values.priorityClassName", _text("priorityClassName"))
    for name in ("imagePullSecrets", "nodeSelector", "affinity", "tolerations"):
        pod[name] = _tree(name)
    pod["topologySpreadConstraints"] = _tree("topologySpreadConstraints", pod["topologySpreadConstraints"])


_ADJUST: dict[str, Callable[[Object, Object], None]] = {
    "CustomResourceDefinition": _adjust_definition,
    "Deployment": _adjust_deployment,
    "MutatingWebhookConfiguration": _adjust_webhooks,
    "PodDisruptionBudget": _adjust_budget,
    "PrometheusRule": _adjust_rules,
    "ResourceQuota": _adjust_quota,
    "ServiceAccount": _adjust_account,
    "ServiceMonitor": _adjust_monitor,
    "ValidatingWebhookConfiguration": _adjust_webhooks,
}
"""What values change beside labels, by kind: of an object's metadata and spec, or of the whole where it has none."""


def dashboards() -> dict[str, str]:
    """Copies on one line each: a chart reads its own directory only, and people read the originals."""
    read = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in DASHBOARDS.glob("*.json")}
    return {name: json.dumps(dashboard, separators=(",", ":")) + "\n" for name, dashboard in read.items()}


def write() -> None:
    """Write what the chart has of the manifests, the dashboards and the schema of its values."""
    for name, text in render().items():
        (PLACE / name).write_text(text, encoding="utf-8")
    for name, text in dashboards().items():
        (CHART / "dashboards" / name).write_text(text, encoding="utf-8")
    chartvalues.write(CHART)


if __name__ == "__main__":
    write()
