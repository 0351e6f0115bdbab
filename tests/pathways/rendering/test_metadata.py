"""Which labels and annotations travel, and how far."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gangctl.gang.reasons import Reason
from gangctl.pathways.result import Profile, RenderingInputs
from tests.pathways.samples import annotated, container, pathways_job, template
from tests.pathways.views import job_template, jobset_of, notes_on, pod_template, rendered
from tests.rows import each

Object = dict[str, Any]

PODSET = "kueue.x-k8s.io/podset-"
LABEL = "gangctl.dev/pathways-job"
COLOCATE = {"deploymentMode": "colocate_head_with_workers"}


def annotated_with(**keys: str) -> Object:
    """A JobSet of a PathwaysJob with these annotations."""
    return jobset_of(pathways_job(metadata={"annotations": keys}))


@each(
    "key",
    [
        "kubectl.kubernetes.io/last-applied-configuration",
        "kubectl.kubernetes.io/restartedAt",
        "argocd.argoproj.io/tracking-id",
        "app.kubernetes.io/instance",
        "kustomize.toolkit.fluxcd.io/name",
        "meta.helm.sh/release-name",
        "kapp.k14s.io/app",
        "config.k8s.io/owning-inventory",
        "gangctl.dev/pathways-something",
    ],
)
def test_bookkeeping_stays_on_the_pathwaysjob(key: str) -> None:
    jobset = jobset_of(pathways_job(metadata={"labels": {key: "x"}, "annotations": {key: "x"}}))
    assert f'"{key}"' not in json.dumps(jobset)


def test_metadata_can_be_dropped_by_prefix() -> None:
    metadata = annotated(pathways_options='{"dropMetadata": ["corp.example/"]}')
    metadata = {"annotations": {**metadata["annotations"], "corp.example/a": "x", "note": "y"}}
    text = json.dumps(jobset_of(pathways_job(metadata={**metadata, "labels": {"corp.example/b": "x"}})))
    assert "corp.example" not in text
    assert "note" in text


def test_annotations_of_gangctl_are_not_copied() -> None:
    metadata = annotated(pathways_worker_mode="Gang", pathways_options="{}", gang_mode="Off")
    assert jobset_of(pathways_job(metadata=metadata))["metadata"]["annotations"] == {"gangctl.dev/gang-mode": "Off"}


def test_the_jobset_is_labelled_as_managed_by_gangctl() -> None:
    metadata = {"labels": {"app.kubernetes.io/managed-by": "Helm"}}
    labels = jobset_of(pathways_job(metadata=metadata))["metadata"]["labels"]
    assert labels == {"app.kubernetes.io/managed-by": "gangctl", LABEL: "pw"}


def test_other_annotations_are_copied_except_to_the_workers() -> None:
    jobset = annotated_with(note="x")
    assert notes_on(jobset)["note"] == "x"
    assert notes_on(job_template(jobset, "pathways-head"))["note"] == "x"
    assert notes_on(pod_template(jobset, "pathways-head"))["note"] == "x"
    assert "note" not in notes_on(job_template(jobset, "worker"))
    assert "note" not in notes_on(pod_template(jobset, "worker"))


def test_metadata_of_the_template_wins_for_its_pod() -> None:
    user = template(
        container(), metadata={"labels": {"team": "t", "app": "a", LABEL: "t"}, "annotations": {"note": "t"}}
    )
    metadata = {"labels": {"team": "p", "cost": "c", LABEL: "else"}, "annotations": {"note": "p", "more": "p"}}
    found = pod_template(jobset_of(pathways_job(metadata=metadata, controller={"template": user})), "pathways-head")
    assert found["metadata"]["labels"] == {"team": "t", "app": "a", "cost": "c", LABEL: "pw"}
    assert found["metadata"]["annotations"] == {"note": "t", "more": "p"}


def test_queue_labels_are_on_the_jobset_only() -> None:
    labels = {"kueue.x-k8s.io/queue-name": "q", "kueue.x-k8s.io/priority-class": "high"}
    keys = {"provreq.kueue.x-k8s.io/maxRunDurationSeconds": "60", "kueue.x-k8s.io/admission-gated-by": "a.b/c"}
    jobset = jobset_of(pathways_job(metadata={"labels": labels, "annotations": keys}))
    assert labels.items() <= jobset["metadata"]["labels"].items()
    assert keys.items() <= jobset["metadata"]["annotations"].items()
    assert "kueue.x-k8s.io" not in json.dumps(jobset["spec"])


@pytest.mark.parametrize("controller", [{}, COLOCATE])
def test_topology_requests_go_to_the_workers_pods_alone(controller: Object) -> None:
    requests = {f"{PODSET}required-topology": "rack", f"{PODSET}slice-size": "2"}
    rendering = rendered(pathways_job(metadata={"annotations": requests}, controller=controller))
    jobset = dict(rendering.jobset)
    worker = jobset["spec"]["replicatedJobs"][1]["template"]["spec"]["template"]
    assert worker["metadata"].pop("annotations") == requests
    assert PODSET not in json.dumps(jobset)
    (notice,) = [each for each in rendering.notices if each.reason is Reason.METADATA_MOVED]
    assert all(key in notice.message for key in requests)


def test_without_a_topology_request_there_is_no_notice() -> None:
    assert Reason.METADATA_MOVED not in [each.reason for each in rendered(pathways_job()).notices]


SLICED = [
    ("Dynamic", "tpu7x-standard-4t", "4x4x4", 2, {"slice-required-topology": "partition-4x4x4", "slice-size": "16"}),
    ("Dynamic", "tpu7x-standard-4t", "4x4x4", 1, {"required-topology": "partition-4x4x4"}),
    ("Dynamic", "ct6e-standard-4t", "4x4", 1, {"required-topology": "slice-4x4"}),
    ("Sub", "ct6e-standard-4t", "2x4", 1, {"required-topology": "slice-2x4"}),
    ("Sub", "ct6e-standard-4t", "2x4", 3, {"slice-required-topology": "slice-2x4", "slice-size": "2"}),
    ("Super", "tpu7x-standard-4t", "4x4x8", 1, {}),
]


@each(("slicing", "machine", "topology", "slices", "requests"), SLICED)
def test_sub_slices_are_requested_on_the_pods_of_the_workers(
    slicing: str, machine: str, topology: str, slices: int, requests: dict[str, str]
) -> None:
    workers = {"type": machine, "topology": topology, "numSlices": slices}
    metadata = annotated(pathways_options=json.dumps({"slicing": slicing}))
    jobset = jobset_of(pathways_job(metadata=metadata, workers=workers))
    found = dict(notes_on(pod_template(jobset, "worker")))
    assert found.pop("cloud.google.com/gke-tpu-slice-topology") == topology
    expected = {
        f"{PODSET}{key}": f"cloud.google.com/gke-tpu-{value}-id" if "topology" in key else value
        for key, value in requests.items()
    }
    assert found == expected
    assert PODSET not in json.dumps(jobset["spec"]["replicatedJobs"][0])


def test_the_users_topology_request_replaces_the_one_for_slices() -> None:
    requests = {f"{PODSET}preferred-topology": "block"}
    metadata = {"annotations": {**requests, "gangctl.dev/pathways-options": '{"slicing": "Sub"}'}}
    workers = {"type": "ct6e-standard-4t", "topology": "2x4"}
    jobset = jobset_of(pathways_job(metadata=metadata, workers=workers))
    found = notes_on(pod_template(jobset, "worker"))
    assert found == {"cloud.google.com/gke-tpu-slice-topology": "2x4", **requests}


def test_every_pod_has_the_label_of_its_pathwaysjob() -> None:
    jobset = jobset_of(pathways_job())
    for name in ("pathways-head", "worker"):
        assert pod_template(jobset, name)["metadata"]["labels"][LABEL] == "pw"


def test_the_xpk_profile_has_the_labels_of_xpk() -> None:
    jobset = jobset_of(pathways_job(), RenderingInputs(Profile.XPK))
    key = "xpk.google.com/workload"
    assert jobset["metadata"]["labels"][key] == "pw"
    assert pod_template(jobset, "worker")["metadata"]["labels"][key] == "pw"
    assert key not in pod_template(jobset, "pathways-head")["metadata"]["labels"]
    assert key not in json.dumps(jobset_of(pathways_job()))


def test_the_owner_is_the_pathwaysjob_that_a_cluster_has() -> None:
    (owner,) = jobset_of(pathways_job(metadata={"uid": "u"}))["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "pathways-job.pathways.domain/v1",
        "kind": "PathwaysJob",
        "name": "pw",
        "uid": "u",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert "ownerReferences" not in jobset_of(pathways_job())["metadata"]
