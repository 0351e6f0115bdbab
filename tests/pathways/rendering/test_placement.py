"""Where the pods of a rendering go, by the scheduler's own filter, whatever it looks at first."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.gang.reasons import Reason
from gangctl.pathways.result import Profile, RenderingInputs
from tests.gang.pipeline import resolved
from tests.pathways.rendering.affinity import Node, Placed, Pod, feasible, pods_of, shunned
from tests.pathways.samples import annotated, pathways_job, template
from tests.pathways.strategies import PROPERTY
from tests.pathways.views import job_template, jobset_of, notes_on, pod, pod_template, rendered
from tests.rows import each

Object = dict[str, Any]

COLOCATE = {"deploymentMode": "colocate_head_with_workers"}
POOL = "cloud.google.com/gke-nodepool"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
STRATEGY = "alpha.jobset.sigs.k8s.io/node-selector"
ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
VMS = 2
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
OWN_AFFINITY = {"podAffinity": {REQUIRED: [{"labelSelector": {}, "topologyKey": "kubernetes.io/hostname"}]}}
SLICED = annotated(pathways_options='{"slicing": "Dynamic"}')
CUBE = {"type": "tpu7x-standard-4t", "topology": "4x4x4"}


def pools(count: int) -> list[Node]:
    """Node pools of one 2x2x2 slice each."""
    return [Node(f"n{pool}-{number}", f"p{pool}") for pool in range(count) for number in range(VMS)]


def schedule(data: st.DataObject, pods: list[Pod], nodes: list[Node]) -> Placed:
    """Pods in any order, each on any node that takes it, until none of those that are left is taken."""
    placed: Placed = {}
    left = data.draw(st.permutations(pods))
    while True:
        choices = ((each, feasible(each, nodes, placed)) for each in left)
        found = next(((each, allowed) for each, allowed in choices if allowed), None)
        if found is None:
            return placed
        placed[found[0]] = data.draw(st.sampled_from(found[1]))
        left = [each for each in left if each is not found[0]]


def pools_by_job(placed: Placed) -> dict[str, set[str]]:
    """The pools that each Job has pods in."""
    found = defaultdict(set)
    for item, node in placed.items():
        found[item.job].add(node.pool)
    return dict(found)


def workers_by_pool(placed: Placed) -> dict[str, set[str]]:
    """The workers' Jobs in each pool."""
    found = defaultdict(set)
    for item, node in placed.items():
        if item.replicated_job == "worker":
            found[node.pool].add(item.job)
    return dict(found)


@PROPERTY
@given(st.data(), st.integers(1, 3))
def test_each_slice_gets_a_separate_pool(data: st.DataObject, slices: int) -> None:
    workers = pods_of(jobset_of(pathways_job(workers={"numSlices": slices})), "worker")
    placed = schedule(data, workers, pools(slices))
    assert len(placed) == slices * VMS
    assert all(len(jobs) == 1 for jobs in workers_by_pool(placed).values())


@PROPERTY
@given(st.data(), st.integers(1, 3))
def test_a_colocated_head_ends_beside_workers_in_any_order_of_scheduling(data: st.DataObject, slices: int) -> None:
    jobset = jobset_of(pathways_job(workers={"numSlices": slices}, controller=COLOCATE))
    placed = schedule(data, pods_of(jobset), pools(slices))
    assert len(placed) == 1 + slices * VMS
    assert all(len(jobs) == 1 for jobs in workers_by_pool(placed).values())
    (head,) = [node for each, node in placed.items() if each.replicated_job == "pathways-head"]
    assert head.pool in workers_by_pool(placed)


@PROPERTY
@given(st.data())
def test_head_and_workers_of_one_slice_share_a_pool_among_several(data: st.DataObject) -> None:
    jobset = jobset_of(pathways_job(workers={"numSlices": 1}, controller=COLOCATE))
    placed = schedule(data, pods_of(jobset), pools(3))
    assert len(placed) == 1 + VMS
    assert len({node.pool for node in placed.values()}) == 1


@PROPERTY
@given(st.data(), st.tuples(st.booleans(), st.booleans()), st.sampled_from(["a", "b"]))
def test_jobsets_never_share_a_pool(data: st.DataObject, colocated: tuple[bool, bool], second: str) -> None:
    """Neither those with different names, nor those with one name in two namespaces."""
    pods: list[Pod] = []
    for name, beside in zip(("a", second), colocated, strict=True):
        metadata = {"name": name, "namespace": f"ns{len(pods)}"}
        controller = COLOCATE if beside else {}
        jobset = jobset_of(pathways_job(metadata=metadata, workers={"numSlices": 1}, controller=controller))
        pods += pods_of(jobset, *(() if beside else ("worker",)))
    placed = schedule(data, pods, pools(2))
    assert all(len(jobs) == 1 for jobs in workers_by_pool(placed).values())


@PROPERTY
@given(st.data())
def test_two_heads_never_share_a_pool(data: st.DataObject) -> None:
    heads: list[Pod] = []
    for namespace in ("x", "y"):
        jobset = jobset_of(pathways_job(metadata={"namespace": namespace}, controller=COLOCATE))
        heads += pods_of(jobset, "pathways-head")
    assert len({node.pool for node in schedule(data, heads, pools(2)).values()}) == 2


@PROPERTY
@given(st.data(), st.sampled_from(["a", "b"]))
def test_two_colocated_jobsets_do_not_deadlock(data: st.DataObject, second: str) -> None:
    """Neither those with different names, nor those with one name in two namespaces."""
    pods = []
    for namespace, name in (("x", "a"), ("y", second)):
        metadata = {"name": name, "namespace": namespace}
        pods += pods_of(jobset_of(pathways_job(metadata=metadata, workers={"numSlices": 1}, controller=COLOCATE)))
    assert len(schedule(data, pods, pools(2))) == 2 * (1 + VMS)


@PROPERTY
@given(st.data(), st.sampled_from(["a", "b"]))
def test_no_slice_takes_the_pool_in_which_another_jobsets_head_is(data: st.DataObject, second: str) -> None:
    """A slice of several may be elsewhere than its head, and must not be beside another one."""
    pods = []
    for namespace, name in (("x", "a"), ("y", second)):
        metadata = {"name": name, "namespace": namespace}
        pods += pods_of(jobset_of(pathways_job(metadata=metadata, controller=COLOCATE)))
    owners = defaultdict(set)
    for item, node in schedule(data, pods, pools(4)).items():
        owners[node.pool].add(item.namespace)
    assert all(len(namespaces) == 1 for namespaces in owners.values())


@PROPERTY
@given(st.data())
def test_a_pool_with_a_pod_of_another_jobset_is_left_alone(data: st.DataObject) -> None:
    labels = {f"jobset.sigs.k8s.io/{key}": "other" for key in ("jobset-name", "replicatedjob-name", "job-key")}
    labels["jobset.sigs.k8s.io/priority"] = "0"
    nodes = pools(2)
    for controller in (COLOCATE, {}):
        jobset = jobset_of(pathways_job(workers={"numSlices": 1}, controller=controller))
        placed: Placed = {Pod("elsewhere", labels, {}, wants_tpu=False): nodes[0]}
        for item in data.draw(st.permutations(pods_of(jobset, *(() if controller else ("worker",))))):
            placed[item] = data.draw(st.sampled_from(feasible(item, nodes, placed)))
        assert [node.pool for node in placed.values()].count(nodes[0].pool) == 1


@pytest.mark.parametrize("controller", [{}, COLOCATE])
def test_a_pod_of_another_priority_does_not_reserve_the_rest_of_a_pool(controller: Object) -> None:
    """Else the scheduler, which preempts on one node at a time, could never take a pool from those with less."""

    def pods(name: str, priority: str) -> list[Pod]:
        raw = pathways_job(name, workers={"numSlices": 1, "priorityClassName": priority}, controller=controller)
        return pods_of(jobset_of(raw), *(() if controller else ("worker",)))

    nodes = pools(1)
    placed: Placed = {pods("low", "low")[-1]: nodes[0]}
    for item in pods("high", "high"):
        assert nodes[1] in feasible(item, nodes, placed)
    for item in pods("equal", "low"):
        assert feasible(item, nodes, placed) == []


def test_a_colocated_head_avoids_pools_where_workers_of_another_priority_are() -> None:
    """They leave room for a head, which asks for no TPU, and none for the workers that would have to follow it."""
    raw = pathways_job("high", workers={"numSlices": 1, "priorityClassName": "high"})
    nodes = pools(2)
    placed: Placed = dict(zip(pods_of(jobset_of(raw), "worker"), nodes, strict=False))
    jobset = jobset_of(pathways_job("low", workers={"numSlices": 1}, controller=COLOCATE))
    (head,) = pods_of(jobset, "pathways-head")
    assert shunned(head, placed) == {nodes[0].pool}
    assert shunned(head, dict.fromkeys(pods_of(jobset, "worker"), nodes[0])) == set()


def test_pods_of_no_jobset_do_not_matter() -> None:
    daemon = Pod("kube-system", {"k8s-app": "device-plugin"}, {}, wants_tpu=False)
    nodes = pools(1)
    for item in pods_of(jobset_of(pathways_job(controller=COLOCATE))):
        assert feasible(item, nodes, {daemon: nodes[0]}) == nodes


def test_a_separate_head_has_no_affinity() -> None:
    assert "affinity" not in pod(jobset_of(pathways_job()), "pathways-head")
    assert "tolerations" not in pod(jobset_of(pathways_job()), "pathways-head")


def test_the_users_required_affinity_is_no_dead_end_for_a_colocated_head() -> None:
    """Kubernetes counts only pods that match all required terms: no worker is a cache, too."""
    mine = {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": "kubernetes.io/hostname"}
    refused = {"labelSelector": {"matchLabels": {"app": "noise"}}, "topologyKey": "kubernetes.io/hostname"}
    user = template(affinity={"podAffinity": {REQUIRED: [mine]}, "podAntiAffinity": {REQUIRED: [refused]}})
    affinity = pod(jobset_of(pathways_job(controller={**COLOCATE, "template": user})), "pathways-head")["affinity"]
    assert affinity["podAffinity"][REQUIRED] == [mine]
    (preferred,) = affinity["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["podAffinityTerm"]["topologyKey"] == POOL
    assert affinity["podAntiAffinity"][REQUIRED][0] == refused
    assert len(affinity["podAntiAffinity"][REQUIRED]) > 1


@each(
    ("job", "reported"),
    [
        (pathways_job(controller={**COLOCATE, "template": template(affinity=OWN_AFFINITY)}), True),
        (pathways_job(controller={**COLOCATE, "template": template(affinity={"podAffinity": {REQUIRED: []}})}), False),
        (pathways_job(controller={"template": template(affinity=OWN_AFFINITY)}), False),
        (pathways_job(controller=COLOCATE), False),
        (pathways_job(controller=COLOCATE, metadata=SLICED, workers=CUBE), True),
        (pathways_job(metadata=SLICED, workers=CUBE), False),
    ],
)
def test_a_colocated_head_that_may_be_apart_gives_a_notice(job: Object, *, reported: bool) -> None:
    notices = [each for each in rendered(job).notices if each.reason is Reason.HEAD_MAY_BE_APART]
    assert len(notices) == reported


def test_slices_that_are_no_pools_are_not_bound_to_pools() -> None:
    jobset = jobset_of(pathways_job(metadata=SLICED, workers=CUBE))
    assert "affinity" not in pod(jobset, "worker")
    assert pod(jobset, "worker")["nodeSelector"] == {ACCELERATOR: "tpu7x"}
    beside = pod(jobset_of(pathways_job(metadata=SLICED, workers=CUBE, controller=COLOCATE)), "pathways-head")
    assert set(beside["affinity"]) == {"podAffinity"}
    assert "requiredDuringSchedulingIgnoredDuringExecution" not in beside["affinity"]["podAffinity"]


@pytest.mark.parametrize("controller", [{}, COLOCATE])
def test_workers_tolerate_tpu_nodes(controller: Object) -> None:
    expected = {"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}
    assert pod(jobset_of(pathways_job(controller=controller)), "worker")["tolerations"] == [expected]


@each(
    ("given_tolerations", "added"),
    [
        ([], 1),
        ([{"key": "spot", "operator": "Exists"}], 1),
        ([{"key": "google.com/tpu", "operator": "Exists", "effect": "NoExecute"}], 1),
        ([{"key": "google.com/tpu", "operator": "Exists"}], 0),
        ([{"operator": "Exists"}], 0),
    ],
)
def test_a_colocated_head_tolerates_tpu_nodes_once(given_tolerations: list[Object], added: int) -> None:
    user = template(tolerations=given_tolerations)
    head = pod(jobset_of(pathways_job(controller={**COLOCATE, "template": user})), "pathways-head")
    assert head["tolerations"][: len(given_tolerations)] == given_tolerations
    assert len(head["tolerations"]) == len(given_tolerations) + added


def test_a_colocated_head_keeps_its_affinity_on_the_nodes_of_the_workers() -> None:
    user = template(nodeSelector={"disk": "ssd", TOPOLOGY: "4x4x4", "zone": "a"})
    workers = {"nodeSelector": {"cloud.google.com/gke-spot": "true", "zone": "b"}}
    options = annotated(pathways_options='{"headNodeSelector": {"pool": "cpu"}}')
    jobset = jobset_of(pathways_job(metadata=options, workers=workers, controller={**COLOCATE, "template": user}))
    assert pod(jobset, "pathways-head")["nodeSelector"] == {
        ACCELERATOR: "tpu-v5p-slice",
        TOPOLOGY: "2x2x2",
        "cloud.google.com/gke-spot": "true",
        "disk": "ssd",
        "zone": "a",
    }


@each(
    ("user", "expected"),
    [
        (template(), {"pool": "cpu"}),
        (template(nodeSelector={"disk": "ssd"}), {"disk": "ssd"}),
        (template(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}), None),
    ],
)
def test_the_option_chooses_the_heads_nodes_where_its_template_does_not(user: Object, expected: Object | None) -> None:
    options = annotated(pathways_options='{"headNodeSelector": {"pool": "cpu"}}')
    jobset = jobset_of(pathways_job(metadata=options, controller={"template": user}))
    assert pod(jobset, "pathways-head").get("nodeSelector") == expected


def test_the_slices_own_labels_win_over_the_workers_selector() -> None:
    workers = {"nodeSelector": {ACCELERATOR: "other", "cloud.google.com/reservation-name": "r"}}
    selector = pod(jobset_of(pathways_job(workers=workers)), "worker")["nodeSelector"]
    assert selector == {
        ACCELERATOR: "tpu-v5p-slice",
        TOPOLOGY: "2x2x2",
        "cloud.google.com/reservation-name": "r",
    }


def exclusive(jobset: Object) -> tuple[str | None, str | None]:
    """Exclusive placement of head and workers."""
    head, workers = (notes_on(job_template(jobset, name)).get(EXCLUSIVE) for name in ("pathways-head", "worker"))
    for name in ("pathways-head", "worker"):
        assert EXCLUSIVE not in notes_on(pod_template(jobset, name))
    return head, workers


ONE_VM = {"topology": "2x2x1"}
NO_API = RenderingInputs(gangs=False)
XPK = RenderingInputs(Profile.XPK)
HOST = "kubernetes.io/hostname"


@each(
    ("job", "setting", "expected"),
    [
        (pathways_job(), RenderingInputs(), (HOST, None)),
        (pathways_job(headless=True), RenderingInputs(), (HOST, None)),
        (pathways_job(workers=ONE_VM), RenderingInputs(), (HOST, POOL)),
        (pathways_job(metadata=annotated(gang_mode="Off")), RenderingInputs(), (HOST, POOL)),
        (pathways_job(metadata=annotated(gang_mode="Gang")), RenderingInputs(), (HOST, None)),
        (pathways_job(), NO_API, (HOST, POOL)),
        (pathways_job(), XPK, (HOST, POOL)),
        (pathways_job(metadata=annotated(pathways_worker_mode="Gang")), XPK, (HOST, None)),
        (pathways_job(controller=COLOCATE), RenderingInputs(), (None, None)),
        (pathways_job(controller=COLOCATE), NO_API, (None, None)),
        (pathways_job(metadata=annotated(pathways_options='{"slicing": "Dynamic"}')), RenderingInputs(), (HOST, None)),
    ],
)
def test_exclusive_placement_is_kept_where_it_cannot_deadlock(
    job: Object, setting: RenderingInputs, expected: tuple[str | None, str | None]
) -> None:
    rendering = rendered(job, setting)
    assert exclusive(dict(rendering.jobset)) == expected


def test_exclusive_placement_by_node_labels_works_with_a_gang() -> None:
    metadata = {"annotations": {STRATEGY: "true"}}
    jobset = jobset_of(pathways_job(metadata=metadata))
    assert exclusive(jobset) == (HOST, POOL)
    # JobSet reads it beside the topology only. Nodes for heads have no such labels.
    written = [notes_on(job_template(jobset, name)).get(STRATEGY) for name in ("pathways-head", "worker")]
    assert written == [None, "true"]
    assert resolved(jobset).errors == ()


@each(
    ("job", "setting", "reported"),
    [
        (pathways_job(), RenderingInputs(), True),
        (pathways_job(workers=ONE_VM), RenderingInputs(), False),
        (pathways_job(controller=COLOCATE), RenderingInputs(), False),
        (pathways_job(), NO_API, False),
        (pathways_job(), XPK, False),
    ],
)
def test_dropped_exclusive_placement_gives_a_notice(job: Object, setting: RenderingInputs, *, reported: bool) -> None:
    reasons = [each.reason for each in rendered(job, setting).notices]
    assert reasons.count(Reason.GANG_DISABLED) == reported


def test_xpks_workers_are_placed_by_exclusive_placement_alone() -> None:
    jobset = jobset_of(pathways_job(), XPK)
    assert "affinity" not in pod(jobset, "worker")
    assert pod(jobset, "pathways-head")["nodeSelector"] == {POOL: "cpu-np"}


def test_a_requested_gang_of_the_xpk_profile_is_placed_by_affinity() -> None:
    jobset = jobset_of(pathways_job(metadata=annotated(pathways_worker_mode="ReplicatedGang")), XPK)
    assert "affinity" in pod(jobset, "worker")
