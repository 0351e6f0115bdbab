"""The components of the modes that order admission: whole, few rights, and fences that name the right account."""

from __future__ import annotations

import os
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from gangctl.kueue.checks import is_ours
from gangctl.kueue.parameters import DEFAULTS, GangAdmissionParametersSpec, read_parameters
from gangctl.kueue.reading import read_check
from gangctl.manager.settings import load_settings
from tests.controlplane.api import Object
from tests.controlplane.plane import ControlPlane
from tests.manifests.crds import CHECK_PLACE, render_for_checks
from tests.manifests.files import MANIFESTS, ROOT, documents, one
from tests.manifests.kubectl import Kubectl

NAMES = ("kueue-check", "kueue-gate")
ACCOUNT = "system:serviceaccount:gangctl-system:gangctl"
GRANTED = {
    "kueue-check": {
        ("kueue.x-k8s.io", "admissionchecks", "get"),
        ("kueue.x-k8s.io", "admissionchecks/status", "patch"),
        ("kueue.x-k8s.io", "workloads/status", "patch"),
        ("gangctl.dev", "gangadmissionparameters", "list"),
        ("gangctl.dev", "gangadmissionparameters", "watch"),
        ("jobset.x-k8s.io", "jobsets", "get"),
    },
    "kueue-gate": {("jobset.x-k8s.io", "jobsets", "get"), ("jobset.x-k8s.io", "jobsets", "patch")},
}


def of_kind(name: str, kind: str) -> Object:
    (found,) = [each for each in documents(MANIFESTS / name) if each["kind"] == kind]
    return found


def test_the_definition_is_what_the_model_says() -> None:
    found = {path.name: path.read_text() for path in CHECK_PLACE.glob("gang*.yaml")}
    assert found == render_for_checks(), "run python -m tests.manifests.crds"


def test_the_example_in_the_documentation_is_good_and_shows_the_defaults() -> None:
    text = (ROOT / "docs" / "kueue.md").read_text(encoding="utf-8").partition("## Order of admission")[2]
    overlay, example = re.findall(r"^```yaml\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    for entry in yaml.safe_load(overlay)["resources"] + yaml.safe_load(overlay)["components"]:
        assert (MANIFESTS / entry.removeprefix("../") / "kustomization.yaml").exists()
    parameters, check = yaml.safe_load_all(example)
    assert read_parameters(parameters) == DEFAULTS
    assert set(parameters["spec"]) == {each.alias for each in GangAdmissionParametersSpec.model_fields.values()}
    found = read_check(check)
    assert is_ours(found.controller)
    assert found.parameters == ("gangctl.dev", parameters["kind"], parameters["metadata"]["name"])


@pytest.mark.parametrize("name", NAMES)
def test_lists_every_file_beside_it(name: str) -> None:
    listed = set(one(MANIFESTS / name / "kustomization.yaml")["resources"])
    beside = {path.name for path in (MANIFESTS / name).glob("*.yaml")} - {"kustomization.yaml"}
    assert {entry for entry in listed if entry.endswith(".yaml")} == beside


@pytest.mark.parametrize("name", NAMES)
def test_rights_are_these(name: str) -> None:
    rules = of_kind(name, "ClusterRole")["rules"]
    found = [(g, r, v) for rule in rules for g in rule["apiGroups"] for r in rule["resources"] for v in rule["verbs"]]
    assert sorted(found) == sorted(GRANTED[name])
    binding = of_kind(name, "ClusterRoleBinding")
    assert binding["roleRef"]["name"] == of_kind(name, "ClusterRole")["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "gangctl", "namespace": "gangctl-system"}]


@pytest.mark.parametrize("name", NAMES)
def test_each_rule_says_why(name: str) -> None:
    for before, line in pairwise((MANIFESTS / name / "clusterrole.yaml").read_text().splitlines()):
        assert not line.startswith("  - apiGroups:") or before.startswith("  # "), line


@pytest.mark.parametrize("name", NAMES)
def test_the_fence_is_closed_and_around_gangctl_alone(name: str) -> None:
    policy, binding = of_kind(name, "ValidatingAdmissionPolicy"), of_kind(name, "ValidatingAdmissionPolicyBinding")
    assert policy["spec"]["failurePolicy"] == "Fail"
    (condition,) = policy["spec"]["matchConditions"]
    assert condition["expression"] == f"request.userInfo.username == '{ACCOUNT}'"
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["validationActions"] == ["Deny"]
    fenced = {
        resource for rule in policy["spec"]["matchConstraints"]["resourceRules"] for resource in rule["resources"]
    }
    written = {resource for _, resource, verb in GRANTED[name] if verb == "patch"} - {"admissionchecks/status"}
    assert written <= fenced


def overlay(directory: Path) -> Path:
    """gangctl in a cluster with both components."""
    directory.mkdir()
    paths = {each: os.path.relpath(MANIFESTS / each, directory.resolve()) for each in ("base", *NAMES)}
    body: dict[str, Any] = {"resources": [paths["base"]], "components": [paths[name] for name in NAMES]}
    (directory / "kustomization.yaml").write_text(yaml.safe_dump(body))
    return directory


@pytest.mark.controlplane
async def test_an_overlay_switches_both_on(tmp_path: Path) -> None:
    built = await Kubectl(tmp_path).run("kustomize", str(overlay(tmp_path / "overlay")))
    objects = list(yaml.safe_load_all(built.text))
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    _, *flags = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    settings = load_settings(dict(flag.removeprefix("--").split("=", 1) for flag in flags), None)
    assert settings.kueue_check
    assert settings.kueue_gate
    identities = [(each["kind"], each["metadata"]["name"]) for each in objects]
    assert len(set(identities)) == len(identities)
    for name in NAMES:
        assert ("ClusterRole", f"gangctl-{name}") in identities
    assert ("CustomResourceDefinition", "gangadmissionparameters.gangctl.dev") in identities


@pytest.mark.controlplane
async def test_servers_take_them_without_a_warning(plane: ControlPlane, tmp_path: Path) -> None:
    kubectl = Kubectl(tmp_path, plane.kubeconfig)
    built = await kubectl.run("kustomize", str(overlay(tmp_path / "overlay")))
    objects = [each for each in yaml.safe_load_all(built.text) if "kueue" in each["metadata"]["name"]]
    objects += [each for each in yaml.safe_load_all(built.text) if "parameters" in each["metadata"]["name"]]
    applied = await kubectl.run(
        *("apply", "--dry-run=server", "--validate=strict", "-f", "-"), given=yaml.safe_dump_all(objects)
    )
    assert len(applied.text.splitlines()) == len(objects)
    assert applied.warnings == []
