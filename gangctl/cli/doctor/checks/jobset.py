"""Checks of the JobSet controller. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from gangctl.api.meta import JOBSET_API_VERSION, JOBSET_GROUP
from gangctl.cli.doctor.checks import hooks
from gangctl.cli.doctor.checks.kubernetes import minor_of
from gangctl.cli.doctor.facts import Deployment, Facts, seen, seen_or
from gangctl.cli.doctor.outcome import Outcome, failed, ok, unknown, warning
from gangctl.errors import plural

OLDEST: Final = (0, 10)
"""Oldest release of JobSet that gangctl is tested with."""
_TAG: Final = re.compile(r":v?(\d{1,4})\.(\d{1,4})(?:\.\d{1,5})?(?:[-+@]|\Z)")
_INSTALL: Final = "install JobSet 0.10 or later: https://jobset.sigs.k8s.io/docs/installation"
_CALLING: Final = re.compile(r'failed calling webhook "([^"]{1,200})"')


def release(image: str) -> tuple[int, int] | None:
    """Major and minor of an image's tag; None if it has none.

    >>> release("registry.k8s.io/jobset/jobset:v0.12.0@sha256:ab")
    (0, 12)
    """
    found = _TAG.search(image)
    return (int(found[1]), int(found[2])) if found else None


def releases(deployments: Iterable[Deployment]) -> list[tuple[int, int]]:
    """Releases in tags of images, the oldest first."""
    found = (release(image) for each in deployments for image in each.images)
    return sorted(each for each in found if each is not None)


def api(facts: Facts) -> Outcome:
    """gangctl reads and stamps one version."""
    served = seen(facts.jobset_versions)
    version = JOBSET_API_VERSION.partition("/")[2]
    evidence = [f"{JOBSET_GROUP} serves {', '.join(served)}"] if served else []
    if not served:
        return failed("JobSets are not served here", remedy=_INSTALL, command=f"kubectl get --raw /apis/{JOBSET_GROUP}")
    if version not in served:
        return failed(
            f"{JOBSET_API_VERSION} is not served, and gangctl reads nothing else",
            evidence,
            remedy="run a gangctl that knows this JobSet, or a JobSet that serves this version",
            command="kubectl get crd jobsets.jobset.x-k8s.io -o yaml",
        )
    if seen_or(facts.jobset_schedules, None):
        evidence.append("its schema has spec.scheduling: a JobSet that uses that is left to JobSet")
    return ok(f"{JOBSET_API_VERSION} is served", *evidence)


def controller(facts: Facts) -> Outcome:
    """By a Deployment behind the webhook; else by statuses that the controller wrote."""
    namespaces = {namespace for namespace, _ in hooks.services(hooks.of_jobset(seen(facts.configurations)))}
    beside = [each for each in seen_or(facts.deployments, ()) if each.namespace in namespaces and _is_jobset(each)]
    evidence = [each.title for each in beside]
    if any(each.ready < 1 for each in beside):
        return failed(
            "the JobSet controller is not ready: no Jobs are made",
            evidence,
            remedy="see why its pods are not ready",
            command=f"kubectl -n {beside[0].namespace} describe pods -l control-plane=controller-manager",
        )
    known = releases(beside)
    if known and known[0] < OLDEST:
        return failed(f"JobSet {dotted(known[0])} is older than {dotted(OLDEST)}", evidence, remedy=_INSTALL)
    if known:
        return ok(f"JobSet {dotted(known[0])} runs", *evidence, *_about_updates(facts, known[0]))
    return _by_its_work(facts, evidence)


def _about_updates(facts: Facts, known: tuple[int, int]) -> list[str]:
    """A controller built against another minor's API writes Jobs without the fields that it lacks."""
    minor = minor_of(seen_or(facts.version, ""))
    if keeps_reference(known, minor):
        return []
    evidence = (
        f"JobSet {dotted(known)} sends Jobs back without their pods' reference on Kubernetes {minor}, when it "
        "suspends and resumes; gangctl's webhook for Jobs puts it back"
    )
    return [evidence]


def keeps_reference(release: tuple[int, int], minor: str) -> bool:
    """Whether the API that a release was built against has the field of this minor.

    >>> keeps_reference((0, 12), "1.37"), keeps_reference((0, 12), "1.35"), keeps_reference((0, 11), "1.35")
    (True, False, True)
    """
    return release == (0, 11) if minor == "1.35" else release >= (0, 12)


def _is_jobset(deployment: Deployment) -> bool:
    return "jobset" in deployment.name or any("jobset" in image for image in deployment.images)


def dotted(found: tuple[int, int]) -> str:
    """A release as text."""
    return f"{found[0]}.{found[1]}"


def _by_its_work(facts: Facts, evidence: list[str]) -> Outcome:
    gangs = seen_or(facts.gangs, None)
    if gangs is not None and gangs.jobsets_without_status and not gangs.jobsets_with_status:
        names = ", ".join(gangs.jobsets_without_status[:4])
        return failed(
            "no JobSet has a status, though they exist for longer than a controller takes",
            [*evidence, f"JobSets without any status: {names}"],
            remedy="see whether the JobSet controller runs",
            command="kubectl get deployments -A",
        )
    if gangs is not None and gangs.jobsets_with_status:
        return ok(
            "a JobSet controller works; its release is not known from an image's tag",
            *evidence,
            f"{plural(gangs.jobsets_with_status, 'JobSet')} with a status",
        )
    canary = seen_or(facts.canary, None)
    if canary is not None and canary.whole.pods:
        return ok("a JobSet controller works: it has made the canary's Jobs", *evidence)
    return unknown(
        "no Deployment and no JobSet shows whether a JobSet controller runs",
        evidence,
        remedy="--canary shows it",
        command="gangctl doctor --canary",
    )


def webhooks(facts: Facts) -> Outcome:
    """They fail closed: while they are down, no JobSet and none of their pods can be created."""
    found = hooks.of_jobset(seen(facts.configurations))
    if not found:
        return failed(
            "JobSet's webhooks are not registered: defaults are missing, and nothing of a JobSet is checked",
            ["no webhook configuration of JobSet"],
            remedy=_INSTALL,
            command="kubectl get mutatingwebhookconfigurations,validatingwebhookconfigurations",
        )
    evidence = hooks.webhook_counts(found)
    bare = [
        f"{hooks.title(each)}: {webhook.get('name')} has no caBundle"
        for each in found
        for webhook in hooks.webhooks(each)
        if not hooks.client_config(webhook).get("caBundle")
    ]
    if bare:
        return failed(
            "API servers cannot trust the answers of JobSet's webhooks",
            bare,
            remedy="see what JobSet's controller says of its certificates, or cert-manager's injector",
            command="kubectl get mutatingwebhookconfigurations -o yaml",
        )
    return _answering(facts, evidence, hooks.services(found))


def _answering(facts: Facts, evidence: list[str], services: set[tuple[str, str]]) -> Outcome:
    ready = seen_or(facts.endpoints, None)
    if ready is not None:
        evidence += hooks.endpoint_counts(services, ready)
    tried = seen_or(facts.dry_run, None)
    called = _CALLING.search(tried.refusal) if tried is not None else None
    silent = called is not None and "gangctl" not in called[1]
    empty = ready is not None and any(not ready.get(each) for each in services)
    if silent or empty:
        refusal = [f"dry run: {tried.refusal}"] if tried is not None and silent else []
        return failed(
            "JobSet's webhooks do not answer: no JobSet can be created",
            [*refusal, *evidence],
            remedy="see whether its controller runs, and whether API servers reach its Service",
            command="kubectl get endpointslices -A -l kubernetes.io/service-name=jobset-webhook-service",
        )
    if tried is not None and tried.defaulted:
        return ok("they are registered, and answer", *evidence, "a JobSet sent with dryRun=All came back with defaults")
    if ready is not None and services:
        return ok("they are registered, and their endpoints answer", *evidence)
    if tried is not None and not tried.refusal:
        return warning(
            "JobSet's webhooks were passed by: a JobSet came back without their defaults",
            evidence,
            remedy="see the namespaceSelector and failurePolicy of its configurations",
            command="kubectl get mutatingwebhookconfigurations -o yaml",
        )
    return unknown("they are registered; whether they answer, a dry run shows", evidence, remedy="see check admission")
