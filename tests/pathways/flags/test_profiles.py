"""What flags become in the profiles: XPK's is compared with what XPK itself makes of them."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gangctl.pathways.flags.pathwaysjob import read_flags
from gangctl.pathways.flags.table import Flags
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.rendering.jobset import render
from gangctl.pathways.result import Profile, Rendering, RenderingInputs
from tests.pathways.views import all_containers, environment, job_template, notes_on, pod, replicated_job
from tests.pathways.views import container as container_of

Object = dict[str, Any]

NONE: Final = PathwaysOptions()
EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODEPOOL: Final = "cloud.google.com/gke-nodepool"
MODE: Final = "gangctl.dev/gang-mode"
WORKER_MODE: Final = "gangctl.dev/pathways-worker-mode"
QUEUE: Final = "kueue.x-k8s.io/queue-name"
GRACE: Final = "terminationGracePeriodSeconds"
BASE: Final[Object] = {
    "workload": "train",
    "tpu_type": "v5p-8",
    "command": "python train.py",
    "docker_image": "registry.example/train:1",
    "pathways_gcs_location": "gs://bucket/run",
}


def said(**changes: Any) -> Flags:
    """Flags that nothing is wrong with, and what is different about these."""
    return Flags(**(BASE | changes))


def read(profile: Profile = Profile.GANG, options: PathwaysOptions = NONE, **changes: Any) -> PathwaysJob:
    """The job of flags that nothing is wrong with."""
    reading = read_flags(said(**changes), profile, options)
    assert reading.problems == ()
    assert reading.job is not None
    return reading.job


def rendered(profile: Profile = Profile.GANG, options: PathwaysOptions = NONE, **changes: Any) -> Rendering:
    """Their rendering."""
    return render(read(profile, options, **changes), RenderingInputs(profile))


def jobset_of(profile: Profile = Profile.GANG, options: PathwaysOptions = NONE, **changes: Any) -> Object:
    """Their JobSet."""
    return dict(rendered(profile, options, **changes).jobset)


def head_of(profile: Profile = Profile.GANG, options: PathwaysOptions = NONE, **changes: Any) -> Object:
    """The pod of their head."""
    return pod(jobset_of(profile, options, **changes), "pathways-head")


def client_of(profile: Profile = Profile.GANG, options: PathwaysOptions = NONE, **changes: Any) -> Object:
    """The user's container."""
    (container,) = head_of(profile, options, **changes)["containers"]
    return dict(container)


class TestProfileXPK:
    """What XPK makes of the same flags, but for the findings of its reviews."""

    def test_workers_have_the_fields_of_xpk(self) -> None:
        jobset = jobset_of(Profile.XPK)
        worker = replicated_job(jobset, "worker")
        job = worker["template"]["spec"]
        assert (worker["replicas"], job["completions"], job["parallelism"], job["backoffLimit"]) == (1, 1, 1, 4)
        assert notes_on(job_template(jobset, "worker")) == {EXCLUSIVE: NODEPOOL}
        assert pod(jobset, "worker")["nodeSelector"] == {
            "cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice",
            "cloud.google.com/gke-tpu-topology": "2x2x1",
        }
        assert pod(jobset, "worker")["priorityClassName"] == "medium"
        assert pod(jobset, "worker")[GRACE] == 30
        assert "affinity" not in pod(jobset, "worker")
        assert job["template"]["metadata"]["labels"]["xpk.google.com/workload"] == "train"

    def test_the_head_has_the_fields_of_xpk(self) -> None:
        jobset = jobset_of(Profile.XPK)
        head = pod(jobset, "pathways-head")
        assert head["nodeSelector"] == {NODEPOOL: "cpu-np"}
        assert notes_on(job_template(jobset, "pathways-head")) == {EXCLUSIVE: "kubernetes.io/hostname"}
        assert "--instance_type=tpuv5:2x2x1" in container_of(head, "pathways-rm")["args"]
        assert [each["name"] for each in all_containers(head)] == ["pathways-rm", "pathways-proxy", "jax-tpu"]
        assert (head["restartPolicy"], head["hostNetwork"]) == ("Never", True)
        assert (head["priorityClassName"], head[GRACE]) == ("medium", 30)

    def test_the_client_has_the_fields_of_xpk(self) -> None:
        client = client_of(Profile.XPK)
        assert client["resources"] == {
            "requests": {"cpu": "2", "memory": "8Gi"},
            "limits": {"cpu": "24", "memory": "100G"},
        }
        assert client["securityContext"] == {"privileged": True}
        assert client["volumeMounts"] == [{"name": "shared-tmp", "mountPath": "/tmp"}]
        assert list(environment(client)) == [
            "PATHWAYS_HEAD",
            "JAX_PLATFORMS",
            "XCLOUD_ENVIRONMENT",
            "JAX_BACKEND_TARGET",
        ]
        assert "imagePullPolicy" not in client

    def test_tmp_of_the_node_is_on_client_and_workers_only(self) -> None:
        jobset = jobset_of(Profile.XPK)
        volume = {"name": "shared-tmp", "hostPath": {"path": "/tmp", "type": "DirectoryOrCreate"}}
        for name, mounting in (("pathways-head", ["jax-tpu"]), ("worker", ["pathways-worker"])):
            spec = pod(jobset, name)
            assert spec["volumes"] == [volume]
            assert [each["name"] for each in all_containers(spec) if "volumeMounts" in each] == mounting

    def test_the_jobset_has_the_fields_of_xpk(self) -> None:
        jobset = jobset_of(Profile.XPK)
        assert jobset["metadata"]["labels"][QUEUE] == "multislice-queue"
        assert jobset["metadata"]["labels"]["xpk.google.com/workload"] == "train"
        assert jobset["spec"]["startupPolicy"] == {"startupPolicyOrder": "InOrder"}
        assert jobset["spec"]["failurePolicy"]["restartStrategy"] == "Recreate"
        assert "suspend" not in jobset["spec"]

    def test_no_transport_variables_are_set(self) -> None:
        jobset = jobset_of(Profile.XPK)
        names = {
            name
            for job in ("pathways-head", "worker")
            for each in all_containers(pod(jobset, job))
            for name in environment(each)
        }
        assert not [name for name in names if "INSECURE" in name or "UNSAFE" in name]
        given = environment(client_of(Profile.XPK, env=("IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS=true",)))
        assert given["IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS"] == "true"

    def test_there_is_no_gang_by_default(self) -> None:
        silent = jobset_of(Profile.XPK, num_slices=2)
        assert notes_on(silent) == {MODE: "Off"}
        assert MODE not in notes_on(job_template(silent, "worker"))
        for asked in ({"worker_mode": "ReplicatedGang"}, {"annotation": (f"{WORKER_MODE}=ReplicatedGang",)}):
            jobset = jobset_of(Profile.XPK, tpu_type="v5p-16", **asked)
            assert MODE not in notes_on(jobset)
            assert notes_on(job_template(jobset, "worker"))[MODE] == "ReplicatedGang"
            assert EXCLUSIVE not in notes_on(job_template(jobset, "worker"))

    def test_exclusive_placement_is_accepted_without_a_gang(self) -> None:
        assert read(Profile.XPK, annotation=(f"{EXCLUSIVE}={NODEPOOL}",)).annotations == {EXCLUSIVE: NODEPOOL}

    def test_one_chip_is_on_the_machine_with_one_chip(self) -> None:
        worker = container_of(pod(jobset_of(Profile.XPK, tpu_type="v6e-1"), "worker"), "pathways-worker")
        assert worker["resources"] == {"limits": {"google.com/tpu": "1"}}

    def test_a_headless_job_has_the_fields_of_xpk(self) -> None:
        head = head_of(Profile.XPK, headless=True, command="", docker_image="")
        assert [each["name"] for each in head["containers"]] == ["pathways-rm", "pathways-proxy"]
        assert not {"initContainers", "volumes"} & set(head)
        assert head["nodeSelector"] == {NODEPOOL: "cpu-np"}


@pytest.mark.parametrize("profile", Profile)
def test_head_and_workers_have_one_priority(profile: Profile) -> None:
    for name in ("high", ""):
        jobset = jobset_of(profile, priority=name)
        found = [pod(jobset, job).get("priorityClassName", "") for job in ("pathways-head", "worker")]
        assert found == [name, name]
        assert name or not any("priorityClassName" in pod(jobset, job) for job in ("pathways-head", "worker"))


def test_arguments_are_split_as_by_a_shell() -> None:
    args = "--a=1  --b='two words' \t--c=\"d e\"\n--f"
    head = head_of(custom_pathways_server_args=args)
    assert container_of(head, "pathways-rm")["args"][-4:] == ["--a=1", "--b=two words", "--c=d e", "--f"]
