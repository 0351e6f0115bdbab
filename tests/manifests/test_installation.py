"""What ``gangctl install`` prints is what kustomize makes of the same components."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gangctl.cli.install.components import COMPONENTS, NAMES
from gangctl.cli.install.rendering import InstallationOptions, render
from tests.manifests import installation
from tests.manifests.combinations import COMBINATIONS, title
from tests.manifests.files import MANIFESTS, ROOT
from tests.manifests.overlays import build_overlay

INSTALL = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
README = (MANIFESTS / "README.md").read_text(encoding="utf-8")


def test_the_file_in_the_package_equals_the_manifests() -> None:
    assert installation.PATH.read_text(encoding="utf-8") == installation.render(), (
        "run python -m tests.manifests.installation"
    )


def test_every_component_of_the_tree_is_offered() -> None:
    found = {
        str(path.parent.relative_to(MANIFESTS))
        for path in MANIFESTS.rglob("kustomization.yaml")
        if yaml.safe_load(path.read_text())["kind"] == "Component"
    }
    assert found == set(NAMES)


def test_every_component_is_listed_with_what_it_needs() -> None:
    rows = [line.strip("|").split("|") for line in README.splitlines() if line.startswith("| [`")]
    reported = [(row[0].split("`")[1], row[1].strip(), row[2].strip()) for row in rows if len(row) == 4]
    assert reported == [(each.name, each.adds, each.needs) for each in COMPONENTS]


@pytest.mark.controlplane
@pytest.mark.parametrize("components", COMBINATIONS, ids=title)
async def test_the_objects_are_those_of_kustomize_in_its_order(components: tuple[str, ...], tmp_path: Path) -> None:
    expected = await build_overlay(tmp_path, components)
    assert render(InstallationOptions(frozenset(components))) == expected


KINDS_UNKNOWN = (
    *("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy", "FlowSchema"),
    "PriorityLevelConfiguration",
)
"""Kustomize does not know that these have no namespace."""


def _unplaced(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for each in objects:
        if each["kind"].startswith(KINDS_UNKNOWN):
            del each["metadata"]["namespace"]
    return objects


@pytest.mark.controlplane
async def test_the_rights_outside_of_the_cluster_are_those_of_kustomize(tmp_path: Path) -> None:
    expected = _unplaced(await build_overlay(tmp_path, root="out-of-cluster"))
    assert render(InstallationOptions(out_of_cluster=True)) == expected


@pytest.mark.controlplane
async def test_image_and_replicas_are_those_of_an_overlay(tmp_path: Path) -> None:
    image = {"name": "gangctl", "newName": "registry.example:5000/team/gangctl", "newTag": "1.2.3"}
    replicas = {"name": "gangctl", "count": 4}
    expected = await build_overlay(tmp_path, images=[image], replicas=[replicas])
    assert render(InstallationOptions(image="registry.example:5000/team/gangctl:1.2.3", replicas=4)) == expected


@pytest.mark.controlplane
async def test_a_failure_policy_is_that_of_the_patch_in_the_documentation(tmp_path: Path) -> None:
    (block,) = [
        block for block in re.findall(r"(?ms)^```yaml\n(patches:.*?)^```$", INSTALL) if "failurePolicy" in block
    ]
    expected = await build_overlay(tmp_path, **yaml.safe_load(block))
    assert render(InstallationOptions(failure_policy="Ignore")) == expected


def test_a_failure_policy_is_for_jobsets_and_not_for_jobs_of_existing_gangs() -> None:
    objects = render(InstallationOptions(failure_policy="Ignore"))
    found = {hook["name"]: hook["failurePolicy"] for item in objects for hook in item.get("webhooks", [])}
    ignored = {"jobsets.gangs.gangctl.dev", "policies.gangctl.dev", "keys.gangs.gangctl.dev"}
    assert found == {**dict.fromkeys(ignored, "Ignore"), "jobs.gangs.gangctl.dev": "Fail"}
    (policy,) = [item for item in objects if item["kind"] == "MutatingAdmissionPolicy"]
    assert policy["spec"]["failurePolicy"] == "Fail"


@pytest.mark.controlplane
@pytest.mark.parametrize("components", [(), NAMES], ids=title)
async def test_another_namespace_is_that_of_an_overlay_in_every_reference(
    components: tuple[str, ...], tmp_path: Path
) -> None:
    """Where kustomize needs a patch by hand, and our kustomizations say so, the name is another here already."""
    expected = _unplaced(await build_overlay(tmp_path, components, namespace="elsewhere"))
    assert render(InstallationOptions(frozenset(components), namespace="elsewhere")) == _named(expected)
    unreached = {each["kind"] for each in expected if "gangctl-system" in str(each)}
    patched = {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration", "MutatingAdmissionPolicyBinding"}
    patched |= {"ValidatingAdmissionPolicy"}
    patched |= {"ServiceMonitor", "Certificate", "ValidatingAdmissionPolicyBinding"} if components else set()
    assert unreached == patched


def _named(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _named(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_named(each) for each in value]
    return value.replace("gangctl-system", "elsewhere") if isinstance(value, str) else value


def test_a_namespace_whose_name_contains_the_default_is_replaced_once() -> None:
    first = render(InstallationOptions(namespace="my-gangctl-system"))
    assert "my-my-" not in str(first)
    assert {each["metadata"]["namespace"] for each in first if "namespace" in each["metadata"]} == {"my-gangctl-system"}


def test_flags_replace_those_of_the_same_name() -> None:
    flags = ("--shutdown-delay=9", "--log-level=debug", "--gang-scheduler=a", "--gang-scheduler=b")
    (deployment,) = [each for each in render(InstallationOptions(flags=flags)) if each["kind"] == "Deployment"]
    (plain,) = [each for each in render(InstallationOptions()) if each["kind"] == "Deployment"]
    before, after = (each["spec"]["template"]["spec"]["containers"][0].pop("args") for each in (plain, deployment))
    assert deployment == plain
    assert after == [*(each for each in before if not each.startswith("--shutdown-delay=")), *flags]


def test_renderings_share_no_objects() -> None:
    for each in render(InstallationOptions(frozenset(NAMES))):
        each["metadata"]["name"] = "spoilt"
    assert "spoilt" not in str(render(InstallationOptions(frozenset(NAMES))))
