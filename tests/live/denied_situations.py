"""Situations in which the API server denies Jobs or pods of a gang: quotas, policies, webhooks, what does not exist."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from gangctl.api.meta import JOBSET_NAME
from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import Command
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.components.addon import create_namespace
from tests.live.causes import Place
from tests.live.gang_situations import RUNS, SITUATIONS
from tests.live.observe import jobs_refused, pods_refused, webhooks_noticed

__all__ = ["SITUATIONS"]

ADMISSION: Final = "admissionregistration.k8s.io/v1"
PODS: Final = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
JOBS: Final = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]}


def here(place: Place) -> Object:
    """The namespace of a situation, as a selector."""
    return {"matchLabels": {"kubernetes.io/metadata.name": place.namespace}}


async def dead_webhook(place: Place, name: str, rule: Object) -> None:
    """A webhook for objects of JobSets in the namespace at which nothing listens."""
    webhook: Object = {
        "name": name,
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [rule],
        "namespaceSelector": here(place),
        "objectSelector": {"matchExpressions": [{"key": JOBSET_NAME, "operator": "Exists"}]},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    kind = "ValidatingWebhookConfiguration"
    body = {"apiVersion": ADMISSION, "kind": kind, "metadata": {"name": place.namespace}, "webhooks": [webhook]}
    await place.plane.api.create(path_of(ADMISSION, f"{kind.lower()}s"), body)
    await webhooks_noticed(place.plane)


async def policy(place: Place, rule: Object) -> None:
    """A ValidatingAdmissionPolicy that denies everything of a kind in the namespace."""
    validations = [{"expression": "false", "message": "not today"}]
    constraints = {"resourceRules": [rule], "namespaceSelector": here(place)}
    await define(place, "ValidatingAdmissionPolicy", matchConstraints=constraints, validations=validations)
    await define(place, "ValidatingAdmissionPolicyBinding", policyName=place.namespace, validationActions=["Deny"])


async def define(place: Place, kind: str, **spec: Any) -> None:
    """Create an object of admission, by the name of the namespace."""
    kinds = f"{kind.lower()[:-1]}ies" if kind.endswith("y") else f"{kind.lower()}s"
    body = {"apiVersion": ADMISSION, "kind": kind, "metadata": {"name": place.namespace}, "spec": spec}
    await place.plane.api.create(path_of(ADMISSION, kinds), body)


async def job_anew(place: Place) -> None:
    """Have JobSet create the gang's Job again."""
    await place.plane.api.delete(place.cluster.path("batch/v1", "jobs", "js-w-0"), propagation="Background")


@SITUATIONS(
    Reason.JOB_CREATION_REFUSED,
    "Job to be recreated while a webhook for Jobs does not answer",
    Command.WEBHOOKS,
    when=RUNS,
    shows="{namespace}",
)
async def webhook_dead(place: Place) -> None:
    await place.create(place.gang(2))
    await place.pods(2)
    await dead_webhook(place, "dead.example.org", JOBS)
    await job_anew(place)


@SITUATIONS(
    Reason.JOB_CREATION_REFUSED,
    "Job to be recreated while gangctl's webhook for Jobs does not answer",
    Command.OWN_PODS,
    when=RUNS,
    shows="gangctl-webhooks",
)
async def own_webhook_dead(place: Place) -> None:
    with suppress(ApiFailure):
        await create_namespace(place.plane.api, "gangctl-system")
    # An EndpointSlice has the labels of its Service.
    metadata = {"name": "gangctl-webhooks", "labels": {"app.kubernetes.io/name": "gangctl"}}
    body = {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata}
    path = path_of("discovery.k8s.io/v1", "endpointslices", namespace="gangctl-system")
    await place.plane.api.create(path, {**body, "addressType": "IPv4", "endpoints": []})
    await place.create(place.gang(2))
    await place.pods(2)
    await dead_webhook(place, "jobs.gangs.gangctl.dev", JOBS)
    await job_anew(place)


@SITUATIONS(Reason.JOB_CREATION_REFUSED, "ResourceQuota with no Jobs left", Command.RESOURCE_QUOTA, when=RUNS)
async def no_jobs_left(place: Place) -> None:
    await place.make("ResourceQuota", "none", spec={"hard": {"count/jobs.batch": "0"}})
    await jobs_refused(place.cluster, "exceeded quota")
    await place.create(place.gang(2))


@SITUATIONS(
    Reason.JOB_CREATION_REFUSED, "ValidatingAdmissionPolicy that denies Jobs", Command.ADMISSION_POLICY, when=RUNS
)
async def jobs_denied(place: Place) -> None:
    await policy(place, JOBS)
    await jobs_refused(place.cluster, "not today")
    await place.create(place.gang(2))


@SITUATIONS(
    Reason.JOB_CREATION_REFUSED,
    "Job template with a restartPolicy that Jobs do not have",
    Command.DESCRIBE_JOBSET,
    when=RUNS,
)
async def invalid_job(place: Place) -> None:
    await place.create(place.gang(2, pod={"restartPolicy": "Always"}))


@SITUATIONS(Reason.POD_CREATION_REFUSED, "ResourceQuota with no pods left", Command.RESOURCE_QUOTA, when=RUNS)
async def quota_used_up(place: Place) -> None:
    await place.make("ResourceQuota", "none", spec={"hard": {"pods": "0"}})
    await pods_refused(place.cluster, "exceeded quota")
    await place.create(place.gang(2))


@SITUATIONS(
    Reason.POD_CREATION_REFUSED,
    "PodSecurity `restricted` on the namespace",
    Command.NAMESPACE_LABELS,
    when=RUNS,
    shows="pod-security.kubernetes.io/enforce=restricted",
)
async def pod_security(place: Place) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await place.plane.api.patch(path_of("v1", "namespaces", name=place.namespace), {"metadata": {"labels": labels}})
    await pods_refused(place.cluster, "violates PodSecurity")
    await place.create(place.gang(2))


@SITUATIONS(
    Reason.POD_CREATION_REFUSED,
    "LimitRange below the request of a container",
    Command.LIMIT_RANGES,
    when=RUNS,
    shows="small",
)
async def limit_range(place: Place) -> None:
    await place.make("LimitRange", "small", spec={"limits": [{"type": "Container", "max": {"cpu": "500m"}}]})
    await pods_refused(place.cluster, "maximum cpu usage")
    container = {"name": "main", "image": "none", "resources": {"limits": {"cpu": "1"}}}
    await place.create(place.gang(2, pod={"containers": [container]}))


@SITUATIONS(
    Reason.POD_CREATION_REFUSED,
    "serviceAccountName of one that does not exist",
    Command.SERVICE_ACCOUNTS,
    when=RUNS,
    shows="default",
)
async def no_account(place: Place) -> None:
    await place.create(place.gang(2, pod={"serviceAccountName": "absent"}))


@SITUATIONS(
    Reason.POD_CREATION_REFUSED,
    "PriorityClass deleted between PodGroup and pods",
    Command.PRIORITY_CLASSES,
    when=RUNS,
    shows="system-cluster-critical",
)
async def deleted_priority(place: Place) -> None:
    classes = path_of("scheduling.k8s.io/v1", "priorityclasses")
    body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": place.namespace}}
    await place.plane.api.create(classes, {**body, "value": 1})
    await place.make("ResourceQuota", "none", spec={"hard": {"pods": "0"}})
    await pods_refused(place.cluster, "exceeded quota", priorityClassName=place.namespace)
    await place.create(place.gang(2, pod={"priorityClassName": place.namespace}))
    await place.group()
    # The class is looked up before quota is counted.
    await place.plane.api.delete(f"{classes}/{place.namespace}")


@SITUATIONS(
    Reason.POD_CREATION_REFUSED, "ValidatingAdmissionPolicy that denies pods", Command.ADMISSION_POLICY, when=RUNS
)
async def pods_denied(place: Place) -> None:
    await policy(place, PODS)
    await pods_refused(place.cluster, "not today")
    await place.create(place.gang(2))


@SITUATIONS(
    Reason.POD_CREATION_REFUSED,
    "webhook for pods that does not answer",
    Command.WEBHOOKS,
    when=RUNS,
    shows="{namespace}",
)
async def webhook_for_pods_dead(place: Place) -> None:
    await dead_webhook(place, "dead.example.org", PODS)
    await place.create(place.gang(2))


@SITUATIONS(Reason.POD_CREATION_REFUSED, "runtimeClassName of one that does not exist", Command.DESCRIBE_JOB, when=RUNS)
async def no_runtime_class(place: Place) -> None:
    await place.create(place.gang(2, pod={"runtimeClassName": "absent"}))
