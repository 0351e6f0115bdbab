"""Checks of the JobSet controller."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gangctl.api.meta import JOBSET_API_VERSION, JOBSET_GROUP
from gangctl.api.objects import Object, within
from gangctl.cli.doctor.canary import gang_of_two, is_defaulted, is_stamped
from gangctl.cli.doctor.check import Area, CheckOutcome, check, failed, ok, unknown, warning
from gangctl.cli.doctor.checks import canary, gangs, installed, kubernetes
from gangctl.cli.doctor.cluster import Cluster, denied, fact, seen_or, version
from gangctl.client.resources import JOBSETS
from gangctl.errors import ForbiddenError, InvalidError, NotFoundError, ServerError, UnavailableError, plural

_OLDEST: Final = (0, 10)
"""Oldest release of JobSet that gangctl is tested with."""
_INSTALL: Final = "install JobSet 0.10 or later: https://jobset.sigs.k8s.io/docs/installation"
_CALLING: Final = "failed calling webhook"
_PROBE: Final = "gangctl-doctor"
"""Name of the JobSet sent with dryRun=All."""


@fact
async def jobset_versions(cluster: Cluster) -> tuple[str, ...]:
    """Versions of JobSet's API."""
    return tuple(await cluster.client.discovery.group_versions(JOBSET_GROUP))


@fact
async def jobset_schedules(cluster: Cluster) -> bool:
    """Whether JobSets of this cluster have ``spec.scheduling``."""
    document = await cluster.client.discovery.openapi_v3(f"apis/{JOBSET_API_VERSION}")
    spec = ("components", "schemas", "io.x-k8s.jobset.v1alpha2.JobSet", "properties", "spec")
    return "scheduling" in within(document, *spec, "properties")


@dataclass(frozen=True, slots=True)
class DryRun:
    """Result of a JobSet that requests a gang, sent with dryRun=All."""

    stamped: bool = False
    defaulted: bool = False
    """Whether JobSet's webhook set its defaults."""
    refusal: str = ""


@fact
async def dry_run(cluster: Cluster) -> DryRun:
    """Result of a dry run of a JobSet that requests a gang."""
    if JOBSETS.version not in await jobset_versions(cluster):
        return DryRun(refusal=f"{JOBSET_API_VERSION} is not served")
    try:
        answer = await cluster.client.create(JOBSETS, gang_of_two(_PROBE), cluster.namespace, dry_run=True)
    except (ForbiddenError, InvalidError, NotFoundError, ServerError, UnavailableError) as error:
        # The right is missing: no webhook was called, and nothing is known of them.
        if denied(error.message):
            raise
        # A webhook that does not answer is among these: the API server makes it a 500.
        return DryRun(refusal=error.message)
    return DryRun(is_stamped(answer), is_defaulted(answer))


@check("jobset-api", Area.JOBSET, "Are JobSets served?", "discovery and OpenAPI schema of jobset.x-k8s.io")
async def api(cluster: Cluster) -> CheckOutcome:
    """gangctl reads and stamps one version."""
    served = await jobset_versions(cluster)
    evidence = [f"{JOBSET_GROUP} serves {', '.join(served)}"] if served else []
    if not served:
        return failed("JobSets are not served here", remedy=_INSTALL, command=f"kubectl get --raw /apis/{JOBSET_GROUP}")
    if JOBSETS.version not in served:
        return failed(
            f"{JOBSET_API_VERSION} is not served, and gangctl reads nothing else",
            evidence,
            remedy="run a gangctl that knows this JobSet, or a JobSet that serves this version",
            command="kubectl get crd jobsets.jobset.x-k8s.io -o yaml",
        )
    if await seen_or(jobset_schedules(cluster), None):
        evidence.append("its schema has spec.scheduling: a JobSet that uses that is left to JobSet")
    return ok(f"{JOBSET_API_VERSION} is served", *evidence)


@check(
    "jobset-controller",
    Area.JOBSET,
    "Does a JobSet controller of a known version run?",
    "Deployments beside JobSet's webhook, and the status of JobSets",
)
async def controller(cluster: Cluster) -> CheckOutcome:
    """By a Deployment behind the webhook; else by statuses that the controller wrote."""
    configurations = await installed.configurations(cluster)
    namespaces = {namespace for namespace, _ in installed.services(installed.owned_by(configurations, "jobset"))}
    deployments = await seen_or(installed.deployments(cluster), ())
    beside = [item for item in deployments if item.namespace in namespaces and item.is_of("jobset")]
    evidence = [line for item in beside for line in item.evidence]
    if any(item.ready < 1 for item in beside):
        return failed(
            "the JobSet controller is not ready: no Jobs are made",
            evidence,
            remedy="see why its pods are not ready",
            command=f"kubectl -n {beside[0].namespace} describe pods -l control-plane=controller-manager",
        )
    known = installed.oldest_release(beside)
    name = f"JobSet {installed.dotted(known)}" if known else ""
    if known and known < _OLDEST:
        return failed(f"{name} is older than {installed.dotted(_OLDEST)}", evidence, remedy=_INSTALL)
    if stuck := installed.stuck_rollout("the JobSet controller", beside, evidence):
        return stuck
    if known is None:
        return await _by_its_work(cluster, evidence)
    minor = kubernetes.minor_of(await seen_or(version(cluster), ""))
    if not keeps_reference(known, minor):
        evidence.append(
            f"{name} sends Jobs back without their pods' reference on Kubernetes {minor}, when it suspends and "
            "resumes; gangctl's webhook for Jobs puts it back"
        )
    return ok(f"{name} runs", *evidence)


def keeps_reference(release: tuple[int, int], minor: str) -> bool:
    """Whether the API that a release was built against has the field of this minor.

    >>> keeps_reference((0, 12), "1.37"), keeps_reference((0, 12), "1.35"), keeps_reference((0, 11), "1.35")
    (True, False, True)
    """
    return release == (0, 11) if minor == "1.35" else release >= (0, 12)


async def _by_its_work(cluster: Cluster, evidence: list[str]) -> CheckOutcome:
    read = await seen_or(gangs.gangs(cluster), gangs.ReadGangs("", 0))
    if read.jobsets_without_status and not read.jobsets_with_status:
        names = ", ".join(read.jobsets_without_status[:4])
        return failed(
            "no JobSet has a status, though they exist for longer than a controller takes",
            [*evidence, f"JobSets without any status: {names}"],
            remedy="see whether the JobSet controller runs",
            command="kubectl get deployments -A",
        )
    if read.jobsets_with_status:
        return ok(
            "a JobSet controller works; its release is not known from an image's tag",
            *evidence,
            f"{plural(read.jobsets_with_status, 'JobSet')} with a status",
        )
    made = await seen_or(canary.canary(cluster), None)
    if made is not None and made.whole.pods:
        return ok("a JobSet controller works: it has made the canary's Jobs", *evidence)
    return unknown(
        "no Deployment and no JobSet shows whether a JobSet controller runs",
        evidence,
        remedy="--canary shows it",
        command="gangctl doctor --canary",
    )


@check(
    "jobset-webhooks",
    Area.JOBSET,
    "Are JobSet's webhooks registered, and do they answer?",
    "webhook configurations, EndpointSlices, a JobSet created with dryRun=All",
)
async def webhooks(cluster: Cluster) -> CheckOutcome:
    """They fail closed: while they are down, no JobSet and none of their pods can be created."""
    registered = installed.owned_by(await installed.configurations(cluster), "jobset")
    if not registered:
        tried = await seen_or(dry_run(cluster), None)
        if tried is not None and tried.defaulted:
            return ok(
                "JobSets get their defaults without a webhook, as in the sandbox",
                "no webhook configuration of JobSet",
                "a JobSet sent with dryRun=All came back with defaults",
            )
        if tried is not None and tried.refusal:
            return unknown(
                "a refused dry run does not show whether JobSets get their defaults",
                ["no webhook configuration of JobSet", f"refused: {tried.refusal}"],
                remedy="see check admission first",
                command="gangctl doctor --only admission",
            )
        return failed(
            "JobSet's webhooks are not registered: defaults are missing, and nothing of a JobSet is checked",
            ["no webhook configuration of JobSet"],
            remedy=_INSTALL,
            command="kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations",
        )
    return await _answering(cluster, registered)


async def _answering(cluster: Cluster, registered: list[Object]) -> CheckOutcome:
    bare = installed.without_bundle(registered)
    evidence = [*installed.webhook_counts(registered), *bare]
    services = installed.services(registered)
    ready = await seen_or(installed.endpoints(cluster), None)
    if ready is not None:
        evidence += installed.endpoint_counts(services, ready)
    tried = await seen_or(dry_run(cluster), None)
    # The dry run calls other webhooks, too, about which the check `admission` is. Kueue's for JobSets have the names of
    # JobSet's, mjobset.kb.io and vjobset.kb.io: only the address says whose webhook does not answer.
    addresses = [installed.address(webhook) for item in registered for webhook in installed.webhooks(item)]
    refusal = tried.refusal if tried is not None else ""
    silent = _CALLING in refusal and any(address in refusal for address in addresses)
    empty = ready is not None and any(not ready.get(service) for service in services)
    if silent or empty:
        return failed(
            "JobSet's webhooks do not answer: no JobSet can be created",
            [*([f"dry run: {refusal}"] if silent else []), *evidence],
            remedy="see whether its controller runs, and whether API servers reach its Service",
            command="kubectl get endpointslices -A -l kubernetes.io/service-name=jobset-webhook-service",
        )
    if tried is not None and tried.defaulted:
        return ok("they are registered, and answer", *evidence, "a JobSet sent with dryRun=All came back with defaults")
    if bare:
        return warning(
            installed.UNTRUSTED.format("JobSet's"),
            evidence,
            remedy="see what JobSet's controller says of its certificates, or cert-manager's injector",
            command="gangctl doctor --only admission",
        )
    if ready is not None and services:
        return ok("they are registered, and their endpoints answer", *evidence)
    if tried is not None and not tried.refusal:
        return warning(
            "JobSet's webhooks were not called: a JobSet came back without their defaults",
            evidence,
            remedy="see the namespaceSelector and failurePolicy of its configurations",
            command="kubectl get mutatingwebhookconfigurations -o yaml",
        )
    return unknown("they are registered; whether they answer, a dry run shows", evidence, remedy="see check admission")
