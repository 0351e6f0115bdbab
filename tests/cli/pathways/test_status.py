"""``gangctl pathways status``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gangctl.cli.pathways.report import UNSEEN, SeenObjects, status_report
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.reading import read_pathways_job
from gangctl.pathways.rendering.jobset import render
from tests.cli.httpserver import HERE
from tests.cli.pathways.server import JOBSETS, PATHWAYS, PODS, Cluster, ask
from tests.cli.run import Answer, gangctl
from tests.pathways.samples import pathways_job
from tests.rows import each

Object = dict[str, Any]
NOW = "2026-01-01T00:00:00Z"
UNSERVED = {PATHWAYS, f"{PATHWAYS}/pw"}
"""An API server forbids a kind that it does not serve, too, whom it has given no right to it."""
UID = "7a2f5b1e-0000-4000-8000-000000000001"


def job(name: str = "pw", *, headless: bool = False, status: Object | None = None) -> Object:
    """A stored PathwaysJob."""
    raw = pathways_job(name, metadata={"uid": UID, "namespace": HERE}, headless=headless)
    return {**raw, "status": status} if status is not None else raw


def jobset(raw: Object, *, conditions: list[Object] | None = None, head: int = 1, workers: int = 2) -> Object:
    """The JobSet of a PathwaysJob, so far on its way."""
    read = read_pathways_job(raw).job
    assert isinstance(read, PathwaysJob)
    stand = [{"name": "pathways-head", "ready": head}, {"name": "worker", "ready": workers}]
    return {
        **render(read).jobset,
        "status": {"conditions": conditions or [], "replicatedJobsStatus": stand, "restarts": 1},
    }


def pod(name: str, phase: str = "Running", created: str = NOW, **metadata: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": HERE, "creationTimestamp": created, **metadata},
        "spec": {"nodeName": "node-1"},
        "status": {"phase": phase},
    }


def condition(kind: str, reason: str, message: str = "", status: str = "True") -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": NOW}


async def status(directory: Path, cluster: Cluster, *args: str, name: str = "pw") -> Answer:
    return await ask(directory, cluster, "pathways", "status", name, *args)


class TestCluster:
    async def test_a_running_job_is_printed(self, tmp_path: Path) -> None:
        raw = job(status={"conditions": [condition("Running", "HeadAndWorkersReady", "all is up")], "restarts": 1})
        cluster = Cluster({PATHWAYS: [raw], JOBSETS: [jobset(raw)], PODS: [pod("pw-pathways-head-0-0-abcde")]})
        answer = await status(tmp_path, cluster)
        assert (answer.code, answer.err) == (0, "")
        title, *lines = answer.out.splitlines()
        assert title == f"PathwaysJob {HERE}/pw: Running"
        assert "  HeadAndWorkersReady: all is up" in lines
        assert "  Slices    2 of 2 ready" in lines
        assert "  Restarts  1 of 0" in lines
        assert "  Head      pod pw-pathways-head-0-0-abcde, Running on node-1" in lines
        assert f"  Proxy     grpc://pw-pathways-head-0-0.pw.{HERE}.svc:29000" in lines
        assert not any("port-forward" in line for line in lines)

    async def test_only_pods_of_the_head_are_read(self, tmp_path: Path) -> None:
        raw = job()
        cluster = Cluster({PATHWAYS: [raw], JOBSETS: [jobset(raw)], PODS: []})
        await status(tmp_path, cluster)
        (asked,) = [each for each in cluster.asked if PODS in each]
        assert "jobset-name%3Dpw" in asked or "jobset-name=pw" in asked
        assert "pathways-head" in asked
        assert all(each.startswith("GET ") for each in cluster.asked)

    async def test_a_headless_job_has_the_command_to_connect(self, tmp_path: Path) -> None:
        raw = job(headless=True)
        over = [pod("old", "Failed", "2027-01-01T00:00:00Z"), pod("going", deletionTimestamp=NOW, created="2020-01-01")]
        cluster = Cluster({PATHWAYS: [raw], JOBSETS: [jobset(raw)], PODS: [*over, pod("head-b")]})
        answer = await status(tmp_path, cluster)
        config = tmp_path / "kubeconfig"
        expected = f"kubectl --kubeconfig={config} port-forward -n {HERE} pod/head-b 29000:29000"
        assert f"  Connect   {expected}" in answer.out.splitlines()
        assert "pathwaysutils.initialize()" in answer.out
        asked = await status(tmp_path, cluster, "-o", "json")
        assert asked.json["portForward"] == expected
        assert asked.json["headless"] is True

    @pytest.mark.parametrize("pods", [[], [pod("head-a", "Pending")]])
    async def test_a_headless_job_without_a_running_pod_has_no_command(
        self, pods: list[Object], tmp_path: Path
    ) -> None:
        raw = job(headless=True)
        answer = await status(tmp_path, Cluster({PATHWAYS: [raw], JOBSETS: [jobset(raw, head=0)], PODS: pods}))
        assert "port-forward" not in answer.out
        assert "once the head's pod runs" in answer.out
        assert ("has no pod" in answer.out) is (not pods)

    async def test_without_a_controller_the_status_is_derived_from_the_jobset(self, tmp_path: Path) -> None:
        raw = job()
        cluster = Cluster({PATHWAYS: [raw], JOBSETS: [jobset(raw, workers=0)], PODS: []})
        answer = await status(tmp_path, cluster, "-o", "json")
        assert (answer.json["phase"], answer.json["reason"], answer.json["derived"]) == (
            "Pending",
            "WaitingForWorkers",
            True,
        )
        assert answer.json["slices"] == {"ready": 0, "wanted": 2, "mayBeMissing": 0}
        assert answer.json["restarts"] == 1
        assert {each["lastTransitionTime"] for each in answer.json["conditions"]} == {""}
        as_yaml = await status(tmp_path, cluster, "-o", "yaml")
        assert as_yaml.documents[0].keys() == answer.json.keys()

    @each("forbidden", [set(), UNSERVED])
    async def test_a_rendered_jobset_without_a_pathwaysjob_is_printed(
        self, forbidden: set[str], tmp_path: Path
    ) -> None:
        cluster = Cluster({JOBSETS: [jobset(job(headless=True))], PODS: [pod("head")]}, forbidden)
        answer = await status(tmp_path, cluster)
        assert answer.code == 0
        assert answer.out.startswith(f"JobSet of Pathways {HERE}/pw: Running\n")
        assert "pod/head 29000:29000" in answer.out

    async def test_a_failed_job_is_exit_code_1(self, tmp_path: Path) -> None:
        raw = job()
        failed = jobset(raw, conditions=[condition("Failed", "FailedJobs", "the head failed")])
        answer = await status(tmp_path, Cluster({PATHWAYS: [raw], JOBSETS: [failed], PODS: []}))
        assert answer.code == 1
        assert "FailedJobs: the head failed" in answer.out

    async def test_a_foreign_jobset_is_reported(self, tmp_path: Path) -> None:
        raw = job()
        other = jobset(raw)
        other["metadata"]["ownerReferences"][0]["uid"] = "another"
        answer = await status(tmp_path, Cluster({PATHWAYS: [raw], JOBSETS: [other], PODS: [pod("head")]}))
        assert "has another owner" in answer.out
        assert UNSEEN in answer.out
        assert "Slices" not in answer.out

    async def test_forbidden_pods_give_a_note(self, tmp_path: Path) -> None:
        raw = job()
        cluster = Cluster({PATHWAYS: [raw], JOBSETS: [jobset(raw)]}, forbidden={PODS})
        answer = await status(tmp_path, cluster)
        assert answer.code == 0
        assert "note: the head's pod is not known" in answer.err
        assert "  Head      not known, because pods may not be read" in answer.out.splitlines()

    async def test_an_unknown_name_is_an_error_with_a_suggestion(self, tmp_path: Path) -> None:
        answer = await status(tmp_path, Cluster({PATHWAYS: [job("train")], JOBSETS: []}), name="tarin")
        assert (answer.code, answer.out) == (1, "")
        assert answer.err.splitlines() == [
            f'error: pathwaysjobs.pathways-job.pathways.domain "tarin" not found in namespace "{HERE}"',
            "hint: did you mean train?",
        ]

    async def test_a_jobset_without_pathways_is_not_found(self, tmp_path: Path) -> None:
        plain = {"metadata": {"name": "pw", "namespace": HERE}, "spec": {"replicatedJobs": []}}
        answer = await status(tmp_path, Cluster({PATHWAYS: [], JOBSETS: [plain]}))
        assert answer.code == 1

    @each("forbidden", [set(), UNSERVED])
    async def test_a_cluster_without_pathwaysjobs_is_an_error(self, forbidden: set[str], tmp_path: Path) -> None:
        answer = await status(tmp_path, Cluster({JOBSETS: []}, forbidden))
        assert (answer.code, answer.out) == (3, "")
        assert answer.err.startswith("error: the cluster does not serve PathwaysJobs")

    def test_a_missing_kubeconfig_is_exit_code_2(self, tmp_path: Path) -> None:
        assert gangctl("pathways", "status", "pw", "--kubeconfig", str(tmp_path / "none")).code == 2


class TestStanding:
    def test_a_job_without_status_and_jobset_is_unseen(self) -> None:
        report = status_report(SeenObjects(HERE, "pw", job(), None))
        assert report["phase"] == UNSEEN
        assert report["head"] is None

    def test_of_duplicate_conditions_the_last_counts(self) -> None:
        printed = {"conditions": [condition("Pending", "a"), condition("Running", "b"), condition("Completed", "c")]}
        report = status_report(SeenObjects(HERE, "pw", job(status=printed), None))
        assert report["phase"] == "Completed"
        assert not report["derived"]

    def test_the_subdomain_is_part_of_the_address(self) -> None:
        raw = jobset(job())
        raw["spec"]["network"]["subdomain"] = "short"
        report = status_report(SeenObjects(HERE, "pw", job(), raw))
        assert report["proxyAddress"] == f"grpc://pw-pathways-head-0-0.short.{HERE}.svc:29000"

    def test_the_command_has_the_flags_of_the_cluster(self) -> None:
        seen = SeenObjects(HERE, "pw", job(headless=True), None, {"pod": "head", "phase": "Running", "node": "n"})
        command = status_report(seen, ["--context=my cluster"])["portForward"]
        assert command == f"kubectl '--context=my cluster' port-forward -n {HERE} pod/head 29000:29000"
