"""gangctl's webhooks: whether they are registered, trusted, and asked first; and who names the groups of Jobs."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from cryptography import x509

from gangctl.api.labelselector import NAMESPACE_NAME, all_hold
from gangctl.api.meta import SKIP_LABEL, SYSTEM_NAMESPACE
from gangctl.api.objects import Object, object_at, objects_at
from gangctl.cli.doctor.check import Area, CheckOutcome, check, failed, ok, unknown, warning
from gangctl.cli.doctor.checks import installed, presence
from gangctl.cli.doctor.cluster import Cluster, fact, namespace_labels, seen_or, served
from gangctl.client.resources import JOBS, MUTATING_ADMISSION_POLICIES
from gangctl.errors import ApiError
from gangctl.gang.generation import names_its_group, pick_generation, stamped_proof_job
from gangctl.webhooks import configurations
from gangctl.webhooks.configurations import JOBS_NAME, NAME
from gangctl.webhooks.registration import FINGERPRINT, contains

INSTALL: Final = (
    "install gangctl, or apply its installation again if they were deleted: kubectl apply -k, gangctl install, or helm "
    "upgrade; outside of a cluster, run gangctl controller"
)
REINSTALL: Final = "gangctl install --image IMAGE | kubectl apply -f -"
NOT_THERE: Final = "gangctl is not installed here, or was unregistered: its webhook configurations are missing"
SHOW: Final = "kubectl get mutatingwebhookconfiguration,validatingwebhookconfiguration gangctl-gangs -o yaml"
_SETTLED: Final = ("matchConditions", "rules", "objectSelector", "sideEffects", "matchPolicy", "reinvocationPolicy")
"""Fields that no flag of gangctl changes."""
_SOON_SECONDS: Final = 24 * 3600
_HELM: Final = "meta.helm.sh/release-"
_NAME: Final = re.compile(r"[a-z0-9.-]+")


@dataclass(frozen=True, slots=True)
class _Installation:
    """How webhook configurations were installed: what brings them ``back``, the command, and how ``Fail`` is chosen."""

    back: str
    command: str
    fail: str


_MANAGED: Final = _Installation(
    "gangctl controller repairs them within seconds while it runs",
    SHOW,
    "run gangctl controller with --webhook-failure-policy Fail, the default",
)
_APPLIED: Final = _Installation(
    "apply the installation again (kubectl apply -k, or gangctl install | kubectl apply -f -): gangctl itself only "
    "updates the caBundle",
    REINSTALL,
    "apply the installation again, without --webhook-failure-policy Ignore or such a patch",
)


def _installation(registered: Sequence[Object]) -> _Installation:
    """Installed by gangctl itself, by Helm, or by kubectl apply."""
    annotations: dict[str, str] = {}
    for configuration in registered:
        annotations |= (configuration.get("metadata") or {}).get("annotations") or {}
    release, namespace = (str(annotations.get(f"{_HELM}{part}", "")) for part in ("name", "namespace"))
    if _NAME.fullmatch(release) and _NAME.fullmatch(namespace):
        upgrade = f"helm upgrade {release} charts/gangctl --namespace {namespace} --reuse-values --force-conflicts"
        return _Installation(
            "upgrade the Helm release with the same values: gangctl itself only updates the caBundle",
            upgrade,
            "set the value webhook.failurePolicy of the Helm release to Fail, the default",
        )
    return _MANAGED if FINGERPRINT in annotations else _APPLIED


async def for_gangs(cluster: Cluster) -> list[Object]:
    """gangctl's configurations but those that depend on policies; none where it is not registered."""
    named = [
        (installed.name_of(configuration), configuration) for configuration in await installed.configurations(cluster)
    ]
    # The one for Jobs stays where gangctl has unregistered itself.
    there = any(name == NAME for name, _ in named)
    return [configuration for name, configuration in named if there and name in {NAME, JOBS_NAME}]


async def _leaves_out(cluster: Cluster) -> list[str]:
    """The terms of the webhook's selector that the namespace does not meet; none where either is not known."""
    known = await seen_or(namespace_labels(cluster), None) or {}
    if (labels := known.get(cluster.namespace)) is None:
        return []
    asked = [
        webhook
        for item in await seen_or(for_gangs(cluster), [])
        for webhook in installed.webhooks(item)
        if installed.path_of(webhook) == configurations.MUTATE_JOBSETS
    ]
    terms = [term for webhook in asked for term in _terms(webhook) if not all_hold([term], labels)]
    return [f"{term['key']} {term['operator']} {', '.join(term.get('values') or ())}".rstrip() for term in terms]


async def not_served(cluster: Cluster, *evidence: str, command: str) -> CheckOutcome | None:
    """The outcome of a check that asks about a namespace which gangctl leaves out; None of others."""
    terms = await _leaves_out(cluster)
    if not terms:
        return None
    return warning(
        f"namespace {cluster.namespace} is not served by gangctl: the check has no result",
        [*evidence, *(f"the webhook is for namespaces with {term}, and this is none" for term in terms)],
        remedy="ask about another namespace",
        command=command,
    )


async def unregistered(cluster: Cluster) -> CheckOutcome:
    """The outcome of other checks of webhooks that are missing."""
    return presence.SKIPPED if await presence.absent(cluster) else unknown(NOT_THERE)


@check(
    "gangctl-webhooks",
    Area.GANGCTL,
    "Are gangctl's webhooks registered as this version wants them?",
    "webhook configurations gangctl-gangs and gangctl-jobs",
)
async def registered(cluster: Cluster) -> CheckOutcome:
    """The registered configuration is that of this version; flags may choose failurePolicy and namespaces."""
    own = await for_gangs(cluster)
    if not own:
        evidence = ["no configuration gangctl-gangs"]
        if not await presence.absent(cluster):
            return failed(NOT_THERE, evidence, remedy=INSTALL, command=REINSTALL)
        namespace = await installed.gangctl_namespace(cluster)
        evidence.append(f"no Deployment of gangctl, and no Lease of a running one in namespace {namespace}")
        return failed(presence.ABSENT, evidence, remedy=INSTALL, command=REINSTALL)
    installation = _installation(own)
    if different := list(_differences(own)):
        return failed(
            "gangctl's webhooks are not registered as this version wants them",
            different,
            remedy=f"use one version for this command and the controller; {installation.back}",
            command=installation.command,
        )
    webhooks = [(item, webhook) for item in own for webhook in installed.webhooks(item) if _is_namespaced(webhook)]
    if lenient := {
        f"{installed.title(item)}: {w['name']}"
        for item, w in webhooks
        if w.get("failurePolicy") == "Ignore" and w.get("name") != configurations.KEYS_WEBHOOK
    }:
        return warning(
            "while gangctl does not answer, JobSets that ask for a gang are admitted without one (Ignore)",
            sorted(lenient),
            remedy=f"to have them rejected meanwhile, {installation.fail}; after break-glass, {installation.back}",
            command=installation.command,
        )
    evidence = installed.webhook_counts(own)
    service = next(filter(None, (installed.service_of(webhook) for _, webhook in webhooks)), None)
    if service and not all(service[0] in _excluded(webhook) for _, webhook in webhooks):
        return warning(
            f"gangctl is asked about its own namespace {service[0]}, too: what runs there waits for it",
            evidence,
            remedy=f"exclude {service[0]} in every namespaceSelector, as manifests/base does",
            command=SHOW,
        )
    place = f"called through {installed.place(webhooks[0][1])}"
    return ok("registered as this version wants them", *evidence, place)


def _differences(registered: Sequence[Object]) -> Iterator[str]:
    """How gangctl's configurations differ from what this version would register with any flags."""
    live = {installed.title(configuration): configuration for configuration in registered}
    settings = configurations.WebhookSettings(configurations.Endpoint())
    for wanted in configurations.build_configurations(settings, b""):
        title = installed.title(wanted)
        if title not in live:
            yield f"{title} is missing"
            continue
        by_name = {str(webhook.get("name")): webhook for webhook in installed.webhooks(live[title])}
        for webhook in wanted["webhooks"]:
            there = by_name.pop(webhook["name"], None)
            if there is None:
                yield f"{title}: webhook {webhook['name']} is missing"
                continue
            fields = [field for field in _SETTLED if not _same(there.get(field), webhook.get(field))]
            fields += [] if installed.path_of(there) == installed.path_of(webhook) else ["clientConfig"]
            breaks_glass = any(term.get("key") == SKIP_LABEL for term in _not_in(there))
            fields += [] if breaks_glass or not _is_namespaced(webhook) else ["namespaceSelector"]
            if fields:
                yield f"{title}: {', '.join(fields)} of {webhook['name']} are not as this version wants them"
        for name in by_name:
            yield f"{title}: this version does not know webhook {name}"


def _same(live: object, wanted: object) -> bool:
    """API servers default unset fields to empty values."""
    return contains(live, wanted) if wanted else not live


def _is_namespaced(webhook: Object) -> bool:
    """Whether one of gangctl's webhooks is for objects in namespaces: it holds up JobSets while gangctl is down."""
    return webhook.get("name") != configurations.GANGPOLICIES_WEBHOOK


def _terms(webhook: Object) -> list[dict[str, Any]]:
    return objects_at(object_at(webhook, "namespaceSelector"), "matchExpressions")


def _not_in(webhook: Object) -> list[dict[str, Any]]:
    return [term for term in _terms(webhook) if term.get("operator") == "NotIn"]


def _excluded(webhook: Object) -> set[str]:
    """Excluded namespaces, by name."""
    terms = (term for term in _not_in(webhook) if term.get("key") == NAMESPACE_NAME)
    lists = (term.get("values") for term in terms)
    return {str(value) for values in lists if isinstance(values, list) for value in values}


@dataclass(frozen=True, slots=True)
class JobPolicy:
    """Whether MutatingAdmissionPolicies are served as v1, and whether gangctl's ``writes`` the groups of Jobs."""

    served: bool
    writes: bool = False
    how: str = ""


@fact
async def job_policy(cluster: Cluster) -> JobPolicy:
    """Whether the API server names the group of a Job that is like those of gangs."""
    if not await cluster.client.discovery.serves(MUTATING_ADMISSION_POLICIES):
        return JobPolicy(served=False)
    namespace = cluster.namespace
    sent = f"a Job with a stamp, sent with dryRun=All in namespace {namespace},"
    try:
        answer = await cluster.client.create(JOBS, stamped_proof_job(namespace), namespace, dry_run=True)
    except ApiError as error:
        # The policy keeps the webhook for Jobs from being called: that this one refuses or does not answer is a proof.
        # Other webhooks and quotas refuse Jobs with a group, too.
        if configurations.JOBS_WEBHOOK not in error.message:
            raise
        return JobPolicy(served=True, how=f"{sent} was refused: {error.message}")
    writes = names_its_group(answer)
    return JobPolicy(served=True, writes=writes, how=f"{sent} came back {'with' if writes else 'without'} its group")


_POLICY_API: Final = "admissionregistration.k8s.io/v1 MutatingAdmissionPolicy"
_JOBS_WEBHOOK: Final = f"MutatingWebhookConfiguration {JOBS_NAME}"


@check(
    "job-groups",
    Area.GANGCTL,
    "Who names the group of a gang's Jobs: the API server, or gangctl?",
    "a Job created with dryRun=All, webhook configuration gangctl-jobs",
)
async def job_groups(cluster: Cluster) -> CheckOutcome:
    """The API server should, if it can: then Jobs do not wait for gangctl."""
    state = pick_generation(await served(cluster))
    if state.generation is None:
        return unknown(f"no gang can be made: {state.reason}")
    policy = await job_policy(cluster)
    if policy.writes:
        return ok("the API server writes the group into Jobs, whether gangctl answers or not", policy.how)
    if policy.served:
        # The policy is for the namespaces of the webhooks.
        again = "gangctl doctor --only job-groups -n NAMESPACE"
        if outside := await not_served(cluster, policy.how, command=again):
            return outside
    evidence = [policy.how or f"{_POLICY_API} is not served"]
    everything = await installed.configurations(cluster)
    if not any(installed.name_of(item) == JOBS_NAME and installed.webhooks(item) for item in everything):
        if await presence.absent(cluster):
            return presence.SKIPPED
        return failed(
            "nothing writes the group of a gang into its Jobs: their pods would start one by one",
            [*evidence, f"no {_JOBS_WEBHOOK}"],
            remedy="apply manifests/base, which has the webhook for Jobs and the policy",
            command=REINSTALL,
        )
    if policy.served:
        return warning(
            f"Jobs of gangs wait for gangctl, although the cluster serves {_POLICY_API}",
            [*evidence, _JOBS_WEBHOOK],
            remedy="apply manifests/base, which has the policy and its binding; a gangctl that registers itself "
            "repairs them within a minute. If both are there, the feature gate MutatingAdmissionPolicy is off",
            command="kubectl get mutatingadmissionpolicies,mutatingadmissionpolicybindings",
        )
    return ok("gangctl's webhook writes the group into Jobs", *evidence, _JOBS_WEBHOOK)


@check(
    "gangctl-authority",
    Area.GANGCTL,
    "Is there a valid caBundle in every webhook of gangctl?",
    "the certificates in the caBundle",
)
async def authority(cluster: Cluster) -> CheckOutcome:
    """Without a caBundle API servers trust a webhook by the root certificates of their own machines."""
    own = installed.owned_by(await installed.configurations(cluster), "gangctl")
    if not own:
        return await unregistered(cluster)
    broken, soon, good = [], [], []
    for configuration, webhook in ((item, webhook) for item in own for webhook in installed.webhooks(item)):
        name = f"{installed.title(configuration)}: {webhook.get('name')}"
        bundle = installed.client_config(webhook).get("caBundle")
        if not bundle:
            continue
        trouble, end = _bundle(bundle, cluster.now)
        if trouble:
            broken.append(f"{name} {trouble}")
        elif end - cluster.now < _SOON_SECONDS:
            soon.append(f"{name}: the last certificate ends {_date(end)}")
        else:
            good.append(f"{name}: trusted until {_date(end)}")
    own_namespace = await seen_or(installed.gangctl_namespace(cluster), SYSTEM_NAMESPACE)
    logs = f"kubectl -n {own_namespace} logs deploy/gangctl"
    if broken:
        return failed(
            "API servers cannot trust gangctl's answers: JobSets that ask for a gang are refused",
            broken,
            remedy="where it ended, renew the certificate first: gangctl renews its own, with --cert-dir the owner of "
            "the files does; gangctl fills its caBundle in within seconds while it runs, with --cert-dir the writer of "
            "the files, or cert-manager's injector",
            command=logs,
        )
    if bare := installed.without_bundle(own):
        return warning(
            installed.UNTRUSTED.format("gangctl's"),
            bare,
            remedy="see check admission: if it is ok, and a public authority issued the certificate in --cert-dir, "
            "change nothing; otherwise gangctl fills its caBundle in within seconds while it runs, with --cert-dir the "
            "writer of the files, or cert-manager's injector",
            command="gangctl doctor --only admission",
        )
    if soon:
        return warning(
            "the authority of gangctl's certificate ends within a day",
            soon,
            remedy="gangctl renews its own long before: see whether it runs, and what it says of its certificates",
            command=logs,
        )
    return ok("every webhook has a valid certificate authority", *good)


def _bundle(bundle: object, now: float) -> tuple[str, float]:
    """Problem of a caBundle, and when (Unix seconds) its last certificate expires."""
    try:
        certificates = x509.load_pem_x509_certificates(base64.b64decode(str(bundle), validate=True))
    except (ValueError, binascii.Error):
        return "has a caBundle that holds no certificate", 0.0
    # During a rotation it holds both authorities: one that is valid is enough.
    end = max(certificate.not_valid_after_utc.timestamp() for certificate in certificates)
    return (f"has a caBundle that ended {_date(end)}", end) if end <= now else ("", end)


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


@check(
    "webhook-order",
    Area.GANGCTL,
    "Is gangctl asked before JobSet and Kueue?",
    "names of webhook configurations, which are called in their order",
)
async def order(cluster: Cluster) -> CheckOutcome:
    """Configurations are called in the order of their names."""
    everything = await installed.configurations(cluster)
    mutating = [item for item in everything if item.get("kind") == configurations.KINDS[0]]
    own = [name for name in map(installed.name_of, installed.owned_by(mutating, "gangctl")) if name != JOBS_NAME]
    if not own:
        return await unregistered(cluster)
    others = sorted(map(installed.name_of, installed.owned_by(mutating, "jobset", "kueue")))
    called = f"called in this order: {', '.join(sorted([*own, *others]))}"
    if early := [name for name in others if name < max(own)]:
        return warning(
            f"{', '.join(early)} is called before {max(own)}",
            [called],
            remedy="rename that configuration so that it sorts after gangctl's: a stamp or a default queue that comes "
            "late is not seen by who was asked before",
            command="kubectl get mutatingwebhookconfigurations",
        )
    return ok("gangctl's webhooks are called first", called)
