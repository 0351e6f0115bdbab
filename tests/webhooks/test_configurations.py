"""The webhook configurations as data: order, failure policy, address of gangctl, excluded namespaces."""

from __future__ import annotations

import base64
from typing import Any

from gangctl.webhooks.configurations import (
    KINDS,
    MUTATE_JOBS,
    MUTATE_JOBSETS,
    NAME,
    VALIDATE_JOBSETS,
    Endpoint,
    FailurePolicy,
    WebhookSettings,
    build_configurations,
    build_job_webhooks,
)
from tests.rows import each

Raw = dict[str, Any]
CA = b"-----BEGIN CERTIFICATE-----\n"
BY_URL = Endpoint(url="https://127.0.0.1:9443")
IN_CLUSTER = Endpoint(service="gangctl-webhooks", namespace="gangctl-system")
OTHERS = (
    "jobset-mutating-webhook-configuration",
    "jobset-validating-webhook-configuration",
    "kueue-mutating-webhook-configuration",
    "kueue-validating-webhook-configuration",
)


def hooks(settings: WebhookSettings, ca_bundle: bytes = CA) -> dict[str, Raw]:
    """Webhooks by what they do: ``Mutating jobsets CREATE,UPDATE``."""
    found = {}
    for configuration in [*build_configurations(settings, ca_bundle), build_job_webhooks(settings, ca_bundle)]:
        phase = configuration["kind"].removesuffix("WebhookConfiguration")
        for hook in configuration["webhooks"]:
            (rule,) = hook["rules"]
            found[f"{phase} {rule['resources'][0]} {','.join(rule['operations'])}"] = hook
    return found


def test_both_kinds_sort_before_jobsets_and_kueues() -> None:
    configurations = build_configurations(WebhookSettings(BY_URL), CA)
    assert tuple(configuration["kind"] for configuration in configurations) == KINDS
    assert {configuration["metadata"]["name"] for configuration in configurations} == {NAME}
    assert all(name > NAME for name in OTHERS)


def test_each_operation_is_sent_to_its_path() -> None:
    endpoints = {
        "Mutating jobsets CREATE,UPDATE": MUTATE_JOBSETS,
        "Mutating jobs CREATE": MUTATE_JOBS,
        "Mutating jobs UPDATE": MUTATE_JOBS,
        "Validating jobsets CREATE,UPDATE": VALIDATE_JOBSETS,
    }
    found = hooks(WebhookSettings(BY_URL))
    urls = {what: hook["clientConfig"]["url"] for what, hook in found.items()}
    assert urls == {what: f"https://127.0.0.1:9443{path}" for what, path in endpoints.items()}
    groups = {hook["rules"][0]["resources"][0]: hook["rules"][0] for hook in found.values()}
    assert (groups["jobsets"]["apiGroups"], groups["jobsets"]["apiVersions"]) == (["jobset.x-k8s.io"], ["v1alpha2"])
    assert (groups["jobs"]["apiGroups"], groups["jobs"]["apiVersions"]) == (["batch"], ["v1"])


def test_names_are_unique_and_qualified() -> None:
    for configuration in build_configurations(WebhookSettings(BY_URL), CA):
        names = [hook["name"] for hook in configuration["webhooks"]]
        assert len(set(names)) == len(names)
        assert all(name.count(".") >= 2 for name in names)


@each("policy", ["Fail", "Ignore"])
def test_the_failure_policy_is_everywhere_the_same(policy: FailurePolicy) -> None:
    found = hooks(WebhookSettings(BY_URL, failure_policy=policy, timeout_seconds=3))
    assert {hook["failurePolicy"] for hook in found.values()} == {policy}
    assert {hook["timeoutSeconds"] for hook in found.values()} == {3}


def test_by_default_a_gang_is_refused_while_gangctl_is_down() -> None:
    found = hooks(WebhookSettings(BY_URL))
    assert {hook["failurePolicy"] for hook in found.values()} == {"Fail"}
    assert all(hook["matchConditions"] for hook in found.values())


def test_each_webhook_is_called_once_and_for_dry_runs_too() -> None:
    for what, hook in hooks(WebhookSettings(BY_URL)).items():
        assert hook["sideEffects"] == "None"
        assert hook["admissionReviewVersions"] == ["v1"]
        assert hook["matchPolicy"] == "Equivalent"
        assert hook.get("reinvocationPolicy") == ("Never" if what.startswith("Mutating") else None)


def test_a_service_is_named_with_path_and_port() -> None:
    found = hooks(WebhookSettings(Endpoint(service="s", namespace="n", port=9443)))
    client = found["Mutating jobs CREATE"]["clientConfig"]
    assert client["service"] == {"name": "s", "namespace": "n", "path": MUTATE_JOBS, "port": 9443}
    assert "url" not in client
    assert hooks(WebhookSettings(IN_CLUSTER))["Mutating jobs CREATE"]["clientConfig"]["service"]["port"] == 443


def test_a_url_may_end_with_a_slash() -> None:
    found = hooks(WebhookSettings(Endpoint(url="https://gangctl.example:1/base/")))
    client = found["Validating jobsets CREATE,UPDATE"]["clientConfig"]
    assert client["url"] == f"https://gangctl.example:1/base{VALIDATE_JOBSETS}"
    assert "service" not in client


@each("endpoint", [BY_URL, IN_CLUSTER])
def test_the_bundle_is_in_every_webhook_or_in_none(endpoint: Endpoint) -> None:
    bundles = {hook["clientConfig"]["caBundle"] for hook in hooks(WebhookSettings(endpoint)).values()}
    assert {base64.b64decode(bundle) for bundle in bundles} == {CA}
    assert not any("caBundle" in hook["clientConfig"] for hook in hooks(WebhookSettings(endpoint), b"").values())


def test_namespaces_that_are_never_sent() -> None:
    further = {"key": "team", "operator": "In", "values": ["ml"]}
    settings = WebhookSettings(
        BY_URL,
        excluded_namespaces=("kube-system", "gangctl-system", "kube-system"),
        namespace_selector=(further,),
    )
    for hook in hooks(settings).values():
        expressions = hook["namespaceSelector"]["matchExpressions"]
        assert {"key": "gangctl.dev/skip", "operator": "NotIn", "values": ["true"]} in expressions
        named = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["gangctl-system", "kube-system"]}
        assert named in expressions
        assert further in expressions
        assert len(expressions) == 3


def test_kube_system_is_left_out_by_default() -> None:
    for hook in hooks(WebhookSettings(BY_URL)).values():
        assert "kube-system" in hook["namespaceSelector"]["matchExpressions"][1]["values"]


def test_only_jobs_of_jobsets_are_sent() -> None:
    for what, hook in hooks(WebhookSettings(BY_URL)).items():
        selector = {"matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]}
        assert hook.get("objectSelector") == (selector if " jobs " in what else None)


def test_condition_names_are_unique_within_a_webhook() -> None:
    for hook in hooks(WebhookSettings(BY_URL)).values():
        names = [condition["name"] for condition in hook["matchConditions"]]
        assert len(set(names)) == len(names)


def test_configurations_are_independent_of_each_other() -> None:
    first = hooks(WebhookSettings(BY_URL))
    first["Mutating jobs CREATE"]["matchConditions"][0]["expression"] = "false"
    first["Mutating jobs CREATE"]["rules"][0]["operations"].append("DELETE")
    again = hooks(WebhookSettings(BY_URL))["Mutating jobs CREATE"]
    assert again["matchConditions"][0]["expression"] != "false"
    assert again["rules"][0]["operations"] == ["CREATE"]
