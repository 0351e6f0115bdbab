"""What ``gangctl pathways`` prints as data keeps its published schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from gangctl.cli.pathways.report import HeadReport, SeenObjects, status_report
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.reading import read_pathways_job
from gangctl.pathways.rendering.jobset import render
from gangctl.pathways.result import OriginKind
from gangctl.pathways.status import PathwaysPhase
from tests.cli.conftest import Golden
from tests.cli.httpserver import HERE
from tests.cli.kueueobjects import CONFIGURATION, QUEUE, cluster_queue, flavor, local_queue
from tests.cli.manifests import write
from tests.cli.pathways.server import JOBSETS, PATHWAYS, PODS, Cluster, ask
from tests.cli.publishedschemas import schema_of
from tests.cli.run import gangctl
from tests.cli.schema import answer_violations, violations
from tests.pathways.samples import annotated, pathways_job
from tests.rows import each

Object = dict[str, Any]

DOCS: Final = Path(__file__).parents[3] / "docs"
NOW: Final = "2026-01-01T00:00:00Z"
BY_FLAGS: Final = (
    *("--workload", "train", "--tpu-type", "v5p-8", "--docker-image", "registry.example/trainer:1"),
    *("--command", "python train.py", "--pathways-gcs-location", "gs://research/pathways"),
)


PUBLISHED = (
    "pathways-accelerators.schema.json",
    "pathways-why.schema.json",
    "pathways-status.schema.json",
    "pathways-validate.schema.json",
)


@each("name", PUBLISHED)
def test_schema_is_published(name: str, golden: Golden) -> None:
    golden(DOCS / name, json.dumps(schema_of(name.removesuffix(".schema.json")), indent=2) + "\n")


class TestAccelerators:
    @each("name", [(), ("v5p-128",), ("v4",), ("v5e", "--topology", "2x2")])
    def test_reports_match_the_schema(self, name: tuple[str, ...]) -> None:
        answer = gangctl("pathways", "accelerators", *name, "-o", "json").json
        assert answer_violations(answer, schema_of("pathways-accelerators")) == []


class TestWhy:
    def test_reports_of_files_match_the_schema(self, tmp_path: Path) -> None:
        job = pathways_job(metadata=annotated(pathways_options='{"ttlSecondsAfterFinished": 60}'))
        file = write(tmp_path / "a.yaml", job, pathways_job("b", headless=True))
        answer = gangctl("pathways", "why", "-f", file, "-o", "json").json
        assert answer_violations(answer, schema_of("pathways-why")) == []
        kinds = {each["origin"]["kind"] for one in answer["items"] for each in one["fields"]}
        assert kinds == {*OriginKind} - {OriginKind.FLAG}

    def test_reports_of_flags_match_the_schema(self) -> None:
        answer = gangctl("pathways", "why", *BY_FLAGS, "-o", "json").json
        assert violations(answer, schema_of("pathways-why")) == []
        assert OriginKind.FLAG in {each["origin"]["kind"] for each in answer["fields"]}

    def test_every_kind_of_origin_is_in_the_schema(self) -> None:
        origin = schema_of("pathways-why")["$defs"]["OriginReport"]["properties"]["kind"]
        assert origin["enum"] == [*OriginKind]


class TestValidate:
    def test_reports_of_files_match_the_schema(self, tmp_path: Path) -> None:
        broken = pathways_job("b", workers={"numSlices": 0, "topology": "9x9"})
        file = write(tmp_path / "a.yaml", pathways_job(), broken)
        answer = gangctl("pathways", "validate", "-f", file, "-o", "json").json
        assert answer_violations(answer, schema_of("pathways-validate")) == []
        assert [(bool(each["problems"]), bool(each["notices"])) for each in answer["items"]] == [
            (False, True),
            (True, False),
        ]

    def test_reports_of_flags_match_the_schema(self) -> None:
        answer = gangctl("pathways", "validate", *BY_FLAGS, "--num-slices", "0", "-o", "json").json
        assert violations(answer, schema_of("pathways-validate")) == []
        assert [(each["file"], each["line"]) for each in answer["problems"]] == [("", 0)]

    @pytest.mark.parametrize(("cpu", "verdict"), [("100", "unknown"), ("1", "never")])
    def test_reports_with_queues_match_the_schema(self, cpu: str, verdict: str, tmp_path: Path) -> None:
        quota = {"f": {"cpu": cpu, "memory": "1000Gi", "google.com/tpu": "16"}}
        stock = [CONFIGURATION, flavor("f"), cluster_queue("cq", quota), local_queue("q", "cq")]
        job = write(tmp_path / "a.yaml", pathways_job(metadata={"labels": {QUEUE: "q"}}))
        places = ("-f", job, "--queues", write(tmp_path / "queues.yaml", *stock))
        answer = gangctl("pathways", "validate", *places, "-o", "json").json
        assert violations(answer, schema_of("pathways-validate")) == []
        assert answer["fit"]["verdict"] == verdict


def stored(status: Object | None = None, *, headless: bool = False) -> Object:
    """A PathwaysJob of a cluster."""
    raw = pathways_job(metadata={"uid": "u-1", "namespace": HERE, "generation": 3}, headless=headless)
    return raw if status is None else {**raw, "status": status}


def jobset(raw: Object) -> Object:
    """Its JobSet, which runs."""
    job = read_pathways_job(raw).job
    assert isinstance(job, PathwaysJob)
    stand = [{"name": "pathways-head", "ready": 1}, {"name": "worker", "ready": 2}]
    return {**render(job).jobset, "status": {"replicatedJobsStatus": stand, "restarts": 1}}


def condition(kind: str, **more: Any) -> Object:
    return {"type": kind, "status": "True", "reason": "R", "message": "m", "lastTransitionTime": NOW, **more}


class TestStatus:
    @pytest.mark.parametrize("headless", [False, True])
    async def test_reports_match_the_schema(self, headless: bool, tmp_path: Path) -> None:
        raw = stored({"conditions": [condition("Running", observedGeneration=3)]}, headless=headless)
        pod = {"metadata": {"name": "head", "namespace": HERE}, "status": {"phase": "Running"}}
        cluster = Cluster({PATHWAYS: [raw], JOBSETS: [jobset(raw)], PODS: [pod]})
        answer = (await ask(tmp_path, cluster, "pathways", "status", "pw", "-o", "json")).json
        assert violations(answer, schema_of("pathways-status")) == []
        assert (answer["headless"], bool(answer["portForward"])) == (headless, True)

    @each("phase", [*PathwaysPhase, None])
    @each("head", [None, HeadReport(pod="head", phase="Pending", node="")])
    def test_every_phase_matches_the_schema(self, phase: PathwaysPhase | None, head: HeadReport | None) -> None:
        status = {"conditions": [condition(phase)], "terminalState": "Failed"} if phase is not None else None
        report = status_report(SeenObjects(HERE, "pw", stored(status), None, head))
        assert violations(report, schema_of("pathways-status")) == []
        assert report["phase"] == (phase or "Unseen")

    def test_a_derived_status_matches_the_schema(self) -> None:
        report = status_report(SeenObjects(HERE, "pw", None, jobset(stored())))
        assert violations(report, schema_of("pathways-status")) == []
        assert (report["derived"], report["slices"]["ready"]) == (True, 2)

    def test_every_condition_has_every_key(self) -> None:
        bare = {"type": "Running", "status": "True"}
        report = status_report(SeenObjects(HERE, "pw", stored({"conditions": [bare]}), None))
        absent = {"reason": "", "message": "", "lastTransitionTime": "", "observedGeneration": 0}
        assert report["conditions"] == [{**bare, **absent}]
