"""Facts of a cluster in which everything is as it should be, with gangctl, JobSet and Kueue installed by manifests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final

from gangctl.cli.doctor.checks import CHECKS
from gangctl.cli.doctor.facts import (
    Canary,
    CanaryJobSet,
    CanaryPod,
    Deployment,
    DryRun,
    Facts,
    Gangs,
    JobPolicy,
    Lease,
    PodField,
    Right,
)
from gangctl.cli.doctor.outcome import Outcome, examine
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


def healthy(**changed: Any) -> Facts:
    """Everything is fine but for what is ``changed``."""
    facts: dict[str, Any] = {
        "now": NOW,
        "namespace": "t",
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
    return Facts(**facts)


def asked(check: str, facts: Facts) -> Outcome:
    """The outcome of a check on these facts."""
    return examine(CHECKS[check], facts)
