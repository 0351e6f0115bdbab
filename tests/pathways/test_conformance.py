"""Facts that hold of what a PathwaysJob becomes, whoever renders it: one test a case, by the number the cases have."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gangctl.gang.reasons import Reason
from gangctl.pathways.problems import InvalidReason
from gangctl.pathways.reading import read_pathways_job
from gangctl.pathways.result import RenderingInputs
from tests.pathways.samples import annotated, component, container, pathways_job, template
from tests.pathways.views import (
    all_containers,
    environment,
    job_template,
    jobset_of,
    names,
    notes_on,
    only_problem,
    pod,
    pod_template,
    read,
    rendered,
    replicated_job,
)
from tests.pathways.views import container as container_of
from tests.rows import each

EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
MODE = "gangctl.dev/gang-mode"
NODEPOOL = "cloud.google.com/gke-nodepool"
ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
COORDINATOR = "metadata.labels['jobset.sigs.k8s.io/coordinator']"
JAX = ("PATHWAYS_HEAD", "JAX_PLATFORMS", "XCLOUD_ENVIRONMENT", "JAX_BACKEND_TARGET")
OFF = annotated(gang_mode="Off")


def reasons(raw: Mapping[str, Any]) -> set[Reason]:
    """The notices on a valid object."""
    reading = read_pathways_job(raw)
    return {notice.reason for notice in (*reading.notices, *rendered(raw).notices)}


def exclusive(jobset: Mapping[str, Any], name: str) -> str:
    """The exclusive topology of a replicated job, wherever JobSet reads it."""
    return (
        notes_on(job_template(jobset, name)).get(EXCLUSIVE)
        or notes_on(pod_template(jobset, name)).get(EXCLUSIVE)
        or notes_on(jobset).get(EXCLUSIVE, "")
    )


def test_c1_the_base_is_rendered() -> None:
    jobset = jobset_of(pathways_job(metadata={**OFF, "uid": "0f5a6f3e-7c21-4d7e-9a55-3b1c8f2d0a01"}))
    assert (jobset["apiVersion"], jobset["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
    assert jobset["metadata"]["name"] == "pw"
    spec = jobset["spec"]
    assert names(spec["replicatedJobs"]) == ["pathways-head", "worker"]
    assert replicated_job(jobset, "worker")["replicas"] == 2
    job = job_template(jobset, "worker")["spec"]
    assert (job["completions"], job["parallelism"], job["backoffLimit"]) == (2, 2, 8)
    head, worker = pod(jobset, "pathways-head"), pod(jobset, "worker")
    arguments = container_of(head, "pathways-rm")["args"]
    assert {"--instance_type=tpuv5:2x2x2", "--instance_count=2", "--gcs_scratch_location=gs://b/d"} <= set(arguments)
    assert worker["nodeSelector"] == {ACCELERATOR: "tpu-v5p-slice", TOPOLOGY: "2x2x2"}
    assert container_of(worker, "pathways-worker")["resources"]["limits"]["google.com/tpu"] in (4, "4")
    assert spec["successPolicy"]["targetReplicatedJobs"] == ["pathways-head"]
    assert spec["coordinator"] == {"replicatedJob": "pathways-head", "jobIndex": 0, "podIndex": 0}
    assert spec["startupPolicy"] == {"startupPolicyOrder": "InOrder"}
    assert spec["failurePolicy"]["maxRestarts"] == 0
    assert "suspend" not in spec
    (owner,) = jobset["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "pathways-job.pathways.domain/v1",
        "kind": "PathwaysJob",
        "name": "pw",
        "uid": "0f5a6f3e-7c21-4d7e-9a55-3b1c8f2d0a01",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def test_c1_a_file_has_no_uid_and_its_jobset_no_owner() -> None:
    assert "ownerReferences" not in jobset_of(pathways_job())["metadata"]


def test_c2_a_headless_job_has_no_user_container() -> None:
    jobset = jobset_of(pathways_job(headless=True))
    head = pod(jobset, "pathways-head")
    assert names(head["containers"]) == ["pathways-rm", "pathways-proxy"]
    assert not head.get("initContainers")
    assert all("restartPolicy" not in item for item in head["containers"])
    assert "successPolicy" not in jobset["spec"]
    for name in ("pathways-head", "worker"):
        for item in all_containers(pod(jobset, name)):
            assert not {"JAX_PLATFORMS", "JAX_BACKEND_TARGET"} & set(environment(item))


def test_c3_the_users_init_containers_come_first() -> None:
    mine = template(initContainers=[container("fetch")], hostNetwork=False)
    head = pod(jobset_of(pathways_job(controller={"template": mine})), "pathways-head")
    assert names(head["initContainers"]) == ["fetch", "pathways-rm", "pathways-proxy"]
    assert [each.get("restartPolicy") for each in head["initContainers"]] == [None, "Always", "Always"]
    assert (head["hostNetwork"], head["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")


def test_c4_only_the_main_container_gets_the_environment() -> None:
    head = pod(
        jobset_of(pathways_job(controller={"template": template(container(), container("log"))})), "pathways-head"
    )
    main = environment(container_of(head, "main"))
    assert set(JAX) <= set(main)
    assert list(main).index("JAX_BACKEND_TARGET") > list(main).index("PATHWAYS_HEAD")
    assert main["JAX_PLATFORMS"] == "proxy"
    assert main["JAX_BACKEND_TARGET"] == "grpc://$(PATHWAYS_HEAD):29000"
    assert main["PATHWAYS_HEAD"]["fieldRef"]["fieldPath"] == COORDINATOR
    assert not set(JAX) & set(environment(container_of(head, "log")))


def test_c5_an_injected_variable_is_unique_and_wins() -> None:
    env = [{"name": "JAX_PLATFORMS", "value": "cpu"}, {"name": "MINE", "value": "1"}]
    raw = pathways_job(controller={"template": template(container(env=env))})
    jobset = jobset_of(raw)
    main = environment(container_of(pod(jobset, "pathways-head"), "main"))
    assert (main["JAX_PLATFORMS"], main["MINE"]) == ("proxy", "1")
    assert Reason.ENV_OVERRIDDEN in reasons(raw)
    for name in ("pathways-head", "worker"):
        for item in all_containers(pod(jobset, name)):
            environment(item)


def test_c6_a_missing_main_container_is_refused() -> None:
    problem = only_problem(pathways_job(controller={"mainContainerName": "trainer"}))
    assert problem.reason is InvalidReason.MISSING_MAIN_CONTAINER
    assert "main" in problem.error.detail


def test_c7_an_elastic_job_has_its_flag() -> None:
    group = {"type": "ct4p-hightpu-4t", "maxSliceRestarts": 4}
    jobset = jobset_of(pathways_job(workers=group, controller={"elasticSlices": 1}))
    head = pod(jobset, "pathways-head")
    assert "--num_elastic_slices=1" in container_of(head, "pathways-proxy")["args"]
    assert job_template(jobset, "worker")["spec"]["backoffLimit"] == 8
    assert "--instance_type=tpuv4:2x2x2" in container_of(head, "pathways-rm")["args"]


def test_c8_slice_restarts_without_elastic_slices_have_no_effect() -> None:
    raw = pathways_job(workers={"maxSliceRestarts": 9}, controller={"elasticSlices": 0})
    jobset = jobset_of(raw)
    proxy = container_of(pod(jobset, "pathways-head"), "pathways-proxy")
    assert not [each for each in proxy["args"] if "elastic" in each]
    assert job_template(jobset, "worker")["spec"]["backoffLimit"] == 8
    assert Reason.NO_EFFECT in reasons(raw)


@pytest.mark.parametrize("elastic", [2, 3, -1])
def test_c9_as_many_elastic_slices_as_slices_are_refused(elastic: int) -> None:
    problem = only_problem(pathways_job(controller={"elasticSlices": elastic}))
    assert problem.reason is InvalidReason.INVALID_ELASTIC_SLICES


def test_c11_a_v5e_slice_is_rendered() -> None:
    jobset = jobset_of(pathways_job(workers={"type": "ct5lp-hightpu-4t", "topology": "2x4"}))
    assert "--instance_type=tpuv5e:2x4" in container_of(pod(jobset, "pathways-head"), "pathways-rm")["args"]
    assert pod(jobset, "worker")["nodeSelector"][ACCELERATOR] == "tpu-v5-lite-podslice"
    assert job_template(jobset, "worker")["spec"]["completions"] == 2


def test_c12_the_largest_tpu7x_slice_is_rendered() -> None:
    jobset = jobset_of(pathways_job(workers={"type": "tpu7x-standard-4t", "topology": "16x24x24", "numSlices": 1}))
    assert "--instance_type=tpu7x:16x24x24" in container_of(pod(jobset, "pathways-head"), "pathways-rm")["args"]
    job = job_template(jobset, "worker")["spec"]
    assert (job["completions"], job["parallelism"], job["backoffLimit"]) == (2304, 2304, 9216)


@each("topology", ["16*24*24", "16x15", "4x0x4", "", "2x2", "3x3x3", "02x2x2"])
def test_c13_invalid_topologies_are_refused(topology: str) -> None:
    problem = only_problem(pathways_job(workers={"topology": topology}))
    assert problem.reason is InvalidReason.INVALID_TOPOLOGY
    assert problem.error.path == "spec.workers[0].topology"


def test_c13_case_and_blanks_do_not_matter() -> None:
    assert read(pathways_job(workers={"topology": "2X2X2 "})).slice.topology == "2x2x2"


def test_c16_custom_images_are_used() -> None:
    raw = pathways_job(pathwaysVersion="v9", customComponents=[component("worker", image="x:y")])
    jobset = jobset_of(raw)
    head = pod(jobset, "pathways-head")
    registry = "us-docker.pkg.dev/cloud-tpu-v2-images/pathways"
    assert container_of(pod(jobset, "worker"), "pathways-worker")["image"] == "x:y"
    assert container_of(head, "pathways-rm")["image"] == f"{registry}/server:v9"
    assert container_of(head, "pathways-proxy")["image"] == f"{registry}/proxy_server:v9"


def test_c17_custom_flags_come_last() -> None:
    parts = [component(kind, customFlags=[f"--of={kind}"]) for kind in ("pathways_server", "proxy_server", "worker")]
    raw = pathways_job(controller={"enableMetricsCollection": True, "elasticSlices": 1}, customComponents=parts)
    jobset = jobset_of(raw)
    head = pod(jobset, "pathways-head")
    manager = container_of(head, "pathways-rm")["args"]
    assert manager == [
        "--server_port=29001",
        "--gcs_scratch_location=gs://b/d",
        "--node_type=resource_manager",
        "--instance_count=2",
        "--instance_type=tpuv5:2x2x2",
        "--enable_metrics_collection=true",
        "--of=pathways_server",
    ]
    proxy = container_of(head, "pathways-proxy")["args"]
    assert proxy[:5] == [
        "--server_port=29000",
        "--resource_manager_address=$(PATHWAYS_HEAD):29001",
        "--gcs_scratch_location=gs://b/d",
        "--enable_metrics_collection=true",
        "--of=proxy_server",
    ]
    assert proxy.count("--num_elastic_slices=1") == 1
    assert container_of(pod(jobset, "worker"), "pathways-worker")["args"] == [
        "--server_port=29005",
        "--resource_manager_address=$(PATHWAYS_HEAD):29001",
        "--gcs_scratch_location=gs://b/d",
        "--enable_metrics_collection=true",
        "--of=worker",
    ]


def test_c18_the_sidecar_runs_beside_the_worker() -> None:
    raw = pathways_job(customComponents=[component("colocated_python_sidecar", image="side:1")])
    jobset = jobset_of(raw)
    (sidecar,) = pod(jobset, "worker")["initContainers"]
    assert (sidecar["name"], sidecar["image"], sidecar["restartPolicy"]) == (
        "colocated-python-sidecar",
        "side:1",
        "Always",
    )
    assert environment(sidecar)["GRPC_SERVER_ADDRESS"] == "0.0.0.0:50051"
    assert [each["containerPort"] for each in sidecar["ports"]] == [50051]
    assert "/tmp" in [each["mountPath"] for each in sidecar["volumeMounts"]]
    assert pod(jobset, "pathways-head") == pod(jobset_of(pathways_job()), "pathways-head")


def test_c20_the_queue_label_goes_onto_the_jobset_and_kueue_suspends() -> None:
    jobset = jobset_of(pathways_job(metadata={"labels": {"kueue.x-k8s.io/queue-name": "q"}}))
    assert jobset["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "q"
    assert "suspend" not in jobset["spec"]


def test_c21_names_are_limited_by_the_address_of_the_head() -> None:
    assert jobset_of(pathways_job("a" * 22))["metadata"]["name"] == "a" * 22
    problem = only_problem(pathways_job("a" * 23))
    assert (problem.reason, problem.error.path) == (InvalidReason.NAME_TOO_LONG, "metadata.name")
    assert "22" in problem.error.detail


def test_c21_a_short_subdomain_allows_longer_names() -> None:
    jobset = jobset_of(pathways_job("a" * 30, metadata=annotated(pathways_options='{"subdomain": "auto"}')))
    subdomain = jobset["spec"]["network"]["subdomain"]
    assert len(f"{'a' * 30}-pathways-head-0-0.{subdomain}") <= 63


@pytest.mark.parametrize("groups", [[], None, [{}, {}]])
def test_c22_none_or_two_groups_of_workers_are_refused(groups: Any) -> None:
    raw = pathways_job()
    raw["spec"]["workers"] = groups
    assert only_problem(raw).reason is InvalidReason.INVALID_WORKERS


def test_c22_negative_restarts_are_refused() -> None:
    assert only_problem(pathways_job(maxRestarts=-1)).reason is InvalidReason.INVALID_RESTARTS


@pytest.mark.parametrize("slices", [0, -1])
def test_c22_no_slices_are_refused(slices: int) -> None:
    problem = only_problem(pathways_job(workers={"numSlices": slices}))
    assert (problem.reason, problem.error.path) == (InvalidReason.INVALID_NUM_SLICES, "spec.workers[0].numSlices")


def test_c24_a_gang_of_several_vms_has_no_exclusive_placement() -> None:
    raw = pathways_job(metadata=annotated(pathways_worker_mode="ReplicatedGang"))
    jobset = jobset_of(raw)
    assert exclusive(jobset, "worker") == ""
    assert exclusive(jobset, "pathways-head") == "kubernetes.io/hostname"
    assert notes_on(job_template(jobset, "worker"))[MODE] == "ReplicatedGang"
    terms = pod(jobset, "worker")["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert {each["topologyKey"] for each in terms} == {NODEPOOL}
    assert any("jobset.sigs.k8s.io/job-key" in each.get("matchLabelKeys", []) for each in terms)


def test_c25_a_gang_of_one_vm_may_be_placed_exclusively() -> None:
    raw = pathways_job(workers={"topology": "2x2x1"}, metadata=annotated(pathways_worker_mode="ReplicatedGang"))
    jobset = jobset_of(raw)
    assert exclusive(jobset, "worker") in ("", NODEPOOL)
    job = job_template(jobset, "worker")["spec"]
    assert (job["parallelism"], job["completions"]) == (1, 1)
    assert notes_on(job_template(jobset, "worker"))[MODE] == "ReplicatedGang"


@pytest.mark.parametrize("startup", ["InOrder", "DependsOn"])
def test_c26_a_gang_of_everything_cannot_start_in_order(startup: str) -> None:
    wish = annotated(gang_mode="Gang", pathways_options=json.dumps({"startup": startup}))
    assert only_problem(pathways_job(metadata=wish)).reason is InvalidReason.GANG_DEADLOCK


def test_c26_by_default_its_pods_are_created_together() -> None:
    jobset = jobset_of(pathways_job(metadata=annotated(gang_mode="Gang")))
    assert notes_on(jobset)[MODE] == "Gang"
    assert jobset["spec"].get("startupPolicy", {}).get("startupPolicyOrder") != "InOrder"
    assert not any("dependsOn" in each for each in jobset["spec"]["replicatedJobs"])


def test_c31_concurrent_renderings_are_independent() -> None:
    jobs = [
        pathways_job("v4", workers={"type": "ct4p-hightpu-4t"}),
        pathways_job("v6e", workers={"type": "ct6e-standard-4t", "topology": "4x4"}),
    ] * 20
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(jobset_of, jobs))
    assert together == [jobset_of(each) for each in jobs]


def test_c32_the_same_input_gives_the_same_bytes_and_stays_as_it_is() -> None:
    raw = pathways_job(workers={"nodeSelector": {"a": "b"}}, metadata={"labels": {"x": "y"}})
    before = copy.deepcopy(raw)
    assert json.dumps(jobset_of(raw)) == json.dumps(jobset_of(raw))
    assert raw == before


def test_c39_dynamic_slicing_is_requested_on_the_workers() -> None:
    raw = pathways_job(
        workers={"type": "tpu7x-standard-4t", "topology": "4x4x4"},
        metadata=annotated(pathways_options='{"slicing": "Dynamic"}'),
    )
    jobset = jobset_of(raw)
    worker = pod_template(jobset, "worker")
    assert TOPOLOGY not in worker["spec"]["nodeSelector"]
    assert exclusive(jobset, "worker") == ""
    notes = notes_on(worker)
    assert notes["kueue.x-k8s.io/podset-slice-required-topology"] == "cloud.google.com/gke-tpu-partition-4x4x4-id"
    assert notes["kueue.x-k8s.io/podset-slice-size"] == "16"
    assert notes["cloud.google.com/gke-tpu-slice-topology"] == "4x4x4"
    head = {**notes_on(pod_template(jobset, "pathways-head")), **notes_on(job_template(jobset, "pathways-head"))}
    assert not [key for key in head if "podset" in key or "slice" in key]


def test_c40_head_and_workers_have_one_priority() -> None:
    jobset = jobset_of(pathways_job(workers={"priorityClassName": "high"}))
    assert {pod(jobset, name)["priorityClassName"] for name in ("pathways-head", "worker")} == {"high"}
    for empty in ({"priorityClassName": ""}, {}):
        jobset = jobset_of(pathways_job(workers=empty))
        assert not [name for name in ("pathways-head", "worker") if "priorityClassName" in pod(jobset, name)]


def test_c43_fields_of_the_user_are_kept() -> None:
    mine: dict[str, Any] = {"imagePullPolicy": "Never", "resources": {"limits": {"cpu": "1"}}}
    head = pod(jobset_of(pathways_job(controller={"template": template(container(**mine))})), "pathways-head")
    main = container_of(head, "main")
    assert {key: main[key] for key in mine} == mine
    for name in ("pathways-rm", "pathways-proxy"):
        other = container_of(head, name)
        assert "imagePullPolicy" not in other
        assert set(other["resources"]["requests"]) == {"cpu", "memory"}


def test_without_an_api_for_gangs_slices_keep_their_exclusive_placement() -> None:
    jobset = jobset_of(pathways_job(), RenderingInputs(gangs=False))
    assert exclusive(jobset, "worker") == NODEPOOL
    assert MODE not in notes_on(job_template(jobset, "worker"))


def test_bookkeeping_of_others_stays_on_the_pathwaysjob() -> None:
    notes = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "team": "research"}
    jobset = jobset_of(pathways_job(metadata={"annotations": notes}))
    assert "kubectl.kubernetes.io/last-applied-configuration" not in json.dumps(jobset)
    assert notes_on(jobset)["team"] == "research"


def test_metadata_of_the_template_is_kept() -> None:
    mine = template(metadata={"labels": {"app": "mine"}, "annotations": {"note": "mine"}})
    raw = pathways_job(controller={"template": mine}, metadata={"annotations": {"note": "of the job"}})
    head = pod_template(jobset_of(raw), "pathways-head")
    assert (head["metadata"]["labels"]["app"], head["metadata"]["annotations"]["note"]) == ("mine", "mine")


def test_node_selectors_of_workers_are_not_on_the_head() -> None:
    raw = pathways_job(workers={"nodeSelector": {"cloud.google.com/gke-spot": "true"}})
    jobset = jobset_of(raw)
    assert "cloud.google.com/gke-spot" in pod(jobset, "worker")["nodeSelector"]
    assert "cloud.google.com/gke-spot" not in pod(jobset, "pathways-head").get("nodeSelector", {})


def test_a_colocated_head_has_the_node_selectors_of_workers_and_its_own() -> None:
    raw = pathways_job(
        workers={"numSlices": 1},
        controller={"deploymentMode": "colocate_head_with_workers", "template": template(nodeSelector={"disk": "ssd"})},
    )
    jobset = jobset_of(raw)
    head = pod(jobset, "pathways-head")
    assert head["nodeSelector"] == {"disk": "ssd", ACCELERATOR: "tpu-v5p-slice", TOPOLOGY: "2x2x2"}
    assert "google.com/tpu" in {each.get("key") for each in head["tolerations"]}
    assert exclusive(jobset, "pathways-head") == exclusive(jobset, "worker") == ""
    assert notes_on(jobset)[MODE] == "Gang"
