"""Exclusive placement of gangs as pod affinity."""

from __future__ import annotations

import copy
import json
from itertools import product
from typing import Any

from gangctl.api.meta import JOBSET_API_VERSION
from gangctl.api.scheduling import Generation
from gangctl.apiserver.childjobs import ChildJobs
from gangctl.gang.convert import replace_exclusive_topology
from gangctl.gang.resolve import ClusterRules, resolve
from tests.gang.pipeline import GENERATIONS, read
from tests.jobsets import FIXTURE_UID, OPTIONS, jobset, rj
from tests.rows import each
from tests.strategies import EXCLUSIVE, NODE_SELECTOR

RACK = {EXCLUSIVE: "example.com/rack"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
JOB_KEY = "jobset.sigs.k8s.io/job-key"
EXISTS = {"matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]}


def replaced(raw: dict[str, Any], generation: Generation | None = None) -> dict[str, Any]:
    before = copy.deepcopy(raw)
    conversion = replace_exclusive_topology(raw, generation)
    assert conversion.errors == ()
    assert raw == before
    return conversion.value


def affinity(raw: dict[str, Any], index: int = 0) -> Any:
    return raw["spec"]["replicatedJobs"][index]["template"]["spec"]["template"]["spec"].get("affinity")


@each(
    "raw",
    [
        jobset("js", rj("w", 2, 4, 4), mode="Gang", annotations=RACK),
        jobset("js", rj("w", 2, 4, 4, mode="ReplicatedGang", annotations=RACK)),
        jobset("js", rj("a", 1, 1, 1, annotations=RACK), rj("w", 2, 4, 4, annotations=RACK), mode="Gang"),
    ],
    ids=["JobSet", "template", "both"],
)
def test_a_refused_jobset_without_its_mistake_is_a_gang_on_every_minor(raw: dict[str, Any]) -> None:
    for generation in GENERATIONS:
        assert resolve(read(raw), ClusterRules(generation)).errors
        changed = replaced(raw, generation)
        resolution = resolve(read(changed), ClusterRules(generation))
        assert resolution.errors == ()
        assert any(resolution.stamps)
        assert EXCLUSIVE not in json.dumps(changed)


def test_all_pods_of_a_job_in_one_domain_and_no_other_job_there() -> None:
    found = affinity(replaced(jobset("js", rj("w", 2, 4, 4), mode="Gang", annotations=RACK)))
    assert found == {
        "podAffinity": {
            REQUIRED: [{"labelSelector": EXISTS, "matchLabelKeys": [JOB_KEY], "topologyKey": "example.com/rack"}]
        },
        "podAntiAffinity": {
            REQUIRED: [
                {
                    "labelSelector": EXISTS,
                    "matchLabelKeys": ["jobset.sigs.k8s.io/priority"],
                    "mismatchLabelKeys": [JOB_KEY],
                    "namespaceSelector": {},
                    "topologyKey": "example.com/rack",
                }
            ]
        },
    }


def test_affinity_to_other_pods_is_kept() -> None:
    own = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}
    pod = {"affinity": {"nodeAffinity": {}, "podAntiAffinity": {REQUIRED: [own]}}}
    found = affinity(replaced(jobset("js", rj("w", 1, 4, 4, mode="Gang", pod=pod, annotations=RACK))))
    assert found["nodeAffinity"] == {}
    assert found["podAntiAffinity"][REQUIRED][0] == own
    assert len(found["podAntiAffinity"][REQUIRED]) == 2


@each(
    ("raw", "generation", "written"),
    [
        (jobset("js", rj("w", 2, 4, 4, mode="ReplicatedGang", annotations=RACK)), Generation.V1BETA1, True),
        (jobset("js", rj("w", 2, 4, 4, mode="ReplicatedGang", annotations=RACK)), Generation.V1ALPHA1, False),
        (jobset("js", rj("w", 2, 4, 4, mode="ReplicatedGang", annotations=RACK)), None, False),
        (jobset("js", rj("w", 1, 4, 4), mode="Gang", annotations=RACK), Generation.V1ALPHA2, True),
        (jobset("js", rj("w", 2, 4, 4), mode="Gang", annotations=RACK), Generation.V1BETA1, False),
        (jobset("js", rj("a", 1, 4, 4), rj("b", 1, 4, 4), mode="Gang", annotations=RACK), Generation.V1BETA1, False),
    ],
)
def test_a_gang_that_is_one_job_is_placed_domain_by_domain(
    raw: dict[str, Any], generation: Generation | None, written: bool
) -> None:
    options = replaced(raw, generation)["metadata"].get("annotations", {}).get(OPTIONS)
    assert options == ('{"topologyKey":"example.com/rack"}' if written else None)


@each(
    "raw",
    [
        jobset("js", rj("w", 2, 4, 4), annotations=RACK),
        jobset("js", rj("w", 2, 1, 1), mode="Gang", annotations=RACK),
        jobset("js", rj("w", 2, 4, 4), mode="Gang", annotations={**RACK, NODE_SELECTOR: "true"}),
        jobset("js", rj("w", 2, 4, 4, annotations={**RACK, NODE_SELECTOR: "true"}), mode="Gang"),
        jobset("js", rj("w", 2, 4, 4), mode="Gang"),
    ],
    ids=["no gang", "one pod a Job", "by node selector", "by node selector of the template", "not exclusive"],
)
def test_placement_without_a_deadlock_is_not_changed(raw: dict[str, Any]) -> None:
    assert replaced(raw, Generation.V1BETA1) == raw


NOTES: tuple[dict[str, str], ...] = ({}, RACK, {NODE_SELECTOR: "true"}, {**RACK, NODE_SELECTOR: "true"})


@each("on_jobset, on_template, on_pods", product(NOTES, NOTES, NOTES))
def test_the_strategy_has_an_effect_beside_the_topology_alone(
    on_jobset: dict[str, str], on_template: dict[str, str], on_pods: dict[str, str]
) -> None:
    """What JobSet's webhook for pods reads are the annotations that JobSet gives them."""
    raw = jobset("js", rj("w", 1, 4, 4, annotations=on_template), mode="Gang", uid=FIXTURE_UID, annotations=on_jobset)
    raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"] = {"annotations": on_pods}
    assert bool(resolve(read(raw), ClusterRules()).errors) is deadlocks(raw)
    changed = replaced(raw)
    assert (affinity(changed) is not None) is deadlocks(raw)
    assert not deadlocks(changed)


@each("on_jobset, on_template", product(NOTES, NOTES))
def test_a_job_with_both_annotations_has_its_own_nodes(on_jobset: dict[str, str], on_template: dict[str, str]) -> None:
    """``constructJob`` of JobSet looks at the annotations of the Job."""
    raw = jobset("js", rj("w", 1, 4, 4, annotations=on_template), uid=FIXTURE_UID, annotations=on_jobset)
    (job,) = ChildJobs(raw, JOBSET_API_VERSION).of(raw["spec"]["replicatedJobs"][0])
    spec, both = job["spec"]["template"]["spec"], {EXCLUSIVE, NODE_SELECTOR} <= job["metadata"]["annotations"].keys()
    assert ("nodeSelector" in spec, "tolerations" in spec) == (both, both)


def deadlocks(raw: dict[str, Any]) -> bool:
    """Whether the followers of its Job wait for a node of their leader."""
    (job,) = ChildJobs(raw, JOBSET_API_VERSION).of(raw["spec"]["replicatedJobs"][0])
    pod = job["spec"]["template"]["metadata"]["annotations"]
    return EXCLUSIVE in pod and NODE_SELECTOR not in pod


def test_the_path_of_an_annotation_of_the_pod_template_is_named() -> None:
    raw = jobset("js", rj("w", 1, 4, 4), mode="Gang")
    raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"] = {"annotations": RACK}
    (error,) = resolve(read(raw), ClusterRules()).errors
    assert error.path == f"spec.replicatedJobs[0].template.spec.template.metadata.annotations[{EXCLUSIVE}]"


def test_a_replicated_job_that_is_placed_by_node_selector_keeps_its_annotations() -> None:
    by_selector = rj("s", 1, 4, 4, annotations={**RACK, NODE_SELECTOR: "true"})
    changed = replaced(jobset("js", rj("w", 1, 4, 4), by_selector, mode="Gang", annotations=RACK))
    notes = changed["spec"]["replicatedJobs"][1]["template"]["metadata"]["annotations"]
    assert notes == {NODE_SELECTOR: "true", **RACK}
    assert EXCLUSIVE not in changed["metadata"]["annotations"]
    assert affinity(changed, 1) is None
    assert resolve(read(changed), ClusterRules()).errors == ()


@each(
    ("pod", "field"),
    [
        ({"affinity": []}, "affinity"),
        ({"affinity": {"podAffinity": "x"}}, "affinity.podAffinity"),
        ({"affinity": {"podAntiAffinity": {REQUIRED: {}}}}, f"affinity.podAntiAffinity.{REQUIRED}"),
        ({"affinity": {"podAffinity": {REQUIRED: ["x"]}}}, f"affinity.podAffinity.{REQUIRED}[0]"),
    ],
)
def test_an_affinity_of_another_type_is_an_error_with_its_path(pod: dict[str, Any], field: str) -> None:
    raw = jobset("js", rj("w", 1, 4, 4, pod=pod), mode="Gang", annotations=RACK)
    conversion = replace_exclusive_topology(raw)
    assert conversion.value == raw
    assert conversion.errors[0].path == f"spec.replicatedJobs[0].template.spec.template.spec.{field}"


@each("template", [None, {}, {"spec": {}}, {"spec": {"template": None}}])
def test_a_template_that_is_missing_is_no_traceback(template: Any) -> None:
    raw = jobset("js", rj("w", 1, 4, 4), {"name": "x", "template": template}, mode="Gang", annotations=RACK)
    found = replaced(raw)
    assert affinity(found, 0) == affinity(found, 1)


def test_pods_that_require_others_already_are_left_to_a_person() -> None:
    own = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}
    pod = {"affinity": {"podAffinity": {REQUIRED: [own]}}}
    raw = jobset("js", rj("a", 1, 1, 1), rj("w", 1, 4, 4, pod=pod), mode="Gang", annotations=RACK)
    (error,) = replace_exclusive_topology(raw).errors
    assert error.path == f"spec.replicatedJobs[1].template.spec.template.spec.affinity.podAffinity.{REQUIRED}"
    assert "by hand" in error.detail
