"""An API version is used if its OpenAPI document has every field as gangctl writes and reads it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.scheduling import CompositeTemplate, Generation, Template
from gangctl.gang.generation import COMPOSITE, TEMPLATES, differences
from gangctl.sandbox.discovery import document
from gangctl.sandbox.registry import Registry
from tests.rows import each

BETA = "io.k8s.api.scheduling.v1beta1."


def served(generation: Generation = Generation.V1) -> dict[str, Any]:
    """The document of a generation; the fields are those of real API servers (``tests/sandbox/fieldtable.py``)."""
    registry = Registry(generation.kubernetes)
    found = document(registry, "scheduling.k8s.io", generation.value, lambda _: None)
    assert found is not None
    return found


def changed(definition: str, **change: Any) -> dict[str, Any]:
    """The document of v1 with other keys in one schema."""
    found = served()
    found["components"]["schemas"][BETA + definition] |= change
    return found


@each("generation", [each for each in Generation if each.capabilities.pod_groups])
def test_what_gangctl_writes_and_reads_is_served(generation: Generation) -> None:
    assert differences(generation, served(generation)) == ()


def test_the_samples_have_every_option_and_none() -> None:
    plain, *full = TEMPLATES
    options = [field.name for field in fields(Template) if field.name not in {"name", "min_count"}]
    assert not any(getattr(plain, option) for option in options)
    assert all(getattr(template, option) for template in full for option in options)
    assert all(getattr(COMPOSITE, field.name) for field in fields(CompositeTemplate))


@each(
    ("definition", "field", "path"),
    [
        ("GangSchedulingPolicy", "minCount", "PodGroup.spec.schedulingPolicy.gang.minCount"),
        ("GangSchedulingPolicy", "minCount", "Workload.spec.podGroupTemplates[].schedulingPolicy.gang.minCount"),
        ("WorkloadSpec", "podGroupTemplates", "Workload.spec.podGroupTemplates"),
        ("WorkloadSpec", "controllerRef", "Workload.spec.controllerRef"),
        ("WorkloadReference", "templateName", "PodGroup.spec.workloadRef.templateName"),
        ("DisruptionMode", "all", "PodGroup.spec.disruptionMode.all"),
        ("DisruptionMode", "single", "PodGroup.spec.disruptionMode.single"),
        ("TopologyConstraint", "key", "PodGroup.spec.schedulingConstraints.topology[].key"),
        ("PodGroupResourceClaim", "resourceClaimName", "PodGroup.spec.resourceClaims[].resourceClaimName"),
        ("PodGroupSpec", "priorityClassName", "PodGroup.spec.priorityClassName"),
        ("PodGroupSpec", "priority", "PodGroup.spec.priority"),
        ("PodGroupStatus", "conditions", "PodGroup.status.conditions"),
    ],
)  # fmt: skip
def test_a_missing_field_is_named(definition: str, field: str, path: str) -> None:
    found = served()
    del found["components"]["schemas"][BETA + definition]["properties"][field]
    assert f"{path} does not exist" in differences(Generation.V1, found)


def test_the_fields_of_composites_are_compared_by_themselves() -> None:
    found = served()
    for generation in (Generation.V1BETA1, Generation.V1):
        assert differences(generation, served(generation), composite=True) == ()
    del found["components"]["schemas"][f"{BETA}PodGroupSpec"]["properties"]["parentCompositePodGroupName"]
    assert differences(Generation.V1, found) == ()
    names = differences(Generation.V1, found, composite=True)
    assert names == ("PodGroup.spec.parentCompositePodGroupName does not exist",)


def test_another_type_is_named() -> None:
    found = changed("DisruptionMode", type="string", enum=["single", "all"])
    assert "PodGroup.spec.disruptionMode is not of type object" in differences(Generation.V1, found)


def test_a_required_field_that_gangctl_does_not_write_is_named() -> None:
    found = changed("PodGroupSpec", required=["schedulingPolicy", "queue"])
    assert differences(Generation.V1, found) == ("PodGroup.spec.queue is required",)


def test_a_required_field_that_gangctl_writes_only_on_request_is_named() -> None:
    found = changed("PodGroupSpec", required=["priorityClassName"])
    assert differences(Generation.V1, found) == ("PodGroup.spec.priorityClassName is required",)


def test_an_optional_field_that_gangctl_does_not_know_is_no_difference() -> None:
    properties = served()["components"]["schemas"][f"{BETA}PodGroupSpec"]["properties"]
    assert differences(Generation.V1, changed("PodGroupSpec", properties={**properties, "queue": {}})) == ()


def test_a_kind_of_another_version_does_not_count() -> None:
    assert differences(Generation.V1, served(Generation.V1BETA1)) == (
        "Workload does not exist",
        "PodGroup does not exist",
    )


def test_references_that_lead_to_themselves_end() -> None:
    reference = {"$ref": f"#/components/schemas/{BETA}PodGroupSpec"}
    found = served()
    found["components"]["schemas"][f"{BETA}PodGroupSpec"] = reference
    assert differences(Generation.V1, found) == ("PodGroup.spec does not exist",)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
)


@given(JSON, st.sampled_from(["properties", "required", "type", "allOf", "$ref", "x-kubernetes-group-version-kind"]))
def test_any_json_is_compared(value: Any, key: str) -> None:
    assert differences(Generation.V1, value)
    found = changed("PodGroupSpec", **{key: value})
    found["components"]["schemas"]["other"] = value
    differences(Generation.V1, found)
