"""``gangctl pathways why``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gangctl.api.fieldpath import FieldPath, MapKey
from tests.cli.manifests import write
from tests.cli.run import fine, gangctl
from tests.pathways.samples import annotated, pathways_job

Object = dict[str, Any]
WORKER = "spec.replicatedJobs[1]"


def fields(directory: Path, *args: str, **changes: Any) -> dict[str, Object]:
    """The explanation of one PathwaysJob by path."""
    file = write(directory / "a.yaml", pathways_job(**changes))
    explained = fine("pathways", "why", "-f", file, "-o", "json", *args).json
    assert (explained["kind"], explained["metadata"]) == ("PathwaysOrigins", {"name": "pw", "namespace": "t"})
    return {each["path"]: each for each in explained["fields"]}


def at(obj: Any, path: str) -> Any:
    """The value at a path."""
    for step in FieldPath.parse(path).steps:
        match step:
            case MapKey(key):
                obj = obj[key]
            case _:
                obj = obj[step]
    return obj


def leaves(value: Any, path: FieldPath) -> set[str]:
    """Paths of values and of empty containers."""
    if isinstance(value, dict) and value:
        return {leaf for key, inner in value.items() for leaf in leaves(inner, path.child(key))}
    if isinstance(value, list) and value:
        return {leaf for index, inner in enumerate(value) for leaf in leaves(inner, path.index(index))}
    return {str(path)}


class TestData:
    def test_every_leaf_is_printed_with_its_value(self, tmp_path: Path) -> None:
        explained = fields(tmp_path)
        jobset = fine("pathways", "render", "-f", str(tmp_path / "a.yaml"), "-o", "json").json
        assert explained.keys() == leaves(jobset, FieldPath())
        assert all(at(jobset, path) == each["value"] for path, each in explained.items())

    def test_a_field_names_the_line_where_it_was_written(self, tmp_path: Path) -> None:
        replicas = fields(tmp_path)[f"{WORKER}.replicas"]
        assert replicas["value"] == 2
        assert (replicas["origin"]["kind"], replicas["origin"]["place"]) == ("field", "spec.workers[0].numSlices")
        source, line, _ = replicas["origin"]["at"].rsplit(":", 2)
        assert source == str(tmp_path / "a.yaml")
        assert "numSlices: 2" in (tmp_path / "a.yaml").read_text().splitlines()[int(line) - 1]

    def test_a_generated_field_has_a_reason_and_no_line(self, tmp_path: Path) -> None:
        coordinator = fields(tmp_path)["spec.coordinator.replicatedJob"]["origin"]
        assert (coordinator["kind"], coordinator["at"]) == ("rule", "")
        assert coordinator["why"]

    def test_a_field_of_an_option_names_it(self, tmp_path: Path) -> None:
        path = "spec.ttlSecondsAfterFinished"
        of_annotation = fields(tmp_path, metadata=annotated(pathways_options='{"ttlSecondsAfterFinished": 60}'))[path]
        assert (of_annotation["value"], of_annotation["origin"]["kind"]) == (60, "option")
        of_flag = fields(tmp_path, "--ttl-seconds-after-finished", "0")[path]
        assert (of_flag["value"], of_flag["origin"]["kind"]) == (0, "option")

    def test_the_field_flag_selects_whole_path_elements(self, tmp_path: Path) -> None:
        assert set(fields(tmp_path, "--field", f"{WORKER}.replicas")) == {f"{WORKER}.replicas"}
        both = fields(tmp_path, "--field", "metadata", "--field", "kind")
        assert {path.partition(".")[0] for path in both} == {"metadata", "kind"}
        assert gangctl("pathways", "why", "-f", str(tmp_path / "a.yaml"), "--field", "spec.replicated").code == 2

    def test_yaml_is_the_same(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", pathways_job())
        (document,) = fine("pathways", "why", "-f", file, "-o", "yaml").documents
        assert document == fine("pathways", "why", "-f", file, "-o", "json").json


class TestText:
    def test_the_text_groups_fields(self, tmp_path: Path) -> None:
        out = fine("pathways", "why", "-f", write(tmp_path / "a.yaml", pathways_job())).out
        titles = [line for line in out.splitlines() if line and not line.startswith(" ")]
        assert titles[0].startswith("JobSet t/pw: ")
        assert titles[1:] == [
            "JobSet",
            "pathways-head: job",
            "pathways-head: pod",
            "pathways-head: init container pathways-rm",
            "pathways-head: init container pathways-proxy",
            "pathways-head: container main",
            "worker: job",
            "worker: pod",
            "worker: container pathways-worker",
        ]
        lines = out.splitlines()
        start = lines.index("  spec.coordinator.replicatedJob: pathways-head")
        assert lines[start + 1 : start + 3] == ["  spec.coordinator.jobIndex: 0", "  spec.coordinator.podIndex: 0"]
        assert lines[start + 3].startswith("      <- rule: ")
        assert "  replicas: 2\n      <- spec.workers[0].numSlices" in out

    def test_an_unknown_field_is_an_error(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", pathways_job())
        answer = gangctl("pathways", "why", "-f", file, "--field", "status")
        assert (answer.code, answer.out) == (2, "")
        assert "error: --field: the JobSet has nothing at status\n" in answer.err
