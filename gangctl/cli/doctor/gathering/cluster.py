"""What Kubernetes serves, which fields it stores, and which of the rights that gangctl's commands need the user has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing
from typing import Any, Final

from gangctl.api.meta import JOBSET_API_VERSION, JOBSET_GROUP
from gangctl.api.scheduling import Generation
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.cli.doctor.canary import gang_of_two, is_defaulted, is_stamped
from gangctl.cli.doctor.facts import DryRun, JobPolicy, PodField, Right, UnseenError, seen_or
from gangctl.cli.doctor.gathering.gatherer import Gatherer, all_of, denied, unseen
from gangctl.cli.doctor.gathering.installed import DEPLOYMENTS, ENDPOINT_SLICES, OWN_NAMESPACE
from gangctl.client.client import Client
from gangctl.client.resources import (
    EVENTS,
    JOBS,
    JOBSETS,
    LEASES,
    MUTATING_ADMISSION_POLICIES,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    Resource,
)
from gangctl.cluster import kinds
from gangctl.controllers.discovery import served_resources
from gangctl.controllers.writer import scheduling_resources
from gangctl.errors import ApiError, ForbiddenError, InvalidError, NotFoundError, ServerError, UnavailableError
from gangctl.gang.generation import (
    ServedVersion,
    evaluate_proof,
    names_its_group,
    pick_generation,
    proof_job,
    stamped_proof_job,
)
from gangctl.kueue.names import VERSION
from gangctl.webhooks.configurations import JOBS_WEBHOOK

PROBE: Final = "gangctl-doctor"
"""Name of objects sent with dryRun=All."""


async def version(gatherer: Gatherer) -> str:
    """As the server says it."""
    return str((await gatherer.client.discovery.version()).get("gitVersion", ""))


async def served(gatherer: Gatherer) -> dict[str, ServedVersion]:
    """What is served, by version of the scheduling API."""
    return await served_resources(gatherer.client)


async def generation(gatherer: Gatherer) -> Generation | None:
    """The generation that gangs are made in."""
    return pick_generation(await gatherer.seen("served")).generation


async def stored(gatherer: Gatherer) -> dict[str, str]:
    """Why the first object of each kind cannot be listed."""
    found = await generation(gatherer)
    resources = list(scheduling_resources(found).values()) if found is not None else []
    errors = await all_of(_first(gatherer, each) for each in resources)
    return {resource.qualified_name: text for resource, text in zip(resources, errors, strict=True)}


async def _first(gatherer: Gatherer, resource: Resource) -> str:
    """Why none can be listed: in no namespace, or in the selected one."""
    try:
        return await _first_of(gatherer.client, resource, None)
    except ForbiddenError:
        return await _first_of(gatherer.client, resource, gatherer.namespace)


async def _first_of(client: Client, resource: Resource, namespace: str | None) -> str:
    try:
        async with aclosing(client.pages(resource, namespace, limit=1)) as pages:
            await anext(pages)
    except (ForbiddenError, UnavailableError):
        raise
    except ApiError as error:
        return error.message
    return ""


async def pod_field(gatherer: Gatherer) -> PodField:
    """Whether pods keep their reference: by a dry run, or by the schema without that right."""
    found = await generation(gatherer)
    if found is not None:
        return await _prove(gatherer, found) or await _by_schema(gatherer, found)
    # No group can exist: a field that is stored anyway blocks its pods.
    tried = [await _prove(gatherer, each) for each in (Generation.V1BETA1, Generation.V1ALPHA1)]
    proved = [each for each in tried if each is not None]
    return next((each for each in proved if each.kept), proved[0] if proved else None) or await _by_schema(
        gatherer, Generation.V1BETA1
    )


async def _prove(gatherer: Gatherer, generation: Generation) -> PodField | None:
    namespace, field = gatherer.namespace, ADAPTERS[generation].reference_field
    try:
        answer = await gatherer.client.create(JOBS, proof_job(generation, namespace), namespace, dry_run=True)
    except ForbiddenError as error:
        if denied(error.message):
            return None
        raise UnseenError(unseen(error)) from error
    kept = evaluate_proof(generation, answer).available
    how = f"a Job sent with dryRun=All in namespace {namespace} came back {'with' if kept else 'without'} it"
    return PodField(field, kept, how)


async def job_policy(gatherer: Gatherer) -> JobPolicy:
    """Whether the API server names the group of a Job that is like those of gangs."""
    if not await gatherer.client.discovery.serves(MUTATING_ADMISSION_POLICIES):
        return JobPolicy(served=False)
    namespace = gatherer.namespace
    sent = f"a Job with a stamp, sent with dryRun=All in namespace {namespace},"
    try:
        answer = await gatherer.client.create(JOBS, stamped_proof_job(namespace), namespace, dry_run=True)
    except ApiError as error:
        # The webhook for Jobs, which the policy keeps from being called, refuses this one, or does not answer.
        invalid = isinstance(error, ForbiddenError | InvalidError) and not denied(error.message)
        if not invalid and JOBS_WEBHOOK not in error.message:
            raise
        return JobPolicy(served=True, how=f"{sent} was refused: {error.message}")
    writes = names_its_group(answer)
    return JobPolicy(served=True, writes=writes, how=f"{sent} came back {'with' if writes else 'without'} its group")


async def _by_schema(gatherer: Gatherer, generation: Generation) -> PodField:
    field, namespace = ADAPTERS[generation].reference_field, gatherer.namespace
    document = await gatherer.client.discovery.openapi_v3("api/v1")
    known = field in _properties(document, "io.k8s.api.core.v1.PodSpec")
    how = f"the OpenAPI schema of pods {'has' if known else 'does not have'} spec.{field}"
    return PodField(field, None if known else False, how, f"create jobs.batch in namespace {namespace}")


def _properties(document: dict[str, Any], schema: str) -> dict[str, Any]:
    found: Any = document
    for key in ("components", "schemas", schema, "properties"):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


async def jobset_versions(gatherer: Gatherer) -> tuple[str, ...]:
    """Versions of JobSet's API."""
    return tuple(await gatherer.client.discovery.group_versions(JOBSET_GROUP))


async def jobset_schedules(gatherer: Gatherer) -> bool:
    """Whether JobSets of this cluster have ``spec.scheduling``."""
    document = await gatherer.client.discovery.openapi_v3(f"apis/{JOBSET_API_VERSION}")
    schema = "io.x-k8s.jobset.v1alpha2.JobSet"
    spec = _properties(document, schema).get("spec")
    properties = spec.get("properties") if isinstance(spec, dict) else None
    return isinstance(properties, dict) and "scheduling" in properties


async def dry_run(gatherer: Gatherer) -> DryRun:
    """Result of a dry run of a JobSet that requests a gang."""
    namespace = gatherer.namespace
    if JOBSETS.version not in await gatherer.seen("jobset_versions"):
        return DryRun(refusal=f"{JOBSET_API_VERSION} is not served")
    try:
        answer = await gatherer.client.create(JOBSETS, gang_of_two(PROBE), namespace, dry_run=True)
    except (ForbiddenError, InvalidError, NotFoundError, ServerError, UnavailableError) as error:
        if denied(error.message):
            raise
        return DryRun(refusal=error.message)
    return DryRun(is_stamped(answer), is_defaulted(answer))


REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
_GANGS: Final = "get, describe, why, wait, top"
_DOCTOR: Final = "doctor"
Wanted = tuple[str, Resource, str, str]
"""Verb, resource, namespace (empty for all) and commands."""


async def rights(gatherer: Gatherer) -> tuple[Right, ...]:
    """Send an access review for each; the API server stores nothing."""
    queues = VERSION in await gatherer.seen("kueue_versions")
    own = seen_or(await gatherer.fact("gangctl_namespace"), OWN_NAMESPACE)
    wanted = list(_wanted(gatherer.namespace, own, await generation(gatherer), queues=queues))
    allowed = await all_of(_ask(gatherer.client, *each[:3]) for each in wanted)
    return tuple(
        Right(verb, resource.qualified_name, namespace, commands, each)
        for (verb, resource, namespace, commands), each in zip(wanted, allowed, strict=True)
    )


def _wanted(namespace: str, own: str, found: Generation | None, *, queues: bool) -> Iterator[Wanted]:
    groups = list(scheduling_resources(found).values()) if found is not None else []
    for resource in (JOBSETS, JOBS, PODS, EVENTS, *groups):
        yield "list", resource, namespace, _GANGS
    for resource in (JOBSETS, JOBS, PODS, *groups):
        yield "watch", resource, namespace, "wait, top"
    yield "list", RESOURCE_QUOTAS, namespace, _DOCTOR
    yield "list", NODES, "", "describe, why, fit --fixed-nodes"
    yield "create", JOBS, namespace, "why, plan (a dry run proves that pods keep their group)"
    if queues:
        for resource in (kinds.LOCAL_QUEUES, kinds.QUEUED_WORKLOADS):
            yield "list", resource, namespace, "queue, fit"
        yield "list", kinds.CLUSTER_QUEUES, "", "queue, fit"
        yield "list", kinds.ADMISSION_CHECKS, "", _DOCTOR
    yield "create", JOBSETS, namespace, "doctor (a dry run asks gangctl's webhook), doctor --canary"
    yield "delete", JOBSETS, namespace, "doctor --canary"
    for resource in (MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS, NAMESPACES):
        yield "list", resource, "", _DOCTOR
    for resource in (DEPLOYMENTS, ENDPOINT_SLICES):
        yield "list", resource, own, _DOCTOR
    yield "get", LEASES, own, _DOCTOR


async def _ask(client: Client, verb: str, resource: Resource, namespace: str) -> bool:
    attributes = {"verb": verb, "group": resource.group, "resource": resource.plural}
    if namespace:
        attributes["namespace"] = namespace
    body = {
        "apiVersion": REVIEWS.api_version,
        "kind": REVIEWS.kind,
        "metadata": {},
        "spec": {"resourceAttributes": attributes},
    }
    answer = await client.create(REVIEWS, body)
    return (answer.get("status") or {}).get("allowed") is True
