"""``gangctl pathways render``: files, and the flags that choose among renderings."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from gangctl.api.emit import to_yaml
from gangctl.cli.pathways import flags
from gangctl.gang.config import JOBSET_MODES, REPLICATED_JOB_MODES
from gangctl.pathways.flags import table
from gangctl.pathways.flags.userpod import Shell
from gangctl.pathways.options import HeadResources, PathwaysOptions, Slicing, Startup
from gangctl.pathways.result import Profile
from tests.cli.manifests import CONFIG_MAP, gang, write
from tests.cli.pathways.server import Cluster, ask
from tests.cli.run import Answer, fine, gangctl
from tests.pathways.samples import annotated, pathways_job
from tests.rows import each

Object = dict[str, Any]

EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"


def render(directory: Path, *args: str, job: Object | None = None) -> Object:
    """The one JobSet that was printed."""
    file = write(directory / "a.yaml", job or pathways_job())
    jobset: Object = fine("pathways", "render", "-f", file, "-o", "json", *args).json
    return jobset


def pod_spec(jobset: Object, index: int = 0) -> Object:
    spec: Object = jobset["spec"]["replicatedJobs"][index]["template"]["spec"]["template"]["spec"]
    return spec


def container(jobset: Object, name: str) -> Object:
    spec = pod_spec(jobset)
    (found,) = [each for each in [*spec.get("initContainers", ()), *spec["containers"]] if each["name"] == name]
    return dict(found)


class TestFiles:
    def test_yaml_output_is_accepted_by_kubectl(self, tmp_path: Path) -> None:
        answer = fine("pathways", "render", "-f", write(tmp_path / "a.yaml", pathways_job("a"), pathways_job("b")))
        assert [(each["kind"], each["metadata"]["name"]) for each in answer.documents] == [
            ("JobSet", "a"),
            ("JobSet", "b"),
        ]

    def test_yaml_and_json_outputs_agree(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", pathways_job("a"), pathways_job("b"))
        as_json = fine("pathways", "render", "-f", file, "-o", "json").json
        assert (as_json["kind"], as_json["items"]) == ("List", fine("pathways", "render", "-f", file).documents)
        names = fine("pathways", "render", "-f", file, "-o", "name").out
        assert names == "jobset.jobset.x-k8s.io/a\njobset.jobset.x-k8s.io/b\n"

    def test_rendering_twice_gives_the_same_output(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", pathways_job())
        first, second = (fine("pathways", "render", "-f", file) for _ in range(2))
        assert first == second

    def test_a_pathwaysjob_is_read_from_stdin(self) -> None:
        answer = fine("pathways", "render", "-f", "-", "-o", "name", stdin=to_yaml([pathways_job()]))
        assert answer.out == "jobset.jobset.x-k8s.io/pw\n"

    def test_the_output_can_be_planned(self, tmp_path: Path) -> None:
        printed = fine("pathways", "render", "-f", write(tmp_path / "a.yaml", pathways_job())).out
        assert fine("plan", "-f", "-", "-o", "json", stdin=printed).json["gangedPods"] == 4

    def test_the_requests_of_the_head_and_notes_are_printed(self, tmp_path: Path) -> None:
        answer = fine("pathways", "render", "-f", write(tmp_path / "a.yaml", pathways_job()))
        assert "note: t/pw: the head's pod requests 24 cpu and ~122.9Gi memory\n" in answer.err
        assert "note: t/pw: GangDisabledExclusivePlacement: " in answer.err
        assert yaml.safe_load(answer.out)["kind"] == "JobSet"

    def test_warnings_fail_if_requested(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", pathways_job())
        answer = gangctl("pathways", "render", "-f", file, "--fail-on-warnings")
        assert (answer.code, answer.out) == (1, "")
        assert "FloatingImage" in answer.err

    def test_notes_are_no_warnings(self, tmp_path: Path) -> None:
        job = pathways_job(pathwaysVersion="v1", metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}})
        answer = fine("pathways", "render", "-f", write(tmp_path / "a.yaml", job), "--fail-on-warnings")
        assert "GangDisabledExclusivePlacement" in answer.err

    def test_other_kinds_are_skipped_with_a_note(self, tmp_path: Path) -> None:
        answer = fine("pathways", "render", "-f", write(tmp_path / "a.yaml", CONFIG_MAP, pathways_job(), gang()))
        assert "note: skipped 1 ConfigMap, 1 JobSet\n" in answer.err
        assert len(answer.documents) == 1

    def test_the_namespace_flag_sets_or_must_agree(self, tmp_path: Path) -> None:
        job = pathways_job(metadata={"namespace": None})
        assert render(tmp_path, "-n", "here", job=job)["metadata"]["namespace"] == "here"
        refused = gangctl("pathways", "render", "-f", write(tmp_path / "b.yaml", pathways_job()), "-n", "here")
        assert refused.code == 2
        assert 'b.yaml:5:3: metadata.namespace: is "t" but --namespace is "here"' in refused.err

    def test_a_generated_name_is_not_in_the_jobset(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", pathways_job(metadata={"name": None, "generateName": "run-"}))
        assert refused("-f", file).err.startswith(f"error: {file}:5:3: metadata.name: ")
        assert fine("pathways", "validate", "-f", file).out.startswith("PathwaysJob t/run-xxxxx: valid\n")

    def test_without_gangs_workers_keep_exclusive_placement(self, tmp_path: Path) -> None:
        def annotations(jobset: Object) -> Object:
            return dict(jobset["spec"]["replicatedJobs"][1]["template"]["metadata"].get("annotations", {}))

        assert EXCLUSIVE not in annotations(render(tmp_path))
        assert EXCLUSIVE in annotations(render(tmp_path, "--no-gangs"))

    async def test_a_cluster_without_gangs_gets_exclusive_placement(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", pathways_job())
        answer = await ask(tmp_path, Cluster({"/api/v1/nodes": []}), "pathways", "render", "-f", file, "-o", "json")
        assert answer.code == 0, answer.err
        assert answer.json == render(tmp_path, "--no-gangs")
        assert "note: rendered for a cluster without gangs: " in answer.err

    @pytest.mark.parametrize("kube", ["1.35", "1.36", "1.37"])
    def test_gang_options_of_later_minors_are_left_out(self, kube: str, tmp_path: Path) -> None:
        one_slice = pathways_job(workers={"numSlices": 1})
        file = write(tmp_path / "b.yaml", one_slice)
        rendered = fine("pathways", "render", "-f", file, "--kube", kube, "-o", "json").json
        assert (OPTIONS in rendered["metadata"].get("annotations", {})) == (kube != "1.35")
        for command in ("plan", "translate"):
            fine(command, "-f", file, "--kube", kube)

    async def test_gang_options_that_the_cluster_does_not_support_are_left_out(self, tmp_path: Path) -> None:
        scheduling = "/apis/scheduling.k8s.io"
        versions = {"versions": [{"groupVersion": "scheduling.k8s.io/v1alpha1", "version": "v1alpha1"}]}
        workloads = {"resources": [{"name": "workloads", "kind": "Workload"}]}
        cluster = Cluster({"/api/v1/nodes": []}, answers={scheduling: versions, f"{scheduling}/v1alpha1": workloads})
        file = write(tmp_path / "a.yaml", pathways_job())
        answer = await ask(tmp_path, cluster, "pathways", "render", "-f", file, "-o", "json")
        assert (answer.code, "without gangs" in answer.err) == (0, False), answer.err
        assert answer.json == render(tmp_path, "--kube", "1.35")

    async def test_an_unreachable_server_is_exit_code_3(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", pathways_job())
        answer = await ask(tmp_path, Cluster(refuses=True), "pathways", "render", "-f", file)
        assert (answer.code, answer.out) == (3, "")


OPTIONS = "gangctl.dev/gang-options"
BASE = {
    "workload": "train",
    "tpu-type": "v5p-8",
    "docker-image": "img:1",
    "command": "python t.py",
    "pathways-gcs-location": "gs://b/d",
}


def by_flags(**changes: Any) -> list[str]:
    """The flags of a job with these changes, None for what is left out."""
    said = BASE | {name.replace("_", "-"): value for name, value in changes.items()}
    return [each for name, value in said.items() if value is not None for each in (f"--{name}", str(value))]


def from_flags(*more: str, **changes: Any) -> Object:
    """The one JobSet that flags become."""
    jobset: Object = fine("pathways", "render", *by_flags(**changes), "-o", "json", *more).json
    return jobset


class TestFlags:
    def test_a_job_is_rendered_from_flags(self) -> None:
        jobset = from_flags("--num-slices", "2", "-n", "here")
        assert jobset["metadata"] | {"labels": {}, "annotations": {}} == {
            "name": "train",
            "namespace": "here",
            "labels": {},
            "annotations": {},
        }
        assert jobset["spec"]["replicatedJobs"][1]["replicas"] == 2
        main = container(jobset, "jax-tpu")
        assert (main["image"], main["command"][-1]) == ("img:1", "python t.py")
        assert "--instance_type=tpuv5:2x2x1" in container(jobset, "pathways-rm")["args"]

    def test_the_requests_of_the_head_are_printed(self) -> None:
        answer = fine("pathways", "render", *by_flags(), "-o", "name")
        assert answer.out == "jobset.jobset.x-k8s.io/train\n"
        assert "note: train: the head's pod requests 26 cpu and ~130.9Gi memory\n" in answer.err

    def test_profiles_differ(self) -> None:
        own, xpk = from_flags(), from_flags("--profile", "xpk")
        assert from_flags("--profile", "gang") == own
        assert "securityContext" not in container(own, "jax-tpu")
        assert container(xpk, "jax-tpu")["securityContext"] == {"privileged": True}
        assert container(from_flags("--profile", "xpk", "--no-privileged"), "jax-tpu").get("securityContext") is None

    def test_a_headless_job_has_no_user_container(self) -> None:
        jobset = from_flags("--headless", command=None, docker_image=None)
        assert [each["name"] for each in pod_spec(jobset)["containers"]] == ["pathways-rm", "pathways-proxy"]

    def test_options_apply_to_a_job_from_flags(self) -> None:
        jobset = from_flags("--head-resources", "proxy.limits.memory=50G", "--ttl-seconds-after-finished", "60")
        assert container(jobset, "pathways-proxy")["resources"]["limits"]["memory"] == "50G"
        assert jobset["spec"]["ttlSecondsAfterFinished"] == 60

    def test_an_empty_value_overrides_the_profile(self) -> None:
        labels = from_flags("--profile", "xpk")["metadata"]["labels"]
        assert labels["kueue.x-k8s.io/queue-name"] == "multislice-queue"
        assert "kueue.x-k8s.io/queue-name" not in from_flags("--profile", "xpk", "--queue", "")["metadata"]["labels"]

    def test_the_environment_is_read_from_a_file_and_the_process(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MINE", "here")
        file = tmp_path / "env"
        file.write_text("A=b=c\n# no\n\nMINE\n")
        env = container(from_flags("--env-file", str(file), "--env", "D=e"), "jax-tpu")["env"]
        found = {each["name"]: each["value"] for each in env if "value" in each}
        assert {"A": "b=c", "MINE": "here", "D": "e"}.items() <= found.items()

    def test_why_and_validate_take_them_too(self) -> None:
        explained = fine("pathways", "why", *by_flags(num_slices=3), "-o", "json").json
        replicas = next(each for each in explained["fields"] if each["path"] == "spec.replicatedJobs[1].replicas")
        assert replicas["value"] == 3
        assert replicas["origin"] | {"why": ""} == {"kind": "flag", "place": "--num-slices", "why": "", "at": ""}
        valid = fine("pathways", "validate", *by_flags(), "-o", "json").json
        assert (valid["valid"], valid["metadata"]["name"]) == (True, "train")
        invalid = gangctl("pathways", "validate", *by_flags(tpu_type="v9"), "-o", "json")
        assert (invalid.code, invalid.json["problems"][0]["path"]) == (2, "--tpu-type")

    @each(
        ("changes", "words"),
        [
            ({"workload": None}, ("--workload: ", "(InvalidName)")),
            ({"workload": "a" * 23}, ("--workload: ", "at most 22", "(NameTooLong)")),
            ({"workload": "no name"}, ("--workload: ", "(InvalidName)")),
            ({"tpu_type": None}, ("--tpu-type: ",)),
            ({"tpu_type": "nvidia-l4"}, ("--tpu-type: ", '"nvidia-l4"', "(UnknownAccelerator)")),
            ({"tpu_type": "v5p"}, ("--topology: ", "(InvalidTopology)")),
            ({"topology": "9x9x9"}, ("--topology: ",)),
            ({"num_slices": 0}, ("--num-slices: ", "at least 1", "(InvalidNumSlices)")),
            ({"num_slices": 10**30}, ("--num-slices: ", "(InvalidNumSlices)")),
            ({"num_slices": "two"}, ("--num-slices", "not a valid integer")),
            ({"elastic_slices": 1}, ("--elastic-slices: ", "(InvalidElasticSlices)")),
            ({"max_restarts": -1}, ("--max-restarts: ", "(InvalidRestarts)")),
            ({"max_restarts": 10**30}, ("--max-restarts: ",)),
            ({"termination_grace_period_seconds": 10**30}, ("--termination-grace-period-seconds: ",)),
            ({"command": None}, ("--command: ",)),
            ({"docker_image": None}, ("--docker-image: ",)),
            ({"docker_image": "no image"}, ("--docker-image: ", "(InvalidImage)")),
            ({"pathways_gcs_location": None}, ("--pathways-gcs-location: ", "(InvalidDirectory)")),
            ({"pathways_gcs_location": "/tmp"}, ("--pathways-gcs-location: ", "gs://", "(InvalidDirectory)")),
            ({"docker_resources": "limits.cpu=lots"}, ("--docker-resources: ", "(InvalidResources)")),
            ({"docker_resources": "cpu=1"}, ("--docker-resources: ",)),
            ({"env": "=x"}, ("--env: ", "(InvalidEnvironment)")),
            ({"env": "1A=x"}, ("--env: ", "(InvalidEnvironment)")),
            ({"custom_pathways_server_args": "'open"}, ("--custom-pathways-server-args: ",)),
            ({"label": "a"}, ("--label: ",)),
            ({"label": "a b=c"}, ("--label: ",)),
            ({"annotation": "gangctl.dev/gang-mode=Maybe"}, ("--annotation", "(InvalidGangMode)")),
            ({"node_selector": "a"}, ("--node-selector: ",)),
            ({"wrapper": "zsh"}, ("--wrapper", "'bash', 'sh', 'none'")),
            ({"profile": "other"}, ("--profile", "'gang', 'xpk'")),
            ({"head_node_selector": "a=b=c"}, ("--head-node-selector", "(InvalidOptions)")),
            ({"startup": "AnyOrder", "slicing": "Sub"}, ("(InvalidSlicing)",)),
        ],
        ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
    )
    def test_bad_flags_are_one_error(self, changes: Object, words: tuple[str, ...]) -> None:
        answer = refused(*by_flags(**changes))
        lines = answer.err.splitlines()
        assert [word for word in words if word not in answer.err] == []
        assert sum(line.startswith("error: ") for line in lines) == 1, answer.err
        assert len(answer.err) < 1000
        place = lines[0].removeprefix("error: ").partition(": ")[0]
        assert not place.startswith(("metadata", "spec")), place

    def test_all_errors_of_flags_are_reported(self) -> None:
        lines = refused(*by_flags(num_slices=0, tpu_type="v9", docker_image=None)).err.splitlines()
        assert lines[-1] == "error: 3 errors in the flags"
        assert {line.partition(":")[0] for line in lines[:-1]} == {"--num-slices", "--tpu-type", "--docker-image"}

    def test_choices_are_those_of_the_types(self) -> None:
        assert (*Shell, "none") == table.SHELLS
        assert (table.GANG_MODES, table.WORKER_MODES) == (JOBSET_MODES, REPLICATED_JOB_MODES)

    @each("flag", [("--workload", "a"), ("--headless",), ("--profile", "xpk"), ("--num-slices", "0")])
    def test_flags_of_a_job_are_refused_with_files(self, flag: tuple[str, ...], tmp_path: Path) -> None:
        answer = refused("-f", write(tmp_path / "a.yaml", pathways_job()), *flag)
        assert answer.err.startswith(f"error: -f translates what files say: leave it out, or {flag[0]}\n")

    def test_without_files_and_flags_it_is_an_error(self) -> None:
        assert refused().err.startswith(
            "error: give PathwaysJobs with -f, or --workload and the other flags of a job\n"
        )

    @each(
        ("content", "words"),
        [(None, "no such file or directory"), (b"A=\xff", "no text in UTF-8"), (b"A" * (2**20 + 1), "larger than")],
        ids=["absent", "not-utf-8", "large"],
    )
    def test_an_unreadable_environment_file_is_refused(self, content: bytes | None, words: str, tmp_path: Path) -> None:
        file = tmp_path / "env"
        if content is not None:
            file.write_bytes(content)
        answer = refused("--workload", "a", "--env-file", str(file))
        assert answer.err.startswith(f"error: --env-file {file}: ")
        assert words in answer.err


class TestChoices:
    def test_there_is_a_flag_for_each_option(self) -> None:
        assert list(table.CHOICES) == list(PathwaysOptions.model_fields)

    def test_choices_are_those_of_the_types(self) -> None:
        policy = PathwaysOptions.model_fields["image_pull_policy"].annotation
        (literal, _) = get_args(policy)
        assert get_args(literal) == table.PULL_POLICIES
        assert tuple(Startup) == table.STARTUPS
        assert tuple(Slicing) == table.SLICINGS
        assert tuple(Profile) == flags.PROFILES
        assert {field.alias for field in HeadResources.model_fields.values()} == set(flags.COMPONENTS)

    def test_options_of_flags_apply_without_the_annotation(self, tmp_path: Path) -> None:
        own = pathways_job(metadata=annotated(pathways_options='{"ttlSecondsAfterFinished": 5}'))
        flags = ("--ttl-seconds-after-finished", "7", "--image-registry", "here/pathways")
        jobset = render(tmp_path, *flags, job=own)
        assert jobset["spec"]["ttlSecondsAfterFinished"] == 5
        assert container(jobset, "pathways-rm")["image"].startswith("here/pathways/server")

    @pytest.mark.parametrize(
        "flags",
        [
            ("proxy.limits.memory=50G", "proxy.requests.cpu=2"),
            ('{"proxy": {"limits": {"memory": "50G"}, "requests": {"cpu": "2"}}}',),
            ('{"proxy": {"limits": {"memory": "60G"}, "requests": {"cpu": "2"}}}', "proxy.limits.memory=50G"),
        ],
        ids=["one-by-one", "json", "json-and-one-changed"],
    )
    def test_resources_of_the_head_can_be_set(self, flags: tuple[str, ...], tmp_path: Path) -> None:
        jobset = render(tmp_path, *(each for flag in flags for each in ("--head-resources", flag)))
        resources = container(jobset, "pathways-proxy")["resources"]
        assert resources["limits"]["memory"] == "50G"
        assert resources["requests"] == {"cpu": "2", "memory": "50G"}

    def test_resource_names_may_have_dots(self, tmp_path: Path) -> None:
        jobset = render(tmp_path, "--head-resources", "proxy.limits.example.com/x=1")
        assert container(jobset, "pathways-proxy")["resources"]["limits"]["example.com/x"] == "1"

    def test_the_node_selector_of_the_head_can_be_set(self, tmp_path: Path) -> None:
        jobset = render(tmp_path, "--head-node-selector", "pool=cpu", "--head-node-selector", "a=")
        assert pod_spec(jobset)["nodeSelector"] == {"pool": "cpu", "a": ""}

    def test_the_startup_order_can_be_chosen(self, tmp_path: Path) -> None:
        jobset = render(tmp_path, "--startup", "DependsOn")
        assert jobset["spec"]["replicatedJobs"][1]["dependsOn"] == [{"name": "pathways-head", "status": "Ready"}]

    @each(
        ("flag", "value", "words"),
        [
            ("--head-resources", "proxy.memory=1", ('"proxy.memory=1"', "proxy.limits.memory=50G")),
            ("--head-resources", "worker.limits.cpu=1", ('"worker" is no component', "resourceManager, proxy")),
            ("--head-resources", "proxy.limits.cpu=lots", ('"lots"',)),
            ("--head-resources", '{"proxy": 1}', ("--head-resources: proxy: ",)),
            ("--head-resources", f'{{"proxy": {{"limits": {{"cpu": {10**20}}}}}}}', (f"at most {2**63 - 1}",)),
            ("--head-resources", "{", ("this is no JSON",)),
            ("--head-node-selector", "pool", ('"pool" is not of the form KEY=VALUE',)),
            ("--head-node-selector", "a=b=c", ("--head-node-selector: ", '"b=c"', "(InvalidOptions)")),
            ("--startup", "Later", ("'InOrder', 'DependsOn', 'AnyOrder'",)),
            ("--unreachable-timeout-seconds", "0", ("1<=x<=2147483647",)),
            ("--ttl-seconds-after-finished", "9" * 20, ("0<=x<=2147483647",)),
            ("--image-registry", "", ("--image-registry",)),
            ("--subdomain", "Not A Label", ("subdomain",)),
        ],
    )
    def test_bad_values_are_one_error(self, flag: str, value: str, words: tuple[str, ...], tmp_path: Path) -> None:
        answer = gangctl("pathways", "render", "-f", write(tmp_path / "a.yaml", pathways_job()), flag, value)
        assert (answer.code, answer.out) == (2, "")
        lines = answer.err.splitlines()
        assert sum(line.startswith("error: ") for line in lines) == 1, answer.err
        assert [word for word in words if word not in answer.err] == []
        assert len(answer.err) < 2000

    def test_an_error_in_a_flag_names_the_flag_and_not_the_file(self, tmp_path: Path) -> None:
        file = write(tmp_path / "a.yaml", pathways_job())
        answer = gangctl("pathways", "render", "-f", file, "--head-node-selector", "a=b=c")
        assert answer.err.startswith("--head-node-selector: ")
        own = pathways_job(metadata=annotated(pathways_options='{"headNodeSelector": {"a": "b=c"}}'))
        answer = gangctl("pathways", "render", "-f", write(tmp_path / "b.yaml", own), "--head-node-selector", "a=b")
        assert answer.err.startswith(f"{tmp_path / 'b.yaml'}:7:5: metadata.annotations[gangctl.dev/pathways-options]")

    def test_a_label_given_twice_is_refused(self, tmp_path: Path) -> None:
        twice = ("--head-node-selector", "a=1", "--head-node-selector", "a=2")
        answer = gangctl("pathways", "render", "-f", write(tmp_path / "a.yaml", pathways_job()), *twice)
        assert (answer.code, answer.err) == (2, 'error: --head-node-selector: "a" is given twice\n')


def refused(*args: str) -> Answer:
    answer = gangctl("pathways", "render", *args)
    assert (answer.code, answer.out) == (2, "")
    return answer
