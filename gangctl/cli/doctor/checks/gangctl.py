"""gangctl itself: its replicas, the leaders of its shards, what it answers, and what it leaves alone."""

from __future__ import annotations

from gangctl.api.meta import SKIP_LABEL
from gangctl.api.objects import Object, object_at, ready_condition
from gangctl.cli.doctor.check import Area, CheckOutcome, check, failed, ok, unknown, warning
from gangctl.cli.doctor.checks import installed, jobset, presence, webhooks
from gangctl.cli.doctor.checks.presence import LEASE, OTHERS, SKIPPED, Lease
from gangctl.cli.doctor.cluster import Cluster, fact, seen_or
from gangctl.client.client import Selection
from gangctl.client.resources import NAMESPACES
from gangctl.controllers.policies import EVALUATION_UNAVAILABLE, IN_FORCE
from gangctl.controllers.policy_sources import GANG_POLICIES
from gangctl.errors import NotFoundError, plural
from gangctl.runtime.shards import lease_names
from gangctl.webhooks.configurations import DEFAULTS, POLICIES


@check(
    "gangctl-replicas",
    Area.GANGCTL,
    "Are replicas of gangctl ready behind its Service?",
    "Deployments and EndpointSlices in gangctl's namespace",
)
async def replicas(cluster: Cluster) -> CheckOutcome:
    """Ready replicas, if gangctl runs in the cluster."""
    own = await webhooks.for_gangs(cluster)
    if not own:
        return await webhooks.unregistered(cluster)
    services = installed.services(own)
    if not services:
        urls = {installed.place(webhook) for item in own for webhook in installed.webhooks(item)}
        return unknown("gangctl runs outside of the cluster: check admission shows whether it answers", sorted(urls))
    ready = await installed.endpoints(cluster)
    deployments = await presence.deployments_in(cluster, {namespace for namespace, _ in services})
    evidence = [*installed.endpoint_counts(services, ready), *(line for item in deployments for line in item.evidence)]
    remedy = "see why its pods are not ready: runbook GangctlDown"
    command = f"kubectl -n {min(services)[0]} describe pods -l app.kubernetes.io/name=gangctl"
    if any(not ready.get(service) for service in services):
        failure = "no replica answers behind gangctl's Service: JobSets that ask for a gang are refused"
        return failed(failure, evidence, remedy=remedy, command=command)
    if stuck := installed.stuck_rollout("gangctl", deployments, evidence):
        return stuck
    if any(item.ready < item.wanted for item in deployments):
        return warning("not all replicas of gangctl are ready", evidence, remedy=remedy, command=command)
    return ok("gangctl is ready", *evidence)


@check("gangctl-leader", Area.GANGCTL, "Does a replica hold the Lease, with shards each of them?", "Lease gangctl")
async def leader(cluster: Cluster) -> CheckOutcome:
    """Whether every shard has a leader that writes Workloads and PodGroups."""
    held, namespace = await presence.leases(cluster), await installed.gangctl_namespace(cluster)
    if await presence.absent(cluster):
        return SKIPPED
    if not held:
        return unknown(
            f"there is no Lease gangctl in namespace {namespace}: gangctl runs elsewhere, without --leader-elect, or "
            "not at all",
            command=f"kubectl -n {namespace} get lease gangctl -o yaml",
            remedy="--gangctl-namespace says where it runs",
        )
    # Without a Deployment the last Lease has the number; Leases of an earlier, higher number may remain.
    last = max(int(other[1]) if (other := OTHERS.fullmatch(name)) else 0 for name in held)
    total = await presence.shards(cluster, namespace) or last + 1
    wanted = [held.get(name) for name in lease_names(LEASE, total)]
    evidence = [lease.text(cluster.now) if lease is not None else "there is no Lease" for lease in wanted]
    missing = [str(n) for n, lease in enumerate(wanted) if lease is None or not lease.leads(cluster.now)]
    if total == 1:
        return _of_one(wanted[0], namespace, evidence, leads=not missing)
    evidence = [f"shard {number}: {text}" for number, text in enumerate(evidence)]
    if not missing:
        return ok(f"each of {total} shards has a leader", *evidence)
    which = f"shard {missing[0]} has" if len(missing) == 1 else f"shards {', '.join(missing)} have"
    return failed(
        f"{which} no leader: groups of new gangs are not made in a part of the namespaces",
        evidence,
        remedy="there have to be as many ready replicas as shards, and the Role has to name each Lease: runbook "
        "GangctlShardWithoutLeader",
        command=f"kubectl -n {namespace} get leases",
    )


def _of_one(lease: Lease | None, namespace: str, evidence: list[str], *, leads: bool) -> CheckOutcome:
    if lease is not None and leads:
        return ok(f"{lease.holder} leads", *evidence)
    vacant = lease is None or not lease.holder
    return failed(
        "no replica leads: groups of new gangs are not made" if vacant else "the leader does not renew its Lease",
        evidence,
        remedy="see whether gangctl runs, and reaches the API server: runbook GangctlNoLeader",
        command=f"kubectl -n {namespace} get lease gangctl -o yaml",
    )


@fact
async def skipped(cluster: Cluster) -> tuple[str, ...]:
    """Namespaces with the label gangctl.dev/skip."""
    page = await cluster.client.list(NAMESPACES, selection=Selection(f"{SKIP_LABEL}=true"))
    return tuple(sorted(str(item["metadata"].get("name", "")) for item in page.items))


@check(
    "admission",
    Area.GANGCTL,
    "Does gangctl answer, and stamp a JobSet that asks for a gang?",
    "a JobSet created with dryRun=All",
)
async def admission(cluster: Cluster) -> CheckOutcome:
    """The whole path of a request, through the API server."""
    answer = await jobset.dry_run(cluster)
    if not answer.stamped and await presence.absent(cluster):
        return SKIPPED
    what = f"a JobSet with gangctl.dev/gang-mode: Gang, dryRun=All in namespace {cluster.namespace}"
    if installed.refused_by_rule(answer.refusal):
        return unknown(
            "a rule of this cluster refuses the doctor's JobSet: it is not seen whether gangctl stamps one",
            [what, f"refused: {answer.refusal}"],
            remedy="ask about a namespace in which that rule does not apply",
            command="gangctl doctor --only admission -n NAMESPACE",
        )
    if answer.refusal:
        return failed(
            "a JobSet that asks for a gang is refused",
            [what, f"refused: {answer.refusal}"],
            remedy="the message says who refuses it; runbook GangctlWebhookUnreachable where a webhook does not answer",
            command="kubectl create --dry-run=server -f jobset.yaml",
        )
    if answer.stamped:
        return ok("gangctl answers, and stamps it", what)
    if outside := await webhooks.not_served(cluster, what, command="gangctl doctor --only admission -n NAMESPACE"):
        return outside
    return failed(
        "a JobSet that asks for a gang is admitted without one: its pods would be scheduled one by one",
        [what, "the answer has no stamp gangctl.dev/gang-ref"],
        remedy="see gangctl-webhooks: gangctl is not registered, is let out by failurePolicy Ignore, or a "
        "--namespace-selector leaves this namespace out",
        command=webhooks.SHOW,
    )


@fact
async def policies(cluster: Cluster) -> dict[str, Object]:
    """GangPolicies by name; none without their API."""
    try:
        page = await cluster.client.list(GANG_POLICIES)
    except NotFoundError:
        return {}
    return {str(item["metadata"].get("name", "")): item for item in page.items}


@check("policies", Area.GANGCTL, "Are GangPolicies evaluated?", "conditions of GangPolicies")
async def evaluated(cluster: Cluster) -> CheckOutcome:
    """Whether the controller can evaluate each policy, as it says in its status."""
    stored = await policies(cluster)
    # Empty while its generation has none.
    conditions = {name: ready_condition(item) for name, item in stored.items()}
    if not any(conditions.values()) and await presence.absent(cluster):
        return SKIPPED
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
    configurations = await seen_or(installed.configurations(cluster), None)
    if configurations is not None:
        asked = {installed.name_of(item) for item in configurations if installed.webhooks(item)}
        specs = [
            object_at(stored[name], "spec") for name, ready in conditions.items() if ready.get("reason") == IN_FORCE
        ]
        needed = {POLICIES: "validations", DEFAULTS: "defaults"}
        if missing := [
            name for name, part in needed.items() if name not in asked and any(spec.get(part) for spec in specs)
        ]:
            return failed(
                "no API server asks gangctl about GangPolicies: every JobSet passes",
                [f"no webhooks in configuration {name}" for name in missing],
                remedy=webhooks.INSTALL,
                command=webhooks.REINSTALL,
            )
    unread = [f"GangPolicy {name}: gangctl has not loaded it yet" for name, ready in conditions.items() if not ready]
    return ok(f"{plural(len(conditions), 'GangPolicy', 'GangPolicies')}, none of which is known to fail", *unread)


@check("skipped-namespaces", Area.GANGCTL, "Which namespaces does gangctl not serve?", "labels of namespaces")
async def left_alone(cluster: Cluster) -> CheckOutcome:
    """Break-glass is temporary."""
    names = await skipped(cluster)
    if not names:
        return ok(f"no namespace has the label {SKIP_LABEL}")
    return warning(
        f"JobSets in {plural(len(names), 'namespace')} never become gangs",
        [f"namespace {name} has the label {SKIP_LABEL}: true" for name in names],
        remedy="take the label away when the emergency is over: runbook break-glass",
        command=f"kubectl label namespace {names[0]} {SKIP_LABEL}-",
    )
