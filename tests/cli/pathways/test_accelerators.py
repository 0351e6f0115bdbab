"""``gangctl pathways accelerators``: the table, one name, and names that mean nothing."""

from __future__ import annotations

from gangctl.cli.completion import candidates
from gangctl.pathways.accelerators import ACCELERATORS
from tests.cli.run import fine, gangctl
from tests.rows import each

COMMAND = ("pathways", "accelerators")


def printed(*args: str) -> str:
    """The one error that a name is refused with."""
    answer = gangctl(*COMMAND, *args)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.count("error: ") == 1
    return answer.err


class TestTable:
    def test_the_table_has_every_machine_type(self) -> None:
        lines = fine(*COMMAND).out.splitlines()
        assert lines[0].split()[:3] == ["FAMILY", "MACHINE-TYPE", "CHIPS/VM"]
        assert [line.split()[1] for line in lines[1:]] == [each.machine_type for each in ACCELERATORS]

    def test_the_table_counts_topologies(self) -> None:
        lines = {line.split()[1]: line.split() for line in fine(*COMMAND).out.splitlines()[2:]}
        assert lines["ct5p-hightpu-4t"] == ["v5p", "ct5p-hightpu-4t", "4", "2", "tpuv5", "414", "96", "tpu-v5p-slice"]

    def test_json_is_one_list(self) -> None:
        document = fine(*COMMAND, "-o", "json").json
        assert document["kind"] == "List"
        assert [each["machineType"] for each in document["items"]] == [each.machine_type for each in ACCELERATORS]
        assert {each["slice"] for each in document["items"]} == {None}

    def test_names_are_the_keys_once_each(self) -> None:
        keys = fine(*COMMAND, "-o", "name").out.split()
        assert sorted(keys) == sorted({each.key for each in ACCELERATORS})

    def test_a_topology_needs_a_name(self) -> None:
        assert "--topology needs the NAME" in printed("--topology", "2x2x1")


class TestName:
    @each(
        ("name", "key"),
        [("tpu-v5p-slice", "tpuv5"), ("TPU-V5P-SLICE", "tpuv5"), ("v5e", "tpuv5e"), ("ct6e-standard-8t", "tpuv6e1t")],
    )
    def test_a_name_gives_its_key(self, name: str, key: str) -> None:
        assert fine(*COMMAND, name).out.splitlines()[0] == key
        assert fine(*COMMAND, name, "-o", "name").out == f"{key}\n"
        assert fine(*COMMAND, name, "-o", "json").json["key"] == key

    def test_a_name_gives_its_slice(self) -> None:
        report = fine(*COMMAND, "v5p-128", "-o", "json").json
        assert report.pop("topologies")[:2] == ["2x2x1", "2x2x2"]
        assert len(report.pop("pathwaysJobTopologies")) == 96
        assert report == {
            "apiVersion": "gangctl.dev/v1alpha1",
            "kind": "Accelerator",
            "metadata": {"name": "ct5p-hightpu-4t"},
            "generation": "v5p",
            "families": ["v5p"],
            "machineType": "ct5p-hightpu-4t",
            "label": "tpu-v5p-slice",
            "key": "tpuv5",
            "chipsPerVM": 4,
            "coresPerChip": 2,
            "nodeSelector": {
                "cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice",
                "cloud.google.com/gke-tpu-topology": "4x4x4",
            },
            "slice": {
                "topology": "4x4x4",
                "chips": 64,
                "vms": 16,
                "instanceType": "tpuv5:4x4x4",
                "allowedWith": ["flags", "PathwaysJob"],
            },
        }

    def test_yaml_is_the_same(self) -> None:
        assert fine(*COMMAND, "v6e-1", "-o", "yaml").documents == [fine(*COMMAND, "v6e-1", "-o", "json").json]

    def test_the_text_describes_the_slice(self) -> None:
        out = fine(*COMMAND, "v6e-8").out
        assert out.startswith("tpuv6e:2x4\n")
        assert "ct6e-standard-4t, 4 chips a VM" in out
        assert "2x4, 8 chips on 2 VMs" in out
        assert "cloud.google.com/gke-tpu-topology: 2x4" in out
        assert "with flags and in a PathwaysJob" in out

    def test_the_text_lists_the_topologies(self) -> None:
        out = " ".join(fine(*COMMAND, "v4").out.split())
        assert "with flags: 800: 2x2x1 2x2x2 2x2x4 2x4x4, and three multiples of 4 up to 256 in any order" in out
        assert "in a PathwaysJob: 13: 2x2x1 2x2x2" in out
        assert "in a PathwaysJob: none" in " ".join(fine(*COMMAND, "tpu7").out.split())

    def test_a_topology_can_be_given_with_a_name(self) -> None:
        apart = fine(*COMMAND, "ct5p-hightpu-4t", "--topology", " 4X4X4", "-o", "json").json
        assert apart == fine(*COMMAND, "v5p-128", "-o", "json").json

    def test_a_topology_of_flags_only_is_marked(self) -> None:
        report = fine(*COMMAND, "v5p", "--topology", "4x4x16", "-o", "json").json
        assert report["slice"]["allowedWith"] == ["flags"]

    def test_the_smallest_v5e_is_allowed_with_flags_as_in_a_pathwaysjob(self) -> None:
        for name in ("v5litepod-4", "v5e-4"):
            report = fine(*COMMAND, name, "-o", "json").json
            assert (report["slice"]["topology"], report["slice"]["vms"]) == ("2x2", 1)
            assert report["slice"]["allowedWith"] == ["flags", "PathwaysJob"]

    def test_a_slice_of_one_chip_has_its_machine_type(self) -> None:
        report = fine(*COMMAND, "ct6e-standard-4t", "--topology", "1x1", "-o", "json").json
        assert (report["machineType"], report["chipsPerVM"], report["slice"]["vms"]) == ("ct6e-standard-1t", 1, 1)
        assert report["slice"]["allowedWith"] == ["flags", "PathwaysJob"]

    def test_a_second_topology_must_be_the_same(self) -> None:
        assert fine(*COMMAND, "v5p-8", "--topology", "2x2x1", "-o", "name").out == "tpuv5:2x2x1\n"
        assert "v5p-8 is 2x2x1 already" in printed("v5p-8", "--topology", "2x2x2")


class TestRefusals:
    @each("name", ["nvidia-l4", "n2-standard-2", "v7q"])
    @each("form", ["table", "json", "yaml", "name"])
    def test_a_name_that_is_no_tpu_is_refused(self, name: str, form: str) -> None:
        err = printed(name, "-o", form)
        assert f'"{name}" names no TPU' in err
        assert "hint: gangctl pathways accelerators lists all machine types" in err

    def test_an_empty_name_is_refused(self) -> None:
        assert "the name of an accelerator is empty" in printed("")

    def test_an_unknown_size_is_refused_with_the_nearest(self) -> None:
        assert "v5p-8 (2x2x1), v5p-16 (2x2x2)" in printed("v5p-9")

    @each("topology", ["16*24*24", "16x15", "4x0x4", ""])
    def test_an_invalid_topology_is_refused(self, topology: str) -> None:
        assert "3 positive numbers" in printed("v5p", "--topology", topology)

    def test_a_topology_of_another_machine_type_is_refused(self) -> None:
        assert "ct5p-hightpu-4t has no topology 8x4x4; near ones are 4x4x8," in printed("v5p", "--topology", "8x4x4")


class TestCompletion:
    def test_names_are_completed(self) -> None:
        lines, _ = candidates([*COMMAND, "ct6e"])
        assert lines == [f"{name}\t{name}" for name in ("ct6e-standard-4t", "ct6e-standard-1t", "ct6e-standard-8t")]
        assert "tpu-v5p-slice\tct5p-hightpu-4t" in candidates([*COMMAND, "tpu-"])[0]

    def test_sizes_only_once_a_family_is_typed(self) -> None:
        assert candidates([*COMMAND, "v5"])[0] == [
            "v5e\tct5lp-hightpu-4t",
            "v5litepod\tct5lp-hightpu-4t",
            "v5p\tct5p-hightpu-4t",
        ]
        assert candidates([*COMMAND, "V5P-12"])[0][:2] == ["v5p-128\t4x4x4", "v5p-1280\t4x8x20"]

    def test_topologies_of_the_name(self) -> None:
        assert candidates([*COMMAND, "v5e", "--topology", "8"])[0] == ["8x8", "8x16"]
        assert candidates([*COMMAND, "nonsense", "--topology", ""])[0] == []
