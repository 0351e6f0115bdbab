"""Which labels the value of a PromQL expression can have, and what in it is about labels that there cannot be.

Works on the syntax trees that Prometheus itself makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Labels = frozenset[str]

CLUSTER: Final = "cluster"
"""What a store of several clusters adds to every series."""

TARGET: Final[Labels] = frozenset({"job", "instance", CLUSTER})
"""What every series has from its scrape, and from who stores it."""

FOREIGN: Final[Mapping[str, Labels]] = {
    name: frozenset(labels.split()) | TARGET
    for name, labels in {
        "up": "",
        "kueue_pending_workloads": "cluster_queue status replica_role",
        "kueue_admitted_active_workloads": "cluster_queue replica_role",
        "kueue_reserving_active_workloads": "cluster_queue replica_role",
        "kueue_admitted_workloads_total": "cluster_queue priority_class replica_role",
        "kueue_cluster_queue_status": "cluster_queue status replica_role",
        "kueue_cluster_queue_resource_usage": "cohort cluster_queue flavor resource replica_role",
        "scheduler_pending_pods": "queue",
        "scheduler_schedule_attempts_total": "result profile",
        "apiserver_admission_webhook_rejection_count": "name type operation error_type rejection_code",
        "apiserver_admission_webhook_fail_open_count": "name type",
    }.items()
}
"""Metrics of others that rules and runbooks may ask for, from the sources of Kueue 0.19 and Kubernetes 1.37."""

_OF_SECOND: Final = {"histogram_quantile", "quantile_over_time"}


@dataclass
class Reader:
    """``known`` are labels by the name of a series; ``problems`` are what was found wrong so far."""

    known: Mapping[str, Labels]
    problems: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    """Names of the series that were asked for."""

    def labels(self, node: Mapping[str, Any]) -> Labels:
        """The labels that the value of an expression can have; of a number, none."""
        kind = node["type"]
        if kind in {"vectorSelector", "matrixSelector"}:
            return self._selector(node)
        if kind == "aggregation":
            return self._aggregation(node)
        if kind == "binaryExpr":
            return self._binary(node)
        if kind == "call":
            return self._call(node)
        if kind in {"parenExpr", "unaryExpr", "subquery"}:
            return self.labels(node["expr"])
        return frozenset()

    def _selector(self, node: Mapping[str, Any]) -> Labels:
        name = node["name"]
        self.seen.add(name)
        if name not in self.known:
            self.problems.append(f"there is no {name}")
            return frozenset()
        found = self.known[name]
        self._among({each["name"] for each in node["matchers"]} - {"__name__"}, found, name)
        return found

    def _aggregation(self, node: Mapping[str, Any]) -> Labels:
        found, named = self.labels(node["expr"]), frozenset(node["grouping"])
        self._among(named, found, node["op"])
        return found - named if node["without"] else named

    def _binary(self, node: Mapping[str, Any]) -> Labels:
        left, right = self.labels(node["lhs"]), self.labels(node["rhs"])
        matching = node["matching"]
        if matching is None:
            return left or right
        named = frozenset(matching["labels"])
        if matching["on"]:
            self._among(named, left & right, f"on of {node['op']}")
        elif node["op"] != "or" and left - named != right - named:
            self.problems.append(f"{node['op']}: {sorted(left)} never match {sorted(right)}")
        return left

    def _call(self, node: Mapping[str, Any]) -> Labels:
        name, arguments = node["func"]["name"], node["args"]
        found = [self.labels(each) for each in arguments]
        if name in {"absent", "scalar", "time", "vector"}:
            return frozenset()
        if name == "histogram_quantile":
            self._among({"le"}, found[1], name)
            return found[1] - {"le"}
        if name == "label_replace":
            return found[0] | {arguments[1]["val"]}
        return found[1 if name in _OF_SECOND else 0] if found else frozenset()

    def _among(self, named: set[str] | Labels, found: Labels, where: str) -> None:
        if unknown := named - found:
            self.problems.append(f"{where} has no {', '.join(sorted(unknown))}: only {', '.join(sorted(found))}")
