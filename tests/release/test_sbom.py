"""The bill of materials is CycloneDX, and complete: every locked package with files, licence and dependents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from release.licences import licence_of
from release.lock import Locked, read_lock
from release.sbom import Release, bill_of_materials
from tests.rows import each

ROOT = Path(__file__).parents[2]
RELEASE = Release("1.2.3", "ab" * 20, 1_700_000_000, {"gangctl-1.2.3.tar.gz": "cd" * 32})
PACKAGES = read_lock(ROOT / "locks" / "runtime.txt")


@pytest.fixture(scope="module")
def text() -> str:
    return bill_of_materials(RELEASE, PACKAGES)


@pytest.fixture(scope="module")
def bill(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.fixture(scope="module")
def components(bill: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {component["name"]: component for component in bill["components"]}


def test_the_bill_of_materials_is_valid(text: str) -> None:
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_the_schema_refuses_an_invalid_document(bill: dict[str, Any]) -> None:
    wrong = {**bill, "components": [{**bill["components"][0], "scope": "needed"}]}
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(wrong)) is not None


def test_the_bill_of_materials_names_this_release(bill: dict[str, Any]) -> None:
    about = bill["metadata"]
    assert (about["component"]["name"], about["component"]["version"]) == ("gangctl", "1.2.3")
    assert about["component"]["purl"] == "pkg:pypi/gangctl@1.2.3"
    (file,) = about["component"]["externalReferences"]
    assert (file["url"], file["hashes"]) == ("gangctl-1.2.3.tar.gz", [{"alg": "SHA-256", "content": "cd" * 32}])
    assert about["properties"] == [{"name": "gangctl:commit", "value": RELEASE.commit}]
    assert about["timestamp"] == "2023-11-14T22:13:20+00:00"


def test_the_bill_lists_exactly_the_locked_packages(components: dict[str, dict[str, Any]]) -> None:
    assert set(components) == {package.name for package in PACKAGES}


@each("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_has_its_version_files_and_licence(package: Locked, components: dict[str, dict[str, Any]]) -> None:
    component = components[package.name]
    assert (component["version"], component["purl"]) == (package.version, package.purl)
    assert component["scope"] == "required"
    (files,) = component["externalReferences"]
    assert {digest["content"] for digest in files["hashes"]} == set(package.hashes)
    (licence,) = component["licenses"]
    said = licence["expression"] if "expression" in licence else licence["license"]["id"]
    assert said == licence_of(package).expression


def test_every_package_is_needed_by_another(bill: dict[str, Any]) -> None:
    edges = {entry["ref"]: entry.get("dependsOn", []) for entry in bill["dependencies"]}
    assert len(edges) == len(bill["components"]) + 1
    reached, ahead = set(), ["gangctl"]
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached.add(name)
            ahead += edges[name]
    assert reached == set(edges)


def test_dependencies_are_those_of_the_metadata(bill: dict[str, Any]) -> None:
    edges = {entry["ref"]: entry.get("dependsOn", []) for entry in bill["dependencies"]}
    (rich,) = [package.purl for package in PACKAGES if package.name == "rich"]
    assert [name.partition("@")[0] for name in edges[rich]] == ["pkg:pypi/markdown-it-py", "pkg:pypi/pygments"]


def test_the_same_release_has_the_same_bytes(text: str) -> None:
    assert bill_of_materials(RELEASE, PACKAGES[::-1]) == text


def test_another_commit_has_another_serial_number(bill: dict[str, Any]) -> None:
    other = Release(RELEASE.version, "ef" * 20, RELEASE.time, RELEASE.files)
    assert json.loads(bill_of_materials(other, PACKAGES))["serialNumber"] != bill["serialNumber"]
