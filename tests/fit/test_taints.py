"""Taints that components remove, and tolerations and selectors that admission may add, by what is known of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from gangctl.fit.floor import read_node
from tests.cli.httpserver import ask as asked
from tests.cli.kueueobjects import queued
from tests.cli.kueueserver import serving
from tests.cli.manifests import write
from tests.cli.test_fit_nodes import NODES, fit, node, pod
from tests.fit.test_nodes import ask, cpu, gang, gist, nodes
from tests.jobsets import jobset, rj
from tests.rows import each

ARCH = "kubernetes.io/arch"
CLASS = "cloud.google.com/compute-class"
SCHEDULER = "scheduler.alpha.kubernetes.io"


@each(
    "key",
    [
        "node.cluster.x-k8s.io/uninitialized",
        "aws-node-termination-handler/spot-itn",
        "cloud.google.com/impending-node-termination",
        "readiness.k8s.io/gpu-ready",
    ],
)
def test_a_taint_that_a_component_removes_passes(key: str) -> None:
    spec = {"taints": [{"key": key, "effect": "NoSchedule"}]}
    raw = {"metadata": {"name": "n"}, "spec": spec, "status": {"capacity": {"cpu": "8", "pods": 9}}}
    assert gist(ask(gang(cpu(1)), [read_node(raw)], used={})) == ("not-now", "WaitsForNodes")


def affine(key: str, *values: str) -> dict[str, Any]:
    expression = {"key": key, "operator": "In", "values": list(values)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


@each(
    ("key", "value", "spec", "verdict"),
    [
        (ARCH, "arm64", {"nodeSelector": {ARCH: "arm64"}}, "unknown"),
        (ARCH, "arm64", affine(ARCH, "arm64", "s390x"), "unknown"),
        (CLASS, "a3", {"nodeSelector": {CLASS: "a3"}}, "unknown"),
        # What is not selected, and labels that users give to their nodes themselves.
        (ARCH, "arm64", {}, "never"),
        ("pool", "gpu", {"nodeSelector": {"pool": "gpu"}}, "never"),
    ],
)
def test_gke_tolerates_taints_that_pods_select_as_labels(
    key: str, value: str, spec: dict[str, Any], verdict: str
) -> None:
    tainted = nodes(2, taints=[{"key": key, "value": value, "effect": "NoSchedule"}])
    floor = [replace(shape, labels={**shape.labels, key: value}) for shape in tainted]
    unused: dict[str, dict[str, int]] = {}
    # Also where it is not known what is in use.
    for used in (unused, None):
        report = ask(gang(cpu(1, spec=spec)), floor, used=used)
        assert report["verdict"] == verdict, report["message"]
        assert any(f"toleration of the taint {key}" in why for why in report["unknown"]) is (verdict == "unknown")


NONE: dict[str, str] = {}
DEDICATED = '[{"key": "dedicated", "operator": "Equal", "value": "t", "effect": "NoSchedule"}]'


@each(
    ("notes", "selector", "tainted", "verdict"),
    [
        (NONE, NONE, False, "fits"),
        ({f"{SCHEDULER}/node-selector": "env=gpu"}, NONE, False, "unknown"),
        ({"openshift.io/node-selector": "env=gpu, zone=a"}, NONE, False, "unknown"),
        ({"openshift.io/node-selector": ""}, NONE, False, "fits"),
        ({f"{SCHEDULER}/node-selector": "env=gpu"}, {"env": "gpu"}, False, "fits"),
        (NONE, NONE, True, "never"),
        ({f"{SCHEDULER}/defaultTolerations": DEDICATED}, NONE, True, "unknown"),
        ({f"{SCHEDULER}/defaultTolerations": DEDICATED.replace("dedicated", "other")}, NONE, True, "never"),
        ({f"{SCHEDULER}/defaultTolerations": "not JSON"}, NONE, True, "never"),
        ({f"{SCHEDULER}/defaultTolerations": "[" * 100_000}, NONE, True, "never"),
        ({f"{SCHEDULER}/defaultTolerations": '{"key": "dedicated"}'}, NONE, True, "never"),
    ],
)
def test_annotations_of_a_namespace_by_which_admission_changes_pods_are_named(
    notes: dict[str, str], selector: dict[str, str], tainted: bool, verdict: str, tmp_path: Path
) -> None:
    raw = jobset("train", rj("w", 1, 2, 2, cpu="1", pod={"nodeSelector": selector}), mode="Gang")
    floor = [node("a", env="gpu"), node("b", env="gpu")]
    for there in floor if tainted else ():
        there["spec"] = {"taints": [{"key": "dedicated", "value": "t", "effect": "NoSchedule"}]}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "t", "annotations": notes}}
    answer = fit(tmp_path, raw, [*floor, pod("runs", "b", "1"), space])
    assert answer.json["verdict"] == verdict, answer.json["message"]
    if verdict == "unknown":
        assert any(key in why for key in notes for why in answer.json["unknown"]), answer.json["unknown"]


async def test_the_namespace_is_read_of_a_cluster_without_kueue(tmp_path: Path) -> None:
    file = write(tmp_path / "a.yaml", queued(queue=""))
    space = {"kind": "Namespace", "metadata": {"name": "t", "annotations": {f"{SCHEDULER}/node-selector": "env=gpu"}}}
    async with serving(*NODES, pod("p", "a", "1"), {"apiVersion": "v1", **space}, kueue=False) as (_, url):
        answer = await asked(tmp_path, url, "fit", "-f", file, "--fixed-nodes", "-o", "json")
    assert answer.json["verdict"] == "unknown"
    assert any("admission adds env=gpu" in why for why in answer.json["unknown"]), answer.json["unknown"]
