"""The component of secured metrics: every port, name and path in it leads where the process listens."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from gangctl.manager.certificates import SECRET
from gangctl.manager.securemetrics import READER, metrics_hosts
from gangctl.manager.settings import load_settings, split_address
from gangctl.runtime.certs import CA_CERTIFICATE
from gangctl.runtime.metricsserver import PATH
from tests.controlplane.api import Object
from tests.controlplane.plane import ControlPlane
from tests.manifests.files import MANIFESTS, documents, one
from tests.manifests.kubectl import Kubectl

COMPONENT = MANIFESTS / "monitoring" / "secured"


def overlay(directory: Path, *components: str) -> Path:
    """gangctl in a cluster with these components."""
    directory.mkdir()
    paths = {each: os.path.relpath(MANIFESTS / each, directory.resolve()) for each in ("base", *components)}
    body: dict[str, Any] = {"resources": [paths["base"]], "components": [paths[each] for each in components]}
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(body))
    return directory


async def build(directory: Path, *components: str) -> dict[tuple[str, str], Object]:
    built = await Kubectl(directory).run("kustomize", str(overlay(directory / "overlay", *components)))
    objects = list(yaml.safe_load_all(built.text))
    found = {(each["kind"], each["metadata"]["name"]): each for each in objects}
    assert len(found) == len(objects)
    return found


def test_lists_every_file_beside_it() -> None:
    beside = {path.name for path in COMPONENT.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(one(COMPONENT / "kustomization.yaml")["resources"]) == beside


def test_rights_are_these() -> None:
    roles = {each["metadata"]["name"]: each["rules"] for each in documents(COMPONENT) if each["kind"] == "ClusterRole"}
    assert roles.pop(READER) == [{"nonResourceURLs": [PATH], "verbs": ["get"]}]
    (rules,) = roles.values()
    assert [(rule["apiGroups"], rule["resources"], rule["verbs"]) for rule in rules] == [
        (["authentication.k8s.io"], ["tokenreviews"], ["create"]),
        (["authorization.k8s.io"], ["subjectaccessreviews"], ["create"]),
    ]
    binding = one(COMPONENT / "clusterrolebinding.yaml")
    assert binding["roleRef"]["name"] in roles
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "gangctl", "namespace": "gangctl-system"}]
    for before, line in pairwise((COMPONENT / "clusterrole.yaml").read_text().splitlines()):
        assert not line.startswith("  - apiGroups:") or before.startswith("  # "), line


@pytest.mark.controlplane
@pytest.mark.parametrize("components", [("monitoring", "monitoring/secured"), ("monitoring/secured",)], ids=len)
async def test_an_overlay_switches_it_on(components: tuple[str, ...], tmp_path: Path) -> None:
    objects = await build(tmp_path, *components)
    (container,) = objects["Deployment", "gangctl"]["spec"]["template"]["spec"]["containers"]
    _, *flags = container["args"]
    settings = load_settings(dict(flag.removeprefix("--").split("=", 1) for flag in flags), None)
    assert settings.metrics_secure
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert ports["metrics-tls"] == split_address(settings.metrics_secure_bind_address)[1]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        plain = container[probe]["httpGet"]["port"]
        assert ports[plain] == split_address(settings.metrics_bind_address)[1]
    service = objects["Service", settings.metrics_service]
    (port,) = service["spec"]["ports"]
    assert (port["targetPort"], port["appProtocol"]) == ("metrics-tls", "https")
    admitted = [each for rule in objects["NetworkPolicy", "gangctl"]["spec"]["ingress"] for each in rule["ports"]]
    assert [each["port"] for each in admitted] == ["webhook", "metrics-tls"]
    monitor = objects.get(("ServiceMonitor", "gangctl"))
    assert (monitor is not None) == ("monitoring" in components)
    if monitor is not None:
        (endpoint,) = monitor["spec"]["endpoints"]
        assert (endpoint["port"], endpoint["scheme"], endpoint["path"]) == (port["name"], "https", PATH)
        assert endpoint["bearerTokenFile"].endswith("/token")
        assert endpoint["tlsConfig"]["serverName"] in metrics_hosts(settings, "gangctl-system")
        assert endpoint["tlsConfig"]["ca"] == {"secret": {"name": SECRET, "key": CA_CERTIFICATE}}


@pytest.mark.controlplane
async def test_servers_take_it_without_a_warning(plane: ControlPlane, tmp_path: Path) -> None:
    objects = await build(tmp_path, "monitoring/secured")
    roles = [each for (kind, name), each in objects.items() if "metrics-re" in name and kind.startswith("ClusterRole")]
    assert len(roles) == 3
    applied = await Kubectl(tmp_path, plane.kubeconfig).run(
        *("apply", "--dry-run=server", "--validate=strict", "-f", "-"), given=yaml.safe_dump_all(roles)
    )
    assert len(applied.text.splitlines()) == len(roles)
    assert applied.warnings == []
