"""Random quotas and gangs, as raw objects that Kueue's webhooks take: a tree of cohorts with one JobSet each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from tests.jobsets import jobset, rj

Object = dict[str, Any]

API_VERSION: Final = "kueue.x-k8s.io/v1beta2"
QUEUE: Final = "kueue.x-k8s.io/queue-name"
PRIORITY: Final = "kueue.x-k8s.io/priority-class"
GPU: Final = "example.com/gpu"
_TAINT: Final = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
_TOLERATION: Final = {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}
_LIMITS: Final = (0, 1, 2, 4, 8)


@dataclass(frozen=True)
class Running:
    """A workload with one pod that has quota; ``usage`` is by flavor and resource."""

    name: str
    queue: str
    priority: int
    usage: Mapping[tuple[str, str], str]
    since: str

    @property
    def raw(self) -> Object:
        """Kueue's Workload, in a LocalQueue that does not exist."""
        requests = {resource: amount for (_, resource), amount in self.usage.items() if resource != "pods"}
        container = {"name": "main", "image": "none", "resources": {"requests": requests}}
        pod = {"restartPolicy": "Never", "containers": [container]}
        podset = {"name": "main", "count": 1, "template": {"spec": pod}}
        spec = {"queueName": "none", "podSets": [podset], "priority": self.priority}
        return kueue("Workload", self.name, spec)

    def status(self, check: str) -> Object:
        """The status of an admitted one."""
        kept = {"lastTransitionTime": self.since, "message": "", "status": "True"}
        return {
            "admission": {
                "clusterQueue": self.queue,
                "podSetAssignments": [
                    {
                        "name": "main",
                        "count": 1,
                        "flavors": {resource: flavor for flavor, resource in self.usage},
                        "resourceUsage": {resource: amount for (_, resource), amount in self.usage.items()},
                    }
                ],
            },
            "admissionChecks": [{"name": check, "state": "Ready", "lastTransitionTime": self.since, "message": ""}],
            "conditions": [
                {**kept, "type": "QuotaReserved", "reason": "QuotaReserved"},
                {**kept, "type": "Admitted", "reason": "Admitted"},
            ],
        }


@dataclass
class Tree:
    """Objects whose names begin with ``name``; the JobSet goes into the first of the queues."""

    name: str
    flavors: list[Object] = field(default_factory=list)
    cohorts: list[Object] = field(default_factory=list)
    queues: list[Object] = field(default_factory=list)
    jobset: Object = field(default_factory=dict)
    running: list[Running] = field(default_factory=list)


def kueue(kind: str, name: str, spec: Object) -> Object:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def tree(seed: int, *, check: str = "") -> Tree:
    """One tree; ``check`` is an AdmissionCheck of its queues, which holds back what has quota."""
    random = Random(seed)
    made = Tree(f"t{seed}")
    flavors = [f"{made.name}-f{index}" for index in range(random.randint(1, 3))]
    made.flavors = [_flavor(random, name) for name in flavors]
    names = _cohorts(random, made, flavors)
    for index in range(random.randint(1, 3) if names else 1):
        made.queues.append(
            _queue(random, f"{made.name}-q{index}", flavors, random.choice(names) if names else "", check)
        )
    made.jobset = _jobset(random, made.name)
    return made


PRIORITIES: Final = (0, 10, 20)


def priority_class(value: int) -> Object:
    """A WorkloadPriorityClass."""
    named = {"metadata": {"name": f"p{value}"}, "value": value}
    return {"apiVersion": API_VERSION, "kind": "WorkloadPriorityClass", **named}


def busy_tree(seed: int, *, check: str, fair: bool) -> Tree:
    """A tree in which workloads run, with policies of preemption; ``fair`` with weights of fair sharing."""
    made = tree(seed, check=check)
    random = Random(f"{seed}-running")
    for each in made.queues:
        each["spec"]["preemption"] = _preemption(random, cohort="cohortName" in each["spec"])
        if random.random() < 0.3:
            each["spec"]["flavorFungibility"] = {
                "whenCanBorrow": "TryNextFlavor",
                "whenCanPreempt": "TryNextFlavor",
                "preference": random.choice(["BorrowingOverPreemption", "PreemptionOverBorrowing"]),
            }
    for each in [*made.queues, *made.cohorts] if fair else ():
        if random.random() < 0.5:
            each["spec"]["fairSharing"] = {"weight": random.choice(["0", "500m", "2"])}
    made.jobset = _modest(random, made.name)
    # Most of them in other queues, which therefore borrow.
    for queue, most in zip(made.queues, (4, 6, 6), strict=False):
        for _ in range(random.randint(most // 4, most)):
            made.running.append(_running(random, made, queue))
    return made


def _modest(random: Random, name: str) -> Object:
    """A JobSet that most queues could take if nothing ran, at any of their flavors."""
    jobs = []
    for index in range(random.randint(1, 2)):
        requests = {"cpu": random.choice(["1", "1500m", "2"])}
        if random.random() < 0.15:
            requests["memory"] = "1Gi"
        container = {"name": "main", "image": "none", "resources": {"requests": requests, "limits": dict(requests)}}
        pods = random.randint(2, 4)
        jobs.append(rj(f"w{index}", 1, pods, pods, pod={"containers": [container], "tolerations": [_TOLERATION]}))
    made = jobset(name, *jobs)
    del made["metadata"]["namespace"]
    made["metadata"]["labels"] = {QUEUE: name, PRIORITY: f"p{random.choice(PRIORITIES[1:])}"}
    return made


def _preemption(random: Random, *, cohort: bool) -> Object:
    policy: Object = {
        "withinClusterQueue": random.choice(["Never", "LowerPriority", "LowerPriority", "LowerOrNewerEqualPriority"]),
        "reclaimWithinCohort": random.choice(["Never", "LowerPriority", "LowerPriority", "Any", "Any"]),
    }
    if cohort and policy["reclaimWithinCohort"] != "Never" and random.random() < 0.5:
        policy["borrowWithinCohort"] = {"policy": "LowerPriority"}
        if random.random() < 0.5:
            policy["borrowWithinCohort"]["maxPriorityThreshold"] = random.choice(PRIORITIES)
    return policy


def _running(random: Random, made: Tree, queue: Object) -> Running:
    usage = {}
    for group in queue["spec"]["resourceGroups"]:
        flavor = random.choice(group["flavors"])["name"]
        for resource in group["coveredResources"]:
            if resource == "cpu" or random.random() < 0.3:
                usage[flavor, resource] = "1" if resource == "pods" else _amount(resource, random.randint(1, 5))
    name = f"{made.name}-r{len(made.running)}"
    since = f"2026-01-01T10:{random.randint(0, 59):02}:00Z"
    return Running(name, queue["metadata"]["name"], random.choice(PRIORITIES), usage, since)


def _flavor(random: Random, name: str) -> Object:
    spec: Object = {}
    if random.random() < 0.5:
        spec["nodeLabels"] = {"type": random.choice("ab")}
    if random.random() < 0.25:
        spec["nodeTaints"] = [{**_TAINT, "effect": random.choice(["NoSchedule", "PreferNoSchedule"])}]
        if random.random() < 0.3:
            spec["tolerations"] = [_TOLERATION]
    return kueue("ResourceFlavor", name, spec)


def _cohorts(random: Random, made: Tree, flavors: list[str]) -> list[str]:
    """At most three levels; the root need not exist as an object."""
    if random.random() < 0.2:
        return []
    names = [f"{made.name}-c0"]
    if random.random() < 0.5:
        made.cohorts.append(kueue("Cohort", names[0], _quotas(random, flavors, limits=False, some=True)))
    for index in range(1, random.randint(1, 4)):
        # A parent of the second level at most, so that the deepest is of the third.
        parent = random.choice(names[:2])
        name = f"{made.name}-c{index}"
        spec = {"parentName": parent, **_quotas(random, flavors, limits=True, some=True)}
        made.cohorts.append(kueue("Cohort", name, spec))
        names.append(name)
    return names


def _queue(random: Random, name: str, flavors: list[str], cohort: str, check: str) -> Object:
    spec: Object = {
        "namespaceSelector": {},
        "queueingStrategy": "StrictFIFO" if random.random() < 0.1 else "BestEffortFIFO",
        "flavorFungibility": {
            "whenCanBorrow": random.choice(["MayStopSearch", "TryNextFlavor"]),
            "whenCanPreempt": random.choice(["MayStopSearch", "TryNextFlavor"]),
        },
        **_quotas(random, flavors, limits=bool(cohort), some=False),
    }
    if cohort:
        spec["cohortName"] = cohort
    if check:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": check}]}
    return kueue("ClusterQueue", name, spec)


def _quotas(random: Random, flavors: list[str], *, limits: bool, some: bool) -> Object:
    """Resource groups: cpu alone or with memory and GPUs, or GPUs and pods in a group of their own."""
    if some and random.random() < 0.5:
        return {}
    shuffled = random.sample(flavors, len(flavors))
    together = ["cpu", *(["memory"] if random.random() < 0.7 else []), *([GPU] if random.random() < 0.4 else [])]
    groups = [together]
    if GPU not in together and len(shuffled) > 1 and random.random() < 0.5:
        groups.append([GPU, *(["pods"] if random.random() < 0.4 else [])])
    halves = [shuffled] if len(groups) == 1 else [shuffled[:1], shuffled[1:]]
    return {
        "resourceGroups": [
            {
                "coveredResources": covered,
                "flavors": [
                    {"name": name, "resources": [_quota(random, resource, limits=limits) for resource in covered]}
                    for name in names
                ],
            }
            for covered, names in zip(groups, halves, strict=True)
        ]
    }


def _quota(random: Random, resource: str, *, limits: bool) -> Object:
    nominal = random.choice((0, 2, 4, 6, 8, 12))
    quota: Object = {"name": resource, "nominalQuota": _amount(resource, nominal)}
    if limits and random.random() < 0.3:
        quota["borrowingLimit"] = _amount(resource, random.choice(_LIMITS))
    if limits and random.random() < 0.3:
        quota["lendingLimit"] = _amount(resource, random.choice([limit for limit in _LIMITS if limit <= nominal]))
    return quota


def _amount(resource: str, count: int) -> str:
    return f"{count}Gi" if resource == "memory" else str(count)


def _jobset(random: Random, name: str) -> Object:
    jobs = [
        rj(
            f"w{index}",
            random.choice((1, 1, 1, 2, 3)),
            pods := random.randint(1, 5),
            pods,
            pod={**_placement(random), "containers": [_container(random)]},
        )
        for index in range(random.randint(1, 3))
    ]
    made = jobset(name, *jobs)
    del made["metadata"]["namespace"]
    made["metadata"]["labels"] = {QUEUE: name}
    return made


def _container(random: Random) -> Object:
    requests = {"cpu": random.choice(["250m", "500m", "1", "1500m", "2"])}
    if random.random() < 0.15:
        requests["memory"] = random.choice(["512Mi", "1Gi", "2Gi"])
    if random.random() < 0.15:
        requests[GPU] = random.choice(["1", "2"])
    return {"name": "main", "image": "none", "resources": {"requests": requests, "limits": dict(requests)}}


def _placement(random: Random) -> Object:
    placed: Object = {}
    if random.random() < 0.3:
        placed["nodeSelector"] = random.choice([{"type": "a"}, {"type": "b"}, {"zone": "z"}])
    elif random.random() < 0.2:
        values = random.choice([["a"], ["a", "b"], ["c"]])
        need = {"key": "type", "operator": random.choice(["In", "NotIn"]), "values": values}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [need]}]}
        placed["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    if random.random() < 0.3:
        placed["tolerations"] = [_TOLERATION]
    return placed
