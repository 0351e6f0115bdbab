"""A JobSet with the pods that admission made of its templates."""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest

from gangctl.api.meta import REPLICATED_JOB_NAME
from gangctl.fit.admitted import changes, with_pods
from tests.jobsets import jobset, rj

Object = dict[str, Any]
GPU: Final = "nvidia.com/gpu"
TOLERATION: Final = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}


def written() -> Object:
    resources = {"requests": {"cpu": "1000m"}, "limits": {GPU: "8"}}
    containers = [{"name": "main", "image": "none", "resources": resources}]
    return jobset("js", rj("w", 1, 2, 2, pod={"containers": containers}))


def made(raw: Object, name: str = "js-w-0-0", **changed: Any) -> Object:
    """A pod as the Job controller makes it, with the volume and tolerations that every pod gets."""
    spec = copy.deepcopy(raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"])
    spec["containers"][0]["resources"] = {"requests": {GPU: "8", "cpu": "1"}, "limits": {GPU: "8"}}
    spec["tolerations"] = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]
    spec["volumes"] = [{"name": f"kube-api-access-{name}"}]
    metadata = {"name": name, "labels": {REPLICATED_JOB_NAME: "w"}}
    return {"kind": "Pod", "metadata": metadata, "spec": {**spec, **changed}}


def sidecar(raw: Object) -> Object:
    containers = made(raw)["spec"]["containers"]
    return {"containers": [*containers, {"name": "istio-proxy", "resources": {"requests": {"cpu": "2"}}}]}


def more(raw: Object) -> Object:
    (container,) = made(raw)["spec"]["containers"]
    return {"containers": [{**container, "resources": {"requests": {"cpu": "9"}}}]}


CHANGES: Final[list[tuple[Any, str]]] = [
    (lambda _: {}, ""),
    (lambda _: {"tolerations": [TOLERATION]}, f"tolerations of {GPU}:NoSchedule"),
    (lambda _: {"tolerations": [{"operator": "Exists"}]}, "tolerations of any taint"),
    (lambda _: {"nodeSelector": {"pool": "a"}}, "nodeSelector pool=a"),
    (sidecar, "container istio-proxy"),
    (more, "requests of container main"),
    (lambda _: {"overhead": {"cpu": "1"}}, "overhead"),
    (lambda _: {"affinity": {"podAntiAffinity": {}}}, "affinity"),
]


@pytest.mark.parametrize(("change", "words"), CHANGES)
def test_what_decides_about_nodes_and_is_not_in_the_template_is_told(change: Any, words: str) -> None:
    raw = written()
    pod = made(raw, **change(raw))
    lines = changes(raw, [pod])
    assert [line.rpartition(": ")[2] for line in lines] == ([words] if words else [])
    jobset_with_pods = with_pods(raw, [pod])
    assert jobset_with_pods is not None
    (entry,) = jobset_with_pods["spec"]["replicatedJobs"]
    assert entry["template"]["spec"]["template"]["spec"] == pod["spec"]
    assert raw == written()


def test_who_updated_a_pod_is_told_and_parts_of_kubernetes_are_not() -> None:
    raw = written()
    pod = made(raw, nodeSelector={"pool": "a"})
    assert "when they were created (admission, JobSet, Kueue)" in changes(raw, [pod])[0]
    pod["metadata"]["managedFields"] = [
        {"manager": "kube-controller-manager", "fieldsV1": {"f:spec": {}}},
        {"manager": "kueue", "fieldsV1": {"f:spec": {}}},
        {"manager": "status-writer", "subresource": "status", "fieldsV1": {"f:spec": {}}},
        {"manager": "labeller", "fieldsV1": {"f:metadata": {}}},
    ]
    assert "updated by kueue: " in changes(raw, [pod])[0]


def test_pods_that_differ_are_like_no_template() -> None:
    raw = written()
    one, other = made(raw, "a"), made(raw, "b", nodeSelector={"pool": "a"})
    assert with_pods(raw, [one, other]) is None
    assert with_pods(raw, [one, made(raw, "b")]) is not None
    assert with_pods(raw, []) == raw
