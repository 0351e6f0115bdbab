"""The definition of PathwaysJob: the file is that of the code, and its choices are those of the types."""

from __future__ import annotations

from typing import Any

from gangctl.pathways.accelerators import MACHINE_TYPES_OF_JOBS
from gangctl.pathways.job import ComponentType, DeploymentMode
from tests.manifests.crds import PATHWAYS_PLACE, render_for_pathways
from tests.manifests.definitions.pathwaysjobs import definitions
from tests.manifests.files import one
from tests.pathways.upstream_definition import upstream_definition


def schema(definition: dict[str, Any], *path: str) -> dict[str, Any]:
    """The schema of a field; ``[]`` is the entries of a list."""
    (version,) = definition["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    for name in path:
        found = found["items"] if name == "[]" else found["properties"][name]
    return found


def test_the_file_is_that_of_the_code() -> None:
    found = {path.name: path.read_text() for path in PATHWAYS_PLACE.glob("pathwaysjobs*.yaml")}
    assert found == render_for_pathways(), "run python -m tests.manifests.crds"


def test_the_component_lists_the_definition() -> None:
    assert "crds" in one(PATHWAYS_PLACE.parent / "kustomization.yaml")["resources"]
    assert one(PATHWAYS_PLACE / "kustomization.yaml")["resources"] == [*definitions()]


def test_the_definition_has_the_group_and_kind_of_upstream() -> None:
    (ours,), theirs = definitions().values(), upstream_definition()
    assert ours["metadata"] == theirs["metadata"]
    assert {key: ours["spec"][key] for key in ("group", "names", "scope")} == {
        key: theirs["spec"][key] for key in ("group", "names", "scope")
    }
    (version,), (other) = ours["spec"]["versions"], theirs["spec"]["versions"][0]
    assert version["name"] == other["name"]
    assert version["additionalPrinterColumns"] == other["additionalPrinterColumns"]
    assert _fields(schema(ours)) >= _fields(schema(theirs))
    assert _fields(schema(ours, "spec")) - _fields(schema(theirs, "spec")) == {
        f"controller.template.{field}"
        for field in (
            *("metadata", "spec", "metadata.annotations", "metadata.labels", "metadata.finalizers"),
            *("metadata.name", "metadata.namespace", "spec.containers", "spec.initContainers"),
            *("spec.containers.name", "spec.initContainers.name"),
        )
    }


def test_choices_are_those_of_the_types() -> None:
    (ours,) = definitions().values()
    assert schema(ours, "spec", "workers", "[]", "type")["enum"] == list(MACHINE_TYPES_OF_JOBS)
    assert schema(ours, "spec", "controller", "deploymentMode")["enum"] == list(DeploymentMode)
    assert schema(ours, "spec", "customComponents", "[]", "componentType")["enum"] == list(ComponentType)


def _fields(at: dict[str, Any], path: str = "") -> set[str]:
    """Every field below a schema, with its path."""
    found = set()
    for name, each in at.get("properties", {}).items():
        here = f"{path}.{name}".removeprefix(".")
        found |= {here} | _fields(each.get("items", each), here)
    return found
