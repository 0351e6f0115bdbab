"""``gangctl translate``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from gangctl.api.jobset import read_jobset
from gangctl.api.scheduling import Generation
from gangctl.gang.plan import build_objects, make_plan
from gangctl.gang.resolve import ClusterRules, resolve
from tests.cases import CASES, Case, object_name
from tests.cli.manifests import EXAMPLES, gang, write
from tests.cli.run import fine, gangctl
from tests.jobsets import FIXTURE_UID, REF, jobset, rj
from tests.rows import each

OTHER_UID = "11111111-2222-3333-4444-555555555555"


def objects_of(raw: dict[str, Any], generation: Generation, uid: str) -> list[dict[str, Any]]:
    """What the controller creates."""
    projection, _ = read_jobset(raw)
    resolution = resolve(projection, ClusterRules(generation))
    plan = make_plan(projection, resolution.stamps, resolution.config, uid)
    return build_objects(plan, generation) if plan else []


@each("generation", Generation)
@each("case", [case for case in CASES if not case.rejected], ids=lambda c: c.id)
def test_the_output_equals_what_the_controller_creates(case: Case, generation: Generation, tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", case.jobset)
    answer = fine("translate", "-f", file, "--uid", FIXTURE_UID, "--kube", generation.kubernetes)
    assert answer.documents == objects_of(case.jobset, generation, FIXTURE_UID)
    assert [reason for reason in case.reasons if reason not in answer.err] == []


class TestUid:
    def test_a_placeholder_uid_is_printed_with_a_note(self, tmp_path: Path) -> None:
        answer = fine("translate", "-f", write(tmp_path / "a.yaml", gang()))
        assert answer.documents[0]["metadata"]["ownerReferences"][0]["uid"].startswith("00000000-")
        assert "note: t/js has no UID" in answer.err

    def test_the_uid_of_the_file_is_used(self, tmp_path: Path) -> None:
        answer = fine("translate", "-f", write(tmp_path / "a.yaml", gang(uid=FIXTURE_UID)))
        assert answer.documents[1]["metadata"]["name"] == object_name("js", FIXTURE_UID, "jobset")
        assert answer.err == ""

    def test_flag_and_file_must_agree(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", gang(uid=FIXTURE_UID))
        assert fine("translate", "-f", file, "--uid", FIXTURE_UID).err == ""
        answer = gangctl("translate", "-f", file, "--uid", OTHER_UID)
        assert (answer.code, answer.out) == (2, "")
        assert f'a.yaml:6:3: metadata.uid: is "{FIXTURE_UID}"' in answer.err

    def test_a_uid_is_refused_for_several_jobsets(self, tmp_path: Path) -> None:
        answer = gangctl("translate", "-f", write(tmp_path / "a.yaml", gang("a"), gang("b")), "--uid", FIXTURE_UID)
        assert (answer.code, answer.out) == (2, "")
        assert "the input holds 2" in answer.err

    @each("uid", ["", "js", FIXTURE_UID.upper(), FIXTURE_UID + "0"])
    def test_an_invalid_uid_is_refused(self, uid: str, tmp_path: Path) -> None:
        answer = gangctl("translate", "-f", write(tmp_path / "a.yaml", gang()), "--uid", uid)
        assert (answer.code, answer.out) == (2, "")
        assert "is not a UID" in answer.err


class TestFormats:
    def test_json_is_one_document(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", gang())
        answer = fine("translate", "-f", file, "-o", "json").json
        assert (answer["kind"], [item["kind"] for item in answer["items"]]) == ("List", ["Workload", "PodGroup"])
        assert fine("translate", "-f", file, "-o", "json", "--kube", "1.35").json["kind"] == "Workload"

    def test_names_of_objects_are_printed(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", gang(uid=FIXTURE_UID))
        assert fine("translate", "-f", file, "-o", "name", "--jobs").out.splitlines() == [
            f"workload.scheduling.k8s.io/{object_name('js', FIXTURE_UID, 'workload')}",
            f"podgroup.scheduling.k8s.io/{object_name('js', FIXTURE_UID, 'jobset')}",
            "job.batch/js-a-0",
            "job.batch/js-b-0",
        ]

    def test_a_jobset_without_a_gang_gives_no_objects(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", jobset("js", rj("a")))
        yaml, json = fine("translate", "-f", file), fine("translate", "-f", file, "-o", "json")
        assert (yaml.out, yaml.err) == ("", "note: t/js asks for no gang\n")
        assert json.json["items"] == []

    @each("example", EXAMPLES, ids=lambda path: path.stem)
    def test_examples_are_translated_as_recorded(self, example: Path) -> None:
        plan = fine("plan", "-f", str(example), "-o", "json").json
        objects = fine("translate", "-f", str(example)).documents
        assert [o["metadata"]["name"] for o in objects] == [plan["workload"], *(g["name"] for g in plan["groups"])]
        (raw,) = yaml.safe_load_all(example.read_text(encoding="utf-8"))
        assert {o["metadata"].get("namespace") for o in objects} == {raw["metadata"].get("namespace")}


def rich_jobset() -> dict[str, Any]:
    """Everything that shows in the metadata of child Jobs."""
    first = rj("a", 2, 3, 3, mode="Gang", annotations={"team": "x", REF: "mine"})
    first["template"]["metadata"]["labels"] = {"app": "train"}
    second = {**rj("b", 1, 1, 1, pod={"schedulingGroup": {"podGroupName": "mine"}}), "groupName": "other"}
    exclusive = {
        "alpha.jobset.sigs.k8s.io/exclusive-topology": "rack",
        "alpha.jobset.sigs.k8s.io/node-selector": "true",
    }
    return jobset(
        "js",
        first,
        second,
        rj("c", 2),
        uid=FIXTURE_UID,
        annotations=exclusive,
        coordinator={"replicatedJob": "a", "jobIndex": 1},
    )


class TestJobs:
    def jobs(self, tmp_path: Path, raw: dict[str, Any], *args: str) -> dict[str, dict[str, Any]]:
        answer = fine("translate", "-f", write(tmp_path / "a.yaml", raw), "--jobs", *args)
        return {each["metadata"]["name"]: each for each in answer.documents if each["kind"] == "Job"}

    def test_a_job_is_printed_completely(self, tmp_path: Path) -> None:
        own = {
            "jobset.sigs.k8s.io/jobset-name": "js",
            "jobset.sigs.k8s.io/jobset-uid": FIXTURE_UID,
            "jobset.sigs.k8s.io/replicatedjob-name": "a",
            "jobset.sigs.k8s.io/restart-attempt": "0",
            "jobset.sigs.k8s.io/replicatedjob-replicas": "2",
            "jobset.sigs.k8s.io/global-replicas": "5",
            "jobset.sigs.k8s.io/job-index": "1",
            "jobset.sigs.k8s.io/job-global-index": "1",
            "jobset.sigs.k8s.io/group-name": "default",
            "jobset.sigs.k8s.io/group-replicas": "4",
            "jobset.sigs.k8s.io/job-group-index": "1",
            "jobset.sigs.k8s.io/coordinator": "js-a-1-0.js",
        }
        job = self.jobs(tmp_path, rich_jobset())["js-a-1"]
        own["jobset.sigs.k8s.io/job-key"] = job["metadata"]["labels"]["jobset.sigs.k8s.io/job-key"]
        assert len(own["jobset.sigs.k8s.io/job-key"]) == 40
        assert job == {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": "js-a-1",
                "namespace": "t",
                "labels": {"app": "train", **own},
                "annotations": {
                    "gangctl.dev/gang-mode": "Gang",
                    "team": "x",
                    "gangctl.dev/gang-ref": "rj/a/js-a",
                    "alpha.jobset.sigs.k8s.io/exclusive-topology": "rack",
                    "alpha.jobset.sigs.k8s.io/node-selector": "true",
                    **own,
                },
                "ownerReferences": [
                    {
                        "apiVersion": "jobset.x-k8s.io/v1alpha2",
                        "kind": "JobSet",
                        "name": "js",
                        "uid": FIXTURE_UID,
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": {
                "template": {"spec": {"schedulingGroup": {"podGroupName": object_name("js", FIXTURE_UID, "rj/a")}}}
            },
        }

    def test_jobs_have_their_global_and_group_index(self, tmp_path: Path) -> None:
        keys = [
            f"jobset.sigs.k8s.io/{key}"
            for key in ("job-global-index", "group-name", "group-replicas", "job-group-index")
        ]
        found = {
            name: [job["metadata"]["labels"][key] for key in keys]
            for name, job in self.jobs(tmp_path, rich_jobset()).items()
        }
        assert found == {
            "js-a-0": ["0", "default", "4", "0"],
            "js-a-1": ["1", "default", "4", "1"],
            "js-b-0": ["2", "other", "1", "0"],
            "js-c-0": ["3", "default", "4", "2"],
            "js-c-1": ["4", "default", "4", "3"],
        }

    def test_jobs_have_their_group_references(self, tmp_path: Path) -> None:
        specs = {name: job["spec"]["template"]["spec"] for name, job in self.jobs(tmp_path, rich_jobset()).items()}
        assert specs["js-b-0"] == {"schedulingGroup": {"podGroupName": "mine"}}
        assert specs["js-c-1"] == {}

    @each("generation", Generation)
    @each("case", [case for case in CASES if not case.rejected], ids=lambda c: c.id)
    def test_references_are_those_of_the_conformance_cases(
        self, case: Case, generation: Generation, tmp_path: Path
    ) -> None:
        jobs = self.jobs(tmp_path, case.jobset, "--uid", FIXTURE_UID, "--kube", generation.kubernetes)
        assert list(jobs) == list(case.references)
        name = case.jobset["metadata"]["name"]
        for job, scope in case.references.items():
            spec = jobs[job]["spec"]["template"]["spec"]
            if scope is None:
                assert spec == {}
            elif generation is Generation.V1ALPHA1:
                reference = {"name": object_name(name, FIXTURE_UID, "workload"), "podGroup": case.groups[scope]}
                index = f"{scope.rpartition('/')[2]}-" if scope.startswith("job/") else ""
                reference["podGroupReplicaKey"] = f"{index}0"
                assert spec == {"workloadRef": reference}
            else:
                assert spec == {"schedulingGroup": {"podGroupName": object_name(name, FIXTURE_UID, scope)}}

    def test_without_a_namespace_the_default_is_noted(self, tmp_path: Path) -> None:
        raw = gang(uid=FIXTURE_UID)
        del raw["metadata"]["namespace"]
        file = write(tmp_path / "a.yaml", raw)
        assert 'job-key is that of "default"' in fine("translate", "-f", file, "--jobs").err
        key = "jobset.sigs.k8s.io/job-key"
        without = fine("translate", "-f", file, "--jobs").documents[-1]["metadata"]
        default = fine("translate", "-f", file, "--jobs", "-n", "default").documents[-1]["metadata"]
        assert without["labels"][key] == default["labels"][key]
        assert ("namespace" in without, default["namespace"]) == (False, "default")
