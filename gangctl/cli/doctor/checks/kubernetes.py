"""Checks of Kubernetes: version, scheduling API, references of pods and who writes them, user's rights. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Final

from gangctl.api.scheduling import GROUP, NEWEST, TESTED
from gangctl.cli.doctor.checks import hooks
from gangctl.cli.doctor.facts import Facts, seen, seen_or
from gangctl.cli.doctor.outcome import Outcome, failed, ok, unknown, warning
from gangctl.errors import plural
from gangctl.gang.generation import evaluate_unreadable, pick_generation
from gangctl.webhooks.configurations import JOBS_NAME

_VERSION: Final = re.compile(r"v(\d{1,4}\.\d{1,4})\.")
_MINORS: Final = tuple(generation.kubernetes for generation in TESTED)
_KNOWN: Final = f"{_MINORS[0]} to {_MINORS[-1]}"
GATES: Final = "GenericWorkload (on 1.35 and 1.36 GangScheduling, too)"


def minor_of(version: str) -> str:
    """``1.37`` of ``v1.37.1``; empty for anything else.

    >>> minor_of("v1.37.1-gke.2")
    '1.37'
    """
    found = _VERSION.match(version)
    return found[1] if found else ""


def version(facts: Facts) -> Outcome:
    """Supported minors; a newer one may still serve a supported API."""
    version = seen(facts.version)
    minor = minor_of(version)
    if minor in _MINORS:
        return ok(f"Kubernetes {minor}", f"gitVersion {version}")
    if _number(minor) > _number(_MINORS[-1]):
        return warning(
            f"Kubernetes {minor} is newer than those that this gangctl was tested with ({_KNOWN})",
            [f"gitVersion {version}"],
            remedy="look for a newer gangctl; as long as scheduling-api and pod-field are ok, gangs are made",
        )
    return failed(
        f"gangctl knows Kubernetes {_KNOWN}",
        [f"gitVersion {version}"],
        remedy="upgrade the cluster: earlier minors have no API for gangs",
        command="kubectl version",
    )


def _number(minor: str) -> tuple[int, ...]:
    return tuple(int(part) for part in minor.split(".") if part)


def scheduling_api(facts: Facts) -> Outcome:
    """The served resources choose the generation."""
    served = seen(facts.served)
    evidence = [f"{GROUP}/{each} serves {', '.join(sorted(served[each].resources))}" for each in sorted(served)]
    state = pick_generation(served)
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
        remedy=f"start kube-apiserver with --runtime-config={GROUP}/{_wanted(facts)}=true and the feature gate {GATES}",
        command=f"kubectl get --raw /apis/{GROUP}",
    )


def _wanted(facts: Facts) -> str:
    minor = minor_of(seen_or(facts.version, ""))
    return next((each.value for each in TESTED if each.kubernetes == minor), NEWEST.value)


def pod_field(facts: Facts) -> Outcome:
    """A field of a disabled gate is dropped silently, and kept even if no group can exist."""
    generation = pick_generation(seen(facts.served)).generation
    found = seen(facts.pod_field)
    if found.kept is None:
        return _by_what_exists(facts)
    if generation is None:
        if not found.kept:
            return ok(f"pods that name a group cannot hang: spec.{found.field} is dropped while no group can exist")
        return failed(
            f"pods keep spec.{found.field} while no group can exist: those that have one wait permanently",
            [found.how],
            remedy=f"serve {GROUP}/{_wanted(facts)}, or switch the feature gate GenericWorkload off until it is served",
        )
    if found.kept:
        return ok(f"spec.{found.field} of pods is kept", found.how)
    return failed(
        f"the API server serves {generation.api_version}, and drops spec.{found.field} of pods",
        [found.how],
        remedy=f"enable the feature gate {GATES} on kube-apiserver, kube-scheduler and kube-controller-manager",
        command="kubectl -n kube-system get pods -l tier=control-plane -o yaml",
    )


def _by_what_exists(facts: Facts) -> Outcome:
    """Without a dry run, Jobs that have the field prove it; the schema has it regardless of the gate."""
    found = seen(facts.pod_field)
    gangs = seen_or(facts.gangs, None)
    jobs = gangs.jobs_with_reference if gangs is not None else 0
    if jobs:
        return ok(f"spec.{found.field} of pods is kept", f"{plural(jobs, 'Job')} of this cluster with it", found.how)
    return unknown(
        f"a schema has spec.{found.field} whether its feature gate is on or not: only a dry run shows it",
        [found.how],
        remedy=f"get the right to {found.right}, or ask your administrator",
        command=f"gangctl doctor --only pod-field -n {facts.namespace}",
    )


def stored_objects(facts: Facts) -> Outcome:
    """Objects of an earlier minor cannot be decoded, and a single one prevents listing its kind."""
    stored = seen(facts.stored)
    broken = {resource: text for resource, text in stored.items() if text}
    if not stored:
        return unknown("no Workloads are served, so none can be read")
    if not broken:
        return ok("all can be read", *(f"a list of {resource} succeeds" for resource in sorted(stored)))
    verdict = next(filter(None, map(evaluate_unreadable, broken.values())), None)
    return failed(
        verdict.reason if verdict is not None else "the API server cannot list the objects of gangs",
        [f"list {resource}: {text}" for resource, text in sorted(broken.items())],
        remedy="remove what the earlier minor has stored: docs/upgrades.md",
        command="etcdctl del --prefix /registry/workloads/ && etcdctl del --prefix /registry/podgroups/"
        if verdict is not None
        else "kubectl get --raw /readyz?verbose",
    )


_API: Final = "admissionregistration.k8s.io/v1 MutatingAdmissionPolicy"
_WEBHOOK: Final = f"MutatingWebhookConfiguration {JOBS_NAME}"
_SHOW: Final = "kubectl get mutatingadmissionpolicies,mutatingadmissionpolicybindings"


def job_groups(facts: Facts) -> Outcome:
    """The API server should, if it can: then Jobs do not wait for gangctl."""
    state = pick_generation(seen(facts.served))
    if state.generation is None:
        return unknown(f"no gang can be made: {state.reason}")
    found = seen(facts.job_policy)
    if found.writes:
        return ok("the API server names them, whether gangctl answers or not", found.how)
    evidence = [found.how or f"{_API} is not served"]
    configurations = seen(facts.configurations)
    if not any(hooks.name_of(config) == JOBS_NAME and hooks.webhooks(config) for config in configurations):
        return failed(
            "nothing names the groups of Jobs: their pods would start one by one",
            [*evidence, f"no {_WEBHOOK}"],
            remedy="apply manifests/base, which has the webhook for Jobs and the policy",
            command="gangctl install --context CONTEXT",
        )
    if found.served:
        return warning(
            f"Jobs of gangs wait for gangctl, although the cluster serves {_API}",
            [*evidence, _WEBHOOK],
            remedy="apply manifests/base, which has the policy and its binding; a gangctl that registers itself "
            "repairs them within a minute. If both are there, the feature gate MutatingAdmissionPolicy is off",
            command=_SHOW,
        )
    return ok("gangctl's webhook names them", *evidence, _WEBHOOK)


def rights(facts: Facts) -> Outcome:
    """Missing rights, each with the commands that need it."""
    asked = seen(facts.rights)
    missing: dict[str, list[str]] = defaultdict(list)
    for each in asked:
        if not each.allowed:
            missing[each.wanted_by].append(each.title)
    if not missing:
        return ok("you may do all of it", f"{len(asked)} rights asked for")
    return warning(
        f"{sum(map(len, missing.values()))} of {len(asked)} rights are missing: these commands know less",
        [f"{commands}: {', '.join(titles)}" for commands, titles in missing.items()],
        remedy="manifests/tenants gives tenants what commands about their own gangs need; the rest is an operator's",
        command=f"kubectl auth can-i --list -n {facts.namespace}",
    )
