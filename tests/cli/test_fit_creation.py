"""A gang whose pods the API server refuses does not fit: classes, LimitRanges, ResourceQuotas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gangctl.api.meta import GANGS
from tests.cli.fitfiles import (
    POD_CLASS,
    PRIORITY,
    fit,
    gangs,
    kueue,
    queues,
)
from tests.cli.kueueobjects import QUEUE, Object, flavor
from tests.jobsets import jobset, rj
from tests.rows import each

KATA = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "kata"}, "handler": "kata"}
SMALL = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "small", "namespace": "t"},
    "spec": {"limits": [{"type": "Container", "max": {"cpu": "500m"}}]},
}
OF_PODS = {
    **SMALL,
    "spec": {"limits": [{"type": "Pod", "min": {"memory": "1Gi"}, "maxLimitRequestRatio": {"memory": "2"}}]},
}
AS_A_WHOLE = {"resources": {"limits": {"memory": "2Gi"}}, "containers": [{"name": "c", "image": "i"}]}
LIMITED = {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2", "x.com/gpu": "1"}}}]}
ASKING = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]}
TOO_LITTLE = {**ASKING, "resources": {"limits": {"cpu": "1"}}}
RAISED = {**LIMITED, "resources": {"requests": {"cpu": "3"}}}

# The overhead of its class does not count for the QoS class of a pod.
HEAVY = {**KATA, "overhead": {"podFixed": {"cpu": "250m"}}}
BARE = {"runtimeClassName": "kata", "containers": [{"name": "c", "image": "i"}]}
POOLED = {"nodeSelector": {"pool": "a"}}
SELECTING = {**KATA, "scheduling": {"nodeSelector": {"pool": "b"}}}
KATA_POD = {"runtimeClassName": "kata"}
OVERHEAD = {"overhead": {"cpu": "1"}}
POLITE = {"preemptionPolicy": "Never", "priorityClassName": "low"}


def pooled(pool: str, *more: Object) -> list[Object]:
    """The nodes of the flavor are those of a pool."""
    return [flavor("f", nodeLabels={"pool": pool}), *queues(*more)[1:]]


def quota(hard: Object, used: Object | None = None, **spec: Any) -> Object:
    metadata = {"name": "team", "namespace": "t"}
    spec = {"hard": hard, **spec}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec, "status": {"used": used}}


PER_CLASS = "gpus.deviceclass.resource.k8s.io/devices"
COUNTED_CLAIMS = "count/resourceclaims.resource.k8s.io"
CLAIMING = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "two"}]}


def sharing() -> Object:
    """Four pods of a gang that has their claim as its own."""
    made = gangs("", pod=CLAIMING)
    gang = {"name": "g", "replicatedJobs": ["w"], **CLAIMING}
    made["metadata"]["annotations"] = {GANGS: json.dumps([gang])}
    return made


def claim_template(**request: Any) -> Object:
    metadata = {"name": "two", "namespace": "t"}
    spec = {"spec": {"devices": {"requests": [{"name": "r", **request}]}}}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}


TEMPLATE = claim_template(exactly={"deviceClassName": "gpus", "count": 2})
EITHER = claim_template(
    firstAvailable=[
        {"name": "one", "deviceClassName": "gpus", "count": 2},
        {"name": "all", "deviceClassName": "gpus", "allocationMode": "All"},
    ]
)


def for_class(operator: str, *values: str) -> Object:
    scope = {"scopeName": "PriorityClass", "operator": operator, "values": list(values)}
    return {"matchExpressions": [scope]}


def followed(status: str) -> Object:
    """The gang, and as many pods after it."""
    made = gangs("")
    first = made["spec"]["replicatedJobs"][0]
    made["spec"]["replicatedJobs"].append(
        {**first, "name": "later", "dependsOn": [{"name": first["name"], "status": status}]}
    )
    return made


def across(part: str, *, weight: int = 0, **more: Any) -> Object:
    """A pod spec with a term, a preferred one if it has a weight."""
    term = {"topologyKey": "zone", "labelSelector": {}, **more}
    if weight:
        preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": term}]}
        return {"affinity": {part: preferred}}
    return {"affinity": {part: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


CROSSING = {"matchExpressions": [{"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}]}
ACROSS = quota({"pods": "0"}, scopeSelector=CROSSING)


def with_spec(**spec: Any) -> Object:
    made = gangs()
    made["spec"].update(spec)
    return made


def mounting(*names: str, **spec: Any) -> Object:
    made = with_spec(**spec)
    (container,) = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
    container["volumeMounts"] = [{"name": name, "mountPath": f"/{name}"} for name in names]
    return made


def existing() -> Object:
    made = gangs()
    made["metadata"]["uid"] = "u"
    return made


def replicated(**options: bool) -> Object:
    """Two gangs of two pods."""
    made = jobset("train", rj("w", 2, 2, 2, cpu="1", mode="ReplicatedGang"), options=json.dumps(options))
    made["metadata"]["labels"] = {QUEUE: "q"}
    return made


def apart() -> Object:
    """Without a gang."""
    made = jobset("train", rj("w", 1, 4, 4, cpu="1"))
    made["metadata"]["labels"] = {QUEUE: "q"}
    return made


GROUPS = "count/podgroups.scheduling.k8s.io"
COMPOSITES = "count/compositepodgroups.scheduling.k8s.io"
OF_KUEUE = "count/workloads.kueue.x-k8s.io"


def volume_claim(name: str, storage: str, **spec: Any) -> Object:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}}
    return {"metadata": {"name": name}, "spec": {**asked, **spec}}


def storing(**bounds: str) -> Object:
    entry = {key: {"storage": amount} for key, amount in bounds.items()}
    return {**SMALL, "spec": {"limits": [{"type": "PersistentVolumeClaim", **entry}]}}


CACHED = mounting(
    "a",
    "b",
    volumeClaimPolicies=[
        {"templates": [volume_claim("a", "2Gi", storageClassName="gold")]},
        {"templates": [volume_claim("b", "3Gi")]},
    ],
)
PER_STORAGE = "gold.storageclass.storage.k8s.io/"
BEHIND_OTHERS = "WaitsForResourceQuota", "has 0 of 5 services left, and it needs 1: the API server refuses its Service"


@each(
    ("asked", "there", "reason", "words"),
    [
        # Classes
        (
            gangs("", pod={"runtimeClassName": "none"}),
            queues(KATA),
            "PodsRefused",
            'RuntimeClass "none" does not exist',
        ),
        (gangs(pod={"runtimeClassName": "none"}), queues(KATA), "PodsRefused", 'RuntimeClass "none" does not exist'),
        (gangs("", pod={"runtimeClassName": "kata"}), queues(KATA), "NotQueued", ""),
        (gangs("", pod={"runtimeClassName": "kata"}), queues(), "NotQueued", ""),
        (gangs("", pod={"priorityClassName": "none"}), queues(POD_CLASS), "PodsRefused", "create it, or name another"),
        (gangs("", pod={"priorityClassName": "none"}), queues(), "NotQueued", ""),
        (
            gangs(pod={"priorityClassName": "none"}, labels={PRIORITY: "high"}),
            queues(POD_CLASS, kueue("WorkloadPriorityClass", "high")),
            "PodsRefused",
            'PriorityClass "none" does not exist',
        ),
        (gangs("", pod={**BARE, **POOLED}), queues(SELECTING), "PodsRefused", "nodeSelector[pool] of"),
        (gangs("", pod={**BARE, "nodeSelector": {"pool": "b"}}), queues(SELECTING), "NotQueued", ""),
        (gangs(pod=KATA_POD), pooled("a", SELECTING), "PodsRefused", '"w" is a, and its class gives b'),
        (gangs(pod=KATA_POD), pooled("b", SELECTING), "Fits", ""),
        (gangs("", pod={**BARE, **OVERHEAD}), queues(HEAVY), "PodsRefused", "is cpu 1, and its class gives cpu 250m"),
        (gangs("", pod={**BARE, "overhead": {"cpu": "0.25"}}), queues(HEAVY), "NotQueued", ""),
        (gangs("", pod={**BARE, **OVERHEAD}), queues(KATA), "PodsRefused", "its class gives none"),
        (gangs("", pod=OVERHEAD), queues(KATA), "PodsRefused", "overhead of"),
        (gangs("", pod=OVERHEAD), queues(), "NotQueued", ""),
        (gangs("", pod={"priority": 7}), queues(POD_CLASS), "PodsRefused", "is 7, and its class gives 0"),
        (gangs("", pod={"priority": 7}), queues(), "NotQueued", ""),
        (gangs("", pod={"priority": 1, "priorityClassName": "low"}), queues(POD_CLASS), "NotQueued", ""),
        (gangs("", pod={"preemptionPolicy": "Never"}), queues(POD_CLASS), "PodsRefused", "gives PreemptLowerPriority"),
        (gangs("", pod=POLITE), queues({**POD_CLASS, "preemptionPolicy": "Never"}), "NotQueued", ""),
        (gangs("", pod=POLITE), queues(POD_CLASS), "PodsRefused", "preemptionPolicy of"),
        # LimitRanges
        (gangs(""), queues(SMALL), "PodsRefused", "cpu, and the API server refuses such pods"),
        (gangs(), queues(SMALL), "NeverMisconfigured", ""),
        (gangs(""), queues({**SMALL, "metadata": {"name": "small", "namespace": "u"}}), "NotQueued", ""),
        (gangs("", pod=AS_A_WHOLE), queues(OF_PODS), "NotQueued", ""),
        (gangs("", pod=TOO_LITTLE), queues(), "PodsRefused", "the pod requests more than its limit of cpu"),
        # ResourceQuotas
        (gangs(), queues(quota({"pods": "4", "requests.cpu": "4"})), "Fits", ""),
        (gangs(), queues(quota({"pods": "3"})), "PodsRefused", "allows 3 of pods, and it needs 4"),
        (gangs(), queues(quota({"requests.cpu": "3900m"})), "PodsRefused", "allows 3.9 of requests.cpu"),
        (
            gangs(),
            queues(quota({"cpu": "6"}, {"cpu": "2500m"})),
            "WaitsForResourceQuota",
            "has 3.5 of 6 cpu left, and it needs 4",
        ),
        (gangs(), queues({**quota({"pods": "3"}), "metadata": {"name": "team", "namespace": "u"}}), "Fits", ""),
        (gangs(), queues(quota({"memory": "9Gi"})), "PodsRefused", "have no request of it"),
        (gangs(), queues(quota({"limits.cpu": "9"})), "PodsRefused", "have no limit of it"),
        (gangs("", pod=LIMITED), queues(quota({"limits.cpu": "8", "cpu": "8"})), "NotQueued", ""),
        (gangs("", pod=LIMITED), queues(quota({"limits.cpu": "7"})), "PodsRefused", "allows 7 of limits.cpu"),
        (gangs("", pod=RAISED), queues(quota({"limits.cpu": "12"})), "NotQueued", ""),
        (gangs("", pod=RAISED), queues(quota({"limits.cpu": "11"})), "PodsRefused", "needs 12"),
        (gangs("", pod=LIMITED), queues(quota({"requests.x.com/gpu": "3"})), "PodsRefused", "needs 4"),
        (gangs(), queues(quota({"count/jobs.batch": "0"})), "PodsRefused", "count/jobs.batch"),
        (gangs(), queues(quota({"requests.storage": "0", "count/secrets": "0"})), "Fits", ""),
        (gangs(), queues(quota({"pods": "3"}, scopes=["BestEffort"])), "Fits", ""),
        (gangs("", pod=BARE), queues(HEAVY, quota({"pods": "3"}, scopes=["BestEffort"])), "PodsRefused", "pods"),
        (gangs("", pod=BARE), queues(HEAVY, quota({"pods": "3"}, scopes=["NotBestEffort"])), "NotQueued", ""),
        (gangs(), queues(quota({"pods": "3"}, scopes=["NotBestEffort", "NotTerminating"])), "PodsRefused", ""),
        (gangs(), queues(quota({"pods": "3"}, scopes=["Terminating"])), "Fits", ""),
        (gangs(), queues(POD_CLASS, quota({"pods": "3"}, scopeSelector=for_class("In", "low"))), "Fits", ""),
        (gangs(), queues(POD_CLASS, quota({"pods": "3"}, scopeSelector=for_class("DoesNotExist"))), "PodsRefused", ""),
        (
            gangs("", pod={"priorityClassName": "low"}),
            queues(POD_CLASS, quota({"pods": "3"}, scopeSelector=for_class("In", "low"))),
            "PodsRefused",
            "",
        ),
        (gangs(), queues(quota({"pods": "3"}, scopeSelector=for_class("In", "low"))), "MayFit", "priorityclasses"),
        (gangs(), queues(quota({"pods": "4"}, scopeSelector=for_class("In", "low"))), "Fits", ""),
        (gangs(), queues(quota({"memory": "9Gi"}, scopeSelector=for_class("In", "low"))), "MayFit", "no request"),
        (
            gangs("", pod={"priorityClassName": "high"}),
            queues(quota({"pods": "3"}, scopeSelector=for_class("In", "low"))),
            "NotQueued",
            "",
        ),
        # Claims of devices
        (gangs("", pod=CLAIMING), queues(TEMPLATE, quota({PER_CLASS: "8"})), "NotQueued", ""),
        (
            gangs("", pod=CLAIMING),
            queues(TEMPLATE, quota({PER_CLASS: "7"})),
            "PodsRefused",
            f"allows 7 of {PER_CLASS}, and it needs 8: the API server refuses claims of some of its pods",
        ),
        (
            gangs("", pod=CLAIMING),
            queues(quota({COUNTED_CLAIMS: "3"})),
            "PodsRefused",
            "needs 4",
        ),
        (gangs("", pod=CLAIMING), queues(EITHER, quota({PER_CLASS: "128"})), "NotQueued", ""),
        (gangs("", pod=CLAIMING), queues(EITHER, quota({PER_CLASS: "127"})), "PodsRefused", "needs 128"),
        (
            gangs("", pod=CLAIMING),
            queues(TEMPLATE, quota({PER_CLASS: "9"}, {PER_CLASS: "2"})),
            "WaitsForResourceQuota",
            "has 7 of 9",
        ),
        # One claim for each gang, if the cluster makes claims of gangs.
        (sharing(), queues(TEMPLATE, quota({COUNTED_CLAIMS: "2"})), "MayFit", "whether its gangs share claims"),
        (sharing(), queues(TEMPLATE, quota({COUNTED_CLAIMS: "4"}, {COUNTED_CLAIMS: "2"})), "MayFit", "it needs 4"),
        (sharing(), queues(TEMPLATE, quota({PER_CLASS: "7"})), "MayFit", "if not, ResourceQuota"),
        (sharing(), queues(TEMPLATE, quota({COUNTED_CLAIMS: "4"})), "NotQueued", ""),
        (sharing(), queues(TEMPLATE, quota({"pods": "3"})), "PodsRefused", "needs 4"),
        (gangs("", pod=across("podAffinity", namespaces=["u"])), queues(ACROSS), "PodsRefused", "it needs 4"),
        (gangs("", pod=across("podAntiAffinity", namespaceSelector={})), queues(ACROSS), "PodsRefused", ""),
        (gangs("", pod=across("podAntiAffinity", weight=1, namespaceSelector={})), queues(ACROSS), "PodsRefused", ""),
        (gangs("", pod=across("podAffinity", weight=1, namespaces=[])), queues(ACROSS), "NotQueued", ""),
        (gangs("", pod=across("podAffinity")), queues(ACROSS), "NotQueued", ""),
        (gangs(""), queues(ACROSS), "NotQueued", ""),
        # What JobSet creates before the Jobs
        (gangs(), queues(quota({"services": "5"}, {"services": "4"})), "Fits", ""),
        (gangs(), queues(quota({"services": "5"}, {"services": "5"})), *BEHIND_OTHERS),
        (gangs(), queues(quota({"count/services": "0"})), "PodsRefused", "refuses its Service"),
        (gangs(), queues(quota({"services": "0"}, scopes=["NotTerminating"])), "Fits", ""),
        (gangs(), queues(quota({"services": "5", "services.nodeports": "0"}, {"services": "6"})), *BEHIND_OTHERS),
        (gangs(), queues(quota({"services.loadbalancers": "1"}, {"services.loadbalancers": "2"})), "Fits", ""),
        (with_spec(network={"enableDNSHostnames": False}), queues(quota({"services": "0"})), "Fits", ""),
        (with_spec(network={"subdomain": "n"}), queues(quota({"services": "0"})), "MayFit", "whether Service n exists"),
        (with_spec(network={"subdomain": "n"}), queues(quota({"services": "1"})), "Fits", ""),
        (existing(), queues(quota({"services": "5"}, {"services": "5"})), "Fits", ""),
        (existing(), queues(quota({"services": "0"})), "Fits", ""),
        (CACHED, queues(quota({"persistentvolumeclaims": "2", "requests.storage": "5Gi"})), "Fits", ""),
        (CACHED, queues(storing(min="1Gi", max="3Gi")), "Fits", ""),
        (CACHED, queues(storing(max="2Gi")), "PodsRefused", 'claim "b" of volumeClaimPolicies is above the max'),
        (CACHED, queues(storing(min="3Gi")), "PodsRefused", 'claim "a" of volumeClaimPolicies is below the min'),
        (CACHED, queues(quota({"persistentvolumeclaims": "1"})), "PodsRefused", "refuses its PersistentVolumeClaims"),
        (
            CACHED,
            queues(quota({"requests.storage": "9Gi"}, {"requests.storage": "5Gi"})),
            "WaitsForResourceQuota",
            "requests.storage left, and it needs",
        ),
        (CACHED, queues(quota({f"{PER_STORAGE}requests.storage": "1Gi"})), "PodsRefused", "needs 2"),
        (CACHED, queues(quota({f"{PER_STORAGE}persistentvolumeclaims": "1"})), "MayFit", "gold is the default"),
        (CACHED, queues(quota({f"{PER_STORAGE}persistentvolumeclaims": "2"})), "Fits", ""),
        (gangs(), queues(quota({"count/jobsets.jobset.x-k8s.io": "0"})), "PodsRefused", "refuses the JobSet"),
        (existing(), queues(quota({"count/jobsets.jobset.x-k8s.io": "0"})), "Fits", ""),
        # What gangctl and Kueue create
        (gangs(), queues(quota({GROUPS: "0"})), "PodsRefused", "refuses its PodGroups"),
        (gangs(), queues(quota({GROUPS: "4"}, {GROUPS: "3"})), "Fits", ""),
        (gangs(), queues(quota({GROUPS: "4"}, {GROUPS: "4"})), "WaitsForResourceQuota", "it needs 1"),
        (replicated(), queues(quota({GROUPS: "2", COMPOSITES: "0"})), "Fits", ""),
        (replicated(), queues(quota({GROUPS: "1"})), "PodsRefused", "it needs 2"),
        (replicated(composite=True), queues(quota({COMPOSITES: "0"})), "PodsRefused", "its CompositePodGroup"),
        (gangs(), queues(quota({"count/workloads.scheduling.k8s.io": "0"})), "PodsRefused", "refuses its Workload;"),
        (apart(), queues(quota({"count/workloads.scheduling.k8s.io": "0"})), "Fits", ""),
        (gangs(), queues(quota({OF_KUEUE: "2"}, {OF_KUEUE: "2"})), "WaitsForResourceQuota", "its Workload of Kueue"),
        (gangs(""), queues(quota({OF_KUEUE: "0"})), "NotQueued", ""),
        (existing(), queues(quota({GROUPS: "2", OF_KUEUE: "2"}, {GROUPS: "2", OF_KUEUE: "2"})), "Fits", ""),
        (existing(), queues(quota({GROUPS: "0"})), "PodsRefused", "refuses its PodGroups"),
        # Stages
        (followed("Complete"), queues(quota({"pods": "4", "count/pods": "8"})), "NotQueued", ""),
        (followed("Complete"), queues(quota({"count/pods": "7"})), "PodsRefused", ""),
        (followed("Ready"), queues(quota({"pods": "4"})), "PodsRefused", "needs 8"),
        # What never fits is never.
        (gangs(), queues(quota({"pods": "3"}), cpu=2), "NeverExceedsQuota", ""),
    ],
)
def test_pods_that_the_api_server_refuses_do_not_fit(
    asked: Object, there: list[Object], reason: str, words: str, tmp_path: Path
) -> None:
    answer = fit(tmp_path, asked, *there)
    assert answer.json["reason"] == reason, answer.json["message"]
    assert words in answer.json["message"]
    refused = reason in {"PodsRefused", "WaitsForResourceQuota"}
    verdicts = {"NeverMisconfigured": "never", "NeverExceedsQuota": "never", "MayFit": "unknown"}
    assert answer.json["verdict"] == ("not-now" if refused else verdicts.get(reason, "fits"))


@each(("account", "words"), [("trainer", "kubectl get sa trainer"), ("default", ""), ("", "")])
def test_a_service_account_that_pods_name_is_not_looked_at(account: str, words: str, tmp_path: Path) -> None:
    report = fit(tmp_path, gangs(pod={"serviceAccountName": account}), *queues()).json
    assert (report["verdict"], bool(report["notLookedAt"])) == ("fits", bool(words))
    assert words in "".join(report["notLookedAt"])
