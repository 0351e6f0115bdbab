"""The writer of group references in Jobs: the API server by gangctl's policy, else gangctl's webhook. Pure."""

from __future__ import annotations

from typing import Final

from gangctl.cli.doctor.checks import hooks
from gangctl.cli.doctor.facts import Facts, seen
from gangctl.cli.doctor.outcome import Outcome, failed, ok, unknown, warning
from gangctl.gang.generation import pick_generation
from gangctl.webhooks.configurations import JOBS_NAME

_API: Final = "admissionregistration.k8s.io/v1 MutatingAdmissionPolicy"
_SHOW: Final = "kubectl get mutatingadmissionpolicies,mutatingadmissionpolicybindings"


def job_groups(facts: Facts) -> Outcome:
    """The API server should, if it can: then Jobs do not wait for gangctl."""
    state = pick_generation(seen(facts.served))
    if state.generation is None:
        return unknown(f"no gang can be made: {state.reason}")
    found = seen(facts.job_policy)
    asked = any(hooks.name_of(each) == JOBS_NAME and hooks.webhooks(each) for each in seen(facts.configurations))
    webhook = f"MutatingWebhookConfiguration {JOBS_NAME}"
    if found.writes and asked:
        return warning(
            "the API server names the groups of Jobs by itself, and still asks gangctl about each",
            [found.how, webhook],
            remedy="leave the component job-webhook out; a gangctl that registers itself deletes this within a minute",
            command=f"kubectl delete mutatingwebhookconfiguration {JOBS_NAME}",
        )
    if found.writes:
        return ok("the API server names them, whether gangctl answers or not", found.how)
    if asked and found.served:
        return warning(
            f"Jobs of gangs wait for gangctl, although the cluster serves {_API}",
            [found.how, webhook],
            remedy="apply manifests/base without the component job-webhook, unless the feature gate "
            "MutatingAdmissionPolicy is off",
            command=_SHOW,
        )
    if asked:
        return ok("gangctl's webhook names them", f"{_API} is not served", webhook)
    return failed(
        "nothing names the groups of Jobs: their pods would start one by one",
        [found.how or f"{_API} is not served", f"no {webhook}"],
        remedy="apply manifests/base, which has the policy; if that is there, the feature gate "
        "MutatingAdmissionPolicy is off, and the component job-webhook is needed"
        if found.served
        else "add the component job-webhook to manifests/base",
        command=_SHOW if found.served else "gangctl install --component job-webhook",
    )
