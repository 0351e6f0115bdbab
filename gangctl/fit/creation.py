"""Why the API server refuses to create pods of a JobSet: classes, LimitRanges, ResourceQuotas.

Kueue looks at LimitRanges alone. Source: ``pkg/quota/v1/evaluator/core`` of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from gangctl.api.jobset import read_jobset
from gangctl.api.objects import Object, object_at, objects_at, text_at, within
from gangctl.api.pods import REQUIRED
from gangctl.api.quantity import figure
from gangctl.api.requests import as_integers, is_extended, pod_limits, pod_requests
from gangctl.errors import one_line
from gangctl.fit.classes import refused_by_classes
from gangctl.fit.clusterstate import ClusterSnapshot
from gangctl.fit.devices import counted_by_quotas, is_of_claims
from gangctl.fit.limitranges import refused_claims
from gangctl.fit.nodes import shares_claims
from gangctl.fit.report import joined, quoted
from gangctl.fit.requests import PodSet, filled_in, requests_of, stages_of
from gangctl.gang.desired import plan_of
from gangctl.gang.resolve import ClusterRules
from gangctl.kueue.amounts import amount, read_quantity
from gangctl.kueue.names import GROUP
from gangctl.kueue.objects import PODS, Amounts

_COUNTED_PODS: Final = "count/pods"
_JOBS: Final = "count/jobs.batch"
_JOBSETS: Final = "count/jobsets.jobset.x-k8s.io"
_QUEUED_WORKLOADS: Final = f"count/workloads.{GROUP}"
_WORKLOADS: Final = "count/workloads.scheduling.k8s.io"
_GROUPS: Final = "count/podgroups.scheduling.k8s.io"
_COMPOSITES: Final = "count/compositepodgroups.scheduling.k8s.io"
_OF_GANGS: Final = frozenset({_WORKLOADS, _GROUPS, _COMPOSITES})
_SERVICES: Final = ("services", "count/services")
_VOLUME_CLAIMS: Final = ("persistentvolumeclaims", "count/persistentvolumeclaims")
_STORAGE: Final = "requests.storage"
_OF_CLASS: Final = ".storageclass.storage.k8s.io/"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUESTS: Final = "requests."
_LIMITS: Final = "limits."
_LIMITED: Final = ("cpu", "memory", "ephemeral-storage")
_COMPULSORY: Final = ("cpu", "memory")
"""Every container has to request these where a quota counts them."""
_SHOWN: Final = 80
# By the gate DRAWorkloadResourceClaims, and where the pods name a claim of their gang.
_SHARED: Final = "whether its gangs share claims, which count once for each gang; if not, "


@dataclass(frozen=True, slots=True)
class CreationRefusal:
    """Why pods are not created; ``passes`` if others that end make room for them, ``unknown`` if only perhaps."""

    message: str
    passes: bool = False
    unknown: bool = False


@dataclass(frozen=True)
class _PodsToCreate:
    """Those of one podset, as admission makes them."""

    podset: PodSet
    spec: Mapping[str, Any]
    certain: bool
    """Whether the resources of ``spec`` are known."""
    priority_class: str | None
    """None if unknown."""
    claims: Amounts
    """What quotas count of the claims of one pod."""
    shares: bool
    """Whether a gang of the JobSet may have claims of its own, of which there is one for all its pods."""

    @cached_property
    def requests(self) -> Amounts:
        """Of one pod."""
        return as_integers(pod_requests(self.spec)[0])

    @cached_property
    def limits(self) -> Amounts:
        """The same of limits, in which overhead counts only where a container is limited (PodLimits)."""
        return as_integers(pod_limits(self.spec, overhead=True))

    def of_one(self, counted: str) -> int | None:
        """What a quota counts of one pod under a name; None if it counts nothing of pods, or that is not known."""
        base = _base(counted)
        # Before `certain`: how many pods and claims there are does not depend on requests.
        if counted in {PODS, _COUNTED_PODS}:
            return 1
        if is_of_claims(counted):
            return self.claims.get(counted, 0)
        if not self.certain:
            return None
        # Quotas count limits of these resources alone, and extended resources only with the prefix `requests.`.
        if counted.startswith(_LIMITS):
            return self.limits.get(base, 0) if base in _LIMITED else None
        if base in _LIMITED or base.startswith("hugepages-") or (base != counted and is_extended(base)):
            return self.requests.get(base, 0)
        return None

    def unset(self, counted: str) -> list[str]:
        """The containers that do not say what a quota needs of each (Constraints)."""
        base = _base(counted)
        if base not in _COMPULSORY or object_at(self.spec, "resources") or not self.certain:
            return []
        key = "limits" if counted.startswith(_LIMITS) else "requests"
        containers = [*objects_at(self.spec, "containers"), *objects_at(self.spec, "initContainers")]
        return [
            one_line(text_at(container, "name"), _SHOWN)
            for container in containers
            if base not in object_at(object_at(container, "resources"), key)
        ]

    def is_in(self, scope: Object) -> bool | None:
        """Whether a quota with this scope counts them; None if unknown."""
        # That of the pod: the deadline of its Job is no field of the pod.
        terminating = self.spec.get("activeDeadlineSeconds") is not None
        # Overhead does not count (ComputePodQOS); in `limits` it is only where a container is limited.
        requests, _ = pod_requests({**self.spec, "overhead": None})
        best_effort = not any(amounts.get(name) for amounts in (requests, self.limits) for name in _COMPULSORY)
        match scope.get("scopeName"):
            case "Terminating":
                return terminating
            case "NotTerminating":
                return not terminating
            case "BestEffort":
                return best_effort if self.certain else None
            case "NotBestEffort":
                return not best_effort if self.certain else None
            case "PriorityClass":
                if self.priority_class is None:
                    return None
                values = scope.get("values")
                named = self.priority_class in (values if isinstance(values, list) else ())
                answers = {
                    "In": named,
                    "NotIn": not named,
                    "Exists": bool(self.priority_class),
                    "DoesNotExist": not self.priority_class,
                }
                return answers.get(text_at(scope, "operator"), False)
            case "CrossNamespacePodAffinity":
                return any(
                    term.get("namespaces") or term.get("namespaceSelector") is not None
                    for term in _affinity_terms(self.spec)
                )
        return False


def _affinity_terms(spec: Mapping[str, Any]) -> Iterator[Object]:
    """Of pods that a pod is drawn to or kept from, required and preferred ones."""
    for part in ("podAffinity", "podAntiAffinity"):
        rules = within(spec, "affinity", part)
        yield from objects_at(rules, REQUIRED)
        yield from (object_at(rule, "podAffinityTerm") for rule in objects_at(rules, _PREFERRED))


def _base(counted: str) -> str:
    return counted.removeprefix(_REQUESTS).removeprefix(_LIMITS)


def refusal(
    jobset: Object,
    podsets: Sequence[PodSet],
    cluster: ClusterSnapshot,
    namespace: str,
    templates: Mapping[str, Object],
    *,
    new: bool,
    queued: bool,
) -> CreationRefusal | None:
    """Why pods of a JobSet in a namespace cannot all be created; None if nothing is known that keeps them.

    ``podsets`` are as admission makes their pods, ``templates`` the known ResourceClaimTemplates of the namespace. Of
    one that is not ``new`` the quotas count what there is of it already. One that is ``queued`` has a Workload of
    Kueue.
    """
    surroundings = cluster.surroundings(namespace).of_pods()
    present = [podset for podset in podsets if podset.pods]
    if refused := next(refused_by_classes(present, cluster, namespace), ""):
        return CreationRefusal(refused)
    claiming = any(podset.pod_spec.get("resourceClaims") for podset in present)
    shares = claiming and shares_claims(jobset, read_jobset(jobset)[0])
    pods = [
        _PodsToCreate(
            podset,
            *filled_in(podset, surroundings),
            cluster.pod_class_name(text_at(podset.pod_spec, "priorityClassName")),
            counted_by_quotas(podset.pod_spec, templates),
            shares,
        )
        for podset in present
    ]
    for podset in (one.podset for one in pods if one.certain):
        for problem in requests_of(podset, surroundings).problems:
            return CreationRefusal(f"{quoted([podset.name])}: {problem}, and the API server refuses such pods")
    # Those of one that is not new are there, or JobSet is refused already.
    for problem in refused_claims(jobset, surroundings.limit_ranges or ()) if new else ():
        return CreationRefusal(f"{problem}, and the API server refuses it")
    stages = stages_of(jobset, podsets)
    quotas = cluster.resource_quotas(namespace)
    # Of one that is not new they are there, or JobSet is refused already what it tries again.
    others = _others(jobset) if new else {}
    if new and queued:
        others[_QUEUED_WORKLOADS] = _Demand("its Workload of Kueue", 1)
    # To plan a gang of thousands of groups takes a while.
    if any(not _OF_GANGS.isdisjoint(within(quota, "spec", "hard")) for quota in quotas):
        others |= _of_gangs(jobset, new=new)
    # JobSet creates the Jobs of a suspended JobSet, too. Which objects of its gangs are there is not known.
    suspended = object_at(jobset, "spec").get("suspend")
    own: Collection[str] | None = () if new else (_JOBS, *_OF_GANGS) if suspended else None
    refusals = [one for quota in quotas for one in _beyond(quota, pods, stages, own, others)]
    # What does not pass comes first: waiting does not help against it.
    return min(refusals, key=lambda one: (one.unknown, one.passes), default=None)


@dataclass(frozen=True, slots=True)
class _Demand:
    """What a JobSet needs under one name of a quota."""

    what: str
    needed: int
    doubt: str = ""
    """What is not known, and decides whether it needs it."""


def _others(jobset: Object) -> dict[str, _Demand]:
    """What quotas count of a new one besides pods and Jobs, by name.

    JobSet 0.12 creates a headless Service and the claims of volumeClaimPolicies first, and no Job if it cannot.
    """
    spec, name = object_at(jobset, "spec"), text_at(object_at(jobset, "metadata"), "name")
    others = {_JOBSETS: _Demand("the JobSet", 1)}
    network = object_at(spec, "network")
    if network.get("enableDNSHostnames") is not False:
        service, doubt = text_at(network, "subdomain"), ""
        # JobSet uses a Service that has this name.
        if service not in {"", name}:
            shown = one_line(service, _SHOWN)
            doubt = f"spec.network.subdomain: whether Service {shown} exists (kubectl get services); without it "
        others |= dict.fromkeys(_SERVICES, _Demand("its Service", 1, doubt))
    amounts: dict[str, int] = {}
    for policy in objects_at(spec, "volumeClaimPolicies"):
        for template in objects_at(policy, "templates"):
            for counted, needed in _of_volume_claim(template):
                amounts[counted] = amounts.get(counted, 0) + needed
    claims = "its PersistentVolumeClaims"
    # Also for a claim that is kept: JobSet tries to create it, and the quota is asked before the name.
    return others | {counted: _Demand(claims, needed) for counted, needed in amounts.items()}


def _of_gangs(jobset: Object, *, new: bool) -> dict[str, _Demand]:
    """The objects of its gangs in one attempt, by name: those of the next one are not needed to run."""
    plan = plan_of(read_jobset(jobset)[0], ClusterRules(), accepted=not new, unstamped=True).plan
    if plan is None:
        return {}
    return {
        _WORKLOADS: _Demand("its Workload", 1),
        _GROUPS: _Demand("its PodGroups", len(plan.groups)),
        _COMPOSITES: _Demand("its CompositePodGroup", int(plan.composite is not None)),
    }


def _of_volume_claim(template: Object) -> Iterator[tuple[str, int]]:
    """What quotas count of a PersistentVolumeClaim (evaluator of persistent_volume_claims.go)."""
    spec = object_at(template, "spec")
    annotations = object_at(object_at(template, "metadata"), "annotations")
    # The older notation is read first (GetPersistentVolumeClaimClass).
    storage_class = annotations.get("volume.beta.kubernetes.io/storage-class", spec.get("storageClassName"))
    storage = read_quantity(object_at(object_at(spec, "resources"), "requests").get("storage")) or Fraction()
    amounts = {_VOLUME_CLAIMS[0]: 1, _STORAGE: amount("storage", storage)}
    yield from amounts.items()
    yield _VOLUME_CLAIMS[1], 1
    # An empty class is none. Without the field it gets the default class, which is not known: `_counted`.
    if storage_class != "":
        prefix = f"{storage_class or ''}{_OF_CLASS}"
        yield from ((f"{prefix}{counted}", needed) for counted, needed in amounts.items())


def _counted(resource: str, others: Mapping[str, _Demand]) -> Iterator[_Demand]:
    """The demands on a name of a quota, first what is certain."""
    certain = others.get(resource)
    if certain is not None:
        yield certain
    storage_class, _, counted = resource.partition(_OF_CLASS)
    if storage_class and counted and (default := others.get(f"{_OF_CLASS}{counted}")) is not None:
        needed = default.needed + (certain.needed if certain is not None else 0)
        shown = one_line(storage_class, _SHOWN)
        doubt = f"spec.volumeClaimPolicies: whether StorageClass {shown} is the default (kubectl get sc); then "
        yield replace(default, needed=needed, doubt=doubt)


def _beyond(
    quota: Object,
    pods: Sequence[_PodsToCreate],
    stages: Sequence[Mapping[int, int]],
    own: Collection[str] | None,
    others: Mapping[str, _Demand],
) -> Iterator[CreationRefusal]:
    """What a ResourceQuota does not leave for the pods; it counts ``own`` of them already, all of them if None."""
    name, spec = one_line(text_at(object_at(quota, "metadata"), "name"), _SHOWN), object_at(quota, "spec")
    title = f'ResourceQuota "{name}" of its namespace'
    named = spec.get("scopes")
    # Two notations of the same, and all of both have to match (getScopeSelectorsFromQuota).
    scopes = [{"scopeName": scope, "operator": "Exists"} for scope in (named if isinstance(named, list) else ())]
    scopes += objects_at(object_at(spec, "scopeSelector"), "matchExpressions")
    matched = [(one, [one.is_in(scope) for scope in scopes]) for one in pods]
    counted = [one for one, matches in matched if all(matches)]
    perhaps = [one for one, matches in matched if False not in matches]
    read = "priorityclasses" if any(scope.get("scopeName") == "PriorityClass" for scope in scopes) else "limitranges"
    scoped = f"whether the scopes of {title} match some of its pods (kubectl get {read}); then "
    used = object_at(object_at(quota, "status"), "used")
    for resource, written in object_at(spec, "hard").items():
        hard = read_quantity(written)
        if hard is None:
            continue
        for one in perhaps:
            if unset := one.unset(resource):
                doubt = "" if one in counted else scoped
                yield CreationRefusal(
                    f"{doubt}{title} counts {resource}, and containers {joined(unset)} of "
                    f"{quoted([one.podset.name])} have no "
                    f"{'limit' if resource.startswith(_LIMITS) else 'request'} of it: the API server refuses "
                    "such pods; write it into the pod template",
                    unknown=bool(doubt),
                )
        of_claims = is_of_claims(resource)
        what = f"{'claims of ' * of_claims}some of its pods"
        shared = _SHARED * (of_claims and any(one.shares for one in perhaps))
        demands = [_Demand(what, _needed(resource, counted, stages), shared)]
        if len(perhaps) > len(counted):
            demands.append(_Demand(what, _needed(resource, perhaps, stages), scoped + shared))
        # Scopes are of pods: a quota with some counts nothing else.
        demands += _counted(resource, others) if not scopes else ()
        base = _base(resource)
        most, in_use = amount(base, hard), amount(base, read_quantity(used.get(resource)) or Fraction())
        for demand in demands:
            taken = 0 if own is None or resource in own else in_use
            needed, refused = figure(base, demand.needed), f"refuses {demand.what}"
            if demand.needed > most:
                message = (
                    f"{title} allows {figure(base, most)} of {resource}, and it needs {needed}: the API server "
                    f"{refused}; ask for less, or have the quota raised"
                )
            # What it does not ask for is not refused, also where a lower quota is used up.
            elif demand.needed > max(0, most - taken):
                left = figure(base, max(0, most - taken))
                message = (
                    f"{title} has {left} of {figure(base, most)} {resource} left, and it needs {needed}: the API "
                    f"server {refused} until others of the namespace have ended"
                )
            else:
                continue
            yield CreationRefusal(demand.doubt + message, demand.needed <= most, bool(demand.doubt))


def _needed(resource: str, counted: Sequence[_PodsToCreate], stages: Sequence[Mapping[int, int]]) -> int:
    """What the JobSet needs of a resource of a quota at once."""
    if resource == _JOBS:
        # JobSet keeps Jobs that have ended: those of all stages count together.
        return sum(one.podset.jobs for one in counted)
    of_one = {one.podset.index: amounts for one in counted if (amounts := one.of_one(resource))}
    if resource == _COUNTED_PODS:
        # Pods that have ended count as well.
        stages = [{one.podset.index: one.podset.pods for one in counted}]
    return max((sum(pods * of_one.get(index, 0) for index, pods in stage.items()) for stage in stages), default=0)
