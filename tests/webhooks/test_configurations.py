"""The webhook configurations as data: order, failure policy, address of gangctl, excluded namespaces."""

from __future__ import annotations

import base64
from typing import Any

from gangctl.apiserver.expressions import MatchConditions
from gangctl.webhooks.configurations import (
    JOBS_NAME,
    KINDS,
    MUTATE_JOBS,
    MUTATE_JOBSETS,
    NAME,
    VALIDATE_GANGPOLICIES,
    VALIDATE_JOBSETS,
    VALIDATE_KEYS,
    Endpoint,
    FailurePolicy,
    WebhookSettings,
    build_configurations,
)
from tests.rows import each

Raw = dict[str, Any]
CA = b"-----BEGIN CERTIFICATE-----\n"
BY_URL = Endpoint(url="https://127.0.0.1:9443")
IN_CLUSTER = Endpoint(service="gangctl-webhooks", namespace="gangctl-system")
POLICIES = "Validating gangpolicies CREATE,UPDATE"
NEW_KEYS = "Validating jobsets UPDATE"
OTHERS = (
    "jobset-mutating-webhook-configuration",
    "jobset-validating-webhook-configuration",
    "kueue-mutating-webhook-configuration",
    "kueue-validating-webhook-configuration",
)


def hooks(settings: WebhookSettings, ca_bundle: bytes = CA) -> dict[str, Raw]:
    """Webhooks by what they do: ``Mutating jobsets CREATE,UPDATE``."""
    found = {}
    for configuration in build_configurations(settings, ca_bundle):
        phase = configuration["kind"].removesuffix("WebhookConfiguration")
        for hook in configuration["webhooks"]:
            (rule,) = hook["rules"]
            found[f"{phase} {rule['resources'][0]} {','.join(rule['operations'])}"] = hook
    return found


def in_namespaces(settings: WebhookSettings) -> list[Raw]:
    return [hook for what, hook in hooks(settings).items() if what != POLICIES]


def test_all_sort_before_jobsets_and_kueues() -> None:
    configurations = build_configurations(WebhookSettings(BY_URL), CA)
    names = [(configuration["kind"], configuration["metadata"]["name"]) for configuration in configurations]
    assert names == [(KINDS[0], JOBS_NAME), (KINDS[0], NAME), (KINDS[1], NAME)]
    assert all(theirs > ours for theirs in OTHERS for _, ours in names)


def test_each_operation_is_sent_to_its_path() -> None:
    endpoints = {
        "Mutating jobsets CREATE,UPDATE": MUTATE_JOBSETS,
        "Mutating jobs CREATE,UPDATE": MUTATE_JOBS,
        "Validating jobsets CREATE,UPDATE": VALIDATE_JOBSETS,
        POLICIES: VALIDATE_GANGPOLICIES,
        NEW_KEYS: VALIDATE_KEYS,
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
def test_the_failure_policy_is_that_of_jobsets_and_never_that_of_jobs(policy: FailurePolicy) -> None:
    found = hooks(WebhookSettings(BY_URL, failure_policy=policy, timeout_seconds=3))
    assert {hook["failurePolicy"] for what, hook in found.items() if " jobsets CREATE" in what} == {policy}
    assert {hook["failurePolicy"] for what, hook in found.items() if " jobs " in what} == {"Fail"}
    assert {hook["timeoutSeconds"] for hook in found.values()} == {3}


def test_by_default_a_gang_is_refused_while_gangctl_is_down() -> None:
    found = hooks(WebhookSettings(BY_URL))
    assert {what for what, hook in found.items() if hook["failurePolicy"] != "Fail"} == {POLICIES, NEW_KEYS}
    assert all(hook["matchConditions"] for hook in found.values())


def test_a_policy_and_an_exception_can_be_written_while_gangctl_is_down() -> None:
    """Nor do they depend on a namespace: API servers read no namespaceSelector for what has none."""
    hook = hooks(WebhookSettings(BY_URL, failure_policy="Fail"))[POLICIES]
    assert hook["failurePolicy"] == "Ignore"
    assert "namespaceSelector" not in hook
    (rule,) = hook["rules"]
    assert (rule["apiGroups"], rule["apiVersions"], rule["scope"]) == (["gangctl.dev"], ["v1alpha1"], "Cluster")
    assert rule["resources"] == ["gangpolicies", "gangpolicyexceptions"], "and not their status"


@each(
    "name, old, new, sent",
    [
        ("new", None, {"spec": {"a": 1}}, True),
        ("new without a spec", None, {}, True),
        ("the same spec", {"spec": {"a": [1, {"b": 2}]}}, {"spec": {"a": [1, {"b": 2}]}}, False),
        ("no spec", {}, {}, False),
        ("another spec", {"spec": {"a": 1}}, {"spec": {"a": 2}}, True),
        ("no spec any more", {"spec": {"a": 1}}, {}, True),
    ],
)
def test_a_policy_is_sent_if_its_spec_is_new(name: str, old: Raw | None, new: Raw, sent: bool) -> None:
    conditions = hooks(WebhookSettings(BY_URL))[POLICIES]["matchConditions"]
    metadata: Raw = {"name": "x", "labels": {"a": "new"}}
    before = None if old is None else {**old, "metadata": {"name": "x"}}
    operation = {"operation": "CREATE" if old is None else "UPDATE"}
    request = {"object": {**new, "metadata": metadata}, "oldObject": before, "request": operation}
    assert MatchConditions(conditions).hold(request) is sent, name
    if old is not None:
        deleted = {**old, "metadata": {"name": "x", "deletionTimestamp": "2026-11-27T00:00:00Z"}}
        assert not MatchConditions(conditions).hold({**request, "oldObject": deleted}), name


def test_that_for_jobs_is_called_again_and_all_are_for_dry_runs() -> None:
    for what, hook in hooks(WebhookSettings(BY_URL)).items():
        assert hook["sideEffects"] == "None"
        assert hook["admissionReviewVersions"] == ["v1"]
        assert hook["matchPolicy"] == "Equivalent"
        again = {"Mutating jobsets": "Never", "Mutating jobs": "IfNeeded"}
        assert hook.get("reinvocationPolicy") == again.get(what.rpartition(" ")[0])


def test_a_service_is_named_with_path_and_port() -> None:
    found = hooks(WebhookSettings(Endpoint(service="s", namespace="n", port=9443)))
    client = found["Mutating jobs CREATE,UPDATE"]["clientConfig"]
    assert client["service"] == {"name": "s", "namespace": "n", "path": MUTATE_JOBS, "port": 9443}
    assert "url" not in client
    assert hooks(WebhookSettings(IN_CLUSTER))["Mutating jobs CREATE,UPDATE"]["clientConfig"]["service"]["port"] == 443


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
        BY_URL, excluded_namespaces=("kube-system", "gangctl-system", "kube-system"), namespace_selector=(further,)
    )
    for hook in in_namespaces(settings):
        expressions = hook["namespaceSelector"]["matchExpressions"]
        assert {"key": "gangctl.dev/skip", "operator": "NotIn", "values": ["true"]} in expressions
        named = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["gangctl-system", "kube-system"]}
        assert named in expressions
        assert further in expressions
        assert len(expressions) == 3


def test_kube_system_is_left_out_by_default() -> None:
    for hook in in_namespaces(WebhookSettings(BY_URL)):
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
    first["Mutating jobs CREATE,UPDATE"]["matchConditions"][0]["expression"] = "false"
    first["Mutating jobs CREATE,UPDATE"]["rules"][0]["operations"].append("DELETE")
    again = hooks(WebhookSettings(BY_URL))["Mutating jobs CREATE,UPDATE"]
    assert again["matchConditions"][0]["expression"] != "false"
    assert again["rules"][0]["operations"] == ["CREATE", "UPDATE"]
