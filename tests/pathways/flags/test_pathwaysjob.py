"""Flags in place of a PathwaysJob: the result, and the errors of invalid ones."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Final

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gangctl.api.emit import to_yaml
from gangctl.gang.config import GangMode
from gangctl.gang.reasons import Reason
from gangctl.pathways.flags.pathwaysjob import read_flags
from gangctl.pathways.flags.table import Flags
from gangctl.pathways.flags.userpod import Shell, wrapped
from gangctl.pathways.job import ComponentType, DeploymentMode, PathwaysJob
from gangctl.pathways.options import PathwaysOptions, Slicing, Startup
from gangctl.pathways.problems import InvalidReason as Why
from gangctl.pathways.problems import Problem
from gangctl.pathways.rendering.jobset import render
from gangctl.pathways.result import Origin, OriginKind, Profile, Rendering, RenderingInputs
from tests.rows import each

FLAGS: Final = Flags(
    workload="pw",
    tpu_type="v5p-8",
    command="python train.py",
    docker_image="r.example/team/train:1",
    pathways_gcs_location="gs://b/d",
    pathways_version="v1",
)
QUEUE: Final = "kueue.x-k8s.io/queue-name"
POOL: Final = "cloud.google.com/gke-nodepool"
SCRIPT: Final = "echo a\npython t.py\necho b"


def read(profile: Profile = Profile.GANG, options: PathwaysOptions | None = None, **changes: Any) -> PathwaysJob:
    reading = read_flags(replace(FLAGS, **changes), profile, options or PathwaysOptions())
    assert not reading.problems
    assert reading.job is not None
    return reading.job


def problems(profile: Profile = Profile.GANG, **changes: Any) -> tuple[Problem, ...]:
    reading = read_flags(replace(FLAGS, **changes), profile, PathwaysOptions())
    assert (reading.job is None) == bool(reading.problems)
    return reading.problems


def rendered(profile: Profile = Profile.GANG, **changes: Any) -> Rendering:
    return render(read(profile, **changes), RenderingInputs(profile))


def pod(rendering: Rendering, index: int = 0) -> Any:
    return rendering.jobset["spec"]["replicatedJobs"][index]["template"]["spec"]["template"]["spec"]


def main(rendering: Rendering) -> Any:
    return pod(rendering)["containers"][0]


def environment(container: Any) -> dict[str, str | None]:
    names = [each["name"] for each in container["env"]]
    assert len(names) == len(set(names))
    return {each["name"]: each.get("value") for each in container["env"]}


class TestProfiles:
    def test_the_xpk_profile_has_the_fields_of_xpk(self) -> None:
        rendering = rendered(Profile.XPK)
        container, head, workers = main(rendering), pod(rendering), pod(rendering, 1)
        assert container["name"] == "jax-tpu"
        assert container["securityContext"] == {"privileged": True}
        assert container["resources"]["limits"] == {"cpu": "24", "memory": "100G"}
        assert container["volumeMounts"] == [{"name": "shared-tmp", "mountPath": "/tmp"}]
        assert [each["name"] for each in head["volumes"]] == ["shared-tmp"]
        assert head["nodeSelector"] == {POOL: "cpu-np"}
        assert "imagePullPolicy" not in container
        assert not any("volumeMounts" in each for each in head["initContainers"])
        assert (head["priorityClassName"], workers["priorityClassName"]) == ("medium", "medium")
        assert workers["terminationGracePeriodSeconds"] == 30
        labels = rendering.jobset["metadata"]["labels"]
        assert (labels[QUEUE], labels["xpk.google.com/workload"]) == ("multislice-queue", "pw")
        assert "--instance_type=tpuv5:2x2x1" in head["initContainers"][0]["args"]
        assert rendering.jobset["spec"]["replicatedJobs"][1]["template"]["spec"]["backoffLimit"] == 4

    def test_the_gang_profile_needs_nothing_of_the_node(self) -> None:
        rendering = rendered()
        container, head = main(rendering), pod(rendering)
        assert not {"securityContext", "volumeMounts"} & container.keys()
        assert not {"volumes", "nodeSelector", "priorityClassName"} & head.keys()
        assert QUEUE not in rendering.jobset["metadata"]["labels"]

    @pytest.mark.parametrize("profile", Profile)
    def test_both_profiles_wrap_the_command_with_small_requests(self, profile: Profile) -> None:
        container = main(rendered(profile, command=SCRIPT))
        assert container["command"] == wrapped(SCRIPT, Shell.BASH)
        assert container["resources"]["requests"] == {"cpu": "2", "memory": "8Gi"}
        assert not [name for name in environment(container) if "GRPC" in name or "UNDECLARED" in name]

    def test_fields_of_the_xpk_profile_can_be_switched_off(self) -> None:
        rendering = rendered(Profile.XPK, privileged=False, mount_tmp=False, queue="", priority="", head_pool="heads")
        head = pod(rendering)
        assert not {"securityContext", "volumeMounts"} & main(rendering).keys()
        assert not {"volumes", "priorityClassName"} & head.keys()
        assert head["nodeSelector"] == {POOL: "heads"}
        assert QUEUE not in rendering.jobset["metadata"]["labels"]

    def test_fields_of_the_xpk_profile_can_be_set_without_it(self) -> None:
        xpk = rendered(Profile.XPK)
        queue, head = xpk.jobset["metadata"]["labels"][QUEUE], pod(xpk)
        asked = rendered(
            privileged=True,
            mount_tmp=True,
            queue=queue,
            priority=head["priorityClassName"],
            head_pool=head["nodeSelector"][POOL],
        )
        for field in ("securityContext", "volumeMounts"):
            assert main(asked)[field] == main(xpk)[field]
        for field in ("volumes", "priorityClassName", "nodeSelector"):
            assert pod(asked)[field] == head[field]
        assert asked.jobset["metadata"]["labels"][QUEUE] == queue

    def test_the_shared_tmp_option_applies_to_the_user_container(self) -> None:
        job = read(Profile.XPK, PathwaysOptions(shared_tmp=False))
        assert "volumes" not in pod(render(job, RenderingInputs(Profile.XPK)))


class TestCommand:
    def test_the_shell_can_be_chosen(self) -> None:
        assert main(rendered(wrapper="sh"))["command"] == wrapped("python train.py", Shell.SH)

    def test_without_a_shell_the_command_is_split_into_words(self) -> None:
        container = main(rendered(wrapper="none", command="python  train.py --name 'a b'"))
        assert container["command"] == ["python", "train.py", "--name", "a b"]

    def test_a_headless_job_has_no_user_container(self) -> None:
        job = read(command="", docker_image="", headless=True)
        assert (job.template, job.headless) == (None, True)


class TestEnvironment:
    def test_variables_of_the_user_win(self) -> None:
        found = environment(main(rendered(env=("JAX_PLATFORMS=cpu", "A=b=c", "EMPTY="))))
        assert found["JAX_PLATFORMS"] == "cpu"
        assert found["JAX_BACKEND_TARGET"] == "grpc://$(PATHWAYS_HEAD):29000"
        assert (found["A"], found["EMPTY"]) == ("b=c", "")

    def test_variables_of_flags_win_over_the_file_and_over_debug_logs(self) -> None:
        text = "# of the team\n\nA=file\nB=file\nLOCAL\nTPU_MIN_LOG_LEVEL=2\nB=later\n"
        found = environment(
            main(rendered(env=("A=flag",), env_file=text, local_environment={"LOCAL": "here"}, enable_debug_logs=True))
        )
        assert {name: found[name] for name in ("A", "B", "LOCAL", "TPU_MIN_LOG_LEVEL", "TPU_VMODULE")} == {
            "A": "flag",
            "B": "later",
            "LOCAL": "here",
            "TPU_MIN_LOG_LEVEL": "2",
            "TPU_VMODULE": "real_program_continuator=1",
        }

    def test_an_environment_file_is_split_at_newlines_only(self) -> None:
        found = environment(main(rendered(env_file="A=a\x85b\x0cc\u2028d\r\nB= e \r\n")))
        assert (found["A"], found["B"]) == ("a\x85b\x0cc\u2028d", " e ")

    def test_variables_of_components_are_separate(self) -> None:
        job = read(pathways_worker_env=("A=1",), pathways_server_env=("B=2",), pathways_proxy_server_env=("C=3",))
        found = {kind: component.env for kind, component in job.components.items()}
        assert found == {
            ComponentType.SERVER: ({"name": "B", "value": "2"},),
            ComponentType.PROXY: ({"name": "C", "value": "3"},),
            ComponentType.WORKER: ({"name": "A", "value": "1"},),
        }


@each(
    ("asked", "requests", "limits"),
    [
        ((), {"cpu": "2", "memory": "8Gi"}, {"cpu": "24", "memory": "100G"}),
        (("limits.cpu=1",), {"cpu": "1", "memory": "8Gi"}, {"cpu": "1", "memory": "100G"}),
        (("requests.cpu=30",), {"cpu": "30", "memory": "8Gi"}, {"cpu": "30", "memory": "100G"}),
        (("limits.memory=",), {"cpu": "2", "memory": "8Gi"}, {"cpu": "24"}),
        (("limits.ephemeral-storage=1G",), {"cpu": "2", "memory": "8Gi"},
         {"cpu": "24", "memory": "100G", "ephemeral-storage": "1G"}),
    ],
)  # fmt: skip
def test_resources_of_the_user_container(asked: tuple[str, ...], requests: object, limits: object) -> None:
    resources = main(rendered(docker_resources=asked))["resources"]
    assert (resources["requests"], resources["limits"]) == (requests, limits)


@each(
    ("tpu_type", "topology", "machine_type", "wanted"),
    [
        ("v5p-8", "", "ct5p-hightpu-4t", "2x2x1"),
        ("v5litepod-16", "", "ct5lp-hightpu-4t", "4x4"),
        ("ct6e-standard-8t", "2x4", "ct6e-standard-8t", "2x4"),
        ("V5P", " 2X2X2 ", "ct5p-hightpu-4t", "2x2x2"),
        ("v5p-2x2x2", "2x2x2", "ct5p-hightpu-4t", "2x2x2"),
        ("v4-8x4x4", "", "ct4p-hightpu-4t", "8x4x4"),
    ],
)
def test_slices_follow_the_rule_of_xpk(tpu_type: str, topology: str, machine_type: str, wanted: str) -> None:
    found = read(tpu_type=tpu_type, topology=topology).slice
    assert (found.accelerator.machine_type, found.topology) == (machine_type, wanted)


def test_every_flag_is_read() -> None:
    job = read(
        namespace="team-a",
        tpu_type="v5p-16",
        num_slices=3,
        docker_name="trainer",
        docker_image_pull_policy="Always",
        service_account="runner",
        image_pull_secret=("one", "two"),
        enable_metrics_collection=True,
        server_image="r.example/server:1",
        proxy_server_image="r.example/proxy:1",
        worker_image="r.example/worker:1",
        colocated_python_sidecar_image="r.example/sidecar:1",
        colocated_python_sidecar_env=("S=1",),
        custom_pathways_server_args="--a  --b='x y'",
        custom_pathways_proxy_server_args="--c",
        custom_pathways_worker_args="--d",
        priority="high",
        max_restarts=4,
        elastic_slices=1,
        max_slice_restarts=7,
        termination_grace_period_seconds=600,
        queue="team-queue",
        label=("team=a",),
        annotation=("note=a b=c", "gangctl.dev/pathways-worker-mode=Off"),
        node_selector=("pool=x",),
        spot=True,
    )
    assert (job.namespace, job.slices, job.slice.vms, job.mode) == ("team-a", 3, 2, DeploymentMode.DEFAULT)
    assert job.components[ComponentType.SERVER].flags == ("--a", "--b=x y")
    assert {kind: each.image for kind, each in job.components.items()} == {
        ComponentType.SERVER: "r.example/server:1",
        ComponentType.PROXY: "r.example/proxy:1",
        ComponentType.WORKER: "r.example/worker:1",
        ComponentType.SIDECAR: "r.example/sidecar:1",
    }
    assert (job.max_restarts, job.elastic_slices, job.max_slice_restarts) == (4, 1, 7)
    assert (job.worker_priority_class, job.worker_grace_seconds, job.metrics) == ("high", 600, True)
    assert job.labels == {QUEUE: "team-queue", "team": "a"}
    assert job.worker_mode is GangMode.OFF
    assert job.worker_node_selector == {"pool": "x", "cloud.google.com/gke-spot": "true"}
    rendering = render(job)
    assert pod(rendering)["serviceAccountName"] == "runner"
    assert pod(rendering)["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
    assert (main(rendering)["name"], main(rendering)["imagePullPolicy"]) == ("trainer", "Always")
    assert "cloud.google.com/gke-spot" not in pod(rendering).get("nodeSelector", {})


@each(
    ("changes", "label"),
    [
        ({"spot": True}, {"cloud.google.com/gke-spot": "true"}),
        ({"flex": True}, {"cloud.google.com/gke-queued": "true"}),
        ({"reservation": "r-1"}, {"cloud.google.com/reservation-name": "r-1"}),
        ({}, {}),
    ],
)
def test_capacity_flags_become_node_selectors(changes: dict[str, Any], label: dict[str, str]) -> None:
    assert read(**changes).worker_node_selector == label


def test_colocate_puts_the_head_beside_the_workers() -> None:
    job = read(colocate=True)
    assert job.colocated
    assert pod(render(job))["nodeSelector"]["cloud.google.com/gke-tpu-topology"] == "2x2x1"


def test_a_queue_label_replaces_the_queue_flag() -> None:
    assert read(Profile.XPK, label=(f"{QUEUE}=mine",)).labels == {QUEUE: "mine"}


def test_an_empty_priority_sets_no_field() -> None:
    job = read(Profile.XPK, priority="")
    rendering = render(job, RenderingInputs(Profile.XPK))
    assert not [each for each in (pod(rendering), pod(rendering, 1)) if "priorityClassName" in each]


@dataclass(frozen=True)
class Refused:
    """Flags with one error, and its message."""

    changes: dict[str, Any]
    reason: Why
    flag: str
    says: str


REFUSED: Final = (
    Refused({"workload": ""}, Why.INVALID_NAME, "--workload", "is required"),
    Refused({"workload": "Pw"}, Why.INVALID_NAME, "--workload", "lower case"),
    Refused({"workload": "x" * 23}, Why.NAME_TOO_LONG, "--workload", "at most 22"),
    Refused({"namespace": "A"}, Why.INVALID_NAME, "--namespace", "lower case"),
    Refused({"tpu_type": ""}, Why.UNKNOWN_ACCELERATOR, "--tpu-type", "is required"),
    Refused({"tpu_type": "nvidia-l4"}, Why.UNKNOWN_ACCELERATOR, "--tpu-type", "names no TPU"),
    Refused({"tpu_type": "n2-standard-2"}, Why.UNKNOWN_ACCELERATOR, "--tpu-type", "names no TPU"),
    Refused({"tpu_type": "v7q"}, Why.UNKNOWN_ACCELERATOR, "--tpu-type", "names no TPU"),
    Refused({"tpu_type": "v5p-9"}, Why.UNKNOWN_ACCELERATOR, "--tpu-type", "near sizes"),
    Refused({"tpu_type": "v5p"}, Why.INVALID_TOPOLOGY, "--topology", "is required"),
    Refused({"tpu_type": "v5p", "topology": "3x3x3"}, Why.INVALID_TOPOLOGY, "--topology", "has no topology"),
    Refused({"topology": "2x2x2"}, Why.INVALID_TOPOLOGY, "--topology", "says 2x2x1"),
    Refused({"num_slices": 0}, Why.INVALID_NUM_SLICES, "--num-slices", "at least 1"),
    Refused({"elastic_slices": 1}, Why.INVALID_ELASTIC_SLICES, "--elastic-slices", "less than --num-slices"),
    Refused({"max_restarts": -1}, Why.INVALID_RESTARTS, "--max-restarts", "at least 0"),
    Refused({"max_slice_restarts": 2**31}, Why.INVALID_RESTARTS, "--max-slice-restarts", "at most 2147483647"),
    Refused({"termination_grace_period_seconds": -1}, Why.INVALID_GRACE_PERIOD,
            "--termination-grace-period-seconds", "at least 0"),
    Refused({"command": " "}, Why.MISSING_CONTAINERS, "--command", "--headless"),
    Refused({"wrapper": "zsh"}, Why.MALFORMED, "--wrapper", "allowed: bash, sh, none"),
    Refused({"wrapper": "none", "command": "echo 'a"}, Why.MALFORMED, "--command", "No closing quotation"),
    Refused({"docker_image": ""}, Why.INVALID_IMAGE, "--docker-image", "is required"),
    Refused({"docker_image": "a b"}, Why.INVALID_IMAGE, "--docker-image", "must be an image"),
    Refused({"docker_image_pull_policy": "always"}, Why.MALFORMED, "--docker-image-pull-policy", "did you mean"),
    Refused({"docker_name": "pathways-rm"}, Why.RESERVED_CONTAINER_NAME, "--docker-name", "choose another"),
    Refused({"docker_name": "A"}, Why.INVALID_NAME, "--docker-name", "cannot name a container"),
    Refused({"docker_resources": ("cpu=1",)}, Why.INVALID_RESOURCES, "--docker-resources", "requests.NAME"),
    Refused({"docker_resources": ("limits.cpu=many",)}, Why.INVALID_RESOURCES, "--docker-resources", "a quantity"),
    Refused({"docker_resources": ("limits.cpu=-1",)}, Why.INVALID_RESOURCES, "--docker-resources", "a quantity"),
    Refused({"docker_resources": ("limits.cpu=1", "requests.cpu=2")}, Why.INVALID_RESOURCES,
            "--docker-resources", "at most the limit"),
    Refused({"headless": True, "docker_image": ""}, Why.MALFORMED, "--command", "with --headless"),
    Refused({"headless": True, "command": "", "docker_image": "", "privileged": True}, Why.MALFORMED,
            "--privileged", "with --headless"),
    Refused({"service_account": "A_b"}, Why.INVALID_NAME, "--service-account", "name of an object"),
    Refused({"env": ("A",)}, Why.INVALID_ENVIRONMENT, "--env", "KEY=VALUE"),
    Refused({"env": ("1A=b",)}, Why.INVALID_ENVIRONMENT, "--env", "no name of a variable"),
    Refused({"env": ("A=b", "A=c")}, Why.INVALID_ENVIRONMENT, "--env", "second time"),
    Refused({"command": "echo \udcff"}, Why.MALFORMED, "--command", "text in UTF-8"),
    Refused({"env": ("A=\0",)}, Why.MALFORMED, "--env", "text in UTF-8"),
    Refused({"env_file": "A", "local_environment": {"A": "\udcff"}}, Why.MALFORMED, "--env-file", "text in UTF-8"),
    Refused({"env_file": "A=b\nB-C=d"}, Why.INVALID_ENVIRONMENT, "--env-file", "in line 2"),
    Refused({"env_file": "\nA"}, Why.INVALID_ENVIRONMENT, "--env-file", "line 2"),
    Refused({"pathways_worker_env": ("A",)}, Why.INVALID_ENVIRONMENT, "--pathways-worker-env", "KEY=VALUE"),
    Refused({"pathways_gcs_location": ""}, Why.INVALID_DIRECTORY, "--pathways-gcs-location", "gs://"),
    Refused({"pathways_gcs_location": "/tmp"}, Why.INVALID_DIRECTORY, "--pathways-gcs-location", "gs://"),
    Refused({"pathways_version": "a b"}, Why.INVALID_IMAGE, "--pathways-version", "tag"),
    Refused({"server_image": "a b"}, Why.INVALID_IMAGE, "--server-image", "an image"),
    Refused({"worker_image": "a b"}, Why.INVALID_IMAGE, "--worker-image", "an image"),
    Refused({"colocated_python_sidecar_env": ("A=b",)}, Why.INVALID_COMPONENT,
            "--colocated-python-sidecar-image", "is required"),
    Refused({"custom_pathways_worker_args": "--a='b"}, Why.INVALID_COMPONENT,
            "--custom-pathways-worker-args", "No closing quotation"),
    Refused({"priority": "High!"}, Why.INVALID_NAME, "--priority", "name of an object"),
    Refused({"queue": "A B"}, Why.INVALID_NAME, "--queue", "name of an object"),
    Refused({"queue": "a", "label": (f"{QUEUE}=b",)}, Why.MALFORMED, "--queue", "leave one of them out"),
    Refused({"label": ("a",)}, Why.MALFORMED, "--label", "KEY=VALUE"),
    Refused({"label": ("a=b c",)}, Why.MALFORMED, "--label", "at most 63"),
    Refused({"label": ("-a=b",)}, Why.MALFORMED, "--label", "no key"),
    Refused({"annotation": ("gangctl.dev/pathways-options={}",)}, Why.INVALID_OPTIONS,
            "--annotation gangctl.dev/pathways-options", "of its own"),
    Refused({"annotation": ("gangctl.dev/gang-mode=gang",)}, Why.INVALID_GANG_MODE,
            "--annotation gangctl.dev/gang-mode", "case-sensitive"),
    Refused({"node_selector": ("a=b c",)}, Why.MALFORMED, "--node-selector", "at most 63"),
    Refused({"spot": True, "node_selector": ("cloud.google.com/gke-spot=false",)}, Why.MALFORMED,
            "--node-selector", "contradicts --spot"),
    Refused({"gang_mode": "On"}, Why.INVALID_GANG_MODE, "--gang-mode", "allowed (case-sensitive): Off, Gang"),
    Refused({"worker_mode": "On"}, Why.INVALID_GANG_MODE, "--worker-mode", "ReplicatedGang"),
    Refused({"gang_mode": "Gang", "worker_mode": "Gang"}, Why.INVALID_GANG_MODE, "--worker-mode", '--gang-mode "Gang"'),
    Refused({"gang_mode": "Gang", "annotation": ("gangctl.dev/gang-mode=Off",)}, Why.INVALID_GANG_MODE,
            "--gang-mode", "leave one of them out"),
    Refused({"worker_mode": "Gang", "num_slices": 2, "elastic_slices": 1}, Why.ELASTIC_GANG, "--worker-mode",
            "--elastic-slices"),
    Refused({"annotation": ('gangctl.dev/gang-options={"x": 1}',)}, Why.INVALID_OPTIONS,
            "--annotation gangctl.dev/gang-options", "x"),
    Refused({"tpu_type": "v5p-16", "annotation": ("alpha.jobset.sigs.k8s.io/exclusive-topology=x",),
             "gang_mode": "Gang"}, Why.GANG_DEADLOCK,
            "--annotation alpha.jobset.sigs.k8s.io/exclusive-topology", "set --gang-mode to Off"),
    Refused({"image_pull_secret": ("A",)}, Why.INVALID_NAME, "--image-pull-secret", "name of an object"),
    Refused({"docker_resources": ("limits.a b=1",)}, Why.INVALID_RESOURCES, "--docker-resources", "requests.NAME"),
    Refused({"spot": True, "reservation": "r"}, Why.MALFORMED, "--reservation", "with --spot"),
    Refused({"head_pool": "a b"}, Why.MALFORMED, "--head-pool", "at most 63"),
    Refused({"head_pool": "a", "colocate": True}, Why.INVALID_OPTIONS, "--head-pool", "--colocate"),
)  # fmt: skip


@each("case", REFUSED, ids=lambda case: f"{case.flag}: {case.says}")
@each("profile", Profile)
def test_an_error_is_reported_once_at_its_flag(case: Refused, profile: Profile) -> None:
    found = problems(profile, **case.changes)
    assert [(each.reason, each.error.path) for each in found] == [(case.reason, case.flag)]
    assert case.says in found[0].error.detail


def test_all_errors_are_reported_at_once() -> None:
    found = read_flags(Flags(), Profile.GANG, PathwaysOptions()).problems
    required = {"--workload", "--tpu-type", "--command", "--docker-image", "--pathways-gcs-location"}
    assert {each.error.path for each in found} == required


def test_errors_of_options_are_reported_at_their_flags() -> None:
    options = PathwaysOptions(slicing=Slicing.SUB, startup=Startup.IN_ORDER)
    found = read_flags(replace(FLAGS, colocate=True), Profile.GANG, options).problems
    assert {each.error.path for each in found} == {"--slicing", "--startup"}


def test_slice_restarts_without_elastic_slices_give_a_notice() -> None:
    reading = read_flags(replace(FLAGS, max_slice_restarts=9), Profile.GANG, PathwaysOptions())
    (notice,) = reading.notices
    assert notice.reason is Reason.NO_EFFECT
    assert "--max-slice-restarts" in notice.message


@pytest.mark.parametrize("profile", Profile)
def test_no_origin_names_a_field_of_a_pathwaysjob(profile: Profile) -> None:
    rendering = rendered(
        profile, env=("A=b",), label=("a=b",), annotation=("c=d",), node_selector=("e=f",), server_image="a/b:1",
        custom_pathways_worker_args="--x", enable_metrics_collection=True, elastic_slices=1, num_slices=2,
        namespace="n", service_account="s", max_restarts=1, colocated_python_sidecar_image="a/c:1",
    )  # fmt: skip
    assert {path for path, origin in rendering.origins.items() if origin.kind is OriginKind.FIELD} == set()


def test_values_have_their_flag_as_origin() -> None:
    job = read(Profile.XPK, num_slices=2, env=("A=b",), spot=True)
    assert job.origin("spec.workers[0].numSlices") == Origin(OriginKind.FLAG, "--num-slices")
    assert job.origin("spec.workers[0].topology").place == "--tpu-type"
    assert job.origin("spec.workers[0].nodeSelector[cloud.google.com/gke-spot]").place == "--spot"
    assert job.origin("spec.controller.template.spec.containers[0].env[0]").place == "--env"
    assert job.origin("spec.workers[0].priorityClassName").kind is OriginKind.RULE
    assert job.origin(f"metadata.labels[{QUEUE}]").kind is OriginKind.RULE


WORDS: Final = ["a", "v5p", "2x2x1", "gs://b/d", "A=b", "bash", "none"]
TEXTS: Final = st.text(st.characters(), max_size=12) | st.sampled_from(WORDS)
VALUES: Final = {
    "str": TEXTS,
    "bool": st.booleans(),
    "bool | None": st.none() | st.booleans(),
    "int | None": st.none() | st.integers(-3, 3) | st.integers(),
    "str | None": st.none() | TEXTS,
    "tuple[str, ...]": st.lists(TEXTS, max_size=2).map(tuple),
    "Mapping[str, str]": st.just({}),
}
ANY_FLAGS: Final = st.builds(Flags, **{each.name: VALUES[str(each.type)] for each in fields(Flags)})
MANY_FLAGS: Final = st.fixed_dictionaries({}, optional={each.name: VALUES[str(each.type)] for each in fields(Flags)})


@settings(max_examples=60, deadline=None)
@given(flags=ANY_FLAGS, profile=st.sampled_from(Profile))
def test_any_flags_are_read_or_refused_at_a_flag(flags: Flags, profile: Profile) -> None:
    reading = read_flags(flags, profile, PathwaysOptions())
    assert (reading.job is None) == bool(reading.problems)
    assert not [each for each in reading.problems if not each.error.path.startswith("--")]


@settings(max_examples=60, deadline=None)
@given(changes=MANY_FLAGS, profile=st.sampled_from(Profile))
def test_valid_flags_are_rendered(changes: dict[str, Any], profile: Profile) -> None:
    reading = read_flags(replace(FLAGS, **changes), profile, PathwaysOptions())
    if reading.job is not None:
        rendering = render(reading.job, RenderingInputs(profile))
        assert yaml.safe_load(to_yaml([rendering.jobset])) == rendering.jobset
