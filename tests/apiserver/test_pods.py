"""Jobs that the API server takes, and that get no pods."""

from __future__ import annotations

from typing import Any

from gangctl.api.meta import EXCLUSIVE_TOPOLOGY, NODE_SELECTOR_STRATEGY
from gangctl.apiserver.create import create, errors_of_jobs
from tests.jobsets import jobset, rj
from tests.rows import each


def _errors(job: dict[str, Any], pod: dict[str, Any], replicas: int = 1) -> list[tuple[str, str]]:
    created = create(jobset("js", rj("v", 1, 1, 1), rj("w", replicas, 1, 1, job=job, pod=pod)))
    assert created.refused == created.jobs == ()
    assert errors_of_jobs(created.obj) == created.errors
    return [
        (error.path.removeprefix("spec.replicatedJobs[1].template.spec."), error.detail) for error in created.errors
    ]


@each("manager", ["kueue.x-k8s.io/multikueue", "example.com/jobs"])
def test_a_job_of_another_manager_has_no_pods(manager: str) -> None:
    job = {"managedBy": manager}
    why = "the Job controller makes no pods for another manager, so its pods can never be"
    assert _errors(job, {}) == [("managedBy", f'{why}: "{manager}": leave it out')]
    assert _errors(job, {}, replicas=0) == []
    assert _errors({"managedBy": "kubernetes.io/job-controller"}, {}) == []


@each("image", ["busybox:1.36\n", " busybox:1.36", "busybox:1.36\t"])
@each("field", ["containers", "initContainers"])
def test_an_image_ends_where_its_text_does(field: str, image: str) -> None:
    pod = {"containers": [{"name": "c", "image": "i"}], field: [{"name": "d", "image": image}]}
    ((path, detail),) = _errors({}, pod)
    assert path == f"template.spec.{field}[0].image"
    assert detail.startswith("the API server refuses such a pod, so its pods can never be: Invalid value: ")
    assert detail.endswith(": must not have leading or trailing whitespace")
    assert _errors({}, {field: pod[field]}, replicas=0) == []


def test_pods_in_the_network_of_the_node_have_each_port_once() -> None:
    two = [{"name": name, "image": "i", "ports": [{"containerPort": 80}]} for name in ("a", "b")]
    assert [path for path, _ in _errors({}, {"hostNetwork": True, "containers": two})] == [
        "template.spec.containers[1].ports[0].hostPort"
    ]
    assert _errors({}, {"containers": two}) == []


@each(("limit", "refused"), [("4", True), ("2", False)])
def test_the_limits_of_containers_are_requests_of_pods(limit: str, refused: bool) -> None:
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": limit}}}
    errors = _errors({}, {"resources": {"requests": {"cpu": "2"}}, "containers": [container]})
    assert [path for path, _ in errors] == ["template.spec.resources.requests[cpu]"] * refused


def test_a_replicated_job_that_depends_on_itself_has_no_jobs() -> None:
    created = create(jobset("js", rj("v"), rj("w", depends_on="w")))
    assert [error.path for error in created.errors] == ["spec.replicatedJobs[1].dependsOn[0].name"]
    assert create(jobset("js", rj("v"), rj("w", depends_on="v"))).errors == ()


@each(
    ("job", "notes", "paths"),
    [
        ({"completionMode": "NonIndexed"}, {EXCLUSIVE_TOPOLOGY: "rack"}, ["spec.replicatedJobs[0].template.spec"]),
        ({"completionMode": "NonIndexed"}, {EXCLUSIVE_TOPOLOGY: "rack", NODE_SELECTOR_STRATEGY: "true"}, []),
        ({"completionMode": "NonIndexed"}, {}, []),
        ({}, {EXCLUSIVE_TOPOLOGY: "rack"}, []),
    ],
)
def test_jobset_places_no_pods_without_an_index(job: dict[str, Any], notes: dict[str, str], paths: list[str]) -> None:
    created = create(jobset("js", rj("w", 1, 1, 1, job=job), rj("v", 1, 2, 2), annotations=notes))
    assert created.refused == ()
    assert [error.path for error in created.errors] == [f"{path}.completionMode" for path in paths]
    assert errors_of_jobs(created.obj) == created.errors
