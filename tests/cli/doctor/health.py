"""Facts of a cluster in which everything is as it should be, with gangctl, JobSet and Kueue installed by manifests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from gangctl.cli.doctor import cluster
from gangctl.cli.doctor.canary import Canary, CanaryJobSet, CanaryPod
from gangctl.cli.doctor.check import Check, Outcome
from gangctl.cli.doctor.checks import CHECKS, canary, gangctl, gangs, installed, kueue, webhooks
from gangctl.cli.doctor.checks import jobset as jobsets
from gangctl.cli.doctor.checks import kubernetes as k8s
from gangctl.cli.doctor.checks.gangctl import Lease
from gangctl.cli.doctor.checks.gangs import Gangs
from gangctl.cli.doctor.checks.installed import Deployment
from gangctl.cli.doctor.checks.jobset import DryRun
from gangctl.cli.doctor.checks.kubernetes import PodField, Right
from gangctl.cli.doctor.checks.webhooks import JobPolicy
from gangctl.cli.doctor.cluster import Cluster, UnseenError
from gangctl.client.client import Client
from gangctl.gang.generation import ServedVersion
from gangctl.kueue.configuration import KueueConfiguration
from gangctl.kueue.objects import AdmissionCheck, Condition
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


def others() -> list[Object]:
    """JobSet's and Kueue's."""
    kinds = {"Mutating": "mutating", "Validating": "validating"}
    return [
        foreign(f"{kind}WebhookConfiguration", f"{who}-{word}-webhook-configuration", service)
        for kind, word in kinds.items()
        for who, service in (("jobset", JOBSET_SERVICE), ("kueue", ("kueue-system", "kueue-webhook-service")))
    ]


def pod(name: str, *, node: str = "", refused: str = "", reference: str = "g") -> CanaryPod:
    """A pod of the canary."""
    return CanaryPod(name, reference, node, "2027-01-15T08:00:00Z" if node else "", refused)


def jobset(*pods: CanaryPod, **changed: Any) -> CanaryJobSet:
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
READERS: Final[dict[str, Callable[[Cluster], Awaitable[Any]]]] = {
    "gangctl_namespace": installed.gangctl_namespace,
    "version": cluster.version,
    "served": cluster.served,
    "stored": k8s.stored,
    "pod_field": k8s.pod_field,
    "job_policy": webhooks.job_policy,
    "jobset_versions": jobsets.versions,
    "jobset_schedules": jobsets.schedules,
    "configurations": installed.configurations,
    "endpoints": installed.endpoints,
    "deployments": installed.deployments,
    "leases": gangctl.leases,
    "policies": gangctl.policies,
    "skipped": gangctl.skipped,
    "dry_run": jobsets.dry_run,
    "gangs": gangs.gangs,
    "job_workloads": gangs.job_workloads,
    "leaving": gangs.leaving,
    "quotas": gangs.quotas,
    "kueue_versions": kueue.versions,
    "kueue_configuration": kueue.configuration,
    "kueue_checks": kueue.admission_checks,
    "rights": k8s.rights,
    "canary": canary.canary,
}
"""What reads each fact that a situation has."""


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


def healthy(**changed: Any) -> Cluster:
    """Everything is fine but for what is ``changed``."""
    facts: dict[str, Any] = {
        "gangctl_namespace": SERVICE[0],
        "version": "v1.37.1",
        "served": served(v1=["priorityclasses"], v1beta1=["workloads", "podgroups"]),
        "stored": {"workloads.scheduling.k8s.io": "", "podgroups.scheduling.k8s.io": ""},
        "pod_field": PodField("schedulingGroup", kept=True, how="a dry run"),
        "job_policy": JobPolicy(served=True, writes=True, how="another dry run"),
        "jobset_versions": ("v1alpha2",),
        "jobset_schedules": False,
        "configurations": (*own(), *others()),
        "endpoints": {SERVICE: 2, JOBSET_SERVICE: 1},
        "deployments": (
            Deployment("gangctl-system", "gangctl", ("gangctl:0.1.0",), 2, 2),
            Deployment("jobset-system", "jobset-controller-manager", ("r.io/jobset/jobset:v0.12.0",), 1, 1),
            Deployment("kueue-system", "kueue-controller-manager", ("r.io/kueue/kueue:v0.19.2",), 1, 1),
        ),
        "leases": {"gangctl": Lease("gangctl-1", int(NOW) - 3, 15)},
        "policies": {"fine": {"status": "True"}, "new": {}},
        "skipped": (),
        "dry_run": DryRun(stamped=True, defaulted=True),
        "gangs": Gangs("in the cluster", 2, groups_heard=2, jobs_with_reference=4, jobsets_with_status=2),
        "job_workloads": (),
        "leaving": (),
        "quotas": (),
        "kueue_versions": ("v1beta2",),
        "kueue_configuration": KueueConfiguration(frameworks=("batch/job", "jobset.x-k8s.io/jobset")),
        "kueue_checks": (AdmissionCheck("gang", "gangctl.dev/gang-ready", active=Condition(status=True)),),
        "rights": (Right("list", "pods", "t", "get", allowed=True),),
        "canary": Canary(WHOLE, TORN, 5.0),
        **changed,
    }
    known: dict[Any, Awaitable[Any]] = {READERS[name]: Known(value) for name, value in facts.items()}
    no_client: Client = None  # type: ignore[assignment]
    return Cluster(no_client, "t", None, "kueue-system", now=NOW, facts=known)


def check_of(name: str) -> Check:
    """The check of a name."""
    (one,) = [check for check in CHECKS if check.id == name]
    return one


def asked(check: str, cluster: Cluster) -> Outcome:
    """The outcome of a check on these facts."""
    return asyncio.run(check_of(check).outcome(cluster))
