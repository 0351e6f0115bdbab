"""The webhook configurations that gangctl wants, as data.

Their names sort before JobSet's and Kueue's, because webhooks are called in that order. matchConditions keep every
request that gangctl does not decide inside the API server: a cluster without opted-in JobSets never waits for gangctl,
and neither does a gang that exists, unless an update changes what its gang was made from. A matching request is refused
while gangctl is down (``failurePolicy: Fail``), because a missed one would start half a gang.

The webhook for Jobs is called only for a Job of a gang that names no group. The API server calls mutating webhooks
after its MutatingAdmissionPolicies, so that this is never the case while the policy of :mod:`.jobpolicy` is in effect.

Those for policies follow the needs of the policies. No policy, no webhook: a cluster without GangPolicies never waits
for gangctl here. An operation of some policy with failurePolicy Fail and action Deny is sent to the entry that fails
with gangctl, one of other policies alone to the other. Never to both: each entry evaluates all policies, so that one
answer holds every violation, the first policy by name leads it, and nothing is evaluated twice. gangctl itself decides
which objects a policy matches (its selectors and matchConditions). Selectors of the entries only leave out what no
policy can match, so that a policy for one team does not hold up the others while gangctl is down (:mod:`.reach`).

Policies and exceptions themselves are sent when they are created and when their spec changes.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gangctl.api.meta import (
    API_VERSION,
    GANG_REF,
    JOBSET_NAME,
    MANAGED_BY,
    MANAGER,
    PLACEMENT,
    PREFIX,
    SKIP_LABEL,
    WRITTEN,
    KeyRole,
    Place,
    keys_at,
)
from gangctl.policy.review import NOT_DELETED_CONDITION, namespace_terms
from gangctl.webhooks.reach import EVERYTHING, Reach

NAME: Final = "gangctl-gangs"
JOBS_NAME: Final = "gangctl-jobs"
"""The configuration for Jobs. It is not in the other one, because it stays where gangctl unregisters itself."""

JOBS_WEBHOOK: Final = "jobs.gangs.gangctl.dev"
GANGPOLICIES_WEBHOOK: Final = "policies.gangctl.dev"
KEYS_WEBHOOK: Final = "keys.gangs.gangctl.dev"

KINDS: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")

MUTATE_JOBSETS: Final = "/mutate/jobsets"
VALIDATE_JOBSETS: Final = "/validate/jobsets"
VALIDATE_KEYS: Final = "/validate/keys"
VALIDATE_GANGPOLICIES: Final = "/validate/gangpolicies"
MUTATE_JOBS: Final = "/mutate/jobs"

FailurePolicy = Literal["Fail", "Ignore"]


def _with_our_keys(name: str) -> str:
    """CEL: the object ``name`` has a label or an annotation of a gang, or a misspelt one."""
    # Keys that gangctl itself writes ask for no gang: a JobSet of a PathwaysJob has them, too.
    others = "".join(f" && !k.startsWith('{prefix}')" for prefix in WRITTEN)
    parts = (
        f"(has({name}.metadata.{part}) && {name}.metadata.{part}.exists(k, k.startsWith('{PREFIX}'){others}))"
        for part in ("annotations", "labels")
    )
    return f"(has({name}.metadata) && ({' || '.join(parts)}))"


def _about_gangs(name: str) -> str:
    """CEL: the JobSet ``name`` carries any gang configuration or stamp."""
    # A JobSet may lack a spec: an expression that failed on that would refuse it.
    return (
        f"{_with_our_keys(name)} || (has({name}.spec) && (has({name}.spec.gangConfig) || "
        f"(has({name}.spec.replicatedJobs) && {name}.spec.replicatedJobs.exists(r, has(r.gangConfig) || "
        f"(has(r.template) && {_with_our_keys('r.template')})))))"
    )


def _reference(name: str) -> str:
    """CEL: the Job ``name`` has a reference in its pod template."""
    pod = f"{name}.spec.template.spec"
    return f"(has({pod}.schedulingGroup) || has({pod}.workloadRef))"


_JOB: Final = "r.?template.spec"


def _listed(*paths: str) -> str:
    return f"[{', '.join(paths)}]"


def _annotations(metadata: str, *keys: str) -> tuple[str, ...]:
    return tuple(f"{metadata}.annotations[?'{key}']" for key in keys)


def _of_jobset(name: str) -> str:
    """CEL: what :func:`gangctl.gang.admission.check_update` compares of the JobSet ``name`` itself."""
    notes = _annotations(f"{name}.?metadata", *keys_at(Place.JOBSET, KeyRole.CONFIGURATION), *PLACEMENT)
    return _listed(f"{name}.?spec.gangConfig", f"{name}.?spec.startupPolicy.startupPolicyOrder", *notes)


def _of_replicated_jobs(name: str) -> str:
    """CEL: what it compares of the ReplicatedJobs, and what ``restamp_patch`` restores of them."""
    fields = _listed(
        *("r.?name", "r.?replicas", "r.?gangConfig"),
        *_annotations(
            "r.?template.metadata", *keys_at(Place.TEMPLATE, KeyRole.CONFIGURATION, KeyRole.WRITTEN), *PLACEMENT
        ),
        *_annotations(f"{_JOB}.template.metadata", *PLACEMENT),
        *(f"{_JOB}.parallelism", f"{_JOB}.completions", f"{_JOB}.template.spec.priorityClassName"),
    )
    return f"{name}.?spec.replicatedJobs.orValue([]).map(r, {fields})"


# Of the old object as well: an update that removes all of its configuration has to be refused.
JOBSET_CONDITION: Final = {
    "name": "about-gangs",
    "expression": f"{_about_gangs('object')} || (request.operation == 'UPDATE' && ({_about_gangs('oldObject')}))",
}
UPDATE_CONDITION: Final = {
    # Of an update without such a change, the answer is to allow it: suspend and resume, labels, finalizers, what Kueue
    # writes into pod templates. Those must not wait for gangctl.
    "name": "new-or-changes-its-gang",
    "expression": "request.operation != 'UPDATE' || "
    + " || ".join(f"{part('object')} != {part('oldObject')}" for part in (_of_jobset, _of_replicated_jobs)),
}
KEY_CONDITION: Final = {
    "name": "has-a-new-key-of-gangctl",
    "expression": " || ".join(
        f"(has(object.metadata.{part}) && object.metadata.{part}.exists(k, k.startsWith('{PREFIX}') && "
        f"oldObject.?metadata.{part}[?k] != optional.of(object.metadata.{part}[k])))"
        for part in ("annotations", "labels")
    ),
}
"""Of an update that sets a key of gangctl's on the JobSet itself, or changes its value."""
SPEC_CONDITION: Final = {
    # Labels and finalizers of a policy that gangctl cannot load any more may change.
    "name": "new-or-changes-its-spec",
    "expression": "request.operation == 'CREATE' || object.?spec != oldObject.?spec",
}
JOB_CONDITIONS: Final = (
    {
        "name": "stamped",
        "expression": f"has(object.metadata.annotations) && '{GANG_REF}' in object.metadata.annotations",
    },
    # A group that the user chose stays.
    {"name": "names-no-group", "expression": f"!{_reference('object')}"},
    # An UPDATE restores what the Job was created with, and adds nothing else: the template is immutable.
    {"name": "new-or-named-one", "expression": f"request.operation == 'CREATE' || {_reference('oldObject')}"},
)
"""Of the webhook for Jobs, and of the policy in front of it: both are for the same Jobs."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the API server finds gangctl: by Service in a cluster, by URL outside one."""

    url: str = ""
    service: str = ""
    namespace: str = ""
    port: int = 443

    def client_config(self, path: str, ca_bundle: bytes) -> dict[str, Any]:
        """``clientConfig`` for one path; an empty bundle is left out, so that an existing one is not overwritten."""
        config: dict[str, Any] = {}
        if self.url:
            config["url"] = self.url.rstrip("/") + path
        else:
            config["service"] = {"name": self.service, "namespace": self.namespace, "path": path, "port": self.port}
        if ca_bundle:
            config["caBundle"] = base64.b64encode(ca_bundle).decode()
        return config


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """Choices that shape the configurations."""

    endpoint: Endpoint
    excluded_namespaces: Sequence[str] = ("kube-system",)
    namespace_selector: Sequence[dict[str, Any]] = field(default_factory=tuple)
    """Further ``matchExpressions`` from ``--namespace-selector``."""
    failure_policy: FailurePolicy = "Fail"
    """Of the webhooks for JobSets; the other hooks have their own."""
    timeout_seconds: int = 10


@dataclass(frozen=True, slots=True)
class _Hook:
    name: str
    path: str
    resource: tuple[str, ...]
    conditions: tuple[dict[str, str], ...]
    failure_policy: FailurePolicy | None = None
    """None for that of the settings."""
    operations: tuple[str, ...] = ("CREATE", "UPDATE")


JOBSETS: Final = ("jobset.x-k8s.io", "v1alpha2", "jobsets")
JOBS: Final = ("batch", "v1", "jobs")
GANGPOLICIES: Final = (*API_VERSION.split("/"), "gangpolicies", "gangpolicyexceptions")
_JOBSET_CONDITIONS: Final = (JOBSET_CONDITION, NOT_DELETED_CONDITION, UPDATE_CONDITION)
AGAIN: Final = "try again in a few seconds"
"""Ends what webhooks that cannot answer yet refuse with: an API server words that as a denial."""
MUTATING: Final = (_Hook("jobsets.gangs.gangctl.dev", MUTATE_JOBSETS, JOBSETS, _JOBSET_CONDITIONS),)
MUTATING_JOBS: Final = (
    # Fail: the rest of a gang would wait for a Job without its group.
    _Hook(JOBS_WEBHOOK, MUTATE_JOBS, JOBS, (*JOB_CONDITIONS, NOT_DELETED_CONDITION), "Fail"),
)
VALIDATING: Final = (
    _Hook("jobsets.gangs.gangctl.dev", VALIDATE_JOBSETS, JOBSETS, _JOBSET_CONDITIONS),
    # Ignore: while gangctl is down, an installation that brings policies with it goes on, and an administrator can
    # still change a policy or grant an exception. What got in unchecked has its errors in its status.
    _Hook(
        GANGPOLICIES_WEBHOOK,
        VALIDATE_GANGPOLICIES,
        GANGPOLICIES,
        (NOT_DELETED_CONDITION, SPEC_CONDITION),
        "Ignore",
    ),
    # Ignore: it only warns, and labels and annotations of running gangs must not wait for gangctl.
    _Hook(KEYS_WEBHOOK, VALIDATE_KEYS, JOBSETS, (KEY_CONDITION, NOT_DELETED_CONDITION), "Ignore", ("UPDATE",)),
)


def namespace_selector(settings: WebhookSettings) -> dict[str, Any]:
    """Selector of the namespaces whose objects are sent: not break-glass ones, gangctl's own and kube-system."""
    return {"matchExpressions": [*namespace_terms(settings.excluded_namespaces), *settings.namespace_selector]}


def served_terms(settings: WebhookSettings) -> list[dict[str, Any]]:
    """``matchExpressions`` of the namespaces that gangctl is there for.

    Break-glass ones are among them: what is created there meanwhile lacks its gang, and is reported.
    """
    return [term for term in namespace_selector(settings)["matchExpressions"] if term["key"] != SKIP_LABEL]


def rule(resource: Sequence[str], operations: Sequence[str], scope: str = "Namespaced") -> dict[str, Any]:
    """The rule for these operations on resources: group, version, plurals. Not for their subresources."""
    group, version, *plurals = resource
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "operations": list(operations),
        "resources": plurals,
        "scope": scope,
    }


def _webhook(hook: _Hook, settings: WebhookSettings, ca_bundle: bytes) -> dict[str, Any]:
    namespaced = hook.resource != GANGPOLICIES
    webhook: dict[str, Any] = {
        "name": hook.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": settings.endpoint.client_config(hook.path, ca_bundle),
        "failurePolicy": hook.failure_policy or settings.failure_policy,
        "matchConditions": [dict(condition) for condition in hook.conditions],
        # A request through another version of the API is sent too, converted to that of the rule.
        "matchPolicy": "Equivalent",
        # API servers read it for objects in namespaces only.
        **({"namespaceSelector": namespace_selector(settings)} if namespaced else {}),
        "rules": [rule(hook.resource, hook.operations, "Namespaced" if namespaced else "Cluster")],
        # API servers refuse dry runs where a webhook may have side effects.
        "sideEffects": "None",
        "timeoutSeconds": settings.timeout_seconds,
    }
    # Jobs of no JobSet are left out by their labels, before any CEL is evaluated.
    if hook.resource == JOBS:
        webhook["objectSelector"] = {"matchExpressions": [{"key": JOBSET_NAME, "operator": "Exists"}]}
    return webhook


def configuration(kind: str, name: str, webhooks: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """A configuration of gangctl's."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, "labels": {MANAGED_BY: MANAGER}},
        "webhooks": list(webhooks),
    }


def _mutating(hooks: Iterable[_Hook], settings: WebhookSettings, ca_bundle: bytes) -> list[dict[str, Any]]:
    # Called again when a later webhook has removed the group of a Job, which nothing else would restore. Not for
    # JobSets: JobSet's own webhook always changes them, and the validating webhook checks the relevant part of that.
    return [
        {**_webhook(hook, settings, ca_bundle), "reinvocationPolicy": "IfNeeded" if hook.resource == JOBS else "Never"}
        for hook in hooks
    ]


def build_job_webhooks(settings: WebhookSettings, ca_bundle: bytes) -> dict[str, Any]:
    """The configuration for Jobs."""
    return configuration(KINDS[0], JOBS_NAME, _mutating(MUTATING_JOBS, settings, ca_bundle))


def build_configurations(settings: WebhookSettings, ca_bundle: bytes) -> list[dict[str, Any]]:
    """The configurations for gangs, complete, with this CA bundle (PEM).

    That for Jobs comes first: no JobSet may become a gang before its Jobs get their group.
    """
    validating = [_webhook(hook, settings, ca_bundle) for hook in VALIDATING]
    return [
        build_job_webhooks(settings, ca_bundle),
        configuration(KINDS[0], NAME, _mutating(MUTATING, settings, ca_bundle)),
        configuration(KINDS[1], NAME, validating),
    ]


POLICIES: Final = "gangctl-policies"
DEFAULTS: Final = "gangctl-defaults"
"""Sorts before ``gangctl-gangs``, which resolves a gang mode that a default has set."""

VALIDATE_FAIL: Final = "/validate/policies/fail"
VALIDATE_IGNORE: Final = "/validate/policies/ignore"
MUTATE_DEFAULTS: Final = "/mutate/defaults"

OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE")
"""The operations on JobSets, in the order in which configurations name them."""


@dataclass(frozen=True, slots=True)
class NeededWebhooks:
    """The webhooks that policies need: operations by failurePolicy, and whether any sets defaults.

    ``defaults`` is None without such a policy, ``Fail`` if one of them has that: a gang mode or queue cannot be added
    after the creation of the JobSet, so the strictest author decides. A ``reach`` limits what is sent. Of what one with
    Fail does not reach, the other policies are sent the rest (``elsewhere``), with Ignore.
    """

    fail: frozenset[str] = frozenset()
    ignore: frozenset[str] = frozenset()
    defaults: FailurePolicy | None = None
    fail_reach: Reach = EVERYTHING
    ignore_reach: Reach = EVERYTHING
    defaults_reach: Reach = EVERYTHING
    elsewhere: Reach | None = None
    """For the operations that are in ``fail`` and in ``ignore``."""
    defaults_elsewhere: Reach | None = None


def build_policy_configurations(
    settings: WebhookSettings, demand: NeededWebhooks, ca_bundle: bytes
) -> list[dict[str, Any]]:
    """The mutating and the validating configuration; one that is not needed has no webhooks."""
    defaults, policies = [], []
    mutating: tuple[tuple[str, FailurePolicy | None, Reach | None], ...] = (
        ("defaults.gangctl.dev", demand.defaults, demand.defaults_reach),
        ("elsewhere.defaults.gangctl.dev", "Ignore", demand.defaults_elsewhere),
    )
    for name, failure, reach in mutating:
        if failure is not None and reach is not None:
            hook = _policy_webhook(name, rule(JOBSETS, ["CREATE"]), reach, settings)
            client = settings.endpoint.client_config(MUTATE_DEFAULTS, ca_bundle)
            # Changes by later webhooks are not defaulted again: the object's own value wins, from any source.
            answered = {"clientConfig": client, "failurePolicy": failure}
            defaults.append({**hook, **answered, "reinvocationPolicy": "Never"})
    validating: tuple[tuple[str, FailurePolicy, frozenset[str], Reach | None], ...] = (
        ("fail", "Fail", demand.fail, demand.fail_reach),
        ("ignore", "Ignore", demand.ignore - demand.fail, demand.ignore_reach),
        ("elsewhere", "Ignore", demand.ignore & demand.fail, demand.elsewhere),
    )
    for name, failure, wanted, reach in validating:
        operations = [operation for operation in OPERATIONS if operation in wanted]
        if operations and reach is not None:
            path = VALIDATE_FAIL if failure == "Fail" else VALIDATE_IGNORE
            # Not its subresources: the JobSet controller writes there, not a user.
            hook = _policy_webhook(f"{name}.policies.gangctl.dev", rule(JOBSETS, operations), reach, settings)
            client = settings.endpoint.client_config(path, ca_bundle)
            answered = {"clientConfig": client, "failurePolicy": failure}
            policies.append({**hook, **answered, "matchConditions": [dict(NOT_DELETED_CONDITION)]})
    return [configuration(KINDS[0], DEFAULTS, defaults), configuration(KINDS[1], POLICIES, policies)]


def _policy_webhook(name: str, rules: dict[str, Any], reach: Reach, settings: WebhookSettings) -> dict[str, Any]:
    namespaces = namespace_selector(settings)["matchExpressions"]
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "matchPolicy": "Equivalent",
        "namespaceSelector": {"matchExpressions": [*namespaces, *(term.written() for term in reach.namespaces)]},
        # Also without terms: those of an earlier policy, or of another client, are removed.
        "objectSelector": {"matchExpressions": [term.written() for term in reach.objects]},
        "rules": [rules],
        "sideEffects": "None",
        "timeoutSeconds": settings.timeout_seconds,
    }
