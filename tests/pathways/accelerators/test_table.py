"""Names of accelerators: every name of the table, every way to get one wrong."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.pathways.accelerators import (
    ACCELERATORS,
    FAMILIES,
    MachineType,
    by_machine_type,
    default_of,
    device_types,
    find,
    names,
    single_chip,
    slice_of,
)
from gangctl.pathways.problems import InvalidReason, RefusedValueError
from tests.rows import each
from tests.strategies import PROPERTY

TABLE = [
    # machine type, label, key, chips a VM, TensorCores a chip
    ("ct4p-hightpu-4t", "tpu-v4-podslice", "tpuv4", 4, 2),
    ("ct5lp-hightpu-1t", "tpu-v5-lite-podslice", "tpuv5e", 1, 1),
    ("ct5lp-hightpu-4t", "tpu-v5-lite-podslice", "tpuv5e", 4, 1),
    ("ct5lp-hightpu-8t", "tpu-v5-lite-podslice", "tpuv5e1t", 8, 1),
    ("ct5p-hightpu-1t", "tpu-v5p-slice", "tpuv5", 1, 2),
    ("ct5p-hightpu-2t", "tpu-v5p-slice", "tpuv5", 2, 2),
    ("ct5p-hightpu-4t", "tpu-v5p-slice", "tpuv5", 4, 2),
    ("ct6e-standard-1t", "tpu-v6e-slice", "tpuv6e", 1, 1),
    ("ct6e-standard-4t", "tpu-v6e-slice", "tpuv6e", 4, 1),
    ("ct6e-standard-8t", "tpu-v6e-slice", "tpuv6e1t", 8, 1),
    ("tpu7-standard-1t", "tpu7", "tpu7", 1, 2),
    ("tpu7-standard-4t", "tpu7", "tpu7", 4, 2),
    ("tpu7x-standard-1t", "tpu7x", "tpu7x", 1, 2),
    ("tpu7x-standard-4t", "tpu7x", "tpu7x", 4, 2),
]
LABELS = {
    "tpu-v4-podslice": "ct4p-hightpu-4t",
    "tpu-v5-lite-podslice": "ct5lp-hightpu-4t",
    "tpu-v5p-slice": "ct5p-hightpu-4t",
    "tpu-v6e-slice": "ct6e-standard-4t",
    "tpu7x": "tpu7x-standard-4t",
    "tpu7": "tpu7-standard-4t",
}
BARE_FAMILIES = {
    "v4": "tpuv4",
    "v5e": "tpuv5e",
    "v5litepod": "tpuv5e",
    "v5p": "tpuv5",
    "v6e": "tpuv6e",
    "tpu7": "tpu7",
    "tpu7x": "tpu7x",
}
DEVICES = [
    # device type, machine type, topology, VMs
    ("v4-8", "ct4p-hightpu-4t", "2x2x1", 1),
    ("v4-16", "ct4p-hightpu-4t", "2x2x2", 2),
    ("v4-512", "ct4p-hightpu-4t", "4x8x8", 64),
    ("v4-2048", "ct4p-hightpu-4t", "8x8x16", 256),
    ("v4-8x4x4", "ct4p-hightpu-4t", "8x4x4", 32),
    ("v5p-8", "ct5p-hightpu-4t", "2x2x1", 1),
    ("v5p-2x2x1", "ct5p-hightpu-4t", "2x2x1", 1),
    ("v5p-16", "ct5p-hightpu-4t", "2x2x2", 2),
    ("v5p-128", "ct5p-hightpu-4t", "4x4x4", 16),
    ("v5p-4x4x16", "ct5p-hightpu-4t", "4x4x16", 64),
    ("v5p-512", "ct5p-hightpu-4t", "4x8x8", 64),
    ("v5litepod-4", "ct5lp-hightpu-4t", "2x2", 1),
    ("v5e-2x2", "ct5lp-hightpu-4t", "2x2", 1),
    ("v5litepod-8", "ct5lp-hightpu-4t", "2x4", 2),
    ("v5litepod-16", "ct5lp-hightpu-4t", "4x4", 4),
    ("v5e-16", "ct5lp-hightpu-4t", "4x4", 4),
    ("v5e-4x8", "ct5lp-hightpu-4t", "4x8", 8),
    ("v6e-1", "ct6e-standard-1t", "1x1", 1),
    ("v6e-1x1", "ct6e-standard-1t", "1x1", 1),
    ("v6e-4", "ct6e-standard-4t", "2x2", 1),
    ("v6e-8", "ct6e-standard-4t", "2x4", 2),
    ("v6e-256", "ct6e-standard-4t", "16x16", 64),
    ("tpu7x-2", "tpu7x-standard-1t", "1x1x1", 1),
    ("tpu7x-1x1x1", "tpu7x-standard-1t", "1x1x1", 1),
    ("tpu7x-128", "tpu7x-standard-4t", "4x4x4", 16),
    ("tpu7x-18432", "tpu7x-standard-4t", "16x24x24", 2304),
    ("tpu7-1x1x1", "tpu7-standard-1t", "1x1x1", 1),
    ("tpu7-384", "tpu7-standard-4t", "4x4x12", 48),
    ("tpu7-512", "tpu7-standard-4t", "4x8x8", 64),
]
REFUSED = [
    "",
    "   ",
    "nvidia-l4",
    "nvidia-h100-80gb",
    "l4-1",
    "a3-highgpu-8g",
    "n2-standard-2",
    "m1-megamem-96-1",
    "v7q",
    "v3-8",
    "v5",
    "tpu",
    "tpuv5p",
    "tpuv5lite",
    "ct5p",
    "ct5p-hightpu-16t",
    "tpu-v5e-slice",
    "tpu-v5-lite-device",
    "v5p-",
    "v5p-0",
    "v5p-08",
    "v5p--8",
    "v5p-8 8",
    "v5p-2x2",
    "v5p-2X2X0",
    "v5p-8x4x4",
    "v5p-1",
    "v5p-x",
    "v5litepod-2",
    "v5e-1",
    "v6e-2x2x1",
    "v6e-128x128",
    "tpuv5:2x2x1",
    "v5p-" + "9" * 5000,
    "v5p-" + "x".join(["4"] * 5000),
    "\uff565p-8",
    "v5p-\uff18",
]


def refusal(text: str) -> RefusedValueError:
    with pytest.raises(RefusedValueError) as caught:
        find(text)
    assert caught.value.reason is InvalidReason.UNKNOWN_ACCELERATOR
    return caught.value


def row(machine_type: str) -> MachineType:
    return next(each for each in ACCELERATORS if each.machine_type == machine_type)


def derived_key(label: str) -> str:
    """The key as it follows from a label's spelling; the code looks it up instead."""
    token = "v5e".join(label.split("v5-lite"))
    token = re.sub(r"v5p(?![a-z0-9])", "v5", token)
    return re.sub(r"-(pod)?slice$", "", token).replace("-", "")


class TestTable:
    def test_the_table_is_complete(self) -> None:
        rows = [(a.machine_type, a.label, a.key, a.chips_per_vm, a.cores_per_chip) for a in ACCELERATORS]
        assert sorted(rows) == TABLE

    def test_topologies_have_the_dimensions_of_their_family(self) -> None:
        flat = {each.generation for each in ACCELERATORS if each.dimensions == 2}
        assert flat == {"v5e", "v6e"}
        assert {each.dimensions for each in ACCELERATORS} == {2, 3}

    @each("accelerator", ACCELERATORS, ids=lambda each: each.machine_type)
    def test_machine_types_end_in_their_chips(self, accelerator: MachineType) -> None:
        assert accelerator.machine_type.endswith(f"-{accelerator.chips_per_vm}t")

    @each("accelerator", ACCELERATORS, ids=lambda each: each.machine_type)
    def test_keys_follow_from_labels(self, accelerator: MachineType) -> None:
        wide = "1t" if accelerator.chips_per_vm == 8 else ""
        assert accelerator.key == derived_key(accelerator.label) + wide

    def test_a_generation_alone_means_four_chips_a_vm(self) -> None:
        assert {default_of(generation).chips_per_vm for generation in FAMILIES.values()} == {4}

    def test_the_machine_type_with_one_chip_is_found(self) -> None:
        assert single_chip(row("ct6e-standard-4t")) == row("ct6e-standard-1t")
        assert single_chip(row("ct4p-hightpu-4t")) == row("ct4p-hightpu-4t")


class TestFind:
    @each("accelerator", ACCELERATORS, ids=lambda each: each.machine_type)
    def test_accelerators_are_found_by_machine_type(self, accelerator: MachineType) -> None:
        assert find(accelerator.machine_type) == (accelerator, "")

    @each(("label", "machine_type"), LABELS.items())
    def test_accelerators_are_found_by_node_label(self, label: str, machine_type: str) -> None:
        assert find(label) == (row(machine_type), "")

    @each(("family", "key"), BARE_FAMILIES.items())
    def test_accelerators_are_found_by_family(self, family: str, key: str) -> None:
        accelerator, topology = find(family)
        assert (accelerator.key, accelerator.chips_per_vm, topology) == (key, 4, "")

    @each("key", sorted({each.key for each in ACCELERATORS}))
    def test_accelerators_are_found_by_key(self, key: str) -> None:
        accelerator, topology = find(key)
        assert (accelerator.key, topology) == (key, "")
        assert accelerator.chips_per_vm == (8 if key.endswith("e1t") else 4)

    @each(("name", "machine_type", "topology", "vms"), DEVICES)
    def test_accelerators_are_found_by_device_type(self, name: str, machine_type: str, topology: str, vms: int) -> None:
        accelerator, named = find(name)
        assert (accelerator.machine_type, named) == (machine_type, topology)
        assert slice_of(accelerator, named, strict=False).vms == vms

    @each("text", ["TPU-V5P-SLICE", "  tpu-v5p-slice\n", "V5P", "CT5P-HighTPU-4T", "\tTpuV5 "])
    def test_case_and_blanks_are_ignored(self, text: str) -> None:
        assert find(text) == (row("ct5p-hightpu-4t"), "")

    def test_the_case_of_a_topology_is_ignored(self) -> None:
        assert find(" V5P-2X2X1 ") == (row("ct5p-hightpu-4t"), "2x2x1")

    @each("text", REFUSED, ids=lambda text: text[:20] or "empty")
    def test_an_unknown_name_is_refused(self, text: str) -> None:
        refused = refusal(text)
        assert len(refused.detail) < 1024
        if text.strip():
            assert f'"{text[:20]}' in refused.detail
        else:
            assert "empty" in refused.detail

    def test_an_unknown_size_is_refused_with_the_nearest(self) -> None:
        assert refusal("v5p-9").detail.endswith("near sizes are v5p-8 (2x2x1), v5p-16 (2x2x2), v5p-32 (2x2x4)")
        assert "v5e-8 (2x4)" in refusal("v5e-9").detail
        assert "near sizes are v5litepod-4 (2x2)," in refusal("v5litepod-1").detail
        assert "tpu7x-18432 (16x24x24)" in refusal("tpu7x-9999999").detail

    def test_an_unknown_topology_is_refused_with_the_nearest(self) -> None:
        assert "near ones are v5p-4x4x8," in refusal("v5p-8x4x4").detail

    def test_an_unknown_name_is_refused_with_suggestions(self) -> None:
        assert "v5p-8" in refusal("nvidia-l4").detail
        assert "did you mean" not in refusal("nvidia-l4").detail
        assert "did you mean ct5p-hightpu-4t" in refusal("ct5p-hightpu-4").detail

    @each(
        ("text", "meant"),
        [
            ("v7x-8", "tpu7x-8"),
            ("V7X-2x2x1", "tpu7x-2x2x1"),
            ("v7x", "tpu7x"),
            ("v7x-9", "tpu7x"),
            ("ironwood", "tpu7x"),
            ("Ironwood-128", "tpu7x-128"),
            ("trillium-8", "v6e-8"),
            ("v5lite-16", "v5litepod-16"),
            ("v6-8", "v6e-8"),
        ],
    )
    def test_another_name_of_a_family_is_refused_with_that_of_the_table(self, text: str, meant: str) -> None:
        assert refusal(text).detail.endswith(f"did you mean {meant}?")
        find(meant)

    def test_an_invalid_node_label_is_refused_with_the_valid_one(self) -> None:
        assert "tpu-v5-lite-podslice" in refusal("tpu-v5e-slice").detail

    def test_control_characters_do_not_reach_messages(self) -> None:
        assert refusal("v5p\x1b[2J").detail.isprintable()


class TestByMachineType:
    @each("accelerator", ACCELERATORS, ids=lambda each: each.machine_type)
    def test_an_exact_machine_type_is_found(self, accelerator: MachineType) -> None:
        assert by_machine_type(accelerator.machine_type) == accelerator

    @each("text", ["", "CT5P-HIGHTPU-4T", "v5p", "tpu-v5p-slice", "n2-standard-2"])
    def test_other_names_are_no_machine_types(self, text: str) -> None:
        with pytest.raises(RefusedValueError, match="no machine type with TPUs; there are ct4p-hightpu-4t,") as caught:
            by_machine_type(text)
        assert caught.value.reason is InvalidReason.UNKNOWN_ACCELERATOR


class TestDeviceTypes:
    @each(
        ("family", "sizes"),
        [("v4", 68), ("v5litepod", 7), ("v5e", 7), ("v5p", 127), ("v6e", 8), ("tpu7", 9), ("tpu7x", 131)],
    )
    def test_each_family_has_the_expected_number_of_device_types(self, family: str, sizes: int) -> None:
        assert len(device_types(family)) == sizes

    @each("family", FAMILIES)
    def test_each_device_type_is_found_and_has_the_size_in_its_name(self, family: str) -> None:
        for name, topology in device_types(family).items():
            accelerator, named = find(name)
            assert named == topology
            made = slice_of(accelerator, named, strict=False)
            assert made.chips * accelerator.cores_per_chip == int(name.rpartition("-")[2])


class TestProperties:
    @PROPERTY
    @given(st.one_of(st.text(), st.from_regex(r"(v4|v5p|v5e|v6e|tpu7x?)-[0-9x]*", fullmatch=True)))
    def test_any_text_is_found_or_refused(self, text: str) -> None:
        try:
            accelerator, topology = find(text)
        except RefusedValueError:
            refusal(text)
            return
        assert accelerator in ACCELERATORS
        assert not topology or slice_of(accelerator, topology, strict=False).topology == topology

    @PROPERTY
    @given(st.sampled_from([*names(), *(name for family in FAMILIES for name in device_types(family))]))
    def test_a_found_accelerator_is_found_by_all_its_names(self, name: str) -> None:
        accelerator, _ = find(name)
        assert find(accelerator.machine_type) == (accelerator, "")
        assert find(accelerator.key)[0].key == accelerator.key
        assert find(accelerator.label)[0].label == accelerator.label
