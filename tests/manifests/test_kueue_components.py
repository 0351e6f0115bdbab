"""The component that orders admission: whole, few rights, and a fence that names the right account."""

from __future__ import annotations

import re

import yaml

from gangctl.kueue.checks import DEFAULTS, GangAdmissionParametersSpec, is_ours, read_parameters
from gangctl.kueue.reading import read_check
from tests.manifests.component import Component, overlay
from tests.manifests.crds import CHECK_PLACE, render_for_checks
from tests.manifests.files import MANIFESTS, ROOT

COMPONENT = Component("kueue-check")
ACCOUNT = "system:serviceaccount:gangctl-system:gangctl"
GRANTED = {
    ("kueue.x-k8s.io", "admissionchecks", "get"),
    ("kueue.x-k8s.io", "admissionchecks/status", "patch"),
    ("kueue.x-k8s.io", "workloads/status", "patch"),
    ("gangctl.dev", "gangadmissionparameters", "list"),
    ("gangctl.dev", "gangadmissionparameters", "watch"),
    ("jobset.x-k8s.io", "jobsets", "get"),
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


def test_lists_every_file_beside_it() -> None:
    assert {entry for entry in COMPONENT.listed if entry.endswith(".yaml")} == COMPONENT.beside


def test_the_role_has_exactly_the_listed_rights() -> None:
    assert COMPONENT.rights == sorted(GRANTED)


def test_each_rule_has_a_comment() -> None:
    assert COMPONENT.unexplained == []


def test_the_admission_policy_denies_and_applies_to_gangctl_only() -> None:
    policy = COMPONENT.of_kind("ValidatingAdmissionPolicy")
    binding = COMPONENT.of_kind("ValidatingAdmissionPolicyBinding")
    assert policy["spec"]["failurePolicy"] == "Fail"
    (condition,) = policy["spec"]["matchConditions"]
    assert condition["expression"] == f"request.userInfo.username == '{ACCOUNT}'"
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]
    assert binding["spec"]["validationActions"] == ["Deny"]
    fenced = {
        resource for rule in policy["spec"]["matchConstraints"]["resourceRules"] for resource in rule["resources"]
    }
    written = {resource for _, resource, verb in GRANTED if verb == "patch"} - {"admissionchecks/status"}
    assert written <= fenced


def test_an_overlay_enables_the_check() -> None:
    settings, identities = overlay(COMPONENT.name)
    assert settings.kueue_check
    assert ("ClusterRole", "gangctl-kueue-check") in identities
    assert ("CustomResourceDefinition", "gangadmissionparameters.gangctl.dev") in identities
