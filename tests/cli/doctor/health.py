"""Facts of a cluster in which everything is as it should be, with gangctl, JobSet and Kueue installed by manifests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from gangctl.api.meta import JOBSET_NAME
from gangctl.cli.doctor import cluster
from gangctl.cli.doctor.canary import Canary, CanaryJobSet
from gangctl.cli.doctor.check import CheckOutcome
from gangctl.cli.doctor.checks import CHECKS, canary, gangctl, gangs, installed, kubernetes, kueue, presence, webhooks
from gangctl.cli.doctor.checks import jobset as jobsets
from gangctl.cli.doctor.checks.gangs import ReadGangs
from gangctl.cli.doctor.checks.installed import Deployment
from gangctl.cli.doctor.checks.jobset import DryRun
from gangctl.cli.doctor.checks.kubernetes import PodField, Right
from gangctl.cli.doctor.checks.presence import Lease
from gangctl.cli.doctor.checks.webhooks import JobPolicy
from gangctl.cli.doctor.cluster import Cluster, UnseenError
from gangctl.client.client import Client
from gangctl.gang.generation import ServedVersion
from gangctl.kueue.configuration import KueueConfiguration
from gangctl.kueue.objects import AdmissionCheck, ClusterQueue, Condition, LocalQueue
from gangctl.readiness.facts import PodFacts, read_pod
from gangctl.runtime.tls import found
from gangctl.webhooks.configurations import Endpoint, WebhookSettings, build_configurations

NOW: Final = 1_800_000_000.0
SERVICE: Final = ("gangctl-system", "gangctl-webhook")
JOBSET_SERVICE: Final = ("jobset-system", "jobset-webhook-service")
HEALTHY_SECONDS: Final = 30 * 24 * 3600.0

Object = dict[str, Any]


@cache
def bundle(lasts: float = HEALTHY_SECONDS) -> bytes:
    """PEM of an authority that ends so many seconds from now on."""
    begin = datetime.fromtimestamp(NOW, UTC)
    return found(min(begin, begin + timedelta(seconds=lasts - 60)), timedelta(seconds=max(lasts, 60))).certificate


def own(lasts: float = HEALTHY_SECONDS, **settings: Any) -> list[Object]:
    """gangctl's configurations as it registers them, and as an API server fills them in."""
    endpoint = Endpoint(service=SERVICE[1], namespace=SERVICE[0])
    excluded = ("kube-system", SERVICE[0])
    wanted = WebhookSettings(endpoint, **{"excluded_namespaces": excluded, **settings})
    configurations = build_configurations(wanted, bundle(lasts))
    for each in configurations:
        for webhook in each["webhooks"]:
            webhook.setdefault("objectSelector", {})
    return configurations


def foreign(kind: str, name: str, service: tuple[str, str] | None, *, ca_bundle: str = "Y2E=") -> Object:
    """The configuration of another webhook."""
    config: Object = {"caBundle": ca_bundle} if ca_bundle else {}
    if service is not None:
        config["service"] = {"namespace": service[0], "name": service[1], "path": "/mutate"}
    return {"kind": kind, "metadata": {"name": name}, "webhooks": [{"name": f"m.{name}", "clientConfig": config}]}


def gangpolicy(status: str, reason: str) -> Object:
    """One with this condition Ready."""
    condition = {"type": "Ready", "status": status, "reason": reason, "message": "it is so"}
    return {"status": {"conditions": [condition]}}


def others() -> list[Object]:
    """JobSet's and Kueue's."""
    kinds = {"Mutating": "mutating", "Validating": "validating"}
    return [
        foreign(f"{kind}WebhookConfiguration", f"{who}-{word}-webhook-configuration", service)
        for kind, word in kinds.items()
        for who, service in (("jobset", JOBSET_SERVICE), ("kueue", ("kueue-system", "kueue-webhook-service")))
    ]


def pod(name: str, *, node: str = "", refused: str = "", reference: str = "g") -> PodFacts:
    """A pod of the canary."""
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2027-01-15T08:00:00Z"}
    if not node:
        reason, _, message = refused.partition(": ")
        placed |= {"status": "False" if refused else "Unknown", "reason": reason, "message": message}
    pod = read_pod(
        {
            "metadata": {"name": name, "labels": {JOBSET_NAME: "c"}},
            "spec": {"nodeName": node, **({"schedulingGroup": {"podGroupName": reference}} if reference else {})},
            "status": {"conditions": [placed]},
        }
    )
    assert pod is not None
    return pod


def jobset(*pods: PodFacts, **changed: Any) -> CanaryJobSet:
    """A JobSet of the canary."""
    return CanaryJobSet(
        **{"name": "c", "stamped": True, "groups": ("PodGroup g",), "pods": pods, "seconds": 1.0, **changed}
    )


WHOLE: Final = jobset(pod("a", node="n1"), pod("b", node="n1"))
TORN: Final = jobset(pod("a", refused="Unschedulable: x"), pod("b", refused="Unschedulable: x"))


def served(**versions: Sequence[str]) -> dict[str, ServedVersion]:
    """These resources by version of scheduling.k8s.io."""
    return {version: ServedVersion(frozenset(resources)) for version, resources in versions.items()}


NOT_READ: Final = UnseenError("it was not asked for")


@dataclass
class Known:
    """A fact that is read already, or that cannot be read."""

    value: Any

    def __await__(self) -> Generator[None, None, Any]:
        """Without waiting."""
        yield from ()
        if isinstance(self.value, UnseenError):
            raise self.value
        return self.value


HEALTHY: Final[dict[Callable[[Cluster], Awaitable[Any]], Any]] = {
    installed.gangctl_namespace: SERVICE[0],
    cluster.version: "v1.37.1",
    cluster.served: served(v1=["priorityclasses"], v1beta1=["workloads", "podgroups"]),
    kubernetes.stored: {"workloads.scheduling.k8s.io": "", "podgroups.scheduling.k8s.io": ""},
    kubernetes.pod_field: PodField("schedulingGroup", kept=True, how="a dry run"),
    webhooks.job_policy: JobPolicy(served=True, writes=True, how="another dry run"),
    jobsets.jobset_versions: ("v1alpha2",),
    jobsets.jobset_schedules: False,
    installed.configurations: (*own(), *others()),
    installed.endpoints: {SERVICE: 2, JOBSET_SERVICE: 1},
    installed.deployments: (
        Deployment("gangctl-system", "gangctl", ("gangctl:0.1.0",), 2, 2),
        Deployment("jobset-system", "jobset-controller-manager", ("r.io/jobset/jobset:v0.12.0",), 1, 1),
        Deployment("kueue-system", "kueue-controller-manager", ("r.io/kueue/kueue:v0.19.2",), 1, 1),
    ),
    presence.leases: {"gangctl": Lease("gangctl-1", int(NOW) - 3, 15)},
    gangctl.policies: {"fine": gangpolicy("True", "Exported"), "new": {}},
    gangctl.skipped: (),
    jobsets.dry_run: DryRun(stamped=True, defaulted=True),
    gangs.gangs: ReadGangs("in the cluster", 2, groups_heard=2, jobs_with_reference=4, jobsets_with_status=2),
    gangs.job_workloads: (),
    gangs.leaving: (),
    gangs.quotas: (),
    kueue.kueue_versions: ("v1beta2",),
    kueue.kueue_configuration: KueueConfiguration(frameworks=("batch/job", "jobset.x-k8s.io/jobset")),
    cluster.namespace_labels: {},
    kueue.queues: ((LocalQueue("t", "q", "cq"), ClusterQueue("cq", selector=())),),
    kueue.kueue_checks: (AdmissionCheck("gang", "gangctl.dev/gang-ready", active=Condition(status=True)),),
    kubernetes.rights: (Right("list", "pods", "t", "get", allowed=True),),
    canary.canary: Canary(WHOLE, TORN, 5.0),
}
"""Every fact of a cluster in which everything is fine, by what reads it."""


def healthy(**changed: Any) -> Cluster:
    """Everything is fine but for the facts that are ``changed``, by the names of what reads them."""
    assert changed.keys() <= {read.__name__ for read in HEALTHY}
    known: dict[Any, Awaitable[Any]] = {
        read: Known(changed.get(read.__name__, value)) for read, value in HEALTHY.items()
    }
    no_client: Client = None  # type: ignore[assignment]
    return Cluster(no_client, "t", None, "kueue-system", now=NOW, facts=known)


def asked(name: str, cluster: Cluster) -> CheckOutcome:
    """The outcome of a check on these facts."""
    (check,) = [check for check in CHECKS if check.id == name]
    return asyncio.run(check.outcome(cluster))


def edited(edit: Callable[[Object], object], kind: str = "MutatingWebhookConfiguration") -> tuple[Object, ...]:
    """gangctl's configurations, with a change in the first webhook of a kind."""
    found = own()
    edit(next(each for each in found if each["kind"] == kind)["webhooks"][0])
    return (*found, *others())


MANAGED: Final = "gangctl.dev/managed"


def managed(namespace: str) -> dict[str, Any]:
    """A gangctl that serves this namespace only, by a label."""
    term = {"key": MANAGED, "operator": "In", "values": ["true"]}
    configurations = own()
    for hook in (hook for item in configurations for hook in item["webhooks"] if "namespaceSelector" in hook):
        hook["namespaceSelector"]["matchExpressions"].append(term)
    return {"configurations": (*configurations, *others()), "namespace_labels": {"t": {}, namespace: {MANAGED: "true"}}}
