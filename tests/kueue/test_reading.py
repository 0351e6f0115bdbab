"""Kueue's objects, complete and malformed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.errors import InputError
from gangctl.kueue.amounts import UNLIMITED, read_amounts, read_quantity
from gangctl.kueue.objects import (
    AdmissionCheck,
    CheckState,
    CheckUse,
    ClusterQueue,
    Cohort,
    Condition,
    FlavorQuotas,
    LocalQueue,
    PodSetAssignment,
    PriorityClass,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    RunTime,
    SelectorTerm,
    Topology,
)
from gangctl.kueue.reading import (
    read_check,
    read_cluster_queue,
    read_clusters,
    read_cohort,
    read_flavor,
    read_local_queue,
    read_priority_class,
    read_selector,
    read_topology,
    read_workload,
)
from tests.rows import each
from tests.strategies import PROPERTY, hostile_json, mangled

SINCE = "2026-01-01T00:00:00Z"
ACTIVE = {"type": "Active", "status": "True", "reason": "Ready", "message": "ok", "lastTransitionTime": SINCE}

QUOTAS = [
    {
        "coveredResources": ["cpu", "memory"],
        "flavors": [
            {
                "name": "f1",
                "resources": [
                    {"name": "cpu", "nominalQuota": "1500m", "borrowingLimit": 2},
                    {"name": "memory", "nominalQuota": "1Gi", "lendingLimit": "0"},
                ],
            }
        ],
    }
]
READ_QUOTAS = (
    ResourceGroup(
        ("cpu", "memory"),
        (FlavorQuotas("f1", {"cpu": Quota(1500, 2000, None), "memory": Quota(2**30, None, 0)}),),
    ),
)

CLUSTER_QUEUE: dict[str, Any] = {
    "metadata": {"name": "a", "deletionTimestamp": SINCE},
    "spec": {
        "cohortName": "team",
        "resourceGroups": QUOTAS,
        "namespaceSelector": {"matchLabels": {"team": "a"}},
        "queueingStrategy": "StrictFIFO",
        "stopPolicy": "Hold",
        "admissionChecksStrategy": {"admissionChecks": [{"name": "c", "onFlavors": ["f1"]}, {"name": "d"}]},
        "flavorFungibility": {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "MayStopSearch"},
        "preemption": {
            "withinClusterQueue": "LowerPriority",
            "reclaimWithinCohort": "Any",
            "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": -7},
        },
        "fairSharing": {"weight": "500m"},
    },
    "status": {"conditions": [ACTIVE], "pendingWorkloads": 3},
}

WORKLOAD: dict[str, Any] = {
    "metadata": {
        "namespace": "t",
        "name": "jobset-js-1",
        "uid": "u",
        "resourceVersion": "7",
        "creationTimestamp": SINCE,
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "x"},
            {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "js", "uid": "j", "controller": True},
        ],
    },
    "spec": {
        "queueName": "q",
        "priority": -5,
        "priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "low"},
        "podSets": [
            {"name": "driver", "count": 1, "template": {"spec": {"containers": []}}},
            {"name": "workers", "count": 4, "template": {}},
        ],
    },
    "status": {
        "conditions": [{**ACTIVE, "type": "QuotaReserved"}, {"type": "Admitted", "status": "False"}],
        "admission": {
            "clusterQueue": "a",
            "podSetAssignments": [
                {"name": "driver", "flavors": {"cpu": "f1"}, "resourceUsage": {"cpu": "500m"}, "count": 1},
                {
                    "name": "workers",
                    "flavors": {"cpu": "f1", "memory": "f1"},
                    "resourceUsage": {"cpu": "4", "memory": "4Gi"},
                    "count": 4,
                },
            ],
        },
        "admissionChecks": [
            {"name": "c", "state": "Retry", "message": "later", "lastTransitionTime": SINCE, "retryCount": 2},
            {"name": "d"},
        ],
        "resourceRequests": [{"name": "driver", "resources": {"cpu": "500m", "memory": "1500m"}}],
        "requeueState": {"count": 3, "requeueAt": SINCE},
        "nominatedClusterNames": ["west", 7, "east"],
        "clusterName": "west",
    },
}


def named(name: str = "n", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


class TestClusterQueue:
    def test_an_object_with_every_field_is_read(self) -> None:
        assert read_cluster_queue(CLUSTER_QUEUE) == ClusterQueue(
            name="a",
            cohort="team",
            groups=READ_QUOTAS,
            selector=(SelectorTerm("team", "In", ("a",)),),
            strategy="StrictFIFO",
            stop_policy="Hold",
            checks=(CheckUse("c", ("f1",)), CheckUse("d")),
            when_can_borrow="TryNextFlavor",
            when_can_preempt="MayStopSearch",
            within_queue="LowerPriority",
            reclaim="Any",
            while_borrowing=True,
            while_borrowing_up_to=-7,
            weight=0.5,
            active=Condition(status=True, reason="Ready", message="ok", since=SINCE),
            pending=3,
            deleting=True,
        )

    def test_omitted_fields_have_the_defaults_of_the_api(self) -> None:
        assert read_cluster_queue(named()) == ClusterQueue("n")

    def test_preemption_is_read_as_kueue_defaults_it(self) -> None:
        found = read_cluster_queue(
            named(
                preemption={"borrowWithinCohort": {"policy": "Never", "maxPriorityThreshold": 0}},
                flavorFungibility={"preference": "PreemptionOverBorrowing"},
                fairSharing={"weight": "many"},
            )
        )
        assert found == ClusterQueue("n", while_borrowing_up_to=0, prefers_preemption=True)

    def test_a_threshold_of_null_is_none(self) -> None:
        policy = {"policy": "LowerPriority", "maxPriorityThreshold": None}
        made = read_cluster_queue(named(preemption={"borrowWithinCohort": policy}))
        assert made == ClusterQueue("n", while_borrowing=True)

    @each(
        ("written", "nominal"),
        [
            ("9223372036854775", UNLIMITED),
            ("9223372036854774", 9223372036854774000),
            ("1E", UNLIMITED),
            (-3, 0),
            ("many", 0),
            (0.5, 500),
        ],
    )
    def test_quotas_above_int64_are_unlimited(self, written: object, nominal: int) -> None:
        resource = {"name": "cpu", "nominalQuota": written}
        groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [resource]}]}]
        (group,) = read_cluster_queue(named(resourceGroups=groups)).groups
        assert group.flavors[0].resources["cpu"] == Quota(nominal)


class TestSelector:
    @each(
        ("written", "terms"),
        [
            (None, None),
            ({}, ()),
            ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, (SelectorTerm("a", "Exists"),)),
            (
                {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b", "c"]}]},
                (SelectorTerm("a", "NotIn", ("b", "c")),),
            ),
            ({"matchExpressions": [{"key": "a", "operator": "Near"}]}, None),
            ({"matchExpressions": [{"key": "a", "operator": ["In"]}]}, None),
            ({"matchExpressions": [{"key": 1, "operator": "In"}]}, None),
            ({"matchExpressions": [{"key": "a", "operator": "In", "values": [1]}]}, None),
            ({"matchExpressions": ["a"]}, None),
            ({"matchLabels": {"a": 1}}, None),
            ({"matchLabels": []}, None),
            ([], None),
        ],
    )
    def test_an_invalid_selector_selects_nothing(self, written: object, terms: object) -> None:
        assert read_selector(written) == terms


def test_a_cohort_is_read() -> None:
    weighted = named(parentName="root", resourceGroups=QUOTAS, fairSharing={"weight": 2})
    assert read_cohort(weighted) == Cohort("n", "root", READ_QUOTAS, 2.0)
    assert read_cohort(named()) == Cohort("n")


def test_a_local_queue_is_read() -> None:
    raw = {
        "metadata": {"namespace": "t", "name": "q"},
        "spec": {"clusterQueue": "a", "stopPolicy": "HoldAndDrain"},
        "status": {"pendingWorkloads": 2, "conditions": [{**ACTIVE, "status": "False"}]},
    }
    active = Condition(status=False, reason="Ready", message="ok", since=SINCE)
    assert read_local_queue(raw) == LocalQueue("t", "q", "a", "HoldAndDrain", active, 2)
    assert read_local_queue(named()) == LocalQueue("", "n", "")


def test_a_flavor_is_read() -> None:
    taint = {"key": "gpu", "effect": "NoSchedule"}
    raw = named(nodeLabels={"a": "b", "c": 1}, nodeTaints=[taint, 3], tolerations=[taint], topologyName="racks")
    assert read_flavor(raw) == ResourceFlavor("n", {"a": "b"}, (taint,), (taint,), "racks")
    assert read_flavor(named()) == ResourceFlavor("n")


def test_a_topology_is_read() -> None:
    raw = named(levels=[{"nodeLabel": "rack"}, 3, {"nodeLabel": "host"}])
    assert read_topology(raw) == Topology("n", ("rack", "host"))
    assert read_topology(named()) == Topology("n")


def test_an_admission_check_is_read() -> None:
    raw = {
        "metadata": {"name": "c", "uid": "u", "generation": 2},
        "spec": {"controllerName": "x/y", "parameters": {"apiGroup": "g", "kind": "K", "name": "p"}},
        "status": {"conditions": [ACTIVE]},
    }
    active = Condition(status=True, reason="Ready", message="ok", since=SINCE)
    assert read_check(raw) == AdmissionCheck("c", "x/y", ("g", "K", "p"), 2, "u", active)
    assert read_check(named(controllerName="x")) == AdmissionCheck("n", "x")


def test_the_worker_clusters_of_multikueue_are_read_in_their_order() -> None:
    assert read_clusters(named(clusters=["west", None, "east"])) == ("west", "east")
    assert read_clusters({}) == ()


def test_a_priority_class_is_read() -> None:
    assert read_priority_class({"metadata": {"name": "low"}, "value": -7}) == PriorityClass("low", -7)


class TestWorkload:
    def test_an_object_with_every_field_is_read(self) -> None:
        found = read_workload(WORKLOAD)
        assert (found.namespace, found.name, found.uid, found.version, found.created) == (
            "t",
            "jobset-js-1",
            "u",
            "7",
            SINCE,
        )
        assert (found.owner_api_version, found.owner_kind, found.owner_name, found.owner_uid) == (
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            "js",
            "j",
        )
        assert (found.queue, found.priority, found.priority_class, found.active) == ("q", -5, "low", True)
        assert (found.pod_priority, found.has_variants) == (False, False)
        assert found.pods == {"driver": 1, "workers": 4}
        assert found.requests == {"driver": {"cpu": 500, "memory": 2}}
        assert found.cluster_queue == "a"
        assert found.assignments == (
            PodSetAssignment("driver", {"cpu": "f1"}, {"cpu": 500}, 1),
            PodSetAssignment("workers", {"cpu": "f1", "memory": "f1"}, {"cpu": 4000, "memory": 2**32}, 4),
        )
        assert found.holds("QuotaReserved")
        assert not found.holds("Admitted")
        assert found.checks == (CheckState("c", "Retry", "later", SINCE, 2), CheckState("d", "Pending"))
        assert (found.requeue_at, found.requeue_count, found.deleting) == (SINCE, 3, False)
        assert (found.cluster, found.nominated) == ("west", ("west", "east"))

    def test_a_workload_with_variants_is_read(self) -> None:
        labels = {"kueue.x-k8s.io/concurrent-admission-parent": "true"}
        assert read_workload({**WORKLOAD, "metadata": {**WORKLOAD["metadata"], "labels": labels}}).has_variants

    def test_a_waiting_workload_is_read(self) -> None:
        found = read_workload(named(active=False, podSets=[{}]))
        assert found.pods == {"main": 1}
        assert not found.active
        assert (found.cluster_queue, found.assignments, found.owner_kind) == ("", (), "")
        assert (found.cluster, found.nominated) == ("", ())

    @each(("given_back", "cpu"), [(0, 4000), (1, 3000), (3, 1000), (4, 0), (9, 0)])
    def test_reclaimed_pods_hold_no_quota(self, given_back: int, cpu: int) -> None:
        raw = copy.deepcopy(WORKLOAD)
        raw["status"]["reclaimablePods"] = [{"name": "workers", "count": given_back}]
        driver, workers = read_workload(raw).assignments
        assert (driver.usage["cpu"], workers.usage["cpu"], workers.count) == (500, cpu, 4)

    def test_a_partially_admitted_workload_reclaims_at_most_its_pods(self) -> None:
        raw = copy.deepcopy(WORKLOAD)
        raw["status"]["reclaimablePods"] = [{"name": "workers", "count": 1}]
        raw["status"]["admission"]["podSetAssignments"][1] |= {"count": 2, "resourceUsage": {"cpu": "2"}}
        assert read_workload(raw).assignments[1].usage == {"cpu": 2000}

    @each(("minimum", "divisible"), [({}, False), ({"minCount": 3}, False), ({"minCount": 2}, True)])
    def test_one_with_a_lower_minimum_may_be_admitted_in_part(self, minimum: dict[str, int], divisible: bool) -> None:
        assert read_workload(named(podSets=[{"count": 3, **minimum}])).divisible is divisible

    def test_pod_templates_are_not_kept(self) -> None:
        assert "containers" not in repr(read_workload(WORKLOAD))


def test_what_a_workload_asks_for_is_counted_from_its_pods_before_kueue_has_tried_it() -> None:
    pod = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "500m"}, "limits": {"gpu": "2"}}}]}
    spec = {"podSets": [{"name": "workers", "count": 3, "template": {"spec": pod}}]}
    found = read_workload({"metadata": {"name": "w"}, "spec": spec})
    assert found.requests == {"workers": {"cpu": 1500, "memory": 0, "gpu": 6}}
    tried = {"resourceRequests": [{"name": "workers", "resources": {"cpu": "3"}}]}
    assert read_workload({"metadata": {"name": "w"}, "spec": spec, "status": tried}).requests == {
        "workers": {"cpu": 3000}
    }
    ended = {"reclaimablePods": [{"name": "workers", "count": 2}]}
    again = read_workload({"metadata": {"name": "w"}, "spec": spec, "status": ended})
    assert (again.requests["workers"]["cpu"], again.pods) == (500, {"workers": 3})
    admitted = {"admission": {"clusterQueue": "a", "podSetAssignments": []}}
    assert read_workload({"metadata": {"name": "w"}, "spec": spec, "status": admitted}).requests == {}


class TestRunTime:
    def test_what_a_workload_declares_is_read(self) -> None:
        pods = [{"template": {"spec": {"terminationGracePeriodSeconds": each}}} for each in (5, 90)]
        raw = {
            "metadata": {"name": "w", "annotations": {"gangctl.dev/expected-duration": "1h30m"}},
            "spec": {"maximumExecutionTimeSeconds": 7200, "podSets": pods},
            "status": {"accumulatedPastExecutionTimeSeconds": 60},
        }
        assert read_workload(raw).run_time == RunTime(7200, 60, 5400, 90)

    @each("written", ["", "2", "two hours", "-1h", "0", "9" * 400 + "h", 7, None])
    def test_a_text_that_is_no_duration_is_none(self, written: object) -> None:
        raw = {"metadata": {"name": "w", "annotations": {"gangctl.dev/expected-duration": written}}}
        assert read_workload(raw).run_time == RunTime()

    @each("written", [0, -1, "60", True, None])
    def test_no_positive_number_is_no_maximum(self, written: object) -> None:
        raw = {"metadata": {"name": "w"}, "spec": {"maximumExecutionTimeSeconds": written}}
        assert read_workload(raw).run_time == RunTime()

    def test_huge_numbers_are_capped(self) -> None:
        raw = {"metadata": {"name": "w"}, "spec": {"maximumExecutionTimeSeconds": 10**5000}}
        assert read_workload(raw).run_time.maximum == 2**31 - 1


class TestAmounts:
    def test_amounts_are_rounded_up(self) -> None:
        assert read_amounts({"cpu": "0.1001", "memory": "1500m", "gpu": 3, "odd": [], "off": True}) == {
            "cpu": 101,
            "memory": 2,
            "gpu": 3,
        }
        assert read_amounts(None) == {}

    @each("value", [float("nan"), float("inf"), "x", None, False])
    def test_an_invalid_quantity_is_refused(self, value: object) -> None:
        assert read_quantity(value) is None

    def test_huge_amounts_are_capped(self) -> None:
        assert read_amounts({"gpu": 10**5000, "cpu": 1e300}) == {"gpu": UNLIMITED, "cpu": UNLIMITED}


READERS: list[Callable[[dict[str, Any]], object]] = [
    read_cluster_queue,
    read_cohort,
    read_local_queue,
    read_flavor,
    read_check,
    read_priority_class,
    read_workload,
]


@each("reader", READERS)
@each("raw", [{}, {"metadata": None}, {"metadata": {}}, {"metadata": {"name": 3}}, {"metadata": []}])
def test_an_object_without_a_name_is_refused(reader: Callable[[dict[str, Any]], object], raw: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"without metadata\.name"):
        reader(raw)


@PROPERTY
@given(mangled(st.sampled_from([CLUSTER_QUEUE, WORKLOAD]).map(copy.deepcopy)), st.sampled_from(READERS), hostile_json)
def test_any_object_with_a_name_is_read(
    raw: dict[str, Any], reader: Callable[[dict[str, Any]], object], odd: object
) -> None:
    metadata = raw.get("metadata")
    raw["metadata"] = {**(metadata if isinstance(metadata, dict) else {}), "name": "n"}
    raw["extra"] = odd
    assert getattr(reader(raw), "name", "") == "n"
