"""The ReplicatedJob of the head."""

from __future__ import annotations

from typing import Any

import pytest

from gangctl.gang.reasons import Reason
from gangctl.pathways.result import Origin, OriginKind
from tests.pathways.samples import component, container, pathways_job, template
from tests.pathways.views import jobset_of, names, pod, rendered, replicated_job
from tests.rows import each

Object = dict[str, Any]

COLOCATE = {"deploymentMode": "colocate_head_with_workers"}
MOUNT = {"name": "shared-tmp", "mountPath": "/tmp"}


def head_of(user: Object, **more: Any) -> Object:
    """The head's pod with the user's template."""
    return pod(jobset_of(pathways_job(controller={"template": user}, **more)), "pathways-head")


def test_the_head_is_one_job_with_one_pod_and_no_retry() -> None:
    entry = replicated_job(jobset_of(pathways_job()), "pathways-head")
    spec = entry["template"]["spec"]
    assert entry["replicas"] == 1
    assert {key: spec[key] for key in ("backoffLimit", "completionMode", "completions", "parallelism")} == {
        "backoffLimit": 0,
        "completionMode": "Indexed",
        "completions": 1,
        "parallelism": 1,
    }


def test_native_sidecars_follow_the_users_init_containers() -> None:
    head = head_of(template(container(), container("log"), initContainers=[container("a"), container("b")]))
    assert names(head["initContainers"]) == ["a", "b", "pathways-rm", "pathways-proxy"]
    assert [each.get("restartPolicy") for each in head["initContainers"]] == [None, None, "Always", "Always"]
    assert names(head["containers"]) == ["main", "log"]


@pytest.mark.parametrize("controller", [{}, COLOCATE])
def test_without_a_user_pod_the_components_are_plain_containers(controller: Object) -> None:
    head = pod(jobset_of(pathways_job(headless=True, controller=controller)), "pathways-head")
    assert names(head["containers"]) == ["pathways-rm", "pathways-proxy"]
    assert all("restartPolicy" not in each for each in head["containers"])
    assert "initContainers" not in head
    assert "volumes" not in head


def test_the_head_always_uses_the_host_network() -> None:
    head = head_of(template(hostNetwork=False, dnsPolicy="Default"))
    assert (head["hostNetwork"], head["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")


@each(("given_policy", "expected"), [({}, "Never"), ({"restartPolicy": "OnFailure"}, "OnFailure")])
def test_the_client_is_not_restarted_in_its_pod_by_default(given_policy: Object, expected: str) -> None:
    assert head_of(template(**given_policy))["restartPolicy"] == expected


@each(
    ("of_head", "of_workers", "expected"),
    [
        (None, None, (None, None)),
        (None, 60, (60, 60)),
        (0, 60, (0, 60)),
        (90, None, (90, None)),
    ],
)
def test_the_head_has_the_grace_period_of_the_workers(
    of_head: int | None, of_workers: int | None, expected: tuple[int | None, int | None]
) -> None:
    key = "terminationGracePeriodSeconds"
    seconds: Object = {} if of_head is None else {key: of_head}
    user = template(**seconds)
    jobset = jobset_of(pathways_job(workers={key: of_workers}, controller={"template": user}))
    assert (pod(jobset, "pathways-head").get(key), pod(jobset, "worker").get(key)) == expected


@each(
    ("of_head", "of_workers", "expected"),
    [
        ("", "", (None, None)),
        ("", "high", ("high", "high")),
        ("high", "", ("high", "high")),
        ("low", "high", ("low", "high")),
    ],
)
def test_head_and_workers_have_one_priority_by_default(
    of_head: str, of_workers: str, expected: tuple[str | None, str | None]
) -> None:
    priority: Object = {"priorityClassName": of_head} if of_head else {}
    user = template(**priority)
    jobset = jobset_of(pathways_job(workers={"priorityClassName": of_workers}, controller={"template": user}))
    found = tuple(pod(jobset, name).get("priorityClassName") for name in ("pathways-head", "worker"))
    assert found == expected


def test_other_fields_of_the_template_are_kept() -> None:
    said: Object = {
        "serviceAccountName": "trainer",
        "imagePullSecrets": [{"name": "s"}],
        "securityContext": {"fsGroup": 1},
        "volumes": [{"name": "data", "emptyDir": {}}],
        "schedulerName": "mine",
        "activeDeadlineSeconds": 60,
    }
    head = head_of(template(**said))
    assert {key: head[key] for key in said} == said


def test_a_container_stays_as_it_is_but_for_its_environment() -> None:
    more: Object = {
        "imagePullPolicy": "Never",
        "resources": {"limits": {"cpu": "1"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "securityContext": {"runAsUser": 1},
    }
    (main,) = head_of(template(container(**more)))["containers"]
    assert {key: main[key] for key in more} == more
    assert set(main) == {"name", "image", "command", "env", *more}


def test_other_containers_get_no_environment() -> None:
    head = head_of(template(container(), container("log"), initContainers=[container("main-data")]))
    assert "env" not in head["containers"][1]
    assert "env" not in head["initContainers"][0]


def test_a_mount_without_a_volume_adds_no_host_path() -> None:
    data = {"name": "data", "emptyDir": {}}
    assert head_of(template(container(volumeMounts=[MOUNT]), volumes=[data]))["volumes"] == [data]
    assert "volumes" not in head_of(template(container(volumeMounts=[MOUNT])))


def test_a_volume_of_that_name_stays_the_users() -> None:
    mine = {"name": "shared-tmp", "emptyDir": {}}
    assert head_of(template(container(volumeMounts=[MOUNT]), volumes=[mine]))["volumes"] == [mine]


def test_requirements_of_the_head_on_its_node_give_a_notice() -> None:
    user = template(container(resources={"requests": {"cpu": "2", "memory": "8G"}}))
    requests = rendered(pathways_job(controller={"template": user})).head_requests
    assert requests == {"cpu": 26_000, "memory": 140_000_000_000}


def test_a_privileged_container_gives_a_notice() -> None:
    user = template(container(securityContext={"privileged": True}))
    notices = rendered(pathways_job(controller={"template": user})).notices
    (notice,) = [each for each in notices if each.reason is Reason.PRIVILEGED_POD]
    assert "main" in notice.message
    assert Reason.PRIVILEGED_POD not in [each.reason for each in rendered(pathways_job()).notices]


def test_a_field_of_the_template_has_its_origin() -> None:
    user = template(container(env=[{"name": "A", "value": "x"}]), container("log", args=["-f"]))
    found = rendered(pathways_job(controller={"template": user})).origins
    path = "spec.replicatedJobs[0].template.spec.template.spec.containers[1].args[0]"
    assert found[path] == Origin(OriginKind.FIELD, "spec.controller.template.spec.containers[1].args")
    env = "spec.replicatedJobs[0].template.spec.template.spec.containers[0].env[4].value"
    assert found[env].place == "spec.controller.template.spec.containers[0].env[0]"


def test_the_head_has_no_worker_sidecar() -> None:
    sidecar = [component("colocated_python_sidecar", image="x:1")]
    assert head_of(template(), customComponents=sidecar) == head_of(template())
