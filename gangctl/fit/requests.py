"""The podsets of a JobSet, and the requests of one pod as Kueue counts them; some it rejects with any quota.

Kueue creates one podset for each replicated job, in order. It reserves the full count of each or nothing; a podset may
have no pods. The sum over containers is the scheduler's (:mod:`gangctl.api.requests`). Before it, Kueue applies the
defaults of the API server and those of LimitRanges, which it merges; after it, Kueue excludes and transforms resources
as configured. Source: Kueue ``pkg/controller/jobs/jobset``, ``pkg/workload/resources.go``, ``pkg/workload/workload.go``
and ``pkg/util/limitrange`` of v0.19; the defaults of a LimitRange itself are the API server's (``pkg/apis/core/v1``),
for one from a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Final, NamedTuple

from gangctl.api.jobset import reported_jobs
from gangctl.api.meta import selects_nodes
from gangctl.api.objects import object_at, objects_at
from gangctl.api.requests import Requests, is_extended, of_whole_pod, pod_requests
from gangctl.api.volumes import claimed_volumes
from gangctl.errors import one_line
from gangctl.fit.limitranges import (
    CONTAINER,
    POD,
    RangeLimits,
    refused_by_api_server,
    refused_by_kueue,
    summed_up,
    written,
)
from gangctl.gang.plan import pods_per_job
from gangctl.kueue.amounts import amount
from gangctl.kueue.configuration import KueueConfiguration, Transformation
from gangctl.kueue.topology import TopologyRequest, group_problems, read_request

_NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class PodSet:
    """Equal pods of one JobSet. ``index`` is that of the replicated job, ``template`` its pod template, raw."""

    name: str
    index: int
    pods: int
    template: Mapping[str, Any] = field(repr=False)
    topology: TopologyRequest | None = None
    problems: tuple[str, ...] = ()
    """Why Kueue's webhook rejects the request for a topology."""
    jobs: int = 1
    policy_claims: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False)
    """Of its volumes the claims that JobSet makes (``volumeClaimPolicies``), with their templates."""
    selects_nodes: bool = False
    """Whether JobSet pins the pods of each Job to nodes of that Job (exclusive placement by a node selector)."""

    @property
    def group(self) -> str:
        """Podsets of one group use the same flavors; empty without a group."""
        return self.topology.group if self.topology is not None else ""

    @property
    def pod_spec(self) -> Mapping[str, Any]:
        """``spec`` of the pod template."""
        return object_at(self.template, "spec")


def _count(raw: Mapping[str, Any], key: str) -> int | None:
    value = raw.get(key)
    # In Python a bool is an int.
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def podsets_of(jobset: Mapping[str, Any]) -> tuple[PodSet, ...]:
    """Podsets of a raw JobSet. Total: a value of the wrong type counts as absent."""
    entries = object_at(jobset, "spec").get("replicatedJobs")
    return tuple(
        _podset(entry if isinstance(entry, dict) else _NOTHING, index, jobset)
        for index, entry in enumerate(entries if isinstance(entries, list) else ())
    )


def _podset(entry: Mapping[str, Any], index: int, jobset: Mapping[str, Any]) -> PodSet:
    of_jobs = object_at(entry, "template")
    job = object_at(of_jobs, "spec")
    template = object_at(job, "template")
    spec = object_at(template, "spec")
    if claimed := list(claimed_volumes(jobset, spec)):
        volumes = [*objects_at(spec, "volumes"), *(volume for volume, _ in claimed)]
        template = {**template, "spec": {**spec, "volumes": volumes}}
    replicas = _count(entry, "replicas")
    pods = pods_per_job(_count(job, "parallelism"), _count(job, "completions"))
    name = entry.get("name")
    written = object_at(object_at(template, "metadata"), "annotations")
    annotations = {key: value for key, value in written.items() if isinstance(value, str)}
    jobs = max(0, 1 if replicas is None else replicas)
    count = jobs * max(0, pods)
    topology, problems = read_request(annotations, count)
    return PodSet(
        # Kueue's names of podsets are in lower case (NewPodSetReference).
        name=name.lower() if isinstance(name, str) else "",
        index=index,
        pods=count,
        template=template,
        topology=topology,
        problems=problems,
        jobs=jobs,
        policy_claims={volume["persistentVolumeClaim"]["claimName"]: made for volume, made in claimed},
        selects_nodes=selects_nodes(
            *(object_at(object_at(holder, "metadata"), "annotations") for holder in (jobset, of_jobs))
        ),
    )


def succeeded_jobs(jobset: Mapping[str, Any]) -> dict[str, int]:
    """How many Jobs of a raw JobSet have succeeded, by name of the replicated job."""
    return {name: succeeded for name, (_, succeeded) in reported_jobs(object_at(jobset, "status")).items()}


class PodsLeft(NamedTuple):
    """The pods that the Jobs of a replicated job still make: of all of them, and of the largest."""

    whole: int
    largest: int


def left_after_success(podsets: Iterable[PodSet], jobset: Mapping[str, Any]) -> dict[str, PodsLeft]:
    """By name of the replicated job, where Jobs of a raw JobSet have succeeded: their pods are not made again.

    As ReclaimablePods of Kueue's JobSet, which podSetsCountsAfterReclaim takes out.
    """
    succeeded, left = succeeded_jobs(jobset), {}
    for podset in podsets:
        jobs = podset.jobs - succeeded.get(podset.name, 0)
        if 0 <= jobs < podset.jobs:
            one = podset.pods // podset.jobs
            left[podset.name] = PodsLeft(one * jobs, one)
    return left


def unfinished(podsets: Iterable[PodSet], left: Mapping[str, PodsLeft]) -> list[PodSet]:
    """The podsets with the pods that are ``left``: those that it does not name have all."""
    return [replace(podset, pods=left[podset.name].whole) if podset.name in left else podset for podset in podsets]


_MOST_STAGES: Final = 64


def stages_of(jobset: Mapping[str, Any], podsets: Sequence[PodSet]) -> list[dict[int, int]]:
    """Pods that may run at once, by index of podset, for each largest set of such podsets.

    JobSet creates a replicated job that waits for another one's completion (dependsOn) when the pods of that are gone.
    """
    everything = {podset.index: podset.pods for podset in podsets}
    entries = objects_at(object_at(jobset, "spec"), "replicatedJobs")
    gone: dict[str, set[str]] = {}
    stages: set[frozenset[int]] = {frozenset()}
    # Not strict: `entries` has no invalid ones, which is noticed below.
    for podset, entry in zip(podsets, entries, strict=False):
        before = gone.setdefault(podset.name, set())
        # JobSet rejects a dependency on one that follows.
        for dependency in objects_at(entry, "dependsOn"):
            name = str(dependency.get("name")).lower()
            # With status Ready the pods of the other one are still there.
            before |= gone.get(name, set()) | ({name} if dependency.get("status") == "Complete" else set())
        earlier = {other.index for other in podsets[: podset.index] if other.name in before}
        stages = {stage - earlier | {podset.index} for stage in stages} | {stage for stage in stages if stage & earlier}
        stages = {stage for stage in stages if not any(stage < other for other in stages)}
        # Too many to look at: then all pods need room at once.
        if len(stages) > _MOST_STAGES:
            return [everything]
    if len(entries) != len(podsets):
        return [everything]
    return [{index: everything[index] for index in sorted(stage)} for stage in sorted(stages, key=sorted)]


def malformed_topology(podsets: Sequence[PodSet]) -> list[str]:
    """Requests for a topology that Kueue's webhook rejects when the JobSet is created."""
    problems = [f'"{podset.name}": {problem}' for podset in podsets for problem in podset.problems]
    groups: dict[str, list[tuple[str, int, TopologyRequest]]] = {}
    for podset in podsets:
        if podset.topology is not None and podset.group:
            groups.setdefault(podset.group, []).append((podset.name, podset.pods, podset.topology))
    return problems + [problem for members in groups.values() for problem in group_problems(members)]


def remainders(podsets: Iterable[PodSet]) -> Iterator[str]:
    """Pods that get no domain: Kueue places whole slices, and the topology gate of the others stays."""
    for podset in podsets:
        size = podset.topology.layers[0].size if podset.topology is not None and podset.topology.layers else 1
        if rest := podset.pods % size:
            yield (
                f'how {rest} of {podset.pods} pods of "{podset.name}" start: Kueue gives domains to whole slices of '
                f"{size}; ask for a multiple of it"
            )


def refused_claims(podsets: Iterable[PodSet], configuration: KueueConfiguration) -> Iterator[str]:
    """Podsets that Kueue 0.19 never queues for their claims: it counts devices by ResourceClaimTemplates alone.

    As NeedsDRAReconcile, and the Reconcile of its workload controller.
    """
    counts = configuration.gate("KueueDRAIntegration", default=True)
    if not counts and not configuration.gate("KueueDRARejectWorkloadsWhenDRADisabled", default=True):
        return
    for podset in podsets:
        claims = objects_at(podset.pod_spec, "resourceClaims")
        if counts and any(isinstance(claim.get("resourceClaimName"), str) for claim in claims):
            yield f'"{podset.name}" has resourceClaims by name, and Kueue takes only ResourceClaimTemplates; use one'
        elif not counts and any(claim.keys() & {"resourceClaimName", "resourceClaimTemplateName"} for claim in claims):
            yield f'"{podset.name}" has resourceClaims, and Kueue\'s feature gate KueueDRAIntegration is off'


_MOST_SHOWN: Final = 4


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Other objects that change the requests of a namespace's pods, raw; None if unknown."""

    limit_ranges: Sequence[Mapping[str, Any]] | None = ()
    runtime_classes: Mapping[str, Mapping[str, Any]] | None = None
    """By name."""
    configuration: KueueConfiguration = field(default_factory=KueueConfiguration)
    of_templates: bool = True
    """Whether pod templates are counted, as Kueue does, and not pods that the API server has filled in."""

    def of_pods(self) -> Surroundings:
        """The same for the scheduler, which reads pods, and no configuration of Kueue."""
        return replace(self, configuration=KueueConfiguration(), of_templates=False)


@dataclass(frozen=True, slots=True)
class Counted:
    """``requests`` are of one pod, rounded up, without the pod itself (``pods``).

    ``problems`` are errors that Kueue rejects at every attempt, ``unknown`` facts that may change the requests.
    """

    requests: dict[str, int]
    problems: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    asked: Mapping[str, int] = field(default_factory=dict)
    """The pod's own requests, before exclusion and transformation: what it needs of a node."""


def requests_of(podset: PodSet, surroundings: Surroundings) -> Counted:
    """Requests of one pod of a podset. Total: unreadable values are left out and listed in ``unknown``."""
    counting = _Counting(podset, surroundings)
    spec = counting.filled_in()
    requests, errors = pod_requests(spec)
    counting.unknown += [f"{counting.name}: {error}" for error in errors[:_MOST_SHOWN]]
    counting.check(spec, requests)
    counting.look_for_devices(spec, requests)
    configuration = surroundings.configuration
    # Kueue excludes first: what is excluded is no input of a transformation.
    kept = {name: value for name, value in requests.items() if not name.startswith(configuration.exclude_prefixes)}
    transformed = _transformed(kept, configuration.transformations)
    return Counted(
        # Rounded up for one pod, as Kueue does before it multiplies.
        {name: max(0, amount(name, value)) for name, value in transformed.items()},
        tuple(counting.problems),
        tuple(dict.fromkeys(counting.unknown)),
        {name: max(0, amount(name, value)) for name, value in requests.items()},
    )


def filled_in(podset: PodSet, surroundings: Surroundings) -> tuple[dict[str, Any], bool]:
    """The spec of its pods with the overhead of their class, the namespace's defaults, and limits as requests.

    And whether all of these are known.
    """
    counting = _Counting(podset, surroundings)
    return counting.filled_in(), not counting.unknown


def _transformed(requests: Requests, transformations: Sequence[Transformation]) -> Requests:
    by_input = {transformation.input: transformation for transformation in transformations}
    kept: Requests = {}
    made: Requests = {}
    for name, value in requests.items():
        transformation = by_input.get(name)
        if transformation is None or transformation.keep:
            kept[name] = value
        if transformation is not None:
            factor = value * requests.get(transformation.multiply_by, Fraction(1))
            for output, quantity in transformation.outputs.items():
                made[output] = made.get(output, Fraction()) + factor * quantity
    # Outputs may cancel each other out, but do not reduce requested resources.
    return kept | {name: kept.get(name, Fraction()) + max(value, Fraction()) for name, value in made.items()}


@dataclass(slots=True)
class _Counting:
    """State while counting one podset."""

    podset: PodSet
    surroundings: Surroundings
    problems: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    limits: Mapping[str, RangeLimits] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f'replicated job "{self.podset.name}"'

    def filled_in(self) -> dict[str, Any]:
        """The pod's spec with the overhead of its class, the namespace's defaults, and limits for missing requests."""
        spec = dict(self.podset.pod_spec)
        configuration = self.surroundings.configuration
        if not configuration.known:
            self.unknown.append(configuration.unreadable or "Kueue's configuration is not known")
        if self.surroundings.limit_ranges is None:
            self.unknown.append("the LimitRanges of the namespace are not known")
        self._fill_in_overhead(spec)
        self.limits = summed_up(self.surroundings.limit_ranges or ())
        # The API server prefers the sum of the containers to the pod's limit, as pod_requests does; Kueue does not.
        if self.surroundings.of_templates and isinstance(spec.get("resources"), dict):
            spec["resources"] = self._resources(spec["resources"], POD)
        for kind in ("containers", "initContainers"):
            if isinstance(spec.get(kind), list):
                spec[kind] = [self._container(container) for container in spec[kind]]
        if not self.surroundings.of_templates:
            level = object_at(spec, "resources")
            completed = zip(("requests", "limits"), of_whole_pod(spec), strict=True)
            more = {key: written(amounts) | object_at(level, key) for key, amounts in completed if amounts}
            spec |= {"resources": level | more} if more else {}
        return spec

    def _fill_in_overhead(self, spec: dict[str, Any]) -> None:
        name, classes = spec.get("runtimeClassName"), self.surroundings.runtime_classes
        # As Kueue: an overhead that is written counts as it is.
        if not isinstance(name, str) or not name or spec.get("overhead"):
            return
        if classes is None:
            self.unknown.append(f'the overhead of RuntimeClass "{one_line(name, 80)}" is not known')
            return
        overhead = classes.get(name, {}).get("overhead")
        if isinstance(overhead, dict):
            spec["overhead"] = overhead.get("podFixed")

    def _container(self, container: object) -> object:
        if not isinstance(container, dict):
            return container
        resources = container.get("resources")
        if not isinstance(resources, dict | None):
            return container
        return {**container, "resources": self._resources(resources or {}, CONTAINER)}

    def _resources(self, resources: Mapping[str, Any], kind: str) -> dict[str, Any]:
        limits, requests = resources.get("limits"), resources.get("requests")
        if not isinstance(limits, dict | None) or not isinstance(requests, dict | None):
            return dict(resources)
        defaults = self.limits.get(kind, RangeLimits())
        # Where limit and request are written, no default applies, whichever it is.
        for name in sorted(defaults.contested - ((limits or {}).keys() & (requests or {}).keys())):
            self.unknown.append(f"LimitRanges of the namespace have different defaults of {one_line(name, 80)}")
        limits = written(defaults.default) | (limits or {})
        # A defaultRequest comes before the limit, as in Kueue. Of pods the limits are requests already
        # (SetDefaults_Pod), so that no default is left for these.
        requests = limits | written(defaults.default_request) | (requests or {})
        return {**resources, "limits": limits, "requests": requests}

    def check(self, spec: Mapping[str, Any], total: Requests) -> None:
        """Find errors that Kueue, or the API server, rejects at every attempt."""
        if self.surroundings.of_templates:
            self.problems += refused_by_kueue(spec, total, self.limits)
        else:
            self.problems += dict.fromkeys(refused_by_api_server(spec, self.surroundings.limit_ranges or ()))

    def look_for_devices(self, spec: Mapping[str, Any], found: Requests) -> None:
        """Kueue counts devices of claims by mappings that gangctl does not support."""
        for name in self._served_perhaps(spec, found):
            detail = "without sidecars and overhead (kubectl get deviceclasses)"
            self.unknown.append(f"whether a DeviceClass serves {one_line(name, 80)}, which Kueue then counts {detail}")
        if self.podset.pod_spec.get("resourceClaims"):
            detail = "Kueue counts by resources.deviceClassMappings of its configuration, and gangctl does not"
            self.unknown.append(f"the devices that {self.name} claims (resourceClaims), which {detail}")
        elif self.surroundings.configuration.dra and any("/" in name for name in found):
            self.unknown.append("Kueue may count extended resources as devices (deviceClassMappings)")

    def _served_perhaps(self, spec: Mapping[str, Any], found: Requests) -> list[str]:
        """Extended resources whose amounts differ where a DeviceClass has them (ResolveExtendedResourceQuota)."""
        gate = self.surroundings.configuration.gate("KueueDRAIntegrationExtendedResource", default=True)
        extended = [name for name in found if is_extended(name)]
        containers = objects_at(spec, "initContainers")
        sidecars = any(container.get("restartPolicy") for container in containers)
        # First: few pods have sidecars or overhead, and the sum is computed for each podset.
        if not (gate and self.surroundings.of_templates and extended and (sidecars or spec.get("overhead"))):
            return []
        initial = [{**container, "restartPolicy": None} for container in containers]
        plain, _ = pod_requests({**spec, "initContainers": initial, "overhead": None})
        return [name for name in extended if found[name] != plain.get(name)]
