"""gangctl's own webhooks and replicas, and the leaders of its shards. Pure."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cryptography import x509

from gangctl.api.meta import SKIP_LABEL
from gangctl.api.objects import Object
from gangctl.cli.doctor.checks import hooks
from gangctl.cli.doctor.facts import Deployment, Fact, Facts, Lease, seen, seen_or
from gangctl.cli.doctor.outcome import Outcome, failed, ok, unknown, warning
from gangctl.cli.messages import plural
from gangctl.controllers.policies import EVALUATION_UNAVAILABLE
from gangctl.runtime.shards import lease_names
from gangctl.webhooks.configurations import JOBS_NAME, NAME
from gangctl.webhooks.registration import FINGERPRINT

LEASE: Final = "gangctl"
"""Name of the first shard's Lease."""
_OTHERS: Final = re.compile(rf"{LEASE}-shard-([1-9][0-9]?)")


def is_ours(name: str) -> bool:
    """Whether a Lease in gangctl's namespace is one of a shard."""
    return name == LEASE or _OTHERS.fullmatch(name) is not None


def shards_of(deployments: Fact[tuple[Deployment, ...]], namespace: str) -> int | None:
    """The number of shards of the gangctl in a namespace; None if no Deployment has it."""
    own = [each.shards for each in seen_or(deployments, ()) if each.namespace == namespace and "gangctl" in each.name]
    return max(own, default=None)


def leader(facts: Facts) -> Outcome:
    """Whether every shard has a leader that writes Workloads and PodGroups."""
    leases, namespace = seen(facts.leases), seen(facts.gangctl_namespace)
    if not leases:
        return unknown(
            f"there is no Lease gangctl in namespace {namespace}: gangctl runs elsewhere, without --leader-elect, or "
            "not at all",
            command=f"kubectl -n {namespace} get lease gangctl -o yaml",
            remedy="--gangctl-namespace says where it runs",
        )
    total = shards_of(facts.deployments, namespace) or _by_leases(leases)
    found = [leases.get(name) for name in lease_names(LEASE, total)]
    return _of_one(found[0], namespace, facts.now) if total == 1 else _of_several(found, namespace, facts.now)


def _by_leases(leases: Mapping[str, Lease]) -> int:
    """The number of shards in the last Lease; Leases of an earlier, higher number may remain."""
    return 1 + max(int(other[1]) if (other := _OTHERS.fullmatch(name)) else 0 for name in leases)


def _of_one(lease: Lease | None, namespace: str, now: float) -> Outcome:
    if lease is not None and _leads(lease, now):
        return ok(f"{lease.holder} leads", _lease_text(lease, now))
    vacant = lease is None or not lease.holder
    return failed(
        "no replica leads: groups of new gangs are not made" if vacant else "the leader does not renew its Lease",
        [_lease_text(lease, now)],
        remedy="see whether gangctl runs, and reaches the API server: runbook GangctlNoLeader",
        command=f"kubectl -n {namespace} get lease gangctl -o yaml",
    )


def _of_several(leases: list[Lease | None], namespace: str, now: float) -> Outcome:
    evidence = [f"shard {number}: {_lease_text(lease, now)}" for number, lease in enumerate(leases)]
    missing = [str(number) for number, lease in enumerate(leases) if lease is None or not _leads(lease, now)]
    if not missing:
        return ok(f"each of {len(leases)} shards has a leader", *evidence)
    which = f"shard {missing[0]} has" if len(missing) == 1 else f"shards {', '.join(missing)} have"
    return failed(
        f"{which} no leader: groups of new gangs are not made in a part of the namespaces",
        evidence,
        remedy="there have to be as many ready replicas as shards, and the Role has to name each Lease: runbook "
        "GangctlShardWithoutLeader",
        command=f"kubectl -n {namespace} get leases",
    )


def _leads(lease: Lease, now: float) -> bool:
    return bool(lease.holder) and _age(lease, now) <= max(lease.seconds, 1)


def _age(lease: Lease, now: float) -> int:
    return max(0, int(now) - lease.renewed)


def _lease_text(lease: Lease | None, now: float) -> str:
    if lease is None:
        return "there is no Lease"
    return f'holder "{lease.holder}", renewed {_age(lease, now)} s ago, good for {lease.seconds} s'


INSTALL: Final = (
    "install gangctl, or apply its installation again if they were deleted: kubectl apply -k, gangctl install, or helm "
    "upgrade; outside of a cluster, run gangctl controller"
)
NOT_THERE: Final = "gangctl is not installed here, or was unregistered: its webhook configurations are missing"
_SHOW: Final = "kubectl get mutatingwebhookconfiguration,validatingwebhookconfiguration gangctl-gangs -o yaml"
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
    _SHOW,
    "run gangctl controller with --webhook-failure-policy Fail, the default",
)
_APPLIED: Final = _Installation(
    "apply the installation again (kubectl apply -k, or gangctl install | kubectl apply -f -): gangctl itself only "
    "updates the caBundle",
    "kubectl apply -k manifests/base",
    "apply the installation again, without --webhook-failure-policy Ignore or such a patch",
)


def _installation(found: Sequence[Object]) -> _Installation:
    """Installed by gangctl itself, by Helm, or by kubectl apply."""
    annotations: dict[str, str] = {}
    for each in found:
        annotations |= (each.get("metadata") or {}).get("annotations") or {}
    release, namespace = (str(annotations.get(f"{_HELM}{part}", "")) for part in ("name", "namespace"))
    if _NAME.fullmatch(release) and _NAME.fullmatch(namespace):
        upgrade = f"helm upgrade {release} charts/gangctl --namespace {namespace} --reuse-values --force-conflicts"
        return _Installation(
            "upgrade the Helm release with the same values: gangctl itself only updates the caBundle",
            upgrade,
            "set the value webhook.failurePolicy of the Helm release to Fail, the default",
        )
    return _MANAGED if FINGERPRINT in annotations else _APPLIED


def _ours(facts: Facts) -> list[Object]:
    ours = hooks.ours(seen(facts.configurations), gangs_only=True)
    # The one for Jobs stays where gangctl has unregistered itself.
    return ours if NAME in map(hooks.name_of, ours) else []


def registered(facts: Facts) -> Outcome:
    """The registered configuration is that of this version; flags may choose failurePolicy and namespaces."""
    found = _ours(facts)
    if not found:
        return failed(
            NOT_THERE, ["no configuration gangctl-gangs"], remedy=INSTALL, command="kubectl apply -k manifests/base"
        )
    installation = _installation(found)
    if different := list(hooks.differences(found)):
        return failed(
            "gangctl's webhooks are not registered as this version wants them",
            different,
            remedy=f"use one version for this command and the controller; {installation.back}",
            command=installation.command,
        )
    every = [(each, webhook) for each in found for webhook in hooks.webhooks(each) if hooks.is_namespaced(webhook)]
    evidence = hooks.webhook_counts(found)
    if lenient := sorted({f"{hooks.title(e)}: {w['name']}" for e, w in every if w.get("failurePolicy") == "Ignore"}):
        return warning(
            "while gangctl is away, JobSets that ask for a gang are admitted without one (failurePolicy Ignore)",
            lenient,
            remedy=f"to have them rejected meanwhile, {installation.fail}; after break-glass, {installation.back}",
            command=installation.command,
        )
    service = next((each for _, webhook in every if (each := hooks.service_of(webhook))), None)
    if service and not all(service[0] in hooks.excluded(webhook) for _, webhook in every):
        return warning(
            f"gangctl is asked about its own namespace {service[0]}, too: what runs there waits for it",
            evidence,
            remedy=f"exclude {service[0]} in every namespaceSelector, as manifests/base does",
            command=_SHOW,
        )
    return ok("registered as this version wants them", *evidence, f"called through {hooks.place(every[0][1])}")


def authority(facts: Facts) -> Outcome:
    """Without a caBundle API servers trust no webhook."""
    found = hooks.ours(seen(facts.configurations))
    if not found:
        return unknown(NOT_THERE)
    broken, soon, good = [], [], []
    for each in found:
        for webhook in hooks.webhooks(each):
            name = f"{hooks.title(each)}: {webhook.get('name')}"
            trouble, end = _bundle(hooks.client_config(webhook).get("caBundle"), facts.now)
            if trouble:
                broken.append(f"{name} {trouble}")
            elif end - facts.now < _SOON_SECONDS:
                soon.append(f"{name}: the last certificate ends {_date(end)}")
            else:
                good.append(f"{name}: trusted until {_date(end)}")
    if broken:
        return failed(
            "API servers cannot trust gangctl's answers: JobSets that ask for a gang are refused",
            broken,
            remedy="gangctl fills its caBundle in within seconds while it runs; with --cert-dir, the writer of the "
            "files fills it in, or cert-manager's injector",
            command="kubectl -n gangctl-system logs deploy/gangctl",
        )
    if soon:
        return warning(
            "the authority of gangctl's certificate ends within a day",
            soon,
            remedy="gangctl renews its own long before: see whether it runs, and what it says of its certificates",
            command="kubectl -n gangctl-system logs deploy/gangctl",
        )
    return ok("every webhook has one that is valid", *good)


def _bundle(bundle: object, now: float) -> tuple[str, float]:
    """Problem of a caBundle, and when (Unix seconds) its last certificate expires."""
    if not bundle or not isinstance(bundle, str):
        return "has no caBundle", 0.0
    try:
        certificates = x509.load_pem_x509_certificates(base64.b64decode(bundle, validate=True))
    except (ValueError, binascii.Error):
        return "has a caBundle that holds no certificate", 0.0
    end = max(each.not_valid_after_utc.timestamp() for each in certificates)
    return (f"has a caBundle that ended {_date(end)}", end) if end <= now else ("", end)


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def order(facts: Facts) -> Outcome:
    """Configurations are called in the order of their names."""
    everything = [each for each in seen(facts.configurations) if each.get("kind") == hooks.MUTATING]
    mine = [name for name in map(hooks.name_of, hooks.ours(everything)) if name != JOBS_NAME]
    if not mine:
        return unknown(NOT_THERE)
    others = sorted(hooks.name_of(each) for each in (*hooks.of_jobset(everything), *hooks.of_kueue(everything)))
    early = [name for name in others if name < max(mine)]
    if early:
        return warning(
            f"{', '.join(early)} is called before {max(mine)}",
            [f"called in this order: {', '.join(sorted([*mine, *others]))}"],
            remedy="rename that configuration so that it sorts after gangctl's: a stamp or a default queue that comes "
            "late is not seen by who was asked before",
            command="kubectl get mutatingwebhookconfigurations",
        )
    return ok("gangctl is asked first", f"called in this order: {', '.join(sorted([*mine, *others]))}")


def replicas(facts: Facts) -> Outcome:
    """Ready replicas, if gangctl runs in the cluster."""
    found = _ours(facts)
    if not found:
        return unknown(NOT_THERE)
    services = hooks.services(found)
    if not services:
        urls = sorted({hooks.place(webhook) for each in found for webhook in hooks.webhooks(each)})
        return unknown("gangctl runs outside of the cluster: check admission shows whether it answers", urls)
    ready = seen(facts.endpoints)
    namespaces = {namespace for namespace, _ in services}
    deployments = [
        each for each in seen_or(facts.deployments, ()) if each.namespace in namespaces and "gangctl" in each.name
    ]
    evidence = hooks.endpoint_counts(services, ready)
    evidence += [each.title for each in deployments]
    namespace = min(services)[0]
    if any(not ready.get(service) for service in services):
        return failed(
            "no replica answers behind gangctl's Service: JobSets that ask for a gang are refused",
            evidence,
            remedy="see why its pods are not ready: runbook GangctlDown",
            command=f"kubectl -n {namespace} describe pods -l app.kubernetes.io/name=gangctl",
        )
    if any(each.ready < each.wanted for each in deployments):
        return warning(
            "not all replicas of gangctl are ready",
            evidence,
            remedy="see why its pods are not ready: runbook GangctlDown",
            command=f"kubectl -n {namespace} describe pods -l app.kubernetes.io/name=gangctl",
        )
    return ok("gangctl is ready", *evidence)


def admission(facts: Facts) -> Outcome:
    """The whole path of a request, through the API server."""
    found = seen(facts.dry_run)
    what = f"a JobSet with gangctl.dev/gang-mode: Gang, dryRun=All in namespace {facts.namespace}"
    if found.refusal:
        return failed(
            "a JobSet that asks for a gang is refused",
            [what, f"refused: {found.refusal}"],
            remedy="the message says who refuses it; runbook GangctlWebhookUnreachable where a webhook does not answer",
            command="kubectl create --dry-run=server -f jobset.yaml",
        )
    if found.stamped:
        return ok("gangctl answers, and stamps it", what)
    if facts.namespace in seen_or(facts.skipped, ()):
        return warning(
            f"namespace {facts.namespace} is left alone by gangctl, so nothing is proved",
            [what, f"the namespace has the label {SKIP_LABEL}"],
            remedy="ask about another namespace",
            command="gangctl doctor --only admission -n NAMESPACE",
        )
    return failed(
        "a JobSet that asks for a gang is admitted without one: its pods would be scheduled one by one",
        [what, "the answer has no stamp gangctl.dev/gang-ref"],
        remedy="see gangctl-webhooks: gangctl is not registered, is let out by failurePolicy Ignore, or a "
        "--namespace-selector leaves this namespace out",
        command=_SHOW,
    )


def policies(facts: Facts) -> Outcome:
    """Whether the controller can evaluate each policy, as it says in its status."""
    conditions = seen(facts.policies)
    unready = {name: ready for name, ready in sorted(conditions.items()) if ready.get("status") == "False"}
    evidence = [f"GangPolicy {name}: {ready.get('message')}" for name, ready in unready.items()]
    show = "kubectl get gangpolicies -o yaml"
    if any(ready.get("reason") == EVALUATION_UNAVAILABLE for ready in unready.values()):
        return failed(
            "no process works that could evaluate GangPolicies: gangctl is not ready",
            evidence[:1],  # they have the same reason
            remedy="the reason is in the evidence, in readyz and in gangctl's log: runbook GangctlDown",
            command=show,
        )
    if unready:
        return warning(
            f"{plural(len(unready), 'GangPolicy', 'GangPolicies')} cannot be evaluated",
            evidence,
            remedy="correct what the evidence names: gangctl policy lint",
            command=show,
        )
    return ok(f"{plural(len(conditions), 'GangPolicy', 'GangPolicies')}, none of which is known to fail")


def skipped(facts: Facts) -> Outcome:
    """Break-glass is temporary."""
    found = seen(facts.skipped)
    if not found:
        return ok(f"no namespace has the label {SKIP_LABEL}")
    return warning(
        f"JobSets in {plural(len(found), 'namespace')} never become gangs",
        [f"namespace {name} has the label {SKIP_LABEL}: true" for name in found],
        remedy="take the label away when the emergency is over: runbook break-glass",
        command=f"kubectl label namespace {found[0]} {SKIP_LABEL}-",
    )
