"""Checks of Kueue."""

from __future__ import annotations

from typing import Final

from gangctl.cli.doctor.check import Area, CheckOutcome, check, failed, ok, unknown, warning
from gangctl.cli.doctor.checks import installed
from gangctl.cli.doctor.cluster import Cluster, fact, namespace_labels, seen_or
from gangctl.cluster import kinds
from gangctl.errors import NotFoundError, plural
from gangctl.kueue.blocked import JOBSET_FRAMEWORK, Blockage, blocked
from gangctl.kueue.configuration import CONFIG_KEY, KueueConfiguration, read_configuration
from gangctl.kueue.names import API_VERSION, CHECK_CONTROLLER, GROUP, PARAMETERS_KIND, VERSION
from gangctl.kueue.objects import AdmissionCheck, ClusterQueue, LocalQueue
from gangctl.kueue.reading import read_check, read_cluster_queue, read_local_queue

OLDEST: Final = (0, 19)
"""Oldest release of Kueue that gangctl is tested with."""
_STOPPED: Final = frozenset({Blockage.LOCAL_QUEUE_STOPPED, Blockage.CLUSTER_QUEUE_STOPPED})
_ABSENT: Final = "Kueue is not installed here: nothing to check"


@fact
async def kueue_versions(cluster: Cluster) -> tuple[str, ...]:
    """Versions of Kueue's API; none if it is not installed."""
    return tuple(await cluster.client.discovery.group_versions(GROUP))


@check("kueue-api", Area.KUEUE, "Is Kueue there, in a version that gangctl knows?", "discovery and Deployments")
async def api(cluster: Cluster) -> CheckOutcome:
    """gangctl reads one version of its API."""
    served = await kueue_versions(cluster)
    if not served:
        return ok(_ABSENT)
    evidence = [f"{GROUP} serves {', '.join(served)}"]
    if VERSION not in served:
        return failed(
            f"{API_VERSION} is not served: gangctl does not read its queues",
            evidence,
            remedy=f"upgrade Kueue to {installed.dotted(OLDEST)} or later, or run gangctl with --kueue off",
            command=f"kubectl get --raw /apis/{GROUP}",
        )
    # In its namespace may be others of its project, such as the dashboard, which may be scaled down.
    own = installed.controllers(await seen_or(installed.deployments(cluster), ()), "kueue")
    evidence += [line for item in own for line in item.evidence]
    if any(item.ready < 1 for item in own):
        return failed(
            "Kueue is not ready: JobSets in queues stay suspended",
            evidence,
            remedy="see why its pods are not ready",
            command=f"kubectl -n {own[0].namespace} get pods",
        )
    if stuck := installed.stuck_rollout("Kueue", own, evidence):
        return stuck
    known = installed.oldest_release(own)
    if known is not None and known < OLDEST:
        return warning(
            f"Kueue {installed.dotted(known)} is older than {installed.dotted(OLDEST)}, which gangctl is tested with",
            evidence,
            remedy="upgrade Kueue: earlier ones take fewer podsets",
        )
    return ok(f"Kueue {installed.dotted(known)}" if known else f"{API_VERSION} is served", *evidence)


@fact
async def kueue_configuration(cluster: Cluster) -> KueueConfiguration:
    """From its ConfigMap."""
    if VERSION not in await kueue_versions(cluster):
        return read_configuration(None)
    try:
        item = await cluster.client.get(kinds.CONFIG_MAPS, kinds.CONFIG_NAME, cluster.kueue_namespace)
    except NotFoundError:
        return read_configuration(None)
    text = (item.get("data") or {}).get(CONFIG_KEY)
    return read_configuration(text if isinstance(text, str) else None)


@check("kueue-configuration", Area.KUEUE, "Does Kueue manage JobSets?", "ConfigMap kueue-manager-config")
async def frameworks(cluster: Cluster) -> CheckOutcome:
    """Kueue manages the kinds that its configuration lists."""
    if not await kueue_versions(cluster):
        return ok(_ABSENT)
    read = await kueue_configuration(cluster)
    if not read.known:
        return unknown(
            f"Kueue's configuration cannot be read: {read.unreadable}",
            remedy="--kueue-namespace says where it runs",
            command="kubectl get configmaps -A --field-selector metadata.name=kueue-manager-config",
        )
    evidence = [f"integrations.frameworks: {', '.join(read.frameworks)}"]
    if JOBSET_FRAMEWORK not in read.frameworks:
        return failed(
            "Kueue does not manage JobSets: those with a queue start at once, quota or not",
            evidence,
            remedy=f"add {JOBSET_FRAMEWORK} to integrations.frameworks of ConfigMap {kinds.CONFIG_NAME}, and restart "
            "Kueue",
            command=f"kubectl -n {cluster.kueue_namespace} edit configmap {kinds.CONFIG_NAME}",
        )
    return ok("Kueue manages JobSets", *evidence)


@fact
async def kueue_checks(cluster: Cluster) -> tuple[AdmissionCheck, ...]:
    """All of Kueue's."""
    if VERSION not in await kueue_versions(cluster):
        return ()
    return tuple(map(read_check, (await cluster.client.list(kinds.ADMISSION_CHECKS)).items))


@check(
    "kueue-checks",
    Area.KUEUE,
    "Are gangctl's AdmissionChecks active?",
    "AdmissionChecks of gangctl.dev/gang-ready",
)
async def looked_after(cluster: Cluster) -> CheckOutcome:
    """An AdmissionCheck without its controller blocks JobSets permanently."""
    if not await kueue_versions(cluster):
        return ok(_ABSENT)
    own = [item for item in await kueue_checks(cluster) if item.controller == CHECK_CONTROLLER]
    idle = [item for item in own if item.active is None or not item.active.status]
    if idle:
        return failed(
            "AdmissionChecks of gangctl are not active: ClusterQueues that use them admit nothing",
            [
                f"AdmissionCheck {item.name}: {item.active.message if item.active else 'no condition Active'}"
                for item in idle
            ],
            remedy="run gangctl with --kueue-check (manifests/kueue-check), or take the check off the queues",
            command=f"kubectl get admissioncheck {idle[0].name} -o yaml",
        )
    odd = [item for item in own if item.parameters is not None and item.parameters[1] != PARAMETERS_KIND]
    if odd:
        return warning(
            f"parameters of gangctl's AdmissionChecks are of kind {PARAMETERS_KIND}",
            [f"AdmissionCheck {item.name} has {item.parameters}" for item in odd],
            remedy=f"make a {PARAMETERS_KIND}, or leave parameters out",
            command=f"kubectl edit admissioncheck {odd[0].name}",
        )
    evidence = [f"AdmissionCheck {item.name} is active" for item in own]
    return ok("no AdmissionCheck waits for gangctl" if not own else "gangctl's AdmissionChecks are active", *evidence)


@fact
async def queues(cluster: Cluster) -> tuple[tuple[LocalQueue, ClusterQueue | None], ...]:
    """LocalQueues of all namespaces, or of the selected one, each with the ClusterQueue it leads to, if that exists."""
    if VERSION not in await kueue_versions(cluster):
        return ()
    cluster_queues = map(read_cluster_queue, (await cluster.client.list(kinds.CLUSTER_QUEUES)).items)
    by_name = {queue.name: queue for queue in cluster_queues}
    local_queues = map(read_local_queue, await cluster.list_widely(kinds.LOCAL_QUEUES))
    return tuple((queue, by_name.get(queue.cluster_queue)) for queue in local_queues)


@check(
    "kueue-queues",
    Area.KUEUE,
    "Do LocalQueues lead to ClusterQueues that admit?",
    "LocalQueues, ClusterQueues and Namespaces",
)
async def lead_somewhere(cluster: Cluster) -> CheckOutcome:
    """What is in a LocalQueue waits permanently if its ClusterQueue is missing, inactive or selects no namespace."""
    if not await kueue_versions(cluster):
        return ok(_ABSENT)
    known = await queues(cluster)
    labels = await seen_or(namespace_labels(cluster), None) or {}
    shut = [
        (queue, why)
        for queue, behind in known
        if (why := blocked(queue.name, queue, behind, labels.get(queue.namespace))) is not None
    ]
    # Who sets a stopPolicy means it.
    stopped = [(queue, why) for queue, why in shut if why.reason in _STOPPED]
    broken = [(queue, why) for queue, why in shut if why.reason not in _STOPPED]
    evidence = [f"LocalQueue {queue.namespace}/{queue.name}: {why.message}" for queue, why in [*broken, *stopped]]
    if broken:
        queue = broken[0][0]
        return warning(
            f"the ClusterQueue of {plural(len(broken), 'LocalQueue')} admits nothing",
            evidence,
            remedy="create or repair the ClusterQueue, or delete the LocalQueue: what is in it waits permanently",
            command=f"gangctl queue describe {queue.name} -n {queue.namespace}",
        )
    return ok(f"{plural(len(known) - len(stopped), 'LocalQueue')} open, {len(stopped)} stopped", *evidence)
