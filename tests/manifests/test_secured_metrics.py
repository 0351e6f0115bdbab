"""The component of secured metrics: every port, name and path in it leads where the process listens."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gangctl.cli.install.rendering import InstallationOptions, render
from gangctl.manager.metrics import READER, metrics_hosts
from gangctl.manager.settings import load_settings, split_address
from gangctl.manager.webhooks import SECRET
from gangctl.runtime.certs import CA_CERTIFICATE
from gangctl.runtime.metricsserver import PATH
from tests.controlplane.api import Object
from tests.manifests.files import MANIFESTS, documents, one

COMPONENT = MANIFESTS / "monitoring" / "secured"


def build(*components: str) -> dict[tuple[str, str], Object]:
    objects = render(InstallationOptions(frozenset(components)))
    found = {(each["kind"], each["metadata"]["name"]): each for each in objects}
    assert len(found) == len(objects)
    return found


def test_lists_every_file_beside_it() -> None:
    beside = {path.name for path in COMPONENT.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(one(COMPONENT / "kustomization.yaml")["resources"]) == beside


def test_the_role_has_exactly_the_listed_rights() -> None:
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


@pytest.mark.parametrize("components", [("monitoring", "monitoring/secured"), ("monitoring/secured",)], ids=len)
def test_an_overlay_switches_it_on(components: tuple[str, ...]) -> None:
    objects = build(*components)
    (container,) = objects["Deployment", "gangctl"]["spec"]["template"]["spec"]["containers"]
    _, *flags = container["args"]
    settings = load_settings(dict(flag.removeprefix("--").split("=", 1) for flag in flags), None)
    assert settings.metrics_secure
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert split_address(settings.metrics_secure_bind_address) == ("", ports["metrics-tls"])
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
