"""The Deployment and what stands around it fit each other, the flags of the process and the restricted level."""

from typing import Any

import pytest

import gangctl
from gangctl.api.quantity import parse_quantity
from gangctl.errors import ConfigError
from gangctl.evaluation.options import EvaluatorOptions
from gangctl.manager.process import EVENT_DRAIN_SECONDS
from gangctl.manager.settings import ControllerSettings, load_settings, split_address
from gangctl.runtime.server import ListenerOptions
from gangctl.webhooks.configurations import (
    MUTATING,
    MUTATING_JOBS,
    VALIDATING,
    Endpoint,
    NeededWebhooks,
    WebhookSettings,
    build_policy_configurations,
)
from tests.manifests import webhooks
from tests.manifests.files import MANIFESTS, documents, one

BASE = MANIFESTS / "base"
Object = dict[str, Any]


@pytest.fixture
def deployment() -> Object:
    return one(BASE / "deployment.yaml")


@pytest.fixture
def pod(deployment: Object) -> Object:
    spec: Object = deployment["spec"]["template"]["spec"]
    return spec


@pytest.fixture
def container(pod: Object) -> Object:
    (found,) = pod["containers"]
    return dict(found)


@pytest.fixture
def settings(container: Object) -> ControllerSettings:
    command, *flags = container["args"]
    assert command == "controller"
    return load_settings(dict(flag.removeprefix("--").split("=", 1) for flag in flags), None)


@pytest.fixture
def labels(deployment: Object) -> dict[str, str]:
    found: dict[str, str] = deployment["spec"]["template"]["metadata"]["labels"]
    return found


def service(name: str) -> Object:
    (found,) = [each for each in documents(BASE / "services.yaml") if each["metadata"]["name"] == name]
    return found


CONFIGURATIONS = [each for path in webhooks.render() if path.name == "webhooks.yaml" for each in documents(path)]


def test_webhook_configurations_are_those_of_the_code() -> None:
    written = {path: path.read_text() for path in webhooks.render()}
    assert written == webhooks.render(), "run python -m tests.manifests.webhooks"


def test_webhook_configurations_name_the_service(settings: ControllerSettings) -> None:
    for configuration in CONFIGURATIONS:
        for webhook in configuration["webhooks"]:
            target = webhook["clientConfig"]["service"]
            found = service(target["name"])
            assert target["namespace"] == found["metadata"]["namespace"]
            assert target["port"] in {port["port"] for port in found["spec"]["ports"]}
            assert target["name"] == settings.webhook_service
            assert "caBundle" not in webhook["clientConfig"]
    assert [len(each["webhooks"]) for each in CONFIGURATIONS] == [len(MUTATING_JOBS), len(MUTATING), len(VALIDATING)]


def test_webhook_configurations_for_policies_exist_without_webhooks() -> None:
    found = documents(MANIFESTS / "policies" / "configurations.yaml")
    built = build_policy_configurations(WebhookSettings(Endpoint(service="s", namespace="n")), NeededWebhooks(), b"")
    assert [{**each, "webhooks": []} for each in found] == built
    assert not any("webhooks" in each for each in found), "applied again, they would withdraw what gangctl has put in"


def test_namespace_enforces_the_restricted_level() -> None:
    found = one(BASE / "namespace.yaml")["metadata"]["labels"]
    for mode in ("enforce", "audit", "warn"):
        assert found[f"pod-security.kubernetes.io/{mode}"] == "restricted"


def test_pod_is_restricted(pod: Object, container: Object) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    inner = container["securityContext"]
    assert inner["capabilities"] == {"drop": ["ALL"]}
    assert inner["allowPrivilegeEscalation"] is False
    assert inner["privileged"] is False
    assert inner["readOnlyRootFilesystem"] is True
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert all(set(volume) == {"name", "emptyDir"} for volume in pod["volumes"])


def test_the_pod_uses_the_bound_service_account(pod: Object) -> None:
    account = one(BASE / "serviceaccount.yaml")
    assert pod["serviceAccountName"] == account["metadata"]["name"]
    assert account["automountServiceAccountToken"] is False
    assert pod["automountServiceAccountToken"] is True


def test_arguments_are_flags_of_the_controller(settings: ControllerSettings) -> None:
    assert settings.webhook_registration == "ca-only"
    assert settings.leader_elect, "two replicas"
    assert settings.log_format == "json"
    assert settings.own_namespace is None, "the pod's"


def test_a_flag_that_these_configurations_would_not_follow_is_refused(container: Object) -> None:
    flags = dict(flag.removeprefix("--").split("=", 1) for flag in container["args"][1:])
    with pytest.raises(ConfigError, match=r"webhook-failure-policy Ignore has no effect with .* ca-only"):
        load_settings({**flags, "webhook-failure-policy": "Ignore"}, None)


def test_ports_are_those_the_process_listens_on(container: Object, settings: ControllerSettings) -> None:
    addresses = {"webhook": settings.webhook_listener(), "metrics": split_address(settings.metrics_bind_address)}
    assert addresses == {port["name"]: ("", port["containerPort"]) for port in container["ports"]}
    for name, port in (("gangctl-webhook", "webhook"), ("gangctl-metrics", "metrics")):
        assert [entry["targetPort"] for entry in service(name)["spec"]["ports"]] == [port]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == "metrics"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_selectors_find_the_pods(deployment: Object, pod: Object, labels: dict[str, str]) -> None:
    selectors = [
        deployment["spec"]["selector"]["matchLabels"],
        *(each["spec"]["selector"] for each in documents(BASE / "services.yaml")),
        one(BASE / "poddisruptionbudget.yaml")["spec"]["selector"]["matchLabels"],
        one(BASE / "networkpolicy.yaml")["spec"]["podSelector"]["matchLabels"],
        *(each["labelSelector"]["matchLabels"] for each in pod["topologySpreadConstraints"]),
    ]
    assert all(selector == labels for selector in selectors)


def test_a_drain_or_a_rollout_never_takes_the_last_replica(deployment: Object) -> None:
    replicas = deployment["spec"]["replicas"]
    assert replicas > one(BASE / "poddisruptionbudget.yaml")["spec"]["minAvailable"] >= 1
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_the_grace_period_covers_requests_in_flight(
    deployment: Object, pod: Object, container: Object, settings: ControllerSettings
) -> None:
    assert settings.shutdown_delay is not None
    assert settings.shutdown_delay >= 5, "until every node has heard that this replica is no endpoint any more"
    longest = max(
        webhook["timeoutSeconds"] for configuration in CONFIGURATIONS for webhook in configuration["webhooks"]
    )
    drain = ListenerOptions().drain_seconds
    assert drain >= longest
    assert pod["terminationGracePeriodSeconds"] >= settings.shutdown_delay + EVENT_DRAIN_SECONDS + drain
    assert "lifecycle" not in container, "the Lease is given back at SIGTERM, not after a preStop"
    surge = deployment["spec"]["strategy"]["rollingUpdate"]["maxSurge"]
    quota = one(BASE / "resourcequota.yaml")["spec"]
    assert int(quota["hard"]["pods"]) >= deployment["spec"]["replicas"] + surge
    assert quota["scopeSelector"]["matchExpressions"][0]["values"] == [pod["priorityClassName"]]


def test_network_policy_opens_the_ports_and_no_more(container: Object) -> None:
    spec = one(BASE / "networkpolicy.yaml")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    ingress = {port["port"]: rule.get("from") for rule in spec["ingress"] for port in rule["ports"]}
    assert ingress == {"webhook": None, "metrics": [{"namespaceSelector": {}}]}
    assert set(ingress) == {port["name"] for port in container["ports"]}
    assert {port["port"] for rule in spec["egress"] for port in rule["ports"]} == {443, 6443, 53}


def test_resources_are_requested_and_memory_is_limited(container: Object) -> None:
    assert set(container["resources"]["requests"]) == {"cpu", "memory", "ephemeral-storage"}
    assert set(container["resources"]["limits"]) == {"memory"}


def test_the_memory_limit_covers_a_worker_at_its_limit(container: Object) -> None:
    limit = parse_quantity(container["resources"]["limits"]["memory"])
    assert limit >= 400_000_000 + EvaluatorOptions().workers * EvaluatorOptions().memory_bytes


def test_image_is_this_release_and_can_be_replaced_by_name(container: Object) -> None:
    assert container["image"] == f"gangctl:{gangctl.__version__}"
