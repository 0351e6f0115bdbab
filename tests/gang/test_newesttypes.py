"""What gangctl writes and reads, compared with the newest pre-release of Kubernetes (``newesttypes.py``)."""

from __future__ import annotations

from pathlib import Path

from gangctl.api.scheduling import CompositePodGroup, Generation, Owner
from gangctl.api.scheduling_versions import composite_pod_group
from gangctl.gang.generation import COMPOSITE, differences
from tests.gang.newesttypes import VERSION, document
from tests.rows import each

_API = "io.k8s.api.scheduling."
PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"


@each("composite", [False, True])
def test_v1beta1_has_every_field_of_gangctl(composite: bool) -> None:
    assert differences(Generation.V1BETA1, document("v1beta1"), composite=composite) == ()


def test_a_field_that_is_renamed_is_found() -> None:
    newest = document("v1beta1")
    properties = newest["components"]["schemas"][f"{_API}v1beta1.GangSchedulingPolicy"]["properties"]
    properties["minPods"] = properties.pop("minCount")
    assert "PodGroup.spec.schedulingPolicy.gang.minCount does not exist" in differences(Generation.V1BETA1, newest)


def test_v1_has_no_gangs() -> None:
    """As docs/compatibility.md says; where it has some, it is to be compared like v1beta1."""
    assert differences(Generation.V1, document("v1")) == ("Workload does not exist", "PodGroup does not exist")


@each("version", ["v1alpha3", "v1beta1"])
def test_composites_have_every_field_of_gangctl(version: str) -> None:
    schemas = document(version)["components"]["schemas"]
    group = CompositePodGroup("ns", "all", Owner("js", "uid"), "wl", COMPOSITE, 2)
    spec = composite_pod_group(group)["spec"]
    parts = {"CompositePodGroupSpec": spec, "WorkloadReference": spec["workloadRef"]}
    parts |= {"CompositePodGroupSchedulingPolicy": spec["schedulingPolicy"]}
    parts |= {"CompositeGangSchedulingPolicy": spec["schedulingPolicy"]["gang"]}
    for name, value in parts.items():
        schema = schemas[f"{_API}{version}.{name}"]
        assert set(schema.get("required", ())) <= value.keys() <= schema["properties"].keys(), name


def test_the_page_names_this_version() -> None:
    assert VERSION.removeprefix("v") in PAGE.read_text(encoding="utf-8")
