"""Kueue's objects (``kueue.x-k8s.io/v1beta2``) from raw JSON to the small ones of :mod:`gangctl.kueue.objects`.

Reading is total: a value of the wrong type counts as absent, so that one invalid object cannot stop a cache.
Only an object without a name raises InputError: nothing could refer to it. Pod templates are not stored.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_args

from gangctl.api.jobset import gate_names
from gangctl.api.labelselector import Operator
from gangctl.api.meta import ADMISSION_GATED_BY, EXPECTED_DURATION
from gangctl.api.objects import controller_owner, integer_at, object_at, objects_at
from gangctl.api.requests import as_integers, pod_requests, times
from gangctl.errors import InputError
from gangctl.gang.validate import expected_seconds
from gangctl.kueue import objects
from gangctl.kueue.amounts import amount, quota_amount, read_amounts, read_quantity
from gangctl.kueue.names import PARENT

_OPERATORS: Final[dict[object, Operator]] = {arg: arg for arg in get_args(Operator)}


def read_selector(value: object) -> tuple[objects.SelectorTerm, ...] | None:
    """The terms of a ``metav1.LabelSelector``; an empty one (``{}``) selects everything.

    None if there is no valid selector: Kueue admits nothing by an invalid one.
    """
    if not isinstance(value, dict):
        return None
    labels = value.get("matchLabels")
    expressions = value.get("matchExpressions")
    if not isinstance(labels, dict | None) or not isinstance(expressions, list | None):
        return None
    terms = []
    for key, wanted in (labels or {}).items():
        if not isinstance(wanted, str):
            return None
        terms.append(objects.SelectorTerm(key, "In", (wanted,)))
    for entry in expressions or ():
        term = _read_term(entry)
        if term is None:
            return None
        terms.append(term)
    return tuple(terms)


def _read_term(entry: object) -> objects.SelectorTerm | None:
    if not isinstance(entry, dict):
        return None
    key, values = entry.get("key"), entry.get("values") or []
    written = entry.get("operator")
    operator = _OPERATORS.get(written) if isinstance(written, str) else None
    if not isinstance(key, str) or operator is None or not isinstance(values, list):
        return None
    if not all(isinstance(value, str) for value in values):
        return None
    return objects.SelectorTerm(key, operator, tuple(values))


_NOTHING: Final[Mapping[str, Any]] = {}
_STOPPED: Final[dict[str, objects.StopPolicy]] = {"Hold": "Hold", "HoldAndDrain": "HoldAndDrain"}


def _text(raw: Mapping[str, Any], key: str, default: str = "") -> str:
    value = raw.get(key)
    return value if isinstance(value, str) and value else default


def _name(raw: Mapping[str, Any], key: str) -> str:
    """A text that many objects share."""
    return sys.intern(_text(raw, key))


def _texts(raw: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = raw.get(key)
    return tuple(sys.intern(item) for item in (value if isinstance(value, list) else ()) if isinstance(item, str))


def _strings(raw: Mapping[str, Any], key: str) -> dict[str, str]:
    return {
        sys.intern(name): sys.intern(value) for name, value in object_at(raw, key).items() if isinstance(value, str)
    }


def _metadata(raw: Mapping[str, Any], kind: str) -> dict[str, Any]:
    metadata = raw.get("metadata")
    if not isinstance(metadata, dict) or not _text(metadata, "name"):
        raise InputError(f"a {kind} without metadata.name")
    return metadata


def _conditions(raw: Mapping[str, Any]) -> dict[str, objects.Condition]:
    return {
        _name(condition, "type"): objects.Condition(
            condition.get("status") == "True",
            _name(condition, "reason"),
            _text(condition, "message"),
            _text(condition, "lastTransitionTime"),
        )
        for condition in objects_at(object_at(raw, "status"), "conditions")
        if _text(condition, "type")
    }


def _stop_policy(spec: Mapping[str, Any]) -> objects.StopPolicy:
    return _STOPPED.get(_text(spec, "stopPolicy"), "None")


def _limit(raw: Mapping[str, Any], key: str, resource: str) -> int | None:
    quantity = read_quantity(raw.get(key))
    return None if quantity is None else quota_amount(resource, quantity)


def _flavor_quotas(raw: Mapping[str, Any]) -> objects.FlavorQuotas:
    resources = {}
    for resource in objects_at(raw, "resources"):
        name = _name(resource, "name")
        resources[name] = objects.Quota(
            max(0, _limit(resource, "nominalQuota", name) or 0),
            _limit(resource, "borrowingLimit", name),
            _limit(resource, "lendingLimit", name),
        )
    return objects.FlavorQuotas(_name(raw, "name"), resources)


def _orchestrated(raw: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Where the quotas are by which Kueue admits, and what computes those in ``status`` (KEP-12382)."""
    effective = object_at(raw, "status").get("effectiveQuotas")
    if not isinstance(effective, dict):
        return object_at(raw, "spec"), ""
    by = object_at(effective, "orchestratorRef")
    return effective, f'{_text(by, "kind")} "{_text(by, "name")}"'


def _groups(spec: Mapping[str, Any]) -> tuple[objects.ResourceGroup, ...]:
    return tuple(
        objects.ResourceGroup(
            _texts(group, "coveredResources"), tuple(_flavor_quotas(flavor) for flavor in objects_at(group, "flavors"))
        )
        for group in objects_at(spec, "resourceGroups")
    )


def _weight(spec: Mapping[str, Any]) -> float:
    """Weight for fair sharing, 1 if there is none."""
    weight = read_quantity(object_at(spec, "fairSharing").get("weight"))
    return 1.0 if weight is None else float(weight)


def read_cluster_queue(raw: Mapping[str, Any]) -> objects.ClusterQueue:
    """The projection of a ClusterQueue; InputError when it has no name."""
    metadata = _metadata(raw, "ClusterQueue")
    spec, status = object_at(raw, "spec"), object_at(raw, "status")
    fungibility, preemption = object_at(spec, "flavorFungibility"), object_at(spec, "preemption")
    borrowing = object_at(preemption, "borrowWithinCohort")
    quotas, orchestrator = _orchestrated(raw)
    return objects.ClusterQueue(
        name=_name(metadata, "name"),
        cohort=_name(spec, "cohortName"),
        groups=_groups(quotas),
        selector=read_selector(spec.get("namespaceSelector")),
        strategy="StrictFIFO" if spec.get("queueingStrategy") == "StrictFIFO" else "BestEffortFIFO",
        stop_policy=_stop_policy(spec),
        checks=tuple(
            objects.CheckUse(_name(admission_check, "name"), _texts(admission_check, "onFlavors"))
            for admission_check in objects_at(object_at(spec, "admissionChecksStrategy"), "admissionChecks")
        ),
        when_can_borrow=_text(fungibility, "whenCanBorrow", "MayStopSearch"),
        when_can_preempt=_text(fungibility, "whenCanPreempt", "TryNextFlavor"),
        within_queue=_text(preemption, "withinClusterQueue", "Never"),
        reclaim=_text(preemption, "reclaimWithinCohort", "Never"),
        while_borrowing=_text(borrowing, "policy", "Never") != "Never",
        while_borrowing_up_to=integer_at(borrowing, "maxPriorityThreshold")
        # A threshold of 0 is not the same as none; null is none.
        if borrowing.get("maxPriorityThreshold") is not None
        else None,
        prefers_preemption=fungibility.get("preference") == "PreemptionOverBorrowing",
        weight=_weight(spec),
        by_usage=object_at(spec, "admissionScope").get("admissionMode") == "UsageBasedAdmissionFairSharing",
        active=_conditions(raw).get("Active"),
        pending=integer_at(status, "pendingWorkloads"),
        deleting=bool(metadata.get("deletionTimestamp")),
        orchestrator=orchestrator,
    )


def read_reservations(raw: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """What Kueue says that the Workloads of a ClusterQueue hold, by flavor and resource, without what it does not say.

    It is no field of ClusterQueue: it changes with every admission, and only those who may not read Workloads need it.
    """
    reservations = {}
    for flavor in objects_at(object_at(raw, "status"), "flavorsReservation"):
        for resource in objects_at(flavor, "resources"):
            name, total = _name(resource, "name"), read_quantity(resource.get("total"))
            if total is not None:
                reservations[_name(flavor, "name"), name] = amount(name, total)
    return reservations


def read_cohort(raw: Mapping[str, Any]) -> objects.Cohort:
    """The projection of a Cohort; InputError when it has no name."""
    metadata = _metadata(raw, "Cohort")
    spec = object_at(raw, "spec")
    quotas, orchestrator = _orchestrated(raw)
    name, parent = _name(metadata, "name"), _name(spec, "parentName")
    return objects.Cohort(name, parent, _groups(quotas), _weight(spec), orchestrator)


def read_local_queue(raw: Mapping[str, Any]) -> objects.LocalQueue:
    """The projection of a LocalQueue; InputError when it has no name."""
    metadata = _metadata(raw, "LocalQueue")
    spec = object_at(raw, "spec")
    return objects.LocalQueue(
        namespace=_name(metadata, "namespace"),
        name=_name(metadata, "name"),
        cluster_queue=_name(spec, "clusterQueue"),
        stop_policy=_stop_policy(spec),
        active=_conditions(raw).get("Active"),
        pending=integer_at(object_at(raw, "status"), "pendingWorkloads"),
    )


def read_flavor(raw: Mapping[str, Any]) -> objects.ResourceFlavor:
    """The projection of a ResourceFlavor; InputError when it has no name."""
    metadata = _metadata(raw, "ResourceFlavor")
    spec = object_at(raw, "spec")
    return objects.ResourceFlavor(
        name=_name(metadata, "name"),
        node_labels=_strings(spec, "nodeLabels"),
        taints=tuple(objects_at(spec, "nodeTaints")),
        tolerations=tuple(objects_at(spec, "tolerations")),
        topology=_name(spec, "topologyName"),
    )


def read_topology(raw: Mapping[str, Any]) -> objects.Topology:
    """The projection of a Topology; InputError when it has no name."""
    levels = objects_at(object_at(raw, "spec"), "levels")
    return objects.Topology(
        _name(_metadata(raw, "Topology"), "name"), tuple(_name(level, "nodeLabel") for level in levels)
    )


def read_check(raw: Mapping[str, Any]) -> objects.AdmissionCheck:
    """The projection of an AdmissionCheck; InputError when it has no name."""
    metadata = _metadata(raw, "AdmissionCheck")
    spec = object_at(raw, "spec")
    written = spec.get("parameters")
    parameters = None
    if isinstance(written, dict):
        parameters = (_text(written, "apiGroup"), _text(written, "kind"), _text(written, "name"))
    return objects.AdmissionCheck(
        name=_name(metadata, "name"),
        controller=_text(spec, "controllerName"),
        parameters=parameters,
        generation=integer_at(metadata, "generation"),
        uid=_text(metadata, "uid"),
        active=_conditions(raw).get("Active"),
    )


def read_priority_class(raw: Mapping[str, Any]) -> objects.PriorityClass:
    """The projection of a WorkloadPriorityClass; InputError when it has no name."""
    return objects.PriorityClass(_name(_metadata(raw, "WorkloadPriorityClass"), "name"), integer_at(raw, "value"))


def read_pod_priority_class(raw: Mapping[str, Any]) -> objects.PodPriorityClass:
    """The projection of a PriorityClass of ``scheduling.k8s.io``; InputError when it has no name."""
    name = _name(_metadata(raw, "PriorityClass"), "name")
    policy = _text(raw, "preemptionPolicy", objects.PREEMPTS)
    return objects.PodPriorityClass(name, integer_at(raw, "value"), raw.get("globalDefault") is True, policy)


def _checks(status: Mapping[str, Any]) -> tuple[objects.CheckState, ...]:
    return tuple(
        objects.CheckState(
            _name(admission_check, "name"),
            _text(admission_check, "state", "Pending"),
            _text(admission_check, "message"),
            _text(admission_check, "lastTransitionTime"),
            integer_at(admission_check, "retryCount"),
        )
        for admission_check in objects_at(status, "admissionChecks")
    )


def _counts(entries: Iterable[Mapping[str, Any]], default: int) -> dict[str, int]:
    # DefaultPodSetName of Kueue.
    return {sys.intern(_text(entry, "name", "main")): max(0, integer_at(entry, "count", default)) for entry in entries}


def pods_left(pods: Mapping[str, int], reclaimable: Mapping[str, int]) -> dict[str, int]:
    """The pods of each podset that need quota, as podSetsCountsAfterReclaim of Kueue."""
    return {name: max(0, count - reclaimable.get(name, 0)) for name, count in pods.items()}


def _assignment(
    raw: Mapping[str, Any], pods: Mapping[str, int], reclaimable: Mapping[str, int]
) -> objects.PodSetAssignment:
    name = _name(raw, "name")
    requested = pods.get(name, 0)
    count = max(0, integer_at(raw, "count", requested))
    usage = read_amounts(raw.get("resourceUsage"))
    left = max(0, requested - reclaimable.get(name, 0))
    # Quota of reclaimable pods is free already (KEP-78), and resourceUsage has all pods.
    if left < count:
        # Exact: Kueue writes the request of one pod times count.
        usage = {resource: total // count * left for resource, total in usage.items()}
    return objects.PodSetAssignment(
        name,
        _strings(raw, "flavors"),
        {sys.intern(resource): total for resource, total in usage.items()},
        count,
    )


def read_expected(raw: Mapping[str, Any]) -> float | None:
    """How long an object declares to run, in seconds; None without a valid, positive duration."""
    return expected_seconds(_text(object_at(object_at(raw, "metadata"), "annotations"), EXPECTED_DURATION))


_UNDECLARED: Final = objects.RunTime()
_LARGEST: Final = 2**31 - 1
"""Of numbers in Kueue's API."""


def _seconds(raw: Mapping[str, Any], key: str, default: int = 0) -> int:
    return min(max(0, integer_at(raw, key, default)), _LARGEST)


def _run_time(raw: Mapping[str, Any]) -> objects.RunTime:
    spec, status = object_at(raw, "spec"), object_at(raw, "status")
    pods = [object_at(object_at(pod_set, "template"), "spec") for pod_set in objects_at(spec, "podSets")]
    graces = [_seconds(pod, "terminationGracePeriodSeconds", _UNDECLARED.grace) for pod in pods]
    run_time = objects.RunTime(
        _seconds(spec, "maximumExecutionTimeSeconds") or None,
        _seconds(status, "accumulatedPastExecutionTimeSeconds"),
        read_expected(raw),
        max(graces, default=_UNDECLARED.grace),
    )
    # Most declare nothing, and there are many of them.
    return _UNDECLARED if run_time == _UNDECLARED else run_time


def _requests(
    spec: Mapping[str, Any], status: Mapping[str, Any], pods: Mapping[str, int]
) -> dict[str, objects.Amounts]:
    """As Kueue has counted them when it tried the Workload; before that from its pod templates."""
    counted = objects_at(status, "resourceRequests")
    if counted:
        return {_name(entry, "name"): read_amounts(entry.get("resources")) for entry in counted}
    amounts: dict[str, objects.Amounts] = {}
    for pod_set in objects_at(spec, "podSets") if pods else ():
        name = sys.intern(_text(pod_set, "name", "main"))
        requests = as_integers(pod_requests(object_at(object_at(pod_set, "template"), "spec"))[0])
        amounts[name] = {sys.intern(resource): amount for resource, amount in times(requests, pods[name]).items()}
    return amounts


def read_workload(raw: Mapping[str, Any]) -> objects.QueuedWorkload:
    """The projection of a Kueue Workload; InputError when it has no name.

    ``usage`` of an assignment is the present usage, without ``status.reclaimablePods``;
    its ``count`` is the admitted one.
    """
    metadata = _metadata(raw, "Workload")
    spec, status = object_at(raw, "spec"), object_at(raw, "status")
    owner, priority_class = controller_owner(metadata) or _NOTHING, object_at(spec, "priorityClassRef")
    pods = _counts(objects_at(spec, "podSets"), 1)
    admission, requeue = object_at(status, "admission"), object_at(status, "requeueState")
    reclaimable = _counts(objects_at(status, "reclaimablePods"), 0)
    return objects.QueuedWorkload(
        namespace=_name(metadata, "namespace"),
        name=_text(metadata, "name"),
        uid=_text(metadata, "uid"),
        version=_text(metadata, "resourceVersion"),
        owner_kind=_name(owner, "kind"),
        owner_api_version=_name(owner, "apiVersion"),
        owner_name=_text(owner, "name"),
        owner_uid=_text(owner, "uid"),
        queue=_name(spec, "queueName"),
        priority=integer_at(spec, "priority"),
        priority_class=_name(priority_class, "name"),
        pod_priority=_text(priority_class, "kind") == "PriorityClass",
        active=spec.get("active") is not False,
        created=_text(metadata, "creationTimestamp"),
        deleting=bool(metadata.get("deletionTimestamp")),
        pods=pods,
        reclaimable=reclaimable or _NOTHING,
        has_variants=object_at(metadata, "labels").get(PARENT) == "true",
        divisible=any(
            integer_at(pod_set, "minCount", _LARGEST) < integer_at(pod_set, "count", 1)
            for pod_set in objects_at(spec, "podSets")
        ),
        # With quota its amounts are in `assignments`: to sum up its pod templates is not needed.
        requests=_requests(spec, status, {} if admission else pods_left(pods, reclaimable)),
        cluster_queue=_name(admission, "clusterQueue"),
        assignments=tuple(
            _assignment(pod_set_assignment, pods, reclaimable)
            for pod_set_assignment in objects_at(admission, "podSetAssignments")
        ),
        conditions=_conditions(raw),
        checks=_checks(status),
        requeue_at=_text(requeue, "requeueAt"),
        requeue_count=integer_at(requeue, "count"),
        gates=gate_names(_text(object_at(metadata, "annotations"), ADMISSION_GATED_BY)),
        cluster=_name(status, "clusterName"),
        nominated=_texts(status, "nominatedClusterNames"),
        run_time=_run_time(raw),
    )


def read_clusters(raw: Mapping[str, Any]) -> tuple[str, ...]:
    """The worker clusters of a MultiKueueConfig, in its order."""
    return _texts(object_at(raw, "spec"), "clusters")
