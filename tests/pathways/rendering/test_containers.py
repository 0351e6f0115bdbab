"""The containers that gangctl adds, field by field."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from gangctl.gang.reasons import Reason
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.rendering.containers import (
    component_notices,
    has_sidecar,
    proxy,
    resource_manager,
    sidecar,
    worker,
)
from gangctl.pathways.rendering.environment import references
from gangctl.pathways.result import Origin, OriginKind, Profile, RenderingInputs, origins, plain
from tests.pathways.rendering.jobs import components, job, variable
from tests.rows import each

Build = Callable[[PathwaysJob, RenderingInputs], Any]

BUILDS: tuple[Build, ...] = (resource_manager, proxy, worker, sidecar)
ALL = components(
    pathways_server={"image": "s:1", "flags": ("--a=1",), "env": (variable("TPU_SKIP_MDS_QUERY", "false"),)},
    proxy_server={"image": "p:1", "flags": ("--b=1",), "env": (variable("P", "$(PATHWAYS_HEAD)"),)},
    worker={"image": "w:1", "flags": ("--c=1",), "env": (variable("MEGASCALE_SLICE_ID", "7"),)},
    colocated_python_sidecar={"image": "c:1", "flags": ("--d=1",), "env": (variable("S", "s"),)},
)
GANG = RenderingInputs()
XPK = RenderingInputs(profile=Profile.XPK)


def built(build: Build, setting: RenderingInputs = GANG, **changes: Any) -> dict[str, Any]:
    container = plain(build(job(**changes), setting))
    assert isinstance(container, dict)
    return container


def label(name: str, key: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['jobset.sigs.k8s.io/{key}']"}}}


def annotation(name: str, key: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['jobset.sigs.k8s.io/{key}']"}}}


def port(number: int) -> dict[str, Any]:
    return {"containerPort": number, "protocol": "TCP"}


def test_the_resource_manager_has_its_fields() -> None:
    assert built(resource_manager, pathways_version="v1") == {
        "name": "pathways-rm",
        "image": "us-docker.pkg.dev/cloud-tpu-v2-images/pathways/server:v1",
        "restartPolicy": "Always",
        "args": [
            "--server_port=29001",
            "--gcs_scratch_location=gs://b/d",
            "--node_type=resource_manager",
            "--instance_count=2",
            "--instance_type=tpuv5:2x2x2",
        ],
        "env": [
            annotation("REPLICATED_JOB_NAME", "replicatedjob-name"),
            annotation("JOBSET_NAME", "jobset-name"),
            label("HOST_ADDRESS", "coordinator"),
            variable("TPU_SKIP_MDS_QUERY", "true"),
        ],
        "ports": [port(29001), port(29002)],
        "resources": {"requests": {"cpu": "8", "memory": "32G"}, "limits": {"cpu": "8", "memory": "32G"}},
    }


def test_the_proxy_has_its_fields() -> None:
    assert built(proxy, pathways_version="v1") == {
        "name": "pathways-proxy",
        "image": "us-docker.pkg.dev/cloud-tpu-v2-images/pathways/proxy_server:v1",
        "restartPolicy": "Always",
        "args": [
            "--server_port=29000",
            "--resource_manager_address=$(PATHWAYS_HEAD):29001",
            "--gcs_scratch_location=gs://b/d",
        ],
        "env": [label("PATHWAYS_HEAD", "coordinator")],
        "ports": [port(29000)],
        "resources": {"requests": {"cpu": "16", "memory": "100G"}, "limits": {"cpu": "16", "memory": "100G"}},
    }


def test_the_worker_has_its_fields() -> None:
    assert built(worker, pathways_version="v1") == {
        "name": "pathways-worker",
        "image": "us-docker.pkg.dev/cloud-tpu-v2-images/pathways/server:v1",
        "args": [
            "--server_port=29005",
            "--resource_manager_address=$(PATHWAYS_HEAD):29001",
            "--gcs_scratch_location=gs://b/d",
        ],
        "env": [
            variable("TPU_MIN_LOG_LEVEL", "0"),
            variable("TF_CPP_MIN_LOG_LEVEL", "0"),
            variable("XCLOUD_ENVIRONMENT", "GCP"),
            variable("MEGASCALE_GRPC_ENABLE_XOR_TRACER", "false"),
            label("MEGASCALE_NUM_SLICES", "replicatedjob-replicas"),
            annotation("JOBSET_NAME", "jobset-name"),
            annotation("REPLICATED_JOB_NAME", "replicatedjob-name"),
            label("MEGASCALE_SLICE_ID", "job-index"),
            label("PATHWAYS_HEAD", "coordinator"),
            label("MEGASCALE_COORDINATOR_ADDRESS", "coordinator"),
        ],
        "ports": [port(29005), port(29006), port(8471), port(8080)],
        "resources": {"limits": {"google.com/tpu": "4"}},
        "volumeMounts": [{"name": "shared-tmp", "mountPath": "/tmp"}],
    }


def test_the_sidecar_has_its_fields() -> None:
    assert built(sidecar, components=components(colocated_python_sidecar={"image": "s:1"})) == {
        "name": "colocated-python-sidecar",
        "image": "s:1",
        "restartPolicy": "Always",
        "env": [variable("GRPC_SERVER_ADDRESS", "0.0.0.0:50051")],
        "ports": [port(50051)],
        "volumeMounts": [{"name": "shared-tmp", "mountPath": "/tmp"}],
    }


def test_there_is_a_sidecar_only_with_an_image() -> None:
    assert has_sidecar(job(components=components(colocated_python_sidecar={"image": "s:1"})))
    assert not has_sidecar(job(components=components(colocated_python_sidecar={"flags": ("--a",)})))
    assert not has_sidecar(job())


@pytest.mark.parametrize("build", [resource_manager, proxy])
def test_without_a_user_pod_the_components_are_plain_containers(build: Build) -> None:
    sidecars = built(build)
    assert built(build, template=None) == {key: value for key, value in sidecars.items() if key != "restartPolicy"}


def test_custom_flags_follow_what_is_built_in() -> None:
    changes: dict[str, Any] = {"components": ALL, "metrics": True, "elastic_slices": 1}
    metrics = "--enable_metrics_collection=true"
    assert built(resource_manager, **changes)["args"][-2:] == [metrics, "--a=1"]
    assert built(proxy, **changes)["args"][-3:] == [metrics, "--b=1", "--num_elastic_slices=1"]
    assert built(worker, **changes)["args"][-2:] == [metrics, "--c=1"]
    assert built(sidecar, **changes)["args"] == ["--d=1"]


def test_xpk_has_the_elastic_flag_before_custom_ones() -> None:
    assert built(proxy, XPK, components=ALL, elastic_slices=1)["args"][-2:] == ["--num_elastic_slices=1", "--b=1"]


@each("setting", [GANG, XPK], ids=["gang", "xpk"])
@each("flag", ["--num_elastic_slices=2", "-num_elastic_slices=2"])
def test_the_elastic_flag_is_unique(setting: RenderingInputs, flag: str) -> None:
    changes: dict[str, Any] = {"components": components(proxy_server={"flags": (flag, "--b=1")}), "elastic_slices": 1}
    args = built(proxy, setting, **changes)["args"]
    assert [each for each in args if "num_elastic_slices" in each] == ["--num_elastic_slices=1"]
    reported = [each for each in component_notices(job(**changes), setting) if each.reason is Reason.NO_EFFECT]
    assert [flag in each.message for each in reported] == [True]


def test_a_custom_elastic_flag_alone_stays_as_it_is() -> None:
    changes: dict[str, Any] = {"components": components(proxy_server={"flags": ("--num_elastic_slices=2",)})}
    assert built(proxy, **changes)["args"][-1] == "--num_elastic_slices=2"
    assert {each.reason for each in component_notices(job(**changes), RenderingInputs())} == {Reason.FLOATING_IMAGE}


@each("flag", ["--x=a  b", '--x="a b"', "--x=a, b", "--x=$(PATHWAYS_HEAD)"])
def test_a_custom_flag_is_one_argument_as_it_was_written(flag: str) -> None:
    assert built(worker, components=components(worker={"flags": (flag,)}))["args"][-1] == flag


def test_custom_variables_replace_defaults() -> None:
    assert variable("TPU_SKIP_MDS_QUERY", "false") in built(resource_manager, components=ALL)["env"]
    assert variable("MEGASCALE_SLICE_ID", "7") in built(worker, components=ALL)["env"]
    assert built(proxy, components=ALL)["env"][-1] == variable("P", "$(PATHWAYS_HEAD)")


def test_the_sidecar_of_xpk_writes_without_delay() -> None:
    assert built(sidecar, XPK, components=ALL)["env"][1] == variable("PYTHONUNBUFFERED", "1")


def test_the_timeout_reaches_every_container_of_pathways() -> None:
    options = PathwaysOptions(unreachable_timeout_seconds=60)
    for build in (resource_manager, proxy, worker):
        assert variable("ABSL_FLAGS", "--pathways_pipe_unreachable_timeout=60s") in built(build, options=options)["env"]


@each("build", BUILDS)
def test_the_pull_policy_is_written_where_it_was_chosen(build: Build) -> None:
    assert "imagePullPolicy" not in built(build, components=ALL)
    options = PathwaysOptions(image_pull_policy="Never")
    assert built(build, components=ALL, options=options)["imagePullPolicy"] == "Never"


@pytest.mark.parametrize("build", [worker, sidecar])
def test_tmp_is_shared_unless_it_was_refused(build: Build) -> None:
    for shared in (None, True, False):
        made = built(build, components=ALL, options=PathwaysOptions(shared_tmp=shared))
        assert ("volumeMounts" in made) is (shared is not False)


@each("build", BUILDS)
def test_names_are_unique_and_references_find_theirs(build: Build) -> None:
    container = built(build, components=ALL, metrics=True, elastic_slices=1)
    declared: list[str] = []
    for item in container["env"]:
        assert all(name in declared for name in references(item.get("value", "")))
        declared.append(item["name"])
    assert len(set(declared)) == len(declared)
    assert {name for argument in container["args"] for name in references(argument)} <= set(declared)


@each("build", BUILDS)
def test_every_leaf_has_an_origin(build: Build) -> None:
    tree = build(job(components=ALL, metrics=True, elastic_slices=1), RenderingInputs())
    assert origins(tree)["image"].place.endswith(".image")


def test_arguments_name_the_fields_that_decide_them() -> None:
    tree = resource_manager(job(components=ALL, metrics=True), RenderingInputs())
    found = [origin for path, origin in origins(tree).items() if path.startswith("args")]
    assert [(each.kind, each.place) for each in found[1:]] == [
        (OriginKind.FIELD, "spec.pathwaysDir"),
        (OriginKind.RULE, "gangctl"),
        (OriginKind.FIELD, "spec.workers[0].numSlices"),
        (OriginKind.TABLE, "ct5p-hightpu-4t"),
        (OriginKind.FIELD, "spec.controller.enableMetricsCollection"),
        (OriginKind.FIELD, "spec.customComponents[0].customFlags[0]"),
    ]


def test_arguments_from_flags_name_the_flags() -> None:
    flag = Origin(OriginKind.FLAG, "--worker-args")
    tree = worker(job(components=ALL, sources={"spec.customComponents[2].customFlags": flag}), RenderingInputs())
    assert origins(tree)["args[3]"] == flag


def test_duplicates_of_a_component_give_a_notice() -> None:
    chosen = components(worker={"image": "w:1", "env": (variable("A", "1"), variable("A", "2"))})
    reported = [each.message for each in component_notices(job(components=chosen), RenderingInputs())]
    assert [("pathways-worker" in each and "A is set twice" in each) for each in reported] == [False, True]


@each("build", BUILDS)
def test_the_same_input_gives_the_same_bytes(build: Build) -> None:
    one, other = (json.dumps(built(build, components=ALL, metrics=True)) for _ in range(2))
    assert one == other


@each("build", BUILDS)
def test_containers_share_no_objects(build: Build) -> None:
    one = built(build, components=ALL)
    one["env"].clear()
    one["ports"][0].clear()
    assert built(build, components=ALL)["env"]
    assert built(build, components=ALL)["ports"][0]
