"""API servers take what ``gangctl install`` prints with every component: strictly, and its pod as a restricted one.

Kustomize and Helm render the same objects (``test_installation.py``, ``test_chart.py``).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from gangctl.cli.install.components import NAMES
from gangctl.cli.install.rendering import InstallationOptions, render
from tests.cli.run import fine
from tests.controlplane.api import Object, path_of
from tests.controlplane.build import ensure_manifests
from tests.controlplane.plane import ControlPlane
from tests.live.definitions import serve, withdraw
from tests.manifests.chart import CHART
from tests.manifests.files import MANIFESTS, one
from tests.manifests.helm import Helm
from tests.manifests.kubeconform import kubeconform, write_schemas
from tests.manifests.kubectl import Kubectl

pytestmark = pytest.mark.controlplane

DEFINITIONS = {
    "cert-manager": ("cert-manager.io_certificates", "cert-manager.io_issuers"),
    "prometheus-operator": ("monitoring.coreos.com_prometheusrules", "monitoring.coreos.com_servicemonitors"),
}
"""Of other people's kinds, as they ship them."""

CONFIGURATIONS = 5
"""Of webhooks: two of gangs, one of their Jobs and two of policies."""


@pytest.fixture
async def restricted(plane: ControlPlane, namespace: str) -> str:
    """A namespace with the labels of gangctl's own."""
    labels = one(MANIFESTS / "base" / "namespace.yaml")["metadata"]["labels"]
    await plane.api.patch(path_of("v1", "namespaces", name=namespace), {"metadata": {"labels": labels}})
    return namespace


@pytest.fixture
async def equipped(plane: ControlPlane) -> AsyncIterator[ControlPlane]:
    """The plane, for a while with cert-manager's and Prometheus' operator's kinds."""
    found = [
        one(ensure_manifests(name) / "crd" / f"{file}.yaml") for name, files in DEFINITIONS.items() for file in files
    ]
    await serve(plane.api, found)
    yield plane
    await withdraw(plane.api, found)


async def test_servers_accept_every_object_without_a_warning(
    equipped: ControlPlane, restricted: str, tmp_path: Path
) -> None:
    flags = [word for name in NAMES for word in ("--component", name)]
    printed = fine("install", "--image", "gangctl:0.1.0", "--namespace", restricted, *flags).out
    # A gangctl beside the plane may have registered itself, with addresses where the installation has a Service.
    printed, renamed = re.subn(r"(WebhookConfiguration\nmetadata:\n  name: )", r"\1printed-", printed)
    assert renamed == CONFIGURATIONS
    applied = await Kubectl(tmp_path, equipped.kubeconfig).run(
        *("apply", "--dry-run=server", "--validate=strict", "-f", "-"), given=printed
    )
    lines = applied.text.splitlines()
    assert len(lines) == len(list(yaml.safe_load_all(printed)))
    assert all(line.endswith(" (server dry run)") for line in lines)
    assert applied.warnings == []


async def test_kubeconform_accepts_every_object_on_each_minor(equipped: ControlPlane, tmp_path: Path) -> None:
    objects = render(InstallationOptions(frozenset(NAMES)))
    await write_schemas(equipped.api, objects, tmp_path)
    found = await kubeconform(yaml.safe_dump_all(objects), tmp_path)
    assert found["summary"] == {"valid": len(objects), "invalid": 0, "errors": 0, "skipped": 0}, found["resources"]
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    deployment["spec"]["template"]["spec"]["containers"][0]["securityContxt"] = {}
    wrong = await kubeconform(yaml.safe_dump(deployment), tmp_path)
    assert wrong["summary"]["invalid"] == 1
    assert "securityContxt" in str(wrong["resources"])


async def test_servers_and_kubeconform_accept_the_chart_of_typical_clusters(
    equipped: ControlPlane, restricted: str, tmp_path: Path
) -> None:
    """Once each object that some of the files in ``ci`` make of it, with the hooks of ``helm test``."""
    helm, printed, kinds = Helm(tmp_path), dict[str, Object](), dict[str, set[str]]()
    flags = ["--set", f"canary.namespace={restricted}"]
    flags += ["--kube-version", equipped.minor.name]
    for file in sorted((CHART / "ci").glob("*.yaml")):
        values = ("--values", str(file), *flags)
        rendered = await asyncio.to_thread(helm.run, "template", "any", str(CHART), "-n", restricted, *values)
        objects = [each for each in yaml.safe_load_all(rendered) if each is not None]
        kinds[file.name] = {each["kind"] for each in objects}
        # A gangctl beside the plane may have registered itself, with addresses where the installation has a Service.
        for each in objects:
            if each["kind"].endswith("WebhookConfiguration"):
                each["metadata"]["name"] = f"printed-{each['metadata']['name']}"
        printed |= {yaml.safe_dump(each): each for each in objects}
    assert len(kinds) == 10
    assert {"ServiceMonitor", "PrometheusRule", "ConfigMap"} <= kinds["monitoring-values.yaml"]
    assert "Certificate" in kinds["cert-manager-values.yaml"]
    await write_schemas(equipped.api, list(printed.values()), tmp_path)
    text = yaml.safe_dump_all(printed.values())
    found = await kubeconform(text, tmp_path)
    assert found["summary"] == {"valid": len(printed), "invalid": 0, "errors": 0, "skipped": 0}, found["resources"]
    # No server takes the Pod of the test before there is its account.
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "gangctl-canary"}}
    await equipped.api.create(path_of("v1", "serviceaccounts", namespace=restricted), account)
    applied = await Kubectl(tmp_path, equipped.kubeconfig).run(
        *("apply", "--dry-run=server", "--validate=strict", "-f", "-"), given=text
    )
    assert len(applied.text.splitlines()) == len(printed)
    assert applied.warnings == []


async def test_the_pod_with_every_component_is_a_restricted_one(plane: ControlPlane, restricted: str) -> None:
    objects = render(InstallationOptions(frozenset(NAMES), namespace=restricted))
    by_kind: dict[str, Object] = {each["kind"]: each for each in objects}
    await plane.api.create(path_of("v1", "serviceaccounts", namespace=restricted), by_kind["ServiceAccount"])
    template = by_kind["Deployment"]["spec"]["template"]
    metadata = {**template["metadata"], "name": "gangctl", "namespace": restricted}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    made = await plane.api.create(
        path_of("v1", "pods", namespace=restricted), pod, dryRun="All", fieldValidation="Strict"
    )
    mounted = {mount["mountPath"] for mount in made["spec"]["containers"][0]["volumeMounts"]}
    assert mounted == {"/tmp", "/etc/gangctl/certificates", "/var/run/secrets/kubernetes.io/serviceaccount"}
