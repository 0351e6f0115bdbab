"""``gangctl fit`` where kube-scheduler keeps room on a node for a pod that it has nominated for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.kueueobjects import Object
from tests.cli.test_fit_nodes import fit, node, pod
from tests.jobsets import jobset, rj
from tests.rows import each

LOW = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "low"}, "value": 10}
RUNS = pod("runs", "b", "1")
TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}
RULE = "requiredDuringSchedulingIgnoredDuringExecution"


def nominated(priority: int | None = None, cpu: str = "4", jobset: str = "", **spec: Any) -> Object:
    """A pod without a node; node ``a`` is kept for it."""
    made = pod("urgent", "", cpu, "Pending", jobset)
    made["metadata"]["labels"]["app"] = "db"
    made["spec"] |= {"nodeName": None, **({} if priority is None else {"priority": priority}), **spec}
    made["status"]["nominatedNodeName"] = "a"
    return made


def train(pods: int, **pod: Any) -> Object:
    return jobset("train", rj("w", 1, pods, pods, cpu="1", pod=pod), mode="Gang")


@each(
    ("others", "spec", "verdict"),
    [
        ([LOW, nominated(100)], {"priorityClassName": "low"}, "not-now"),
        ([LOW, nominated(10)], {"priorityClassName": "low"}, "not-now"),
        ([LOW, nominated(9)], {"priorityClassName": "low"}, "fits"),
        # Without the priority of the pod, or of the gang's pods, it is not known who goes first.
        ([LOW, nominated()], {"priorityClassName": "low"}, "unknown"),
        ([nominated(100)], {}, "unknown"),
        # Its own pod that is nominated is one of those that are asked about.
        ([LOW, nominated(100, jobset="train")], {"priorityClassName": "low"}, "fits"),
        ([LOW, nominated(100, cpu="0")], {"priorityClassName": "low"}, "fits"),
    ],
)
def test_room_that_is_kept_for_pods_of_no_lower_priority_is_taken(
    others: list[Object], spec: dict[str, Any], verdict: str, tmp_path: Path
) -> None:
    answer = fit(tmp_path, train(5, **spec), [node("a"), node("b"), RUNS, *others])
    assert answer.json["verdict"] == verdict, answer.json["message"]
    if verdict == "unknown":
        assert any("t/urgent" in why and "nominatedNodeName" in why for why in answer.json["unknown"])


@each(
    ("part", "verdict"),
    [
        # The scheduler asks with the pod and without it: it keeps others away, and draws none.
        ("podAntiAffinity", "not-now"),
        ("podAffinity", "not-now"),
    ],
)
def test_a_nominated_pod_keeps_others_away_and_draws_none(part: str, verdict: str, tmp_path: Path) -> None:
    spec = {"priorityClassName": "low", "affinity": {part: {RULE: [TERM]}}}
    zone = [node("a", zone="x"), node("b", zone="x")]
    answer = fit(tmp_path, train(2, **spec), [*zone, LOW, RUNS, nominated(10, cpu="0")])
    assert answer.json["verdict"] == verdict, answer.json["message"]
    placed = pod("db", "a", "0")
    placed["metadata"]["labels"]["app"] = "db"
    with_it = fit(tmp_path, train(2, **spec), [*zone, LOW, RUNS, placed])
    assert (with_it.json["verdict"] == "fits") is (part == "podAffinity")


def test_a_host_port_is_kept_too(tmp_path: Path) -> None:
    ports = [{"name": "m", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}]
    spec = {"priorityClassName": "low", "containers": ports}
    answer = fit(tmp_path, train(2, **spec), [node("a"), node("b"), LOW, RUNS, nominated(10, containers=ports)])
    assert answer.json["verdict"] == "not-now", answer.json["message"]
