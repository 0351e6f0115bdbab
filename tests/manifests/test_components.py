"""Components that add to the Deployment fit the process, each other, and what stands around them."""

from __future__ import annotations

from typing import Any

import pytest

from gangctl.cli.install.rendering import InstallationOptions, Object, render
from gangctl.manager.process import LEASE
from gangctl.manager.settings import load_settings
from gangctl.runtime.shards import lease_names
from tests.rows import each

Objects = dict[tuple[str, str], Object]


def rendered(*components: str) -> Objects:
    return {
        (each["kind"], each["metadata"]["name"]): each for each in render(InstallationOptions(frozenset(components)))
    }


def deployment(objects: Objects) -> Object:
    spec: Object = objects["Deployment", "gangctl"]["spec"]
    return spec


def test_high_availability_survives_a_node_failure_during_a_drain() -> None:
    objects = rendered("high-availability")
    spec = deployment(objects)
    least = objects["PodDisruptionBudget", "gangctl"]["spec"]["minAvailable"]
    assert spec["replicas"] - least == 1, "one may be drained"
    assert least >= 2, "and another one die"
    quota = objects["ResourceQuota", "gangctl-critical-pods"]["spec"]
    assert int(quota["hard"]["pods"]) >= spec["replicas"] + spec["strategy"]["rollingUpdate"]["maxSurge"]
    assert quota["scopeSelector"]["matchExpressions"][0]["values"] == [spec["template"]["spec"]["priorityClassName"]]


@each("components", [(), ("high-availability",), ("shards",)], ids="+".join)
def test_replicas_require_separate_nodes_where_there_are_and_prefer_zones(components: tuple[str, ...]) -> None:
    nodes, zones = deployment(rendered(*components))["template"]["spec"]["topologySpreadConstraints"]
    assert (nodes["topologyKey"], nodes["maxSkew"]) == ("kubernetes.io/hostname", 1)
    assert nodes["whenUnsatisfiable"] == "DoNotSchedule"
    assert nodes["nodeTaintsPolicy"] == "Honor", "or nodes that may not be used would count as empty ones"
    assert nodes["matchLabelKeys"] == ["pod-template-hash"], "or an update would be in its own way"
    assert zones["whenUnsatisfiable"] == "ScheduleAnyway"


@each("components", [("shards",), ("high-availability", "shards")], ids="+".join)
def test_each_shard_has_a_lease_and_a_replica_with_one_standby(components: tuple[str, ...]) -> None:
    objects = rendered(*components)
    spec = deployment(objects)
    (container,) = spec["template"]["spec"]["containers"]
    settings = load_settings(dict(flag.removeprefix("--").split("=", 1) for flag in container["args"][1:]), None)
    assert settings.shards > 1
    assert spec["replicas"] == settings.shards + 1
    assert objects["PodDisruptionBudget", "gangctl"]["spec"]["minAvailable"] == settings.shards
    rules = [each for each in objects["Role", "gangctl"]["rules"] if each["resources"] == ["leases"]]
    named = [name for each in rules for name in each.get("resourceNames", [])]
    assert named == [*lease_names(LEASE, settings.shards)]


class TestCertManager:
    @pytest.fixture
    def objects(self) -> Objects:
        return rendered("cert-manager")

    @pytest.fixture
    def pod(self, objects: Objects) -> Object:
        spec: Object = deployment(objects)["template"]["spec"]
        return spec

    def test_the_certificate_has_the_names_that_api_servers_use(self, objects: Objects, pod: Object) -> None:
        flags = dict(flag.removeprefix("--").split("=", 1) for flag in pod["containers"][0]["args"][1:])
        settings = load_settings(flags, None)
        names = objects["Certificate", "gangctl-webhook"]["spec"]["dnsNames"]
        assert names == [*settings.certificate_hosts("gangctl-system")]
        assert settings.webhook_registration == "ca-only", "the caBundle is gangctl's to write, from ca.crt"

    def test_the_issued_secret_is_mounted_and_read(self, objects: Objects, pod: Object) -> None:
        (container,) = pod["containers"]
        (volume,) = [each for each in pod["volumes"] if "secret" in each]
        (mount,) = [each for each in container["volumeMounts"] if each["name"] == volume["name"]]
        assert volume["secret"]["secretName"] == objects["Certificate", "gangctl-webhook"]["spec"]["secretName"]
        assert f"--cert-dir={mount['mountPath']}" in container["args"]
        assert mount["readOnly"] is True
        assert volume["secret"]["defaultMode"] == 0o440
        assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]
        assert "items" not in volume["secret"], "ca.crt tells gangctl that the caBundle is its own to write"

    def test_each_issuer_exists_and_the_authority_keeps_its_key(self, objects: Objects) -> None:
        authority, serving = (objects["Certificate", name]["spec"] for name in ("gangctl-ca", "gangctl-webhook"))
        for certificate in (authority, serving):
            reference = certificate["issuerRef"]
            assert (reference["kind"], reference["name"]) in objects
        assert objects["Issuer", serving["issuerRef"]["name"]]["spec"]["ca"]["secretName"] == authority["secretName"]
        assert authority["privateKey"]["rotationPolicy"] == "Never"
        assert hours(authority["renewBefore"]) > hours(serving["duration"]), "what it vouches for ends before it does"
        assert hours(serving["renewBefore"]) * 3 == hours(serving["duration"])

    def test_only_cert_manager_writes_the_ca_bundle(self, objects: Objects) -> None:
        configurations = [each for (kind, _), each in objects.items() if kind.endswith("WebhookConfiguration")]
        notes: list[Any] = [each["metadata"].get("annotations") for each in configurations]
        assert notes == [None] * 5


def hours(duration: str) -> int:
    return int(duration.removesuffix("h"))
