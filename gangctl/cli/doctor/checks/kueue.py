"""Checks of Kueue. Pure."""

from __future__ import annotations

from typing import Final

from gangctl.cli.doctor.checks.jobset import dotted, releases
from gangctl.cli.doctor.facts import Facts, seen, seen_or
from gangctl.cli.doctor.outcome import Outcome, failed, ok, unknown, warning
from gangctl.kueue.names import API_VERSION, CHECK_CONTROLLER, GROUP, PARAMETERS_KIND, VERSION

FRAMEWORK: Final = "jobset.x-k8s.io/jobset"
OLDEST: Final = (0, 19)
"""Oldest release of Kueue that gangctl is tested with."""
_ABSENT: Final = "Kueue is not installed here: there is nothing to look at"


def api(facts: Facts) -> Outcome:
    """gangctl reads one version of its API."""
    served = seen(facts.kueue_versions)
    if not served:
        return ok(_ABSENT)
    evidence = [f"{GROUP} serves {', '.join(served)}"]
    if VERSION not in served:
        return failed(
            f"{API_VERSION} is not served: gangctl knows nothing of its queues",
            evidence,
            remedy=f"upgrade Kueue to {dotted(OLDEST)} or later, or run gangctl with --kueue off",
            command=f"kubectl get --raw /apis/{GROUP}",
        )
    deployments = seen_or(facts.deployments, ())
    mine = [each for each in deployments if any("kueue" in image for image in (each.name, *each.images))]
    evidence += [each.title for each in mine]
    known = releases(mine)
    if any(each.ready < 1 for each in mine):
        return failed(
            "Kueue is not ready: JobSets in queues stay suspended",
            evidence,
            remedy="see why its pods are not ready",
            command=f"kubectl -n {mine[0].namespace} get pods",
        )
    if known and known[0] < OLDEST:
        return warning(
            f"Kueue {dotted(known[0])} is older than {dotted(OLDEST)}, which gangctl is tested with",
            evidence,
            remedy="upgrade Kueue: earlier ones take fewer podsets",
        )
    return ok(f"Kueue {dotted(known[0])}" if known else f"{API_VERSION} is served", *evidence)


def configuration(facts: Facts) -> Outcome:
    """Kueue manages the kinds that its configuration lists."""
    if not seen(facts.kueue_versions):
        return ok(_ABSENT)
    found = seen(facts.kueue_configuration)
    if not found.known:
        return unknown(
            f"Kueue's configuration cannot be read: {found.unreadable}",
            remedy="--kueue-namespace says where it runs",
            command="kubectl get configmaps -A --field-selector metadata.name=kueue-manager-config",
        )
    evidence = [f"integrations.frameworks: {', '.join(found.frameworks)}"]
    if FRAMEWORK not in found.frameworks:
        return failed(
            "Kueue does not manage JobSets: those with a queue start at once, quota or not",
            evidence,
            remedy=f"add {FRAMEWORK} to integrations.frameworks of ConfigMap kueue-manager-config, and restart Kueue",
            command="kubectl -n kueue-system edit configmap kueue-manager-config",
        )
    return ok("Kueue manages JobSets", *evidence)


def checks(facts: Facts) -> Outcome:
    """An AdmissionCheck without its controller blocks JobSets permanently."""
    if not seen(facts.kueue_versions):
        return ok(_ABSENT)
    mine = [each for each in seen(facts.kueue_checks) if each.controller == CHECK_CONTROLLER]
    idle = [each for each in mine if each.active is None or not each.active.status]
    if idle:
        return failed(
            "AdmissionChecks of gangctl are not active: ClusterQueues that use them admit nothing",
            [
                f"AdmissionCheck {each.name}: {each.active.message if each.active else 'no condition Active'}"
                for each in idle
            ],
            remedy="run gangctl with --kueue-check (manifests/kueue-check), or take the check off the queues",
            command=f"kubectl get admissioncheck {idle[0].name} -o yaml",
        )
    odd = [each for each in mine if each.parameters is not None and each.parameters[1] != PARAMETERS_KIND]
    if odd:
        return warning(
            f"parameters of gangctl's AdmissionChecks are of kind {PARAMETERS_KIND}",
            [f"AdmissionCheck {each.name} has {each.parameters}" for each in odd],
            remedy=f"make a {PARAMETERS_KIND}, or leave parameters out",
            command=f"kubectl edit admissioncheck {odd[0].name}",
        )
    evidence = [f"AdmissionCheck {each.name} is active" for each in mine]
    return ok("nothing waits for a gangctl that does not look" if not mine else "they are looked after", *evidence)
