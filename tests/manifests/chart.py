"""Writes charts/gangctl/templates from manifests/: each component a condition, each of its patches a branch.

python -m tests.manifests.chart

``test_chart.py`` has Helm render them, and compares that with what kustomize makes.
"""

from __future__ import annotations

import copy
import re
from typing import Any

from gangctl.cli.install.components import COMPONENTS, Component
from release.homepage import DOCS
from tests.manifests.files import ROOT
from tests.manifests.kustomizations import Patch, read_component, read_root
from tests.manifests.templating import Choice, Fields, Items, Raw, Tree, branch, emit, stream, when

Object = dict[str, Any]

CHART = ROOT / "charts" / "gangctl"
PLACE = CHART / "templates"

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
_CONDITIONS = {"shards": "gt (int .Values.shards) 1"}
"""Of components that are no values of their own: an expression of the template engine."""
_NUMBERED: dict[tuple[str, str], Any] = {
    ("Deployment", "/spec/template/spec/containers/0/args/-"): Raw("--shards={{ .Values.shards }}"),
    ("Deployment", "/spec/replicas"): Raw("{{ add1 .Values.shards }}"),
    ("PodDisruptionBudget", "/spec/minAvailable"): Raw("{{ .Values.shards }}"),
    ("Role", "/rules/0/resourceNames/-"): Items(
        ("{{- range $number := untilStep 1 (int .Values.shards) 1 }}", "- gangctl-shard-{{ $number }}", "{{- end }}")
    ),
}
"""What the component shards sets, by kind and place, for any number of them."""
_PODS = Raw("{{ max 10 (add 2 .Values.shards) (add1 .Values.replicas) | quote }}")
"""Room for every replica and the one that an update has beside them."""
_ENOUGH = """\
{{- if and .Values.replicas (lt (int .Values.replicas) (int .Values.shards)) }}
{{- fail (printf "replicas: %d cannot lead %d shards, one each" (int .Values.replicas) (int .Values.shards)) }}
{{- end }}
"""
_WHOLE = re.compile(r"(?m)(?<=[:-] )gangctl-system$")
_WITHIN = re.compile(r"(?<![\w-])gangctl-system(?![\w-])")


def render() -> dict[str, str]:
    """Text by file name."""
    patches = [(each, patch) for each in COMPONENTS for patch in read_component(each.name).patches]
    documents: dict[str, list[str]] = {}
    for raw in read_root("base"):
        documents.setdefault(_FILES.get(raw["kind"], _RIGHTS), []).append(_document(raw, patches))
    files = {name: stream(each) for name, each in documents.items()}
    files["deployment"] = _ENOUGH + files["deployment"]
    files["namespace"] = when(".Values.createNamespace", files["namespace"])
    files["flowcontrol"] = when(".Values.flowControl", files["flowcontrol"])
    for component in COMPONENTS:
        # Patches are for what comes before them.
        later = [each for each in patches if COMPONENTS.index(each[0]) >= COMPONENTS.index(component)]
        objects = [_document(raw, later) for raw in read_component(component.name).objects]
        if objects:
            files[component.name.replace("/", "-")] = when(_condition(component), stream(objects))
    return {f"{name}.yaml": _HEADER + text for name, text in files.items()}


def _condition(component: Component) -> str:
    return _CONDITIONS.get(component.name, f".Values.components.{component.value}")


def _document(raw: Object, patches: list[tuple[Component, Patch]]) -> str:
    tree = copy.deepcopy(raw)
    without = []
    for component, patch in patches:
        if not patch.concerns(raw):
            continue
        if patch.operations is None:
            without.append(_condition(component))
        else:
            for operation in patch.operations:
                tree = branch(tree, _numbered(component, raw["kind"], operation), _condition(component))
    _adjust(tree)
    text = "".join(f"{line}\n" for line in emit(tree))
    for condition in without:
        text = when(f"not {condition}", text)
    return _WITHIN.sub("{{ .Release.Namespace }}", _WHOLE.sub("{{ .Release.Namespace | quote }}", text))


def _numbered(component: Component, kind: str, operation: Object) -> Object:
    if component.name != "shards" or operation["op"] == "test":
        return operation
    return {**operation, "value": _NUMBERED[kind, operation["path"]]}


def _adjust(tree: Object) -> None:
    """Let values change an object."""
    match tree["kind"], tree["metadata"]["name"]:
        case "Deployment", _:
            _adjust_deployment(tree["spec"])
        case "ResourceQuota", _:
            tree["spec"]["hard"]["pods"] = _PODS
        case "ServiceMonitor" | "PrometheusRule", _:
            tree["metadata"]["labels"]["..."] = Fields(".Values.monitoring.labels")
            for group in tree["spec"].get("groups", []):
                for annotations in filter(None, (rule.get("annotations") for rule in group["rules"])):
                    _set_base(annotations, "runbook_url", DOCS, "runbookBaseUrl")
                    _set_base(annotations, "dashboard_url", "", "dashboardBaseUrl")
        case (("MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration"), "gangctl-gangs"):
            (webhook,) = tree["webhooks"]
            webhook["failurePolicy"] = Raw("{{ .Values.webhook.failurePolicy }}")
        case "CustomResourceDefinition", _:
            annotations = tree["metadata"].get("annotations", {})
            policy = "helm.sh/resource-policy"
            if annotations:
                annotations[policy] = Choice(".Values.keepDefinitions", "keep")
            else:
                tree["metadata"]["annotations"] = Choice(".Values.keepDefinitions", {policy: "keep"})


def _set_base(annotations: Object, name: str, base: str, value: str) -> None:
    assert annotations[name].startswith(base)
    annotations[name] = Raw(f"{{{{ .Values.monitoring.{value} }}}}{annotations[name].removeprefix(base)}")


def _adjust_deployment(spec: Object) -> None:
    spec["replicas"] = Choice(".Values.replicas", Raw("{{ .Values.replicas }}"), spec["replicas"])
    pod = spec["template"]["spec"]
    (container,) = pod["containers"]
    container["image"] = Raw('{{ include "gangctl.image" . }}')
    container["imagePullPolicy"] = Raw("{{ .Values.image.pullPolicy }}")
    container["args"].append(Items(("{{- range .Values.flags }}", "- {{ . | quote }}", "{{- end }}")))
    container["args"].append(Choice(".Values.logLevel", Raw("--log-level={{ .Values.logLevel }}")))
    container["resources"] = Choice(".Values.resources", Tree(".Values.resources"), container["resources"])
    for name, value in (("imagePullSecrets", ".Values.image.pullSecrets"), ("tolerations", ".Values.tolerations")):
        pod[name] = Choice(value, Tree(value))


if __name__ == "__main__":
    PLACE.mkdir(parents=True, exist_ok=True)
    for name, text in render().items():
        (PLACE / name).write_text(text, encoding="utf-8")
