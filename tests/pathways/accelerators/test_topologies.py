"""Topologies: the lists of PathwaysJobs word for word, XPK's rule by its totals, and the slices that they make."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.pathways.accelerators import (
    ACCELERATORS,
    MACHINE_TYPES_OF_JOBS,
    MachineType,
    Slice,
    by_machine_type,
    chips,
    normalized,
    rule_of,
    slice_of,
    topologies,
)
from gangctl.pathways.problems import InvalidReason, RefusedValueError
from tests.rows import each
from tests.strategies import PROPERTY

V5P = """
2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x4x12 4x8x8 4x4x20 4x8x12 4x4x28 8x8x8 4x12x12 4x8x20 4x4x44 8x8x12
4x4x52 4x8x28 4x12x20 8x8x16 4x4x68 8x12x12 4x4x76 8x8x20 4x12x28 4x8x44 4x4x92 8x12x16 4x20x20 4x8x52
12x12x12 8x8x28 4x4x116 8x12x20 4x4x124 8x16x16 4x12x44 4x8x68 4x20x28 12x12x16 4x4x148 4x8x76 4x12x52 8x16x20
4x4x164 8x12x28 4x4x172 8x8x44 12x12x20 4x8x92 4x4x188 12x16x16 4x28x28 8x20x20 4x12x68 8x8x52 4x4x212
12x12x24 4x20x44 8x16x28 4x12x76 4x8x116 4x4x236 12x16x20 4x4x244 4x8x124 12x12x28 16x16x16 4x20x52 8x12x44
8x8x68 4x12x92 8x20x28 12x16x24 4x8x148 12x20x20 8x8x76 4x28x44 8x12x52 16x16x20 12x12x36 4x8x164 12x16x28
4x20x68 4x8x172 4x12x116 8x16x44 12x20x24 4x28x52 8x8x92 4x12x124 4x8x188 4x20x76 16x16x24 12x24x24 16x20x28
"""
OF_JOBS = {
    "ct4p-hightpu-4t": "2x2x1 2x2x2 2x2x4 2x4x4 4x4x4 4x4x8 4x4x16 4x8x8 8x8x8 8x8x12 4x16x16 8x8x16 8x16x16",
    "ct5lp-hightpu-4t": "2x2 2x4 4x4 4x8 8x8 8x16 16x16",
    "ct5lp-hightpu-8t": "2x4",
    "ct6e-standard-4t": "1x1 2x2 2x4 4x4 4x8 8x8 8x16 16x16",
    "ct6e-standard-8t": "2x4",
    "ct5p-hightpu-4t": V5P,
}
"""As google/pathways-job has them; tpu7x has those of v5p and two more."""

MACHINES = [each.machine_type for each in ACCELERATORS]
ALLOWED = [
    (each, strict, text)
    for each in ACCELERATORS
    for strict in (True, False)
    for text in topologies(each, strict=strict)
]


def made(machine_type: str, topology: str, *, strict: bool = False) -> Slice:
    return slice_of(by_machine_type(machine_type), topology, strict=strict)


def refusal(machine_type: str, topology: str, *, strict: bool = False) -> RefusedValueError:
    with pytest.raises(RefusedValueError) as caught:
        made(machine_type, topology, strict=strict)
    return caught.value


def allowed(machine_type: str, *, strict: bool = False) -> tuple[str, ...]:
    return topologies(by_machine_type(machine_type), strict=strict)


class TestOfPathwaysJobs:
    @each(("machine_type", "listed"), OF_JOBS.items())
    def test_lists_in_their_order(self, machine_type: str, listed: str) -> None:
        assert allowed(machine_type, strict=True) == tuple(listed.split())

    def test_tpu7x_has_the_topologies_of_v5p_and_two_more(self) -> None:
        found = allowed("tpu7x-standard-4t", strict=True)
        assert set(found) == {*V5P.split(), "16x16x32", "16x24x24"}
        assert len(found) == 98
        assert found[-3:] == ("16x16x32", "16x20x28", "16x24x24")

    @each("machine_type", MACHINES)
    def test_topologies_are_sorted_by_chips(self, machine_type: str) -> None:
        sizes = [chips(each) for each in allowed(machine_type, strict=True)]
        assert sizes == sorted(sizes)

    def test_pathwaysjobs_support_seven_machine_types(self) -> None:
        assert set(MACHINE_TYPES_OF_JOBS) == {each for each in MACHINES if allowed(each, strict=True)}
        assert set(MACHINE_TYPES_OF_JOBS) == {*OF_JOBS, "tpu7x-standard-4t"}

    @each("machine_type", sorted(set(MACHINES) - set(MACHINE_TYPES_OF_JOBS)))
    def test_others_are_refused_by_name(self, machine_type: str) -> None:
        refused = refusal(machine_type, "2x2x1", strict=True)
        assert refused.reason is InvalidReason.UNKNOWN_ACCELERATOR
        assert machine_type in refused.detail
        assert "tpu7x-standard-4t" in refused.detail


class TestOfFlags:
    @each(
        ("machine_type", "count"),
        [
            ("ct4p-hightpu-4t", 800),
            ("ct5p-hightpu-4t", 414),
            ("tpu7x-standard-4t", 432 + 1),
            ("tpu7-standard-4t", 9 + 1),
            ("ct6e-standard-4t", 8),
            ("ct5lp-hightpu-4t", 7),
            ("ct6e-standard-8t", 1),
            ("ct5lp-hightpu-8t", 1),
            ("ct5p-hightpu-2t", 0),
        ],
    )
    def test_flags_support_the_expected_number_of_topologies(self, machine_type: str, count: int) -> None:
        found = allowed(machine_type)
        assert len(found) == len(set(found)) == count
        assert [chips(each) for each in found] == sorted(map(chips, found))

    @each("machine_type", [each for each in MACHINES if each.endswith("-1t")])
    def test_a_machine_with_one_chip_has_one_topology(self, machine_type: str) -> None:
        accelerator = by_machine_type(machine_type)
        assert allowed(machine_type) == ("x".join("1" * accelerator.dimensions),)

    @each("machine_type", MACHINE_TYPES_OF_JOBS)
    def test_flags_support_every_topology_of_a_pathwaysjob(self, machine_type: str) -> None:
        assert set(allowed(machine_type, strict=True)) <= set(allowed(machine_type))

    @pytest.mark.parametrize(
        ("machine_type", "beyond"), [("ct4p-hightpu-4t", 787), ("ct5p-hightpu-4t", 318), ("tpu7x-standard-4t", 334 + 1)]
    )
    def test_have_more_than_pathways_jobs(self, machine_type: str, beyond: int) -> None:
        assert len(set(allowed(machine_type)) - set(allowed(machine_type, strict=True))) == beyond

    @pytest.mark.parametrize("sides", [("8", "4", "4"), ("4", "8", "4"), ("12", "8", "4")])
    def test_only_v4_takes_any_order(self, sides: tuple[str, ...]) -> None:
        topology = "x".join(sides)
        assert made("ct4p-hightpu-4t", topology).topology == topology
        assert refusal("ct5p-hightpu-4t", topology).reason is InvalidReason.INVALID_TOPOLOGY
        assert refusal("tpu7x-standard-4t", topology).reason is InvalidReason.INVALID_TOPOLOGY

    @each(
        ("machine_type", "largest", "too_large"),
        [
            ("ct4p-hightpu-4t", "16x16x16", "16x16x20"),
            ("ct4p-hightpu-4t", "256x4x4", "260x4x4"),
            ("ct5p-hightpu-4t", "16x20x28", "16x24x24"),
            ("ct5p-hightpu-4t", "4x8x256", "4x8x260"),
            ("tpu7x-standard-4t", "16x24x24", "16x20x32"),
            ("tpu7-standard-4t", "4x8x8", "4x8x12"),
            ("ct6e-standard-4t", "16x16", "16x32"),
        ],
    )
    def test_topologies_are_within_the_bounds_of_their_family(
        self, machine_type: str, largest: str, too_large: str
    ) -> None:
        assert made(machine_type, largest).topology == largest
        assert refusal(machine_type, too_large).reason is InvalidReason.INVALID_TOPOLOGY

    def test_the_rule_is_described_for_families_that_have_one(self) -> None:
        with_rule = {each.machine_type for each in ACCELERATORS if rule_of(each)}
        assert with_rule == {"ct4p-hightpu-4t", "ct5p-hightpu-4t", "tpu7-standard-4t", "tpu7x-standard-4t"}
        assert "in any order that are at most 64 cubes" in rule_of(by_machine_type("ct4p-hightpu-4t"))
        assert rule_of(by_machine_type("tpu7x-standard-4t")).startswith("1x1x1 2x2x1 ")


class TestSlices:
    @each(
        ("machine_type", "topology", "count", "vms", "instance_type"),
        [
            ("ct5p-hightpu-4t", "2x2x1", 4, 1, "tpuv5:2x2x1"),
            ("ct5p-hightpu-4t", "4x4x4", 64, 16, "tpuv5:4x4x4"),
            ("ct5lp-hightpu-4t", "2x4", 8, 2, "tpuv5e:2x4"),
            ("ct5lp-hightpu-8t", "2x4", 8, 1, "tpuv5e1t:2x4"),
            ("ct6e-standard-8t", "2x4", 8, 1, "tpuv6e1t:2x4"),
            ("tpu7x-standard-4t", "4x4x20", 320, 80, "tpu7x:4x4x20"),
            ("tpu7x-standard-4t", "16x24x24", 9216, 2304, "tpu7x:16x24x24"),
            ("ct4p-hightpu-4t", "2x2x2", 8, 2, "tpuv4:2x2x2"),
        ],
    )
    @each("strict", [True, False])
    def test_a_slice_has_its_chips_vms_and_instance_type(
        self, machine_type: str, topology: str, count: int, vms: int, instance_type: str, *, strict: bool
    ) -> None:
        found = made(machine_type, topology, strict=strict)
        assert (found.accelerator.machine_type, found.topology) == (machine_type, topology)
        assert (found.chips, found.vms, found.instance_type) == (count, vms, instance_type)

    def test_every_topology_divides_into_vms(self) -> None:
        for accelerator, strict, topology in ALLOWED:
            found = slice_of(accelerator, topology, strict=strict)
            assert found.vms >= 1
            assert found.vms * found.accelerator.chips_per_vm == found.chips
            assert found.accelerator.label == accelerator.label

    @pytest.mark.parametrize("strict", [True, False])
    def test_one_chip_is_on_the_machine_with_one_chip(self, *, strict: bool) -> None:
        found = made("ct6e-standard-4t", "1x1", strict=strict)
        assert (found.accelerator.machine_type, found.accelerator.chips_per_vm, found.vms) == ("ct6e-standard-1t", 1, 1)
        assert found.instance_type == "tpuv6e:1x1"

    @pytest.mark.parametrize("machine_type", ["tpu7-standard-4t", "tpu7x-standard-4t"])
    def test_one_chip_in_three_dimensions_uses_the_machine_with_one_chip(self, machine_type: str) -> None:
        assert made(machine_type, "1x1x1").accelerator.machine_type == machine_type.replace("4t", "1t")


class TestWriting:
    @each("text", ["2x2x2", "2X2X2 ", "\t2x2X2\n"])
    @each("strict", [True, False])
    def test_case_and_blanks_are_ignored(self, text: str, *, strict: bool) -> None:
        assert made("ct5p-hightpu-4t", text, strict=strict).topology == "2x2x2"

    @each(
        "text",
        [
            *("", " ", "16*24*24", "16x15", "4x4", "4x4x4x4", "4 x4x4", "-4x4x4", "4x4x4.0", "4xx4", "x"),
            *("4x0x4", "04x4x4", "4x4x6", "1x2x2", "8x4x4", "4x4x260", "\uff14x4x4"),
            *("9" * 5000, "x".join("4" * 5000), "4x4x" + "4" * 5000),
        ],
        ids=lambda text: text[:12] or "empty",
    )
    @each("strict", [True, False])
    def test_an_invalid_topology_is_refused(self, text: str, *, strict: bool) -> None:
        refused = refusal("ct5p-hightpu-4t", text, strict=strict)
        assert refused.reason is InvalidReason.INVALID_TOPOLOGY
        assert len(refused.detail) < 1024
        assert (f'"{text[:12]}' in refused.detail) or (text[:12] in refused.detail)

    def test_the_error_explains_the_format_of_a_topology(self) -> None:
        assert (
            "a topology of v5e is 2 positive numbers with x between them" in refusal("ct5lp-hightpu-4t", "2x2x1").detail
        )
        assert "3 positive numbers" in refusal("ct5p-hightpu-4t", "16x15").detail
        assert "it is empty" in refusal("ct5p-hightpu-4t", "").detail

    def test_the_error_names_the_nearest_topologies(self) -> None:
        assert "near ones are 4x4x8, 4x4x4, 4x4x12" in refusal("ct5p-hightpu-4t", "8x4x4").detail
        assert "it has 2x4" in refusal("ct6e-standard-8t", "2x2").detail
        assert "in a PathwaysJob" in refusal("ct5p-hightpu-4t", "4x4x16", strict=True).detail
        assert "GKE names none" in refusal("ct5p-hightpu-2t", "2x2x1").detail


class TestProperties:
    @PROPERTY
    @given(st.sampled_from(ALLOWED), st.sampled_from(["", " ", "\n\t"]), st.booleans())
    def test_normalizing_twice_is_normalizing_once(
        self, given_: tuple[MachineType, bool, str], blank: str, upper: bool
    ) -> None:
        accelerator, strict, topology = given_
        once = normalized(f"{blank}{topology.upper() if upper else topology}{blank}", accelerator)
        assert once == normalized(once, accelerator) == topology
        assert slice_of(accelerator, once, strict=strict).topology == topology

    @PROPERTY
    @given(
        st.sampled_from(ACCELERATORS),
        st.booleans(),
        st.one_of(st.text(), st.lists(st.integers(0, 300), max_size=4).map(lambda sides: "x".join(map(str, sides)))),
    )
    def test_a_slice_is_made_of_exactly_what_is_listed(self, accelerator: MachineType, strict: bool, text: str) -> None:
        try:
            found = slice_of(accelerator, text, strict=strict)
        except RefusedValueError:
            assert text not in topologies(accelerator, strict=strict)
        else:
            assert found.topology in topologies(accelerator, strict=strict)
