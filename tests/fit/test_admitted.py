"""Pods that differ from their templates, and from each other."""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest

from gangctl.fit.admitted import changes, differ
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
    return {"kind": "Pod", "metadata": {"name": name}, "spec": {**spec, **changed}}


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
def test_a_change_that_decides_about_nodes_is_listed(change: Any, words: str) -> None:
    raw = written()
    pod = made(raw, **change(raw))
    lines = changes(raw, {"w": pod})
    assert [line.rpartition(": ")[2] for line in lines] == ([words] if words else [])


def test_a_change_names_who_updated_the_pod() -> None:
    raw = written()
    pod = made(raw, nodeSelector={"pool": "a"})
    assert "when they were created (admission, JobSet, Kueue)" in changes(raw, {"w": pod})[0]
    pod["metadata"]["managedFields"] = [
        {"manager": "kube-controller-manager", "fieldsV1": {"f:spec": {}}},
        {"manager": "kueue", "fieldsV1": {"f:spec": {}}},
        {"manager": "status-writer", "subresource": "status", "fieldsV1": {"f:spec": {}}},
        {"manager": "labeller", "fieldsV1": {"f:metadata": {}}},
    ]
    assert "updated by kueue: " in changes(raw, {"w": pod})[0]


@pytest.mark.parametrize(("change", "words"), CHANGES)
def test_pods_are_alike_whatever_their_names(change: Any, words: str) -> None:
    raw = written()
    one, other = made(raw, "a"), made(raw, "b", **change(raw))
    assert differ(one["spec"], other["spec"]) == bool(words)
