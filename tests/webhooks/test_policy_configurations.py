"""The configurations of policies as data: no policy, no webhook; one entry a failurePolicy; never a subresource."""

from __future__ import annotations

from typing import Any

from gangctl.webhooks.configurations import (
    DEFAULTS,
    MUTATE_DEFAULTS,
    NAME,
    POLICIES,
    VALIDATE_FAIL,
    VALIDATE_IGNORE,
    Endpoint,
    FailurePolicy,
    NeededWebhooks,
    WebhookSettings,
    build_policy_configurations,
)
from tests.rows import each
from tests.webhooks.test_configurations import OTHERS

BY_URL = Endpoint(url="https://127.0.0.1:9443")
EVERYTHING = NeededWebhooks(frozenset({"CREATE", "UPDATE"}), frozenset({"DELETE", "CREATE"}), "Fail")


def hooks(demand: NeededWebhooks, settings: WebhookSettings | None = None) -> dict[str, dict[str, Any]]:
    """Webhooks by path."""
    built = build_policy_configurations(settings or WebhookSettings(BY_URL), demand, b"pem")
    found = [hook for configuration in built for hook in configuration["webhooks"]]
    return {hook["clientConfig"]["url"].removeprefix(BY_URL.url): hook for hook in found}


def test_policy_webhooks_sort_around_the_gang_webhooks() -> None:
    names = [
        each["metadata"]["name"] for each in build_policy_configurations(WebhookSettings(BY_URL), NeededWebhooks(), b"")
    ]
    assert names == [DEFAULTS, POLICIES]
    assert DEFAULTS < NAME
    assert all(name > POLICIES for name in OTHERS)


def test_without_a_policy_there_is_no_webhook() -> None:
    assert hooks(NeededWebhooks()) == {}


def test_the_failure_policy_of_an_operation_is_fail_if_one_policy_requires_it() -> None:
    found = hooks(EVERYTHING)
    said = {path: (hook["failurePolicy"], hook["rules"][0]["operations"]) for path, hook in found.items()}
    assert said == {
        VALIDATE_FAIL: ("Fail", ["CREATE", "UPDATE"]),
        # What is created is evaluated by all policies at the other entry.
        VALIDATE_IGNORE: ("Ignore", ["DELETE"]),
        MUTATE_DEFAULTS: ("Fail", ["CREATE"]),
    }
    assert len({hook["name"] for hook in found.values()}) == 3


@each("policy", ["Fail", "Ignore"])
def test_the_failure_policy_of_defaults_is_that_of_the_policies(policy: FailurePolicy) -> None:
    (hook,) = hooks(NeededWebhooks(defaults=policy)).values()
    assert hook["failurePolicy"] == policy
    assert hook["reinvocationPolicy"] == "Never"


def test_all_jobsets_are_sent_and_never_their_status() -> None:
    for hook in hooks(EVERYTHING).values():
        (rule,) = hook["rules"]
        assert (rule["apiGroups"], rule["resources"]) == (["jobset.x-k8s.io"], ["jobsets"])
        names = [condition["name"] for condition in hook.get("matchConditions", ())]
        assert names == ([] if rule["operations"] == ["CREATE"] else ["not-being-deleted"])
        assert hook["objectSelector"] == {"matchExpressions": []}
        assert hook["sideEffects"] == "None"


def test_namespaces_that_are_never_sent() -> None:
    further = {"key": "team", "operator": "In", "values": ["ml"]}
    settings = WebhookSettings(BY_URL, excluded_namespaces=("kube-system", "home"), namespace_selector=(further,))
    for hook in hooks(EVERYTHING, settings).values():
        assert hook["namespaceSelector"]["matchExpressions"] == [
            {"key": "gangctl.dev/skip", "operator": "NotIn", "values": ["true"]},
            {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["home", "kube-system"]},
            further,
        ]
