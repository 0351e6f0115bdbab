"""Gangs with a topology whose pods keep each other from nodes, or draw each other, also in other domains."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from gangctl.api.meta import GANGS
from gangctl.api.pods import REQUIRED
from gangctl.fit.report import FitReport
from tests.fit.test_nodes import RACK, ask, cpu, gist, node
from tests.jobsets import jobset
from tests.rows import each

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
JOBS = ["jobset.sigs.k8s.io/job-key"]
OWN = {"matchLabels": {"jobset.sigs.k8s.io/jobset-name": "js"}}


def spec_of(rule: str, key: str) -> dict[str, Any]:
    """The pod spec with a rule about pods of the JobSet, or of other Jobs of it, or of the same Job."""
    term = {"topologyKey": key, "labelSelector": OWN}
    specs: dict[str, dict[str, Any]] = {
        "spread": {"topologySpreadConstraints": [{**term, "maxSkew": 2}]},
        "apart": {"affinity": {"podAntiAffinity": {REQUIRED: [{**term, "mismatchLabelKeys": JOBS}]}}},
        "near": {"affinity": {"podAffinity": {REQUIRED: [term]}}},
        "own": {"affinity": {"podAffinity": {REQUIRED: [{**term, "matchLabelKeys": JOBS}]}}},
    }
    return specs[rule]


def asked(sizes: dict[str, int], *entries: dict[str, Any]) -> FitReport:
    """Each Job of ``w`` is a gang, in one rack: nodes are in a rack each, and in the zone of their first letter."""
    gangs = [{"name": "g", "replicatedJobs": ["w"], "perReplica": True, "topologyKey": RACK}]
    raw = jobset("js", *entries, annotations={GANGS: json.dumps(gangs)})
    floor = [node(name, size, rack=name) for name, size in sizes.items()]
    return ask(raw, [replace(shape, labels={**shape.labels, ZONE: shape.name[0]}) for shape in floor], used={})


@each(
    ("rule", "key", "verdict"),
    [
        # The first gang is in rack a1 or a2, and keeps the second one from the other of these.
        ("spread", ZONE, "unknown"),
        ("apart", ZONE, "unknown"),
        ("apart", RACK, "fits"),
        ("apart", HOST, "fits"),
        ("spread", HOST, "fits"),
        # The first gang may take a2: then only there is a pod that the others must be near.
        ("near", RACK, "unknown"),
        ("own", RACK, "fits"),
    ],
)
def test_rules_between_gangs_reach_other_domains(rule: str, key: str, verdict: str) -> None:
    entry = {**cpu(2, spec=spec_of(rule, key)), "replicas": 2}
    report = asked({"a1": 4, "a2": 2, "b1": 1, "b2": 1}, entry)
    assert report["verdict"] == verdict, report["message"]


@each(("key", "verdict"), [(ZONE, "unknown"), (RACK, "fits")])
def test_a_pod_in_no_gang_reaches_domains_of_gangs(key: str, verdict: str) -> None:
    """Pods without a gang may have any node: the driver takes one in zone a, and only there a rack has two CPUs."""
    driver = cpu(1, 1, "driver", spec_of("apart", key))
    report = asked({"a1": 2, "a2": 2, "b1": 1, "c1": 1}, driver, cpu(2))
    assert report["verdict"] == verdict, report["message"]


def test_gangs_that_keep_each_other_from_their_domain_are_reported_in_several() -> None:
    report = asked({"a1": 4, "b1": 4}, {**cpu(2, spec=spec_of("apart", RACK)), "replicas": 2})
    assert gist(report) == ("fits", "Fits")
    assert [(row["domain"], row["assigned"]) for row in report["domains"]] == [("a1", 2), ("b1", 2)]
