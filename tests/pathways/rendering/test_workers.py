"""The ReplicatedJob of the workers."""

from __future__ import annotations

from typing import Any

from tests.pathways.samples import annotated, component, pathways_job
from tests.pathways.views import jobset_of, names, pod, replicated_job
from tests.rows import each

Object = dict[str, Any]


def workers_of(**changes: Any) -> Object:
    """The replicated job."""
    return replicated_job(jobset_of(pathways_job(**changes)), "worker")


@each(
    ("machine", "topology", "slices", "vms"),
    [
        ("ct5p-hightpu-4t", "2x2x1", 3, 1),
        ("ct5p-hightpu-4t", "4x4x4", 1, 16),
        ("ct5lp-hightpu-4t", "2x4", 2, 2),
        ("ct5lp-hightpu-8t", "2x4", 2, 1),
        ("tpu7x-standard-4t", "4x4x20", 1, 80),
    ],
)
def test_each_slice_has_a_job_and_each_vm_a_pod(machine: str, topology: str, slices: int, vms: int) -> None:
    entry = workers_of(workers={"type": machine, "topology": topology, "numSlices": slices})
    spec = entry["template"]["spec"]
    assert (entry["replicas"], spec["completions"], spec["parallelism"]) == (slices, vms, vms)
    assert spec["completionMode"] == "Indexed"


@each(
    ("elastic", "restarts", "expected"),
    [
        (0, None, 8),
        (0, 9, 8),
        (1, None, 2),
        (1, 4, 8),
        (1, 0, 8),
        (1, 2**30 - 1, 2**31 - 2),
    ],
)
def test_the_backoff_limit_of_a_slice(elastic: int, restarts: int | None, expected: int) -> None:
    entry = workers_of(workers={"maxSliceRestarts": restarts}, controller={"elasticSlices": elastic})
    assert entry["template"]["spec"]["backoffLimit"] == expected


def test_the_pod_of_a_worker() -> None:
    worker = pod(jobset_of(pathways_job()), "worker")
    assert names(worker["containers"]) == ["pathways-worker"]
    assert "initContainers" not in worker
    assert worker["restartPolicy"] == "OnFailure"
    assert (worker["hostNetwork"], worker["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert names(worker["volumes"]) == ["shared-tmp"]


def test_a_sidecar_starts_before_the_worker() -> None:
    worker = pod(
        jobset_of(pathways_job(customComponents=[component("colocated_python_sidecar", image="x:1")])), "worker"
    )
    assert names(worker["initContainers"]) == ["colocated-python-sidecar"]
    assert worker["initContainers"][0]["restartPolicy"] == "Always"


def test_no_unused_volume_is_added() -> None:
    worker = pod(jobset_of(pathways_job(metadata=annotated(pathways_options='{"sharedTmp": false}'))), "worker")
    assert "volumes" not in worker
    assert "volumeMounts" not in worker["containers"][0]
