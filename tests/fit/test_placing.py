"""Verdicts on gangs that need domains, by queues, flavors, topologies, nodes and what runs on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.api.meta import EXCLUSIVE_TOPOLOGY
from gangctl.api.pods import REQUIRED as PODS_REQUIRED
from gangctl.fit.clusterstate import UNREAD, ClusterSnapshot, FitRequest, KnownNodes
from gangctl.fit.demands import Member, needs_of
from gangctl.fit.floor import NodeShape
from gangctl.fit.placing import Placing
from gangctl.fit.report import FitReport
from gangctl.fit.requests import podsets_of, requests_of
from gangctl.fit.search import Mode, Step
from gangctl.fit.verdict import fit
from gangctl.kueue.names import MULTIKUEUE, PROVISIONING
from gangctl.kueue.objects import (
    AdmissionCheck,
    Amounts,
    CheckUse,
    ClusterQueue,
    Placement,
    QueuedWorkload,
    ResourceFlavor,
    Topology,
)
from gangctl.kueue.queues import find_head
from tests.fit.asking import CONFIGURATION, NAMESPACE, QUEUE, REQUIRED, grouped, known, pods
from tests.fit.queues import group, holder
from tests.fit.waiters import NOW, waiting
from tests.jobsets import jobset
from tests.rows import each

HOST, RACK = "kubernetes.io/hostname", "rack"
FLAVOR = ResourceFlavor("f1", topology="t")
RACKS = Topology("t", (RACK, HOST))
ROOMY = {"f1": {"cpu": 99_000}}


def node(name: str, rack: str = "a", cpu: int = 1, **labels: str) -> NodeShape:
    return NodeShape(name, {HOST: name, RACK: rack, **labels}, (), {"cpu": cpu * 1000, "pods": 9})


def nodes(shapes: Sequence[NodeShape], used: Mapping[str, Amounts] | None = None) -> KnownNodes:
    return KnownNodes(shapes, used if used is not None else {})


ONE_CPU = {"image": "i", "resources": {"requests": {"cpu": "1"}}}
TWO_BY_TWO = [node("a0"), node("a1"), node("b0", "b"), node("b1", "b")]


def queue(*groups: Mapping[str, Mapping[str, int]], **fields: Any) -> ClusterQueue:
    return ClusterQueue("a", groups=tuple(group(each) for each in groups or (ROOMY,)), selector=(), **fields)


def cluster(*held: Any, at: KnownNodes | None = None, topology: Topology = RACKS, **more: Any) -> ClusterSnapshot:
    objects = [FLAVOR, topology, *held]
    if not any(isinstance(each, ClusterQueue) for each in held):
        objects.append(queue())
    return known(*objects, nodes=at or nodes(TWO_BY_TWO), topologies_known=True, **more)


def gang(*entries: dict[str, Any]) -> FitRequest:
    return FitRequest(jobset("js", *entries), NAMESPACE, {}, QUEUE)


def asking(count: int, name: str = "w", level: str | None = RACK, **requests: str) -> dict[str, Any]:
    entry = pods(name, count, **(requests or {"cpu": "1"}))
    if level is not None:
        entry["template"]["spec"]["template"]["metadata"] = {"annotations": {REQUIRED: level}}
    return entry


def placed(
    uid: str, hosts: Mapping[str, int], flavor: str = "f1", levels: tuple[str, ...] = (HOST,), **fields: Any
) -> QueuedWorkload:
    """A Workload with one CPU for each of its pods."""
    domains = {tuple(name.split("/")): count for name, count in hosts.items()}
    placement = Placement(frozenset({flavor}), levels, domains, {"cpu": 1000})
    return holder(uid, "a", {(flavor, "cpu"): sum(hosts.values()) * 1000}, placements=(placement,), **fields)


def gist(report: FitReport) -> tuple[str, str]:
    return report["verdict"], report["reason"]


FITS, WAITS, NEEDS = ("fits", "Fits"), ("not-now", "WaitsForTopology"), ("not-now", "NeedsNodes")


@each(
    ("operator", "host", "count", "fits"),
    [("In", "a0", 1, True), ("In", "a0", 2, False), ("NotIn", "a0", 2, True), ("NotIn", "a0", 3, False)],
)
def test_required_fields_of_nodes_choose_them_by_name(operator: str, host: str, count: int, *, fits: bool) -> None:
    fields = [{"key": "metadata.name", "operator": operator, "values": [host]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": fields}]}}
    entry = asking(count)
    entry["template"]["spec"]["template"]["spec"]["affinity"] = {"nodeAffinity": required}
    report = fit(gang(entry), cluster())
    assert gist(report) == (FITS if fits else NEEDS)
    assert not fits or f'in "{"b" if operator == "NotIn" else "a"}" (rack)' in report["message"]


@each(
    ("spec", "field"),
    [
        ({"containers": [{"name": "m", **ONE_CPU, "ports": [{"hostPort": 80}]}]}, "containers[*].ports[*].hostPort"),
        ({"affinity": {"podAntiAffinity": {PODS_REQUIRED: [{"topologyKey": HOST}]}}}, "affinity.podAntiAffinity"),
        ({"topologySpreadConstraints": [{"topologyKey": HOST}]}, "topologySpreadConstraints"),
    ],
)
def test_kueue_does_not_look_at_what_keeps_pods_from_nodes(spec: Mapping[str, Any], field: str) -> None:
    entry = asking(2)
    entry["template"]["spec"]["template"]["spec"] |= spec
    report = fit(gang(entry), cluster())
    assert gist(report) == ("unknown", "MayFit")
    assert [f"template.spec.{field}: which nodes Kueue chooses" in why for why in report["unknown"]] == [True]


def test_kueue_reads_taints_and_labels_of_single_hosts_alone() -> None:
    racks, picky = Topology("t", (RACK,)), asking(2)
    picky["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"role": "head"}
    assert gist(fit(gang(picky), cluster(topology=racks))) == ("unknown", "MayFit")
    assert gist(fit(gang(asking(2)), cluster(topology=racks))) == FITS
    # A node without what the pods request adds no room.
    taint = {"key": "cp", "effect": "NoSchedule"}
    for capacity, answer in (({"memory": 1, "pods": 9}, FITS), ({"cpu": 1000, "pods": 9}, ("unknown", "MayFit"))):
        control = NodeShape("c", {HOST: "c", RACK: "a"}, (taint,), capacity)
        assert gist(fit(gang(asking(2)), cluster(at=nodes([*TWO_BY_TWO, control]), topology=racks))) == answer


def test_only_the_nodes_of_the_flavor_that_it_gets_are_doubted() -> None:
    flavors = [ResourceFlavor(name, {"pool": pool}, topology="t") for name, pool in (("f1", "a"), ("f2", "b"))]
    shapes = [node("a0", pool="a", role="x"), node("a1", pool="a", role="x"), node("b0", "b", pool="b")]
    entry = asking(2)
    entry["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"role": "x"}
    both = queue({"f1": {"cpu": 99_000}, "f2": {"cpu": 99_000}})
    assert gist(fit(gang(entry), cluster(both, *flavors, at=nodes(shapes), topology=Topology("t", (RACK,))))) == FITS


def test_kueue_reads_the_selector_of_the_workers_for_their_leader() -> None:
    shapes = [node("a0"), node("a1"), node("a2"), node("b0", "b", role="head")]
    for selector, answer in (({"nodeSelector": {"role": "head"}}, ("unknown", "MayFit")), ({}, FITS)):
        both = grouped(pods("l", 1, selector, cpu="1"), "g"), grouped(pods("w", 2, cpu="1"), "g")
        assert gist(fit(gang(*both), cluster(at=nodes(shapes)))) == answer


def test_which_domain_an_exclusive_job_gets_is_not_known() -> None:
    asked = jobset("js", asking(2), annotations={EXCLUSIVE_TOPOLOGY: RACK})
    assert gist(fit(FitRequest(asked, NAMESPACE, {}, QUEUE), cluster())) == ("unknown", "MayFit")


class TestUsage:
    @pytest.mark.parametrize(
        ("held", "used", "count", "expected"),
        [
            ([], {}, 2, FITS),
            ([], {}, 3, NEEDS),
            ([placed("u", {"a0": 1})], {}, 2, FITS),
            ([placed("u", {"a0": 1, "b0": 1})], {}, 2, WAITS),
            ([], {"a0": {"cpu": 1}, "b1": {"cpu": 1000, "pods": 1}}, 2, WAITS),
            ([placed("u", {"gone": 5})], {}, 2, FITS),
        ],
    )
    def test_other_workloads_and_pods_take_room(
        self, held: list[QueuedWorkload], used: Mapping[str, Amounts], count: int, expected: tuple[str, str]
    ) -> None:
        assert gist(fit(gang(asking(count)), cluster(*held, at=nodes(TWO_BY_TWO, used)))) == expected

    @pytest.mark.parametrize("kept", [1, 2])
    def test_pods_that_kueue_placed_have_overhead_and_the_defaults_of_their_namespace(self, kept: int) -> None:
        template = pods("w", 1, {"runtimeClassName": "kata"})["template"]["spec"]["template"]
        placement = Placement(frozenset({"f1"}), (HOST,), {("a0",): 1}, {"cpu": 0}, template)
        held = holder("u", "a", {("f1", "cpu"): 1000}, placements=(placement,))
        limits = {"type": "Container", "defaultRequest": {"cpu": "600m"}}
        around: dict[str, Any] = {
            "limit_ranges": [{"metadata": {"name": "l", "namespace": "team"}, "spec": {"limits": [limits]}}],
            "runtime_classes": [{"metadata": {"name": "kata"}, "overhead": {"podFixed": {"cpu": "400m"}}}],
        }
        shapes = [node("a0", cpu=kept)]
        assert gist(fit(gang(asking(1)), cluster(held, at=nodes(shapes), **around))) == (WAITS, FITS)[kept - 1]
        assert gist(fit(gang(asking(1)), cluster(held, at=nodes(shapes)))) == FITS

    def test_usage_of_a_node_counts_for_every_flavor_that_has_it(self) -> None:
        both = queue({"f1": {"cpu": 99_000}, "f2": {"cpu": 99_000}})
        held = [both, ResourceFlavor("f2", topology="t"), placed("u", {"a0": 1, "b0": 1}, "f2")]
        assert gist(fit(gang(asking(2)), cluster(*held))) == WAITS
        apart = CONFIGURATION + "featureGates: {TASHandleOverlappingFlavors: false}\n"
        assert gist(fit(gang(asking(2)), cluster(*held, configuration=apart))) == FITS

    @each(
        ("gate", "entries", "reason"),
        [
            ("TASBalancedPlacement", (asking(1, "v"), asking(2)), "MayFit"),
            ("TASRespectNodeAffinityPreferred", (asking(1, "v"), asking(2)), "MayFit"),
            ("TASBalancedPlacement", (asking(2),), "Fits"),
        ],
    )
    def test_with_other_choices_of_domains_it_is_not_known_what_is_left_for_the_next_podset(
        self, gate: str, entries: Sequence[dict[str, Any]], reason: str
    ) -> None:
        text = f"{CONFIGURATION}featureGates: {{{gate}: true}}\n"
        assert fit(gang(*entries), cluster())["reason"] == "Fits"
        assert fit(gang(*entries), cluster(configuration=text))["reason"] == reason

    def test_what_kueue_has_placed_is_not_known_without_workloads(self) -> None:
        snapshot = cluster()
        snapshot.workloads_known = False
        assert fit(gang(asking(1)), snapshot)["unknown"] == [f"what pods use that Kueue has placed: {UNREAD}"]

    def test_usage_of_domains_that_are_no_nodes_counts_for_its_own_flavor(self) -> None:
        topology = Topology("t", (RACK,))
        held = [placed("u", {"a": 1, "b": 1}, levels=(RACK,))]
        assert gist(fit(gang(asking(2)), cluster(*held, topology=topology))) == WAITS
        assert gist(fit(gang(asking(1)), cluster(*held, topology=topology))) == FITS

    def test_a_node_that_is_not_ready_can_hold_pods_later(self) -> None:
        shapes = [node("a0"), NodeShape("a1", {HOST: "a1", RACK: "a"}, (), {"cpu": 1000, "pods": 9}, cordoned=True)]
        assert gist(fit(gang(asking(2)), cluster(at=nodes(shapes)))) == WAITS

    def test_requests_are_those_of_the_pod_and_not_those_that_quota_counts(self) -> None:
        excluding = CONFIGURATION + "resources: {excludeResourcePrefixes: [example.com/]}\n"
        entry = asking(1, cpu="1", **{"example.com/x": "1"})
        assert gist(fit(gang(entry), cluster(configuration=excluding))) == NEEDS


class TestFlavors:
    TWO = queue({"f1": {"cpu": 99_000}, "f2": {"cpu": 99_000}})

    def test_the_next_flavor_with_quota_is_tried(self) -> None:
        first = ResourceFlavor("f1", {"pool": "1"}, topology="t")
        second = ResourceFlavor("f2", {"pool": "2"}, topology="t")
        shapes = [node("a0", pool="1"), node("b0", "b", pool="2"), node("b1", "b", pool="2")]
        report = fit(gang(asking(2)), cluster(self.TWO, first, second, at=nodes(shapes)))
        assert gist(report) == FITS
        assert report["podSets"][0]["flavors"] == {"cpu": "f2"}
        assert [(row["flavor"], row["domain"], row["assigned"]) for row in report["domains"]] == [("f2", "b", 2)]

    def test_a_gang_waits_for_a_flavor_in_use_although_another_one_is_too_small(self) -> None:
        """Each podset has room in the first flavor, but not both."""
        first = ResourceFlavor("f1", {"pool": "1"}, topology="t")
        second = ResourceFlavor("f2", {"pool": "2"}, topology="t")
        shapes = [node("a0", pool="1"), node("b0", "b", pool="2"), node("b1", "b", pool="2")]
        two = gang(asking(1, "v"), asking(1, "w"))
        busy = cluster(self.TWO, first, second, placed("u", {"b0": 1}, "f2"), at=nodes(shapes))
        assert gist(fit(two, busy)) == WAITS
        assert gist(fit(two, cluster(self.TWO, first, second, at=nodes(shapes)))) == FITS

    def test_pods_that_ask_for_nothing_get_nodes_if_all_flavors_have_a_topology(self) -> None:
        assert gist(fit(gang(asking(5, level=None)), cluster())) == NEEDS
        mixed = queue({"f1": {"cpu": 99_000}, "f2": {"cpu": 99_000}})
        assert gist(fit(gang(asking(5, level=None)), cluster(mixed))) == FITS

    def test_pods_with_topologies_from_two_resource_groups_never_fit(self) -> None:
        held = [queue({"f1": {"cpu": 99_000}}, {"f2": {"gpu": 9}}), ResourceFlavor("f2", topology="t")]
        report = fit(gang(asking(1, cpu="1", gpu="1")), cluster(*held))
        assert gist(report) == ("never", "NeverNoFlavor")
        assert "a flavor with a topology from each of 2 resource groups" in report["message"]
        assert gist(fit(gang(asking(1)), cluster(*held))) == FITS

    def test_quota_is_checked_first(self) -> None:
        small = queue({"f1": {"cpu": 2000}})
        assert gist(fit(gang(asking(3)), cluster(small))) == ("never", "NeverExceedsQuota")
        busy = placed("u", {"a0": 1})
        assert gist(fit(gang(asking(2)), cluster(small, busy))) == ("not-now", "WaitsForQuota")

    def test_nodes_that_can_never_hold_a_gang_are_reported_before_quota_that_is_in_use(self) -> None:
        report = fit(gang(asking(3)), cluster(queue({"f1": {"cpu": 3000}}), placed("u", {"a0": 1})))
        assert gist(report) == NEEDS


class TestPreemption:
    LOWER = queue(within_queue="LowerPriority")

    def gist(self, *held: QueuedWorkload, queue: ClusterQueue = LOWER, count: int = 2) -> tuple[str, list[str]]:
        report = fit(gang(asking(count)), cluster(queue, *held))
        return report["reason"], [each["name"] for each in report["preempts"]]

    def test_workloads_are_preempted_for_their_domain(self) -> None:
        low, high = placed("low", {"a0": 1}, priority=-1), placed("high", {"b0": 1})
        assert self.gist(low, high) == ("NeedsPreemption", ["w-low"])
        assert self.gist(low, high, queue=queue()) == ("WaitsForTopology", [])

    def test_only_those_in_the_domain_are_preempted(self) -> None:
        lowest, low = placed("lowest", {"b0": 1}, priority=-2), placed("low", {"a0": 1}, priority=-1)
        high = placed("high", {"b1": 1})
        assert self.gist(lowest, low, high) == ("NeedsPreemption", ["w-low"])

    def test_nothing_is_preempted_for_a_domain_that_is_too_small_or_in_use_by_pods(self) -> None:
        low = placed("low", {"a0": 1}, priority=-1)
        assert self.gist(low, count=3) == ("NeedsNodes", [])
        used = {"a1": {"cpu": 1000}, "b0": {"cpu": 1000}}
        report = fit(gang(asking(2)), cluster(self.LOWER, low, at=nodes(TWO_BY_TWO, used)))
        assert (gist(report), report["preempts"]) == (WAITS, [])

    def test_quota_and_domain_are_freed_together(self) -> None:
        small = queue({"f1": {"cpu": 3000}}, within_queue="LowerPriority")
        low, lower = placed("low", {"a0": 1}, priority=-1), placed("lower", {"b0": 1}, priority=-2)
        assert self.gist(low, lower, queue=small) == ("NeedsPreemption", ["w-lower"])


class TestChecks:
    @pytest.mark.parametrize(
        ("controller", "unknown"),
        [
            (MULTIKUEUE, "MultiKueue"),
            (PROVISIONING, "which nodes are added for it (ProvisioningRequest)"),
        ],
        ids=["MultiKueue", "ProvisioningRequest"],
    )
    def test_nodes_here_do_not_decide_if_others_follow(self, controller: str, unknown: str) -> None:
        held = [queue(checks=(CheckUse("c"),)), AdmissionCheck("c", controller)]
        report = fit(gang(asking(9)), cluster(*held))
        assert report["verdict"] == ("fits" if controller == MULTIKUEUE else "unknown")
        assert unknown in "; ".join(report["unknown"])
        assert report["domains"] == []

    def test_nodes_are_added_only_for_the_flavors_of_the_check(self) -> None:
        held = [queue(checks=(CheckUse("c", ("f2",)),)), AdmissionCheck("c", PROVISIONING)]
        assert gist(fit(gang(asking(9)), cluster(*held))) == NEEDS


class TestPlacing:
    def test_the_usage_of_some_workloads_can_be_left_out(self) -> None:
        there = cluster(placed("u", {"a0": 1, "b0": 1}), placed("v", {"b1": 1}))
        own = queue()
        members = [
            Member(podset, requests_of(podset, there.surroundings(NAMESPACE)), {"cpu": 1000})
            for podset in podsets_of(gang(asking(2)).jobset)
        ]
        needs = needs_of(members, own, lambda *_: "")
        placing = Placing(members, needs, own, there)
        steps = [Step("f1", Mode.FIT)]
        assert "no domain of rack has room for 2 pods" in placing.place(steps).problem
        assert placing.fits(steps, without={"u"})
        assert not placing.fits(steps, without={"v"})
        assert placing.fits(steps, without={"u", "v"})


def test_a_pod_larger_than_each_node_of_a_rack_is_no_certain_fit() -> None:
    """Without a level of hosts Kueue takes the sum of the nodes."""
    racks = cluster(topology=Topology("t", (RACK,)))
    assert gist(fit(gang(asking(1, cpu="2")), racks)) == ("unknown", "MayFit")
    assert gist(fit(gang(asking(2)), racks)) == FITS


@given(
    rooms=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    running=st.lists(st.integers(1, 3), max_size=3),
    size=st.integers(1, 3),
    count=st.integers(1, 3),
)
def test_pods_fit_a_rack_wherever_in_it_the_pods_are_that_kueue_placed(
    rooms: list[int], running: list[int], size: int, count: int
) -> None:
    """Without a level of hosts Kueue does not know their nodes: all ways to place them are tried here."""
    held = [
        holder(
            f"v{index}",
            "a",
            {("f1", "cpu"): cpu * 1000},
            placements=(Placement(frozenset({"f1"}), (RACK,), {("a",): 1}, {"cpu": cpu * 1000}),),
        )
        for index, cpu in enumerate(running)
    ]
    at = nodes([node(f"a{index}", cpu=cpu) for index, cpu in enumerate(rooms)])
    report = fit(gang(asking(count, cpu=str(size))), cluster(*held, at=at, topology=Topology("t", (RACK,))))

    left = [list(rooms)]
    for cpu in running:
        left = [
            [free - cpu * (index == chosen) for index, free in enumerate(each)]
            for each in left
            for chosen in range(len(rooms))
            if each[chosen] >= cpu
        ]
    if left and gist(report) == FITS:
        assert all(sum(free // size for free in each) >= count for each in left)
    if left and not running and sum(free // size for free in rooms) >= count:
        assert gist(report) == FITS


def test_pods_that_kueue_placed_in_a_rack_leave_room_where_none_of_its_nodes_is_scarce() -> None:
    racks, at = Topology("t", (RACK,)), nodes([node("a0", cpu=2), node("a1", cpu=2)])
    for running, answer in ((1, FITS), (2, ("unknown", "MayFit"))):
        busy = cluster(placed("v", {"a": running}, levels=(RACK,)), at=at, topology=racks)
        assert gist(fit(gang(asking(1, cpu="2")), busy)) == answer


def test_domains_that_kueue_may_keep_for_the_head_of_another_queue_are_no_certain_fit() -> None:
    other = ClusterQueue("b", groups=(group(ROOMY),), selector=(), strategy="StrictFIFO")
    for tried, answer in (([waiting("v", 2)], ("unknown", "MayFit")), ([], FITS)):
        heads = {"b": find_head(other, tried, NOW)}
        behind = replace(gang(asking(1)), head=lambda of, known=heads: known.get(of.name))  # type: ignore[misc]
        assert gist(fit(behind, cluster(queue(), other))) == answer
