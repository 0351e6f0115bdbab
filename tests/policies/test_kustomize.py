"""The components do what policies/README.md describes, built by kubectl's kustomize."""

import os
import secrets
from pathlib import Path
from typing import Any

import pytest
import yaml

from gangctl.policy.verdict import Result
from tests.manifests.kubectl import Kubectl
from tests.policies.evaluated import evaluated
from tests.policies.pack import NOTES, PACK, Object, Shipped, shipped
from tests.policies.table import README
from tests.rows import each

pytestmark = pytest.mark.controlplane

OPTIONAL = tuple(each for each in shipped() if each.has_params_component)


async def built(directory: Path, home: Path) -> list[Object]:
    output = await Kubectl(home).run("kustomize", str(directory))
    assert output.warnings == []
    return list(yaml.safe_load_all(output.text))


def overlay(directory: Path, *components: str, **more: Any) -> Path:
    """An overlay of a user, elsewhere; kustomize requires relative paths to ours."""
    directory.mkdir()
    ways = [os.path.relpath(PACK / each, directory.resolve()) for each in components]
    (directory / "kustomization.yaml").write_text(yaml.safe_dump({"components": ways, **more}))
    return directory


def actions(objects: list[Object]) -> dict[str, list[str]]:
    policies = [each for each in objects if each["kind"] == "GangPolicy"]
    return {each["metadata"]["name"]: each["spec"]["validationActions"] for each in policies}


async def test_all_policies_warn_by_default(tmp_path: Path) -> None:
    assert actions(await built(PACK, tmp_path)) == {policy.name: ["Warn"] for policy in shipped()}


@each("policy", shipped(), ids=lambda policy: policy.name)
async def test_a_single_policy_is_built_unchanged(policy: Shipped, tmp_path: Path) -> None:
    (found,) = await built(policy.home, tmp_path)
    assert found == policy.document


@each(("component", "action", "failure"), [("deny", "Deny", "Fail"), ("audit", "Audit", "Ignore")])
async def test_an_action_component_applies_to_the_components_before_it(
    component: str, action: str, failure: str, tmp_path: Path
) -> None:
    objects = await built(overlay(tmp_path / component, "components/kueue", f"components/{component}"), tmp_path)
    kueue = {each.name for each in shipped() if each.annotations[f"{NOTES}category"] == "Kueue"}
    assert actions(objects) == {name: [action] for name in kueue}
    assert {each["spec"]["failurePolicy"] for each in objects} == {failure}


async def test_categories_can_have_different_actions(tmp_path: Path) -> None:
    overlay(tmp_path / "denied", "components/gangs", "components/deny")
    overlay(tmp_path / "audited", "components/cost", "components/audit")
    both = overlay(tmp_path / "both", resources=["../denied", "../audited"])
    due = {"Gangs": ["Deny"], "Cost": ["Audit"]}
    assert actions(await built(both, tmp_path)) == {
        policy.name: due[category]
        for policy in shipped()
        if (category := policy.annotations[f"{NOTES}category"]) in due
    }


async def test_policies_can_be_selected_by_severity(tmp_path: Path) -> None:
    example = next(text for text in README.read_text().split("```yaml\n")[1:] if "annotationSelector" in text)
    reported = yaml.safe_load(example.partition("```")[0])
    components = [each.removeprefix("policies/") for each in reported["components"]]
    own = overlay(tmp_path / "own", *components, patches=reported["patches"])
    found = actions(await built(own, tmp_path))
    for name, action in found.items():
        severity = next(each for each in shipped() if each.name == name).annotations[f"{NOTES}severity"]
        assert action == (["Deny"] if severity == "high" else ["Warn"]), name


@each("policy", OPTIONAL, ids=lambda policy: policy.name)
async def test_params_add_a_reference_and_its_config_map(policy: Shipped, tmp_path: Path) -> None:
    category = policy.annotations[f"{NOTES}category"].lower()
    found = await built(overlay(tmp_path / policy.name, f"components/{category}", f"{policy.name}/params"), tmp_path)
    (params,) = (each for each in found if each["kind"] == "ConfigMap")
    (referring,) = (each for each in found if each["metadata"]["name"] == policy.name and each["kind"] == "GangPolicy")
    reference = referring["spec"]["paramRef"]
    assert (params["metadata"]["name"], params["metadata"]["namespace"]) == (reference["name"], reference["namespace"])
    for name, resource in policy.resources.items():
        with_params = evaluated(referring, resource, [params])
        without = evaluated(policy.document, resource)
        said, due = ([(each.result, each.message) for each in one.findings] for one in (with_params, without))
        assert said == due, f"{name}: the ConfigMap is not the policy's own default"


@each(
    ("name", "data", "resource", "due"),
    [
        ("gang-required", {"pods": "8"}, "large", Result.FAIL),
        ("gang-required", {"pods": "9"}, "large", Result.PASS),
        ("gang-required", {"pods": "7"}, "small", Result.FAIL),
        ("gang-required", {}, "large", Result.FAIL),
        ("gang-count-limit", {"gangs": "256"}, "many", Result.FAIL),
        ("gang-count-limit", {"gangs": "300"}, "many", Result.PASS),
        ("gang-topology-keys", {"keys": "kubernetes.io/hostname,rack"}, "hostname", Result.PASS),
        ("gang-topology-keys", {"keys": "rack"}, "zone", Result.FAIL),
        ("gang-topology-keys", {}, "zone", Result.FAIL),
    ],
)
async def test_params_change_the_verdict(
    name: str, data: dict[str, str], resource: str, due: Result, tmp_path: Path
) -> None:
    (policy,) = (each for each in OPTIONAL if each.name == name)
    found = await built(
        overlay(tmp_path / secrets.token_hex(4), "components/gangs", f"{name}/params"),
        tmp_path,
    )
    (params,) = (each for each in found if each["kind"] == "ConfigMap")
    (referring,) = (each for each in found if each["metadata"]["name"] == name and each["kind"] == "GangPolicy")
    outcome = evaluated(referring, policy.resources[resource], [{**params, "data": data}])
    assert [each.result for each in outcome.findings] == [due]
