"""Checks of Kubernetes: its version, the scheduling API, whether pods keep their reference, and the user's rights."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from gangctl.api.meta import SYSTEM_NAMESPACE
from gangctl.api.objects import object_at, within
from gangctl.api.scheduling import GATES, GROUP, NEWEST, TESTED, Generation
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.cli.doctor.check import Area, CheckOutcome, check, failed, ok, unknown, warning
from gangctl.cli.doctor.checks import gangs, installed, kueue
from gangctl.cli.doctor.cluster import Cluster, all_of, denied, fact, generation, right, seen_or, served, version
from gangctl.client import resources
from gangctl.client.resources import JOBS, JOBSETS, PODS, Resource
from gangctl.cluster import kinds
from gangctl.controllers.discovery import prove
from gangctl.controllers.policy_sources import GANG_POLICIES
from gangctl.controllers.writer import scheduling_resources
from gangctl.errors import ApiError, ForbiddenError, UnavailableError, plural
from gangctl.gang.generation import evaluate_unreadable, pick_generation
from gangctl.kueue.names import VERSION

_VERSION: Final = re.compile(r"v(\d{1,4}\.\d{1,4})\.")
_MINORS: Final = tuple(generation.kubernetes for generation in TESTED)
_KNOWN: Final = f"{_MINORS[0]} to {_MINORS[-1]}"


def minor_of(version: str) -> str:
    """``1.37`` of ``v1.37.1``; empty for anything else.

    >>> minor_of("v1.37.1-gke.2")
    '1.37'
    """
    match = _VERSION.match(version)
    return match[1] if match else ""


@check("kubernetes-version", Area.KUBERNETES, "Is it a Kubernetes that gangctl knows?", "GET /version")
async def known_version(cluster: Cluster) -> CheckOutcome:
    """Supported minors; a newer one may still serve a supported API."""
    text = await version(cluster)
    minor = minor_of(text)
    if minor in _MINORS:
        return ok(f"Kubernetes {minor}", f"gitVersion {text}")
    if _number(minor) > _number(_MINORS[-1]):
        return warning(
            f"Kubernetes {minor} is newer than those that this gangctl was tested with ({_KNOWN})",
            [f"gitVersion {text}"],
            remedy="look for a newer gangctl; as long as scheduling-api and pod-field are ok, gangs are made",
        )
    return failed(
        f"gangctl knows Kubernetes {_KNOWN}",
        [f"gitVersion {text}"],
        remedy="upgrade the cluster: earlier minors have no API for gangs",
        command="kubectl version",
    )


def _number(minor: str) -> tuple[int, ...]:
    return tuple(int(part) for part in minor.split(".") if part)


@check(
    "scheduling-api",
    Area.KUBERNETES,
    "Which generation of the scheduling API is served?",
    "discovery of scheduling.k8s.io",
)
async def scheduling_api(cluster: Cluster) -> CheckOutcome:
    """The served resources choose the generation."""
    versions = await served(cluster)
    evidence = [f"{GROUP}/{name} serves {', '.join(sorted(versions[name].resources))}" for name in sorted(versions)]
    state = pick_generation(versions)
    if state.generation is not None:
        if state.reason:
            return warning(
                f"gangctl makes gangs in {state.generation.api_version}: {state.reason}",
                evidence,
                remedy=f"upgrade gangctl before {state.generation.api_version} is no longer served",
            )
        return ok(f"gangctl makes gangs in {state.generation.api_version}", *evidence)
    return failed(
        state.reason,
        evidence or [f"no version of {GROUP} is served"],
        remedy=f"start kube-apiserver with --runtime-config={GROUP}/{await _release(cluster)}=true and the feature "
        f"gate {GATES}",
        command=f"kubectl get --raw /apis/{GROUP}",
    )


async def _release(cluster: Cluster) -> Generation:
    """The generation of this minor, else the newest."""
    minor = minor_of(await seen_or(version(cluster), ""))
    return next((tested for tested in TESTED if tested.kubernetes == minor), NEWEST)


@dataclass(frozen=True, slots=True)
class PodField:
    """Whether pods keep ``spec.FIELD``; ``kept`` is None where a dry run was not allowed."""

    field: str
    kept: bool | None
    how: str
    right: str = ""
    """Missing for the dry run."""


@fact
async def pod_field(cluster: Cluster) -> PodField:
    """Whether pods keep their reference: by a dry run, or by the schema without that right."""
    made = await generation(cluster)
    # Where no group can exist, a field that is stored anyway blocks its pods.
    candidates = (made,) if made is not None else (Generation.V1BETA1, Generation.V1ALPHA1)
    tried = [await _prove(cluster, candidate) for candidate in candidates]
    proved = [field for field in tried if field is not None]
    if proved:
        return next((field for field in proved if field.kept), proved[0])
    name = ADAPTERS[candidates[0]].reference_field
    document = await cluster.client.discovery.openapi_v3("api/v1")
    known = name in within(document, "components", "schemas", "io.k8s.api.core.v1.PodSpec", "properties")
    how = f"the OpenAPI schema of pods {'has' if known else 'does not have'} spec.{name}"
    return PodField(name, None if known else False, how, f"create jobs.batch in namespace {cluster.namespace}")


async def _prove(cluster: Cluster, generation: Generation) -> PodField | None:
    try:
        kept = (await prove(cluster.client, generation, cluster.namespace)).available
    except ForbiddenError as error:
        if denied(error.message):
            return None
        raise
    how = f"a Job sent with dryRun=All in namespace {cluster.namespace} came back {'with' if kept else 'without'} it"
    return PodField(ADAPTERS[generation].reference_field, kept, how)


@check(
    "pod-field",
    Area.KUBERNETES,
    "Does the API server keep what pods say of their group?",
    "a Job created with dryRun=All, else Jobs that exist and the OpenAPI schema",
)
async def reference(cluster: Cluster) -> CheckOutcome:
    """A field of a disabled gate is dropped silently, and kept even if no group can exist."""
    made = await generation(cluster)
    field = await pod_field(cluster)
    if field.kept is None:
        return await _by_what_exists(cluster, field)
    if made is None:
        if not field.kept:
            return ok(f"pods that name a group cannot hang: spec.{field.field} is dropped while no group can exist")
        return failed(
            f"pods keep spec.{field.field} while no group can exist: those that have one wait permanently",
            [field.how],
            remedy=f"serve {GROUP}/{await _release(cluster)}, or switch the feature gate GenericWorkload off until "
            "it is served",
        )
    if field.kept:
        return ok(f"spec.{field.field} of pods is kept", field.how)
    return failed(
        f"the API server serves {made.api_version}, and drops spec.{field.field} of pods",
        [field.how],
        remedy=f"enable the feature gate {GATES} on kube-apiserver, kube-scheduler and kube-controller-manager",
        command="kubectl -n kube-system get pods -l tier=control-plane -o yaml",
    )


async def _by_what_exists(cluster: Cluster, found: PodField) -> CheckOutcome:
    """Without a dry run, Jobs that have the field prove it; the schema has it regardless of the gate."""
    read = await seen_or(gangs.gangs(cluster), None)
    jobs = read.jobs_with_reference if read is not None else 0
    if jobs:
        return ok(f"spec.{found.field} of pods is kept", f"{plural(jobs, 'Job')} of this cluster with it", found.how)
    return unknown(
        f"a schema has spec.{found.field} whether its feature gate is on or not: only a dry run shows it",
        [found.how],
        remedy=f"get the right to {found.right}, or ask your administrator",
        command=f"gangctl doctor --only pod-field -n {cluster.namespace}",
    )


@fact
async def stored(cluster: Cluster) -> dict[str, str]:
    """Why objects cannot be listed, by resource; empty if they can."""
    made = await generation(cluster)
    kinds_of_gangs = list(scheduling_resources(made).values()) if made is not None else []
    errors = await all_of(_refusal(cluster, resource) for resource in kinds_of_gangs)
    return {resource.qualified_name: text for resource, text in zip(kinds_of_gangs, errors, strict=True)}


async def _refusal(cluster: Cluster, resource: Resource) -> str:
    """Why they cannot be listed."""
    try:
        # All pages: the API server decodes only those objects that a page has, where its watch cache is not ready.
        await cluster.list_widely(resource)
    except (ForbiddenError, UnavailableError):
        # They say nothing of the objects.
        raise
    except ApiError as error:
        return error.message
    return ""


@check(
    "stored-objects",
    Area.KUBERNETES,
    "Can every Workload and PodGroup be read that an earlier Kubernetes stored?",
    "a list of Workloads and one of PodGroups",
)
async def readable(cluster: Cluster) -> CheckOutcome:
    """Objects of an earlier minor cannot be decoded, and a single one prevents listing its kind."""
    texts = await stored(cluster)
    broken = {resource: text for resource, text in texts.items() if text}
    if not texts:
        return unknown("no Workloads are served, so none can be read")
    if not broken:
        return ok("all can be read", *(f"a list of {resource} succeeds" for resource in sorted(texts)))
    verdict = next(filter(None, map(evaluate_unreadable, broken.values())), None)
    return failed(
        verdict.reason if verdict is not None else "the API server cannot list the objects of gangs",
        [f"list {resource}: {text}" for resource, text in sorted(broken.items())],
        remedy="remove what the earlier minor has stored: docs/upgrades.md",
        command="etcdctl del --prefix /registry/workloads/ && etcdctl del --prefix /registry/podgroups/"
        if verdict is not None
        else "kubectl get --raw /readyz?verbose",
    )


_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
_GANGS: Final = "get, describe, why, wait, top"
_QUEUES: Final = "queue, fit"
_OF_QUEUES: Final = (
    *(kinds.QUEUED_WORKLOADS, kinds.COHORTS, kinds.RESOURCE_FLAVORS),
    *(kinds.TOPOLOGIES, kinds.PRIORITY_CLASSES),
)
_OF_PODS: Final = (kinds.LIMIT_RANGES, kinds.RUNTIME_CLASSES, kinds.POD_PRIORITY_CLASSES)
"""Of the requests of pods, which decide without Kueue, too."""
_DOCTOR: Final = "doctor"


class _Wanted(NamedTuple):
    """A right; ``namespace`` is empty for all, and ``name`` for objects of any name."""

    verb: str
    resource: Resource
    namespace: str
    commands: str
    name: str = ""

    @property
    def subject(self) -> str:
        """As ``kubectl auth can-i`` has it."""
        return f"{self.resource.qualified_name}/{self.name}" if self.name else self.resource.qualified_name


@dataclass(frozen=True, slots=True)
class Right:
    """Whether the user has a right, and which commands need it."""

    verb: str
    resource: str
    namespace: str
    wanted_by: str
    allowed: bool

    @property
    def title(self) -> str:
        """The right as text."""
        return right(self.verb, self.resource, self.namespace)


@fact
async def rights(cluster: Cluster) -> tuple[Right, ...]:
    """Send an access review for each; the API server stores nothing."""
    queues = VERSION in await kueue.kueue_versions(cluster)
    own = await seen_or(installed.gangctl_namespace(cluster), SYSTEM_NAMESPACE)
    made = await generation(cluster)
    groups = scheduling_resources(made).values() if made is not None else ()
    wanted = list(_wanted(cluster, own, groups, queues=queues))
    answers = await all_of(_ask(cluster, needed) for needed in wanted)
    return tuple(
        Right(needed.verb, needed.subject, needed.namespace, needed.commands, allowed)
        for needed, allowed in zip(wanted, answers, strict=True)
    )


def _wanted(cluster: Cluster, own: str, groups: Collection[Resource], *, queues: bool) -> Iterator[_Wanted]:
    namespace = cluster.namespace
    for resource in (JOBSETS, JOBS, PODS, resources.EVENTS, *groups):
        yield _Wanted("list", resource, namespace, _GANGS)
    for resource in (JOBSETS, JOBS, PODS, *groups):
        yield _Wanted("watch", resource, namespace, "wait, top")
    yield _Wanted("list", resources.RESOURCE_QUOTAS, namespace, _DOCTOR)
    yield _Wanted("list", resources.NODES, "", "describe, why, fit --fixed-nodes")
    yield _Wanted("create", JOBS, namespace, "why, plan (a dry run proves that pods keep their group)")
    if queues:
        for resource in (kinds.LOCAL_QUEUES, kinds.CLUSTER_QUEUES, kinds.ADMISSION_CHECKS):
            yield _Wanted("list", resource, namespace if resource.namespaced else "", f"{_QUEUES}, {_DOCTOR}")
        # By its name, as the role gangctl-queues-config allows it.
        yield _Wanted("get", kinds.CONFIG_MAPS, cluster.kueue_namespace, f"{_QUEUES}, {_DOCTOR}", kinds.CONFIG_NAME)
    for resource in (*(_OF_QUEUES if queues else ()), *_OF_PODS):
        yield _Wanted("list", resource, namespace if resource.namespaced else "", _QUEUES)
    yield _Wanted("list", GANG_POLICIES, "", f"fit (defaults of new JobSets), policy, {_DOCTOR}")
    yield _Wanted("create", JOBSETS, namespace, "doctor (a dry run asks gangctl's webhook), doctor --canary")
    for verb in ("get", "delete"):
        yield _Wanted(verb, JOBSETS, namespace, "doctor --canary")
    for resource in (*installed.CONFIGURATIONS, resources.NAMESPACES):
        yield _Wanted("list", resource, "", _DOCTOR)
    for resource in (installed.DEPLOYMENTS, installed.ENDPOINT_SLICES, PODS):
        yield _Wanted("list", resource, own, _DOCTOR)
    yield _Wanted("get", resources.LEASES, own, _DOCTOR)


async def _ask(cluster: Cluster, needed: _Wanted) -> bool:
    attributes = {"verb": needed.verb, "group": needed.resource.group, "resource": needed.resource.plural}
    optional = {"namespace": needed.namespace, "name": needed.name}
    spec = {"resourceAttributes": attributes | {field: value for field, value in optional.items() if value}}
    body = {"apiVersion": _REVIEWS.api_version, "kind": _REVIEWS.kind, "metadata": {}, "spec": spec}
    answer = await cluster.client.create(_REVIEWS, body)
    return object_at(answer, "status").get("allowed") is True


@check(
    "rights", Area.RIGHTS, "May you do what gangctl's commands do?", "SelfSubjectAccessReviews, which change nothing"
)
async def allowed(cluster: Cluster) -> CheckOutcome:
    """Missing rights, each with the commands that need it."""
    asked = await rights(cluster)
    missing: dict[str, list[str]] = defaultdict(list)
    for wanted in asked:
        if not wanted.allowed:
            missing[wanted.wanted_by].append(wanted.title)
    if not missing:
        return ok("you have every right that gangctl's commands need", f"{len(asked)} rights asked for")
    return warning(
        f"{sum(map(len, missing.values()))} of {len(asked)} rights are missing: these commands know less",
        [f"{commands}: {', '.join(titles)}" for commands, titles in missing.items()],
        remedy="manifests/tenants gives tenants what commands about their own gangs need; the rest is an operator's",
        command=f"kubectl auth can-i --list -n {cluster.namespace}",
    )
