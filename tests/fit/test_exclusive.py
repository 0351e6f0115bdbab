"""JobSet's exclusive placement by a node selector: the user has labelled and tainted the nodes of each Job."""

from __future__ import annotations

from typing import Any

from gangctl.api.meta import EXCLUSIVE_TOPOLOGY, NODE_SELECTOR_STRATEGY
from gangctl.fit.clusterstate import FitRequest
from gangctl.fit.members import Neighbours
from gangctl.fit.nodes import node_fit
from tests.fit.asking import NAMESPACE
from tests.fit.test_nodes import PLAIN, RACK, ask, cpu, nodes, pod_on
from tests.jobsets import jobset
from tests.rows import each

PINNED = "alpha.jobset.sigs.k8s.io/namespaced-job"
TAINT = {"key": "alpha.jobset.sigs.k8s.io/no-schedule", "value": "true", "effect": "NoSchedule"}
BOTH = {EXCLUSIVE_TOPOLOGY: RACK, NODE_SELECTOR_STRATEGY: "true"}
TOPOLOGY = {EXCLUSIVE_TOPOLOGY: RACK}
STRATEGY = {NODE_SELECTOR_STRATEGY: "true"}


def exclusive(of_jobset: dict[str, str], of_template: dict[str, str]) -> dict[str, Any]:
    entry = cpu(2)
    entry["template"]["metadata"] = {"annotations": of_template}
    return jobset("js", entry, mode="Gang", annotations=of_jobset)


@each(
    ("of_jobset", "of_template", "verdict"),
    [
        (BOTH, {}, "unknown"),
        ({}, BOTH, "unknown"),
        (TOPOLOGY, STRATEGY, "unknown"),
        # JobSet copies its strategy only where its topology stands beside it.
        (STRATEGY, TOPOLOGY, "never"),
        (TOPOLOGY, {}, "never"),
        ({}, STRATEGY, "never"),
    ],
)
def test_jobset_adds_the_toleration_of_the_strategy(
    of_jobset: dict[str, str], of_template: dict[str, str], verdict: str
) -> None:
    report = ask(exclusive(of_jobset, of_template), nodes(2, taints=[TAINT]), used={})
    assert report["verdict"] == verdict, report["message"]


@each(("written", "verdict"), [({}, "unknown"), ({PINNED: "t_js-w-0"}, "never")])
def test_the_node_selector_of_one_job_is_not_that_of_the_others(written: dict[str, str], verdict: str) -> None:
    """No node has the label: where the template has it, all pods do."""
    raw = exclusive(BOTH, {})
    spec = raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    spec["nodeSelector"] = written
    pod = {"metadata": {}, "spec": {**spec, "nodeSelector": {PINNED: "t_js-w-0"}}}
    neighbours = Neighbours([pod_on("n0", {"cpu": 4000})], NAMESPACE, admitted={"w": pod}, levels=frozenset({PINNED}))
    request = FitRequest(raw, NAMESPACE, None, "", new=False, fixed_nodes=True)
    report = node_fit(request, nodes(2), PLAIN, neighbours)
    assert report["verdict"] == verdict, report["message"]
