"""The components of the modes that order admission: whole, few rights, and fences that name the right account."""

from __future__ import annotations

import re

import pytest
import yaml

from gangctl.kueue.checks import DEFAULTS, GangAdmissionParametersSpec, is_ours, read_parameters
from gangctl.kueue.reading import read_check
from tests.manifests.component import Component, overlay
from tests.manifests.crds import CHECK_PLACE, render_for_checks
from tests.manifests.files import MANIFESTS, ROOT

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


def test_the_definition_is_that_of_the_model() -> None:
    found = {path.name: path.read_text() for path in CHECK_PLACE.glob("gang*.yaml")}
    assert found == render_for_checks(), "run python -m tests.manifests.crds"


def test_the_example_in_the_documentation_is_valid_and_has_the_defaults() -> None:
    text = (ROOT / "docs" / "admission-order.md").read_text(encoding="utf-8")
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
    assert {entry for entry in Component(name).listed if entry.endswith(".yaml")} == Component(name).beside


@pytest.mark.parametrize("name", NAMES)
def test_the_role_has_exactly_the_listed_rights(name: str) -> None:
    assert Component(name).rights == sorted(GRANTED[name])


@pytest.mark.parametrize("name", NAMES)
def test_each_rule_has_a_comment(name: str) -> None:
    assert Component(name).unexplained == []


@pytest.mark.parametrize("name", NAMES)
def test_the_admission_policy_denies_and_applies_to_gangctl_only(name: str) -> None:
    policy = Component(name).of_kind("ValidatingAdmissionPolicy")
    binding = Component(name).of_kind("ValidatingAdmissionPolicyBinding")
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


def test_an_overlay_enables_both_modes() -> None:
    settings, identities = overlay(*NAMES)
    assert settings.kueue_check
    assert settings.kueue_gate
    for name in NAMES:
        assert ("ClusterRole", f"gangctl-{name}") in identities
    assert ("CustomResourceDefinition", "gangadmissionparameters.gangctl.dev") in identities
