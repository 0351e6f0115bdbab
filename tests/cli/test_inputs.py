"""What ``-f`` accepts, and the errors for the rest."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from gangctl.cli.inputs import read_documents
from gangctl.errors import InputError
from tests.cli.kueueobjects import queued
from tests.cli.manifests import CONFIG_MAP, PLACEHOLDER, SERVICE, gang, write
from tests.cli.run import fine, gangctl
from tests.jobsets import jobset, rj
from tests.rows import each


def names(*args: str, stdin: str | None = None) -> list[str]:
    """Names of the JobSets that were read."""
    answer = fine("plan", *args, "-o", "json", stdin=stdin).json
    plans = answer["items"] if answer["kind"] == "List" else [answer]
    return [plan["metadata"]["name"] for plan in plans]


class TestSources:
    def test_yaml_json_and_stdin_in_the_order_given(self, tmp_path: Path) -> None:
        one, two = write(tmp_path / "1.yaml", gang("one")), write(tmp_path / "2.json", gang("two"))
        third = Path(write(tmp_path / "3.yaml", gang("three"))).read_text()
        assert names("-f", two, "-f", "-", "-f", one, stdin=third) == ["two", "three", "one"]

    def test_several_documents_and_lists(self, tmp_path: Path) -> None:
        assert names("-f", write(tmp_path / "a.json", gang("one"), gang("two"))) == ["one", "two"]
        assert names("-f", write(tmp_path / "a.yaml", gang("one"), gang("two"))) == ["one", "two"]

    def test_a_directory_is_read_recursively_and_in_order(self, tmp_path: Path) -> None:
        (tmp_path / "b").mkdir()
        for name in ("c.yaml", "b/z.yml", "a.json", "b/README.md", "d.yaml.orig"):
            write(tmp_path / name, gang(name[0] if "/" not in name else "z"))
        assert names("-f", str(tmp_path)) == ["a", "z", "c"]

    def test_each_source_is_read_once(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", gang("one"))
        assert names("-f", file, "-f", str(tmp_path), "-f", file) == ["one"]

    def test_a_mounted_config_map_is_read_once(self, tmp_path: Path) -> None:
        """The kubelet writes into a directory that it replaces as a whole, and links to its files, or to theirs."""
        version = tmp_path / "..2026_11_29_18_00_00.1"
        (version / "more").mkdir(parents=True)
        for name in ("a.yaml", "more/b.yaml"):
            write(version / name, gang(name[-6]))
        for link, target in (
            ("..data", version.name),
            ("a.yaml", "..data/a.yaml"),
            ("more", "..data/more"),
            ("z", "a.yaml"),
        ):
            (tmp_path / link).symlink_to(target)
        answer = fine("plan", "-f", str(tmp_path))
        assert names("-f", str(tmp_path)) == ["b", "a"]
        assert answer.err == ""

    def test_an_empty_file_beside_others_is_ignored(self, tmp_path: Path) -> None:
        (tmp_path / "empty.yaml").write_text("# nothing yet\n")
        write(tmp_path / "a.yaml", gang("one"))
        assert names("-f", str(tmp_path)) == ["one"]

    def test_a_file_named_dash_is_read(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(tmp_path / "-", gang("dash"))
        monkeypatch.chdir(tmp_path)
        assert names("-f", "./-") == ["dash"]


class TestTypedLists:
    """What support dumps hold: lists as the API writes them."""

    def test_every_jobset_of_a_typed_list_is_read(self, tmp_path: Path) -> None:
        listed = {"kind": "JobSetList", "apiVersion": "jobset.x-k8s.io/v1alpha2", "items": [gang("one"), gang("two")]}
        assert names("-f", write(tmp_path / "a.json", listed)) == ["one", "two"]

    def test_a_directory_of_cluster_info_dump_is_read(self, tmp_path: Path) -> None:
        """`kubectl cluster-info dump --output-directory`: nodes, and one directory for each namespace, with logs."""
        node = {"metadata": {"name": "a"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}
        pod = {
            "metadata": {"name": "p", "namespace": "ml"},
            "spec": {"nodeName": "a", "containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]},
        }
        dump = {
            "nodes": ("NodeList", "v1", [node]),
            "ml/pods": ("PodList", "v1", [pod]),
            "ml/events": ("EventList", "v1", []),
            "ml/deployments": ("DeploymentList", "apps/v1", []),
            "ml/replicasets": ("ReplicaSetList", "apps/v1", None),
        }
        (tmp_path / "dump" / "ml" / "p").mkdir(parents=True)
        (tmp_path / "dump" / "ml" / "p" / "logs.txt").write_text("==== START logs for container c of pod ml/p ====\n")
        for name, (kind, version, items) in dump.items():
            write(tmp_path / "dump" / f"{name}.json", {"kind": kind, "apiVersion": version, "items": items})
        asked = write(tmp_path / "a.yaml", queued(cpu="2", pods=1))
        answer = gangctl("fit", "-f", asked, "--queues", str(tmp_path / "dump"), "--fixed-nodes", "-o", "json")
        assert answer.json["reason"] == "WaitsForNodes", answer.out


class TestRefused:
    def refused(self, *args: str, stdin: str | bytes = "") -> str:
        answer = gangctl("plan", *args, stdin=stdin)
        assert (answer.code, answer.out) == (2, "")
        return answer.err

    def test_a_missing_file_is_refused(self, tmp_path: Path) -> None:
        assert self.refused("-f", f"{tmp_path}/no.yaml") == f"error: {tmp_path}/no.yaml: no such file or directory\n"

    def test_an_empty_file_name_is_refused(self) -> None:
        assert "empty" in self.refused("-f", "")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
    def test_an_unreadable_file_is_refused(self, tmp_path: Path) -> None:
        file = Path(write(tmp_path / "a.yaml", gang()))
        file.chmod(0)
        assert "permission denied" in self.refused("-f", str(file))

    def test_an_impossible_path_is_refused(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", gang())
        assert "not a directory" in self.refused("-f", f"{file}/b.yaml")
        assert "file name too long" in self.refused("-f", "x" * 5000)

    def test_a_directory_without_manifests_is_refused(self, tmp_path: Path) -> None:
        assert "no manifests below" in self.refused("-f", str(tmp_path))

    @each("text", ["", "\n", "---\n---\n", "# only words\n", "null"])
    def test_an_empty_input_is_refused(self, text: str) -> None:
        assert self.refused("-f", "-", stdin=text).startswith("error: <stdin>: empty\n")

    def test_stdin_that_cannot_be_read_is_refused(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        written = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
        with os.fdopen(written, "r", encoding="utf-8") as stdin:
            monkeypatch.setattr("sys.stdin", stdin)
            with pytest.raises(InputError, match=r"^<stdin>: bad file descriptor$"):
                read_documents(["-"])

    def test_input_that_is_not_utf8_is_refused(self) -> None:
        assert "<stdin>:2:3: " in self.refused("-f", "-", stdin=b"a: b\nc:\xff")

    def test_input_without_a_jobset_is_refused(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", CONFIG_MAP, SERVICE, SERVICE)
        assert "no JobSet in the input: found 1 ConfigMap, 2 Service" in self.refused("-f", file)

    def test_a_trainjob_is_refused_with_the_command_that_shows_its_jobset(self, tmp_path: Path) -> None:
        trainjob = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "a"}}
        answer = self.refused("-f", write(tmp_path / "a.yaml", trainjob))
        assert "no JobSet in the input: found 1 TrainJob" in answer
        assert "spec.suspend true, then kubectl get jobset NAME -o yaml | gangctl plan -f -" in answer

    @each(
        ("version", "kind", "words"),
        [
            ("batch.volcano.sh/v1alpha1", "Job", "write a JobSet with one replicated job per task"),
            ("kubeflow.org/v1", "PyTorchJob", "write a JobSet with one replicated job per replica type"),
            ("batch/v1", "Job", "write a JobSet with this Job as the template"),
            ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "its pods are not made by JobSet"),
        ],
    )
    def test_another_workload_is_refused_with_what_to_write_instead(self, version: str, kind: str, words: str) -> None:
        text = json.dumps({"apiVersion": version, "kind": kind, "metadata": {"name": "a"}})
        for command in (("plan",), ("translate",), ("convert", "--to", "annotations")):
            answer = gangctl(*command, "-f", "-", stdin=text)
            assert answer.code == 2
            group = version.partition("/")[0]
            assert f"no JobSet in the input: found 1 {kind} of {group}\n" in answer.err
            assert f'hint: "{kind}" of {version} is no JobSet: {words}' in answer.err

    def test_a_misspelt_kind_is_refused_with_the_one_that_is_meant(self, tmp_path: Path) -> None:
        answer = self.refused(
            "-f", write(tmp_path / "a.yaml", {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "Jobset"})
        )
        assert "did you mean kind JobSet" in answer

    def test_every_template_of_a_chart_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "templates").mkdir()
        for name in ("jobset", "queue"):
            (tmp_path / "templates" / f"{name}.yaml").write_text("metadata:\n  name: {{ .Release.Name }}\n")
        err = self.refused("-f", str(tmp_path))
        assert err.count("is a template of Helm: render its chart with helm template CHART > FILE") == 2

    def test_a_template_that_is_yaml_is_named_by_its_first_error(self, tmp_path: Path) -> None:
        (tmp_path / "a.yaml").write_text(
            Path(write(tmp_path / "b.yaml", gang())).read_text().replace("js", "'{{ .x }}'")
        )
        assert "hint: this is a template of Helm: render its chart with" in self.refused("-f", str(tmp_path / "a.yaml"))

    def test_a_patch_is_refused_with_the_command_that_renders_its_kustomization(self, tmp_path: Path) -> None:
        directory = tmp_path / "an overlay"
        directory.mkdir()
        patch = jobset("js", {"name": "w", "replicas": 4})
        write(directory / "patch.yaml", patch)
        assert "kustomize" not in self.refused("-f", str(directory))
        # Without apiVersion and kind, which kustomize fills in.
        (directory / "kustomization.yaml").write_text("resources: [a.yaml]\npatches: [{path: patch.yaml}]\n")
        command = f"kubectl kustomize '{directory}' | gangctl plan -f -"
        for given in (directory, directory / "patch.yaml"):
            assert f"hint: a patch of a kustomization is no whole object: {command}" in self.refused("-f", str(given))
        assert "kustomize" not in self.refused("-f", "-", stdin=json.dumps(patch))

    @each(
        ("written", "hint"),
        [
            (
                {"apiVersion": "template.openshift.io/v1", "kind": "Template", "objects": [gang()]},
                "a Template of OpenShift has its objects inside: oc process --local -f ",
            ),
            ({"type": "ADDED", "object": gang()}, "an event of a watch has its object inside: jq .object "),
            (
                {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": ["a.yaml"]},
                "a Kustomization names its objects: kubectl kustomize ",
            ),
        ],
    )
    def test_what_has_jobsets_inside_is_refused_with_the_command_that_gets_them(
        self, tmp_path: Path, written: dict[str, Any], hint: str
    ) -> None:
        file = write(tmp_path / "a.yaml", written)
        place: Any = tmp_path if "kustomize" in hint else file
        assert f"hint: {hint}{place} | gangctl plan -f -\n" in self.refused("-f", str(file))
        place = "DIRECTORY" if "kustomize" in hint else "FILE"
        assert f"hint: {hint}{place} | gangctl plan -f -\n" in self.refused("-f", "-", stdin=json.dumps(written))

    def test_every_unreadable_source_is_reported(self, tmp_path: Path) -> None:
        (tmp_path / "a.yaml").write_text("a: [")
        (tmp_path / "b.yaml").write_text("b: }")
        err = self.refused("-f", str(tmp_path), "-f", f"{tmp_path}/no.yaml")
        lines = err.splitlines()
        assert [line.split(":")[0] for line in lines] == [
            *(f"{tmp_path}/{name}.yaml" for name in ("a", "b", "no")),
            "error",
        ]
        assert lines[-1] == "error: cannot read 3 inputs"


class TestOtherKinds:
    def test_other_kinds_are_skipped_with_a_note(self, tmp_path: Path) -> None:
        answer = fine("plan", "-f", write(tmp_path / "a.yaml", SERVICE, gang(), CONFIG_MAP, SERVICE), "-o", "json")
        assert answer.err == f"note: skipped 1 ConfigMap, 2 Service\n{PLACEHOLDER}"
        assert answer.json["metadata"]["name"] == "js"

    def test_a_jobset_of_another_api_group_is_skipped(self, tmp_path: Path) -> None:
        other = {**gang(), "apiVersion": "example.com/v1"}
        assert "skipped 1 JobSet" in fine("plan", "-f", write(tmp_path / "a.yaml", other, gang())).err


class TestNamespace:
    def test_the_namespace_flag_sets_a_missing_namespace(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", gang(namespace="x"), {**gang(), "metadata": {"name": "b"}})
        plans = fine("plan", "-f", file, "-n", "x", "-o", "json").json["items"]
        assert [plan["metadata"]["namespace"] for plan in plans] == ["x", "x"]

    def test_an_empty_namespace_flag_is_none(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", gang(namespace="x"), {**gang(), "metadata": {"name": "b"}})
        assert fine("plan", "-f", file, "-n", "").out == fine("plan", "-f", file).out

    def test_the_namespace_flag_must_agree_with_the_manifest(self, tmp_path: Path) -> None:
        answer = gangctl("plan", "-f", write(tmp_path / "a.yaml", gang(namespace="x")), "-n", "y")
        assert answer.code == 2
        assert 'a.yaml:5:3: metadata.namespace: is "x" but --namespace is "y"' in answer.err


class TestChecksOfManifests:
    """What JobSet's CRD and webhook would refuse."""

    def errors(self, tmp_path: Path, raw: dict[str, object]) -> str:
        answer = gangctl("plan", "-f", write(tmp_path / "a.yaml", raw), "-o", "json")
        assert (answer.code, answer.out) == (2, "")
        return answer.err

    def test_another_api_version_is_refused(self, tmp_path: Path) -> None:
        assert 'apiVersion: is "jobset.x-k8s.io/v1"' in self.errors(
            tmp_path, {**gang(), "apiVersion": "jobset.x-k8s.io/v1"}
        )

    def test_a_jobset_without_a_name_is_refused(self, tmp_path: Path) -> None:
        assert "metadata.name: a JobSet needs a name" in self.errors(tmp_path, {**gang(), "metadata": {}})

    def test_a_jobset_without_replicated_jobs_is_refused(self, tmp_path: Path) -> None:
        assert "spec.replicatedJobs: a JobSet needs" in self.errors(tmp_path, jobset("js", mode="Gang"))
        assert "spec.replicatedJobs: a JobSet needs" in self.errors(tmp_path, {**gang(), "spec": {}})

    def test_a_duplicate_name_is_refused(self, tmp_path: Path) -> None:
        assert "spec.replicatedJobs[1]: Duplicate value" in self.errors(tmp_path, jobset("js", rj("a"), rj("a")))

    @each(
        ("name", "entry"),
        [
            ("js", rj("A")),
            ("js", {"template": rj("a")["template"]}),
            ("1s", rj("a")),
            ("j" * 60, rj("abc")),
            ("j" * 50, rj("abc", 1, 100, 10_000)),
        ],
        ids=["upper", "missing", "digit", "job-too-long", "pod-too-long"],
    )
    def test_names_of_jobs_and_pods(self, tmp_path: Path, name: str, entry: dict[str, object]) -> None:
        errors = self.errors(tmp_path, jobset(name, entry))
        assert "spec.replicatedJobs[0].name: " in errors

    @each("name", ["Bad_Name", "a" * 300])
    def test_an_invalid_jobset_name_is_refused(self, tmp_path: Path, name: str) -> None:
        errors = self.errors(tmp_path, jobset(name, rj("a"), rj("b")))
        assert f'metadata.name: Invalid value: "{name[:70]}' in errors
        assert "replicatedJobs" not in errors
        assert len(errors) < 1200

    def test_a_dependency_on_a_later_job_is_refused(self, tmp_path: Path) -> None:
        raw = jobset("js", rj("a", depends_on="b"), rj("b"))
        err = self.errors(tmp_path, raw)
        assert "spec.replicatedJobs[0].dependsOn[0].name: replicatedJob: a cannot depend on replicatedJob: b" in err

    def test_too_many_jobs_are_refused(self, tmp_path: Path) -> None:
        raw = jobset("js", rj("a", 2_000_000_000, mode="ReplicatedGang"))
        assert "spec.replicatedJobs: 2000000000 Jobs" in self.errors(tmp_path, raw)

    def test_a_generated_name_gets_a_placeholder(self, tmp_path: Path) -> None:
        raw = gang()
        raw["metadata"] = {"generateName": "js-", "annotations": raw["metadata"]["annotations"]}
        answer = fine("plan", "-f", write(tmp_path / "a.yaml", raw), "-o", "json")
        assert answer.json["metadata"]["name"] == "js-xxxxx"
        assert "generateName" in answer.err

    def test_all_errors_of_all_documents_are_reported_without_a_plan(self, tmp_path: Path) -> None:
        file = write(
            tmp_path / "a.yaml", jobset("one", rj("a"), mode="gang"), gang(), jobset("three", rj("A"), mode="Of")
        )
        answer = gangctl("plan", "-f", file)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.count('"Off", "Gang"') == 2
        assert answer.err.endswith("error: 3 errors in 2 JobSets\n")


@each(
    "arguments",
    [
        *((verb, "-f", "nothing.yaml") for verb in ("get", "top")),
        *((verb, "train", "-f", "nothing.yaml") for verb in ("why", "describe")),
        ("drain", "node-7", "--dry-run", "-f", "nothing.yaml"),
        ("fit", "-f", "nothing.yaml", "--queues", "nothing.yaml"),
        ("queue", "describe", "research", "--queues", "nothing.yaml"),
        ("pathways", "validate", "-f", "nothing.yaml"),
        ("pathways", "validate", "-f", "nothing.yaml", "--queues", "nothing.yaml"),
    ],
)
def test_the_namespace_of_kueue_is_refused_where_no_cluster_is_asked(arguments: tuple[str, ...]) -> None:
    answer = gangctl(*arguments, "--kueue-namespace", "queueing")
    assert (answer.code, answer.out) == (2, "")
    assert "--kueue-namespace is about a cluster, and none is asked: leave it out" in answer.err


@each(
    ("arguments", "words"),
    [
        (("policy", "list", "--kube", "1.36"), "--kube is about files"),
        (("policy", "list", "--kube", "1.36", "--context", "c"), "--kube is about files"),
        (("pathways", "validate", "-f", "nothing.yaml", "--local-queue", "q"), "--local-queue needs queues"),
        (("doctor", "--timeout", "5"), "--timeout needs --canary"),
        (("doctor", "--yes"), "--yes needs --canary"),
        (("doctor", "--canary", "--only", "scheduling-api"), "--canary is for its own checks"),
    ],
)
def test_a_flag_without_an_effect_is_refused(arguments: tuple[str, ...], words: str) -> None:
    answer = gangctl(*arguments)
    assert (answer.code, answer.out) == (2, "")
    assert words in answer.err
