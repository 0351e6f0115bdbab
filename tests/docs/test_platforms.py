"""docs/platforms.md has the gates and API versions that this project's tests give Kubernetes, and no others."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from typing import Any, Final

import pytest
import yaml

from tests.controlplane.binaries import COMPONENTS
from tests.controlplane.build import ensure_binary
from tests.controlplane.components.apiserver import gates_flag
from tests.controlplane.minors import MINORS, NEWEST
from tests.docpages import ROOT
from tests.docs.tables import code, rows
from tests.rows import each

TEXT: Final = (ROOT / "docs/platforms.md").read_text(encoding="utf-8")
KIND: Final = yaml.safe_load((ROOT / "docs/howto/kind.yaml").read_text(encoding="utf-8"))
GATES: Final = gates_flag(MINORS[NEWEST].gates)
RUNTIME_CONFIG: Final = gates_flag(MINORS[NEWEST].runtime_config)
PLATFORMS: Final = ("kubeadm", "kubespray", "kind", "k3s", "GKE", "EKS", "AKS")


def section(title: str) -> str:
    """What stands below a heading of the page."""
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def configuration(title: str) -> dict[str, Any]:
    """The YAML of a section."""
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", section(title), flags=re.MULTILINE | re.DOTALL)
    found: dict[str, Any] = yaml.safe_load(block)
    return found


def test_the_flags_of_each_minor_are_those_of_the_tests() -> None:
    header, _, gates, runtime_config = rows(section("What gangs need"))
    minors = header[1:]
    assert minors == list(MINORS)
    assert [code(cell) for cell in gates[1:]] == [gates_flag(MINORS[minor].gates) for minor in minors]
    assert [code(cell) for cell in runtime_config[1:]] == [gates_flag(MINORS[minor].runtime_config) for minor in minors]


def test_every_platform_has_a_source() -> None:
    _, _, *table = rows(section("Who can set the feature gates"))
    found = {row[0]: row[2] for row in table}
    assert tuple(found) == PLATFORMS
    assert all(re.search(r"\]\(https://[^)]+\)", source) for source in found.values())
    assert "as of 2026-11" in TEXT


def test_kind_gets_the_gates_and_the_api_version() -> None:
    assert (KIND["kind"], KIND["apiVersion"]) == ("Cluster", "kind.x-k8s.io/v1alpha4")
    assert KIND["featureGates"] == dict(MINORS[NEWEST].gates)
    assert KIND["runtimeConfig"] == {version: "true" for version, on in MINORS[NEWEST].runtime_config.items() if on}


def test_the_nodes_of_kind_have_the_newest_minor() -> None:
    images = {node["image"] for node in KIND["nodes"]}
    assert [node["role"] for node in KIND["nodes"]] == ["control-plane", "worker", "worker"]
    (image,) = images
    assert re.fullmatch(rf"kindest/node:v{re.escape(NEWEST)}\.\d+@sha256:[0-9a-f]{{64}}", image)
    assert f"--name {KIND['name']} " in section("kind")


def test_kind_gets_the_jobset_of_the_tests() -> None:
    (release,) = re.findall(r"/jobset/releases/download/v([\d.]+)/", section("kind"))
    assert release == COMPONENTS["jobset"].version


def kubeadm() -> Iterator[tuple[str, dict[str, str]]]:
    for component in ("apiServer", "controllerManager", "scheduler"):
        yield component, {arg["name"]: arg["value"] for arg in configuration("kubeadm")[component]["extraArgs"]}


def k3s() -> Iterator[tuple[str, dict[str, str]]]:
    for component in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        args = configuration("k3s")[f"{component}-arg"]
        yield component, dict(arg.split("=", 1) for arg in args)


@each(("component", "flags"), [*kubeadm(), *k3s()])
def test_each_component_gets_its_flags(component: str, flags: dict[str, str]) -> None:
    wanted = {"feature-gates": GATES}
    if component.lower().endswith("apiserver"):
        wanted["runtime-config"] = RUNTIME_CONFIG
    assert flags == wanted


def test_kubespray_gets_the_gates_and_the_api_version() -> None:
    found = configuration("kubespray")
    assert found.pop("kube_kubeadm_apiserver_extra_args") == {"runtime-config": RUNTIME_CONFIG}
    assert found == {
        f"kube_{each_}_feature_gates": GATES.split(",") for each_ in ("apiserver", "controller", "scheduler")
    }


@pytest.mark.controlplane
@pytest.mark.differs(*MINORS)
@pytest.mark.parametrize("minor", [pytest.param(minor, marks=pytest.mark.minor(minor)) for minor in MINORS])
@pytest.mark.parametrize("component", ["kube-apiserver", "kube-controller-manager", "kube-scheduler"])
def test_each_component_lists_the_gates_and_is_not_given_others(minor: str, component: str) -> None:
    """In its own help: one that it does not know ends it at its start."""
    command = [str(ensure_binary(component, minor)), "--help"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    known = set(re.findall(r"kube:(\w+)=true\|false \((?:ALPHA|BETA) - default=false\)", listed))
    assert {gate for gate in ("GenericWorkload", "GangScheduling") if gate in known} == set(MINORS[minor].gates)
