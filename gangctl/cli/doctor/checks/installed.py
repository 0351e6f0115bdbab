"""What is installed: webhook configurations by their owners, the endpoints behind them, Deployments and rollouts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Final

from gangctl.api.meta import SYSTEM_NAMESPACE
from gangctl.api.objects import Object, condition_of, integer_at, object_at, objects_at, within
from gangctl.api.pods import is_finished
from gangctl.cli.doctor.check import CheckOutcome, warning
from gangctl.cli.doctor.cluster import Cluster, all_of, fact, right, seen_or
from gangctl.client.client import Selection
from gangctl.client.resources import (
    MUTATING_WEBHOOK_CONFIGURATIONS,
    NAMESPACES,
    PODS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    Resource,
)
from gangctl.errors import ForbiddenError, NotFoundError
from gangctl.readiness.containers import STARTS, waiting_of
from gangctl.runtime.shards import MOST_SHARDS
from gangctl.webhooks.configurations import AGAIN, DEFAULTS, JOBS_NAME, MUTATING, NAME, POLICIES

CONFIGURATIONS: Final = (MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS)
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
ENDPOINT_SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
_JOBSET_NAMESPACE: Final = "jobset-system"
_SERVICE: Final = "kubernetes.io/service-name"
_OURS: Final = frozenset({NAME, JOBS_NAME, DEFAULTS, POLICIES})
_RULE: Final = re.compile(
    r"denied (?:the )?request|(?:exceeded|failed) quota|"
    r"forbidden: \[?(?:minimum|maximum|violates PodSecurity|unable to validate against any security) "
)
_TAG: Final = re.compile(r":v?(\d{1,4})\.(\d{1,4})(?:\.\d{1,5})?(?:[-+@]|\Z)")


def refused_by_rule(refusal: str) -> bool:
    """Whether a policy, a quota, a LimitRange or another webhook refuses an object: that says nothing of gangctl."""
    ours = MUTATING[0].name in refusal or (".gangctl.dev" in refusal and AGAIN in refusal)
    return _RULE.search(refusal) is not None and not ours


@dataclass(frozen=True, slots=True)
class Rollout:
    """A rollout that is not finished: pods of the template before run, or none."""

    images: tuple[str, ...]
    """Of the template."""
    stuck: bool
    """Whether it does not go on by itself."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """Name, images and readiness of a Deployment."""

    namespace: str
    name: str
    images: tuple[str, ...]
    """Those that run; empty where a rollout is not finished, and no pod is ready or none may be read."""
    wanted: int
    ready: int
    shards: int = 1
    """Of a gangctl, by its arguments."""
    rollout: Rollout | None = None
    waiting: tuple[str, ...] = ()
    """Why pods are not ready."""

    @property
    def evidence(self) -> tuple[str, ...]:
        """Its name, readiness and images in a line, and why pods are not ready."""
        title = f"Deployment {self.namespace}/{self.name}: {self.ready} of {self.wanted} replicas ready"
        if self.images:
            title += f", image {', '.join(self.images)}"
        if self.rollout is not None:
            title += f"; its rollout to image {', '.join(self.rollout.images)} is not finished"
        return title, *self.waiting

    def is_of(self, project: str) -> bool:
        """Whether its name or an image names a project."""
        coming = () if self.rollout is None else self.rollout.images
        return any(project in text for text in (self.name, *self.images, *coming))


def stuck_rollout(who: str, deployments: Iterable[Deployment], evidence: Iterable[str]) -> CheckOutcome | None:
    """The warning of a stuck rollout where pods are ready nevertheless; None without one."""
    for item in deployments:
        if item.rollout is not None and item.rollout.stuck and item.ready:
            new, old = ", ".join(item.rollout.images), ", ".join(item.images)
            message = f"the rollout of {who} is stuck: the pods before it run"
            if old and old != new:
                message = f"the rollout of {who} to image {new} is stuck: {old} runs"
            return warning(
                message,
                evidence,
                remedy="correct what its pods wait for, or return to the pods that run",
                command=f"kubectl -n {item.namespace} rollout undo deployment/{item.name}",
            )
    return None


def controllers(deployments: Iterable[Deployment], project: str) -> list[Deployment]:
    """Those with an image of this very name, else all of the project, whose images may be mirrored under another."""
    known = [deployment for deployment in deployments if deployment.is_of(project)]
    return [item for item in known if any(_repository(image) == project for image in item.images)] or known


def _repository(image: str) -> str:
    """The last part of an image's name, without tag and digest."""
    return image.rpartition("/")[2].partition("@")[0].partition(":")[0]


def release(image: str) -> tuple[int, int] | None:
    """Major and minor of an image's tag; None if it has none.

    >>> release("registry.k8s.io/jobset/jobset:v0.12.0@sha256:ab")
    (0, 12)
    """
    tag = _TAG.search(image)
    return (int(tag[1]), int(tag[2])) if tag else None


def oldest_release(deployments: Iterable[Deployment]) -> tuple[int, int] | None:
    """Of the releases in tags of images."""
    releases = (release(image) for deployment in deployments for image in deployment.images)
    return min(filter(None, releases), default=None)


def dotted(release: tuple[int, int]) -> str:
    """A release as text."""
    return f"{release[0]}.{release[1]}"


def name_of(configuration: Object) -> str:
    """Its name."""
    return str(object_at(configuration, "metadata").get("name", ""))


def title(configuration: Object) -> str:
    """Kind and name."""
    return f"{configuration.get('kind')} {name_of(configuration)}"


def webhooks(configuration: Object) -> list[dict[str, Any]]:
    """Its webhooks, of any shape."""
    return objects_at(configuration, "webhooks")


def client_config(webhook: Object) -> dict[str, Any]:
    """Where it is called."""
    return object_at(webhook, "clientConfig")


UNTRUSTED: Final = (
    "API servers trust the answers of {} webhooks only if they know its authority themselves: there is no caBundle"
)


def without_bundle(registered: Iterable[Object]) -> list[str]:
    """The webhooks of these configurations that have no caBundle."""
    return [
        f"{title(configuration)}: {webhook.get('name')} has no caBundle"
        for configuration in registered
        for webhook in webhooks(configuration)
        if not client_config(webhook).get("caBundle")
    ]


def service_of(webhook: Object) -> tuple[str, str] | None:
    """Namespace and name of the Service that it is called through; None where that is a URL."""
    service = client_config(webhook).get("service")
    if not isinstance(service, dict):
        return None
    return str(service.get("namespace", "")), str(service.get("name", ""))


def path_of(webhook: Object) -> str:
    """The path that is called."""
    service = client_config(webhook).get("service")
    return str(service.get("path", "")) if isinstance(service, dict) else _url(webhook)[1]


def place(webhook: Object) -> str:
    """Its address for API servers, as text."""
    service = service_of(webhook)
    return f"Service {service[0]}/{service[1]}" if service else f"URL {_url(webhook)[0]}"


def address(webhook: Object) -> str:
    """How the URL begins that an API server names where the webhook does not answer."""
    # HookClient of k8s.io/apiserver (pkg/util/webhook/client.go) makes it.
    service = service_of(webhook)
    return f"https://{service[1]}.{service[0]}.svc:" if service else f"{_url(webhook)[0]}/"


def _url(webhook: Object) -> tuple[str, str]:
    """Where, and the path there."""
    scheme, _, rest = str(client_config(webhook).get("url", "")).partition("://")
    host, _, path = rest.partition("/")
    return f"{scheme}://{host}", f"/{path}"


def owner_of(configuration: Object) -> str:
    """gangctl, kueue or jobset, with any release name of a chart; empty for anything else."""
    name = name_of(configuration)
    # Kueue's webhooks for JobSets are Kueue's.
    return "gangctl" if name in _OURS else next((owner for owner in ("kueue", "jobset") if owner in name), "")


def owned_by(configurations: Iterable[Object], *owners: str) -> list[Object]:
    """Those of these owners."""
    return [configuration for configuration in configurations if owner_of(configuration) in owners]


def services(configurations: Iterable[Object]) -> set[tuple[str, str]]:
    """Services that these are called through."""
    called = (service_of(webhook) for configuration in configurations for webhook in webhooks(configuration))
    return {service for service in called if service is not None}


def webhook_counts(configurations: Sequence[Object]) -> list[str]:
    """The number of webhooks of each, as evidence."""
    return [f"{title(configuration)}: {len(webhooks(configuration))} webhooks" for configuration in configurations]


def endpoint_counts(services: set[tuple[str, str]], ready: Mapping[tuple[str, str], int]) -> list[str]:
    """The number of ready endpoints of each Service, as evidence."""
    return [f"Service {ns}/{name}: {ready.get((ns, name), 0)} ready endpoints" for ns, name in sorted(services)]


@fact
async def configurations(cluster: Cluster) -> tuple[Object, ...]:
    """Every webhook configuration, with its kind: others have to run after gangctl's."""
    pages = zip(CONFIGURATIONS, await all_of(map(cluster.client.list, CONFIGURATIONS)), strict=True)
    return tuple({**item, "kind": resource.kind} for resource, page in pages for item in page.items)


@fact
async def endpoints(cluster: Cluster) -> dict[tuple[str, str], int]:
    """Ready endpoints by namespace and name of the Services that gangctl's and JobSet's webhooks name."""
    names = sorted(services(owned_by(await configurations(cluster), "gangctl", "jobset")))
    return dict(zip(names, await all_of(_ready(cluster, *name) for name in names), strict=True))


async def _ready(cluster: Cluster, namespace: str, name: str) -> int:
    page = await cluster.client.list(ENDPOINT_SLICES, namespace, selection=Selection(f"{_SERVICE}={name}"))
    behind = [endpoint for item in page.items for endpoint in objects_at(item, "endpoints")]
    # By the API, ready without a value means true (EndpointConditions).
    return sum(1 for endpoint in behind if object_at(endpoint, "conditions").get("ready") is not False)


@fact
async def gangctl_namespace(cluster: Cluster) -> str:
    """From the flag, from its webhooks' Service, or the default outside of a cluster."""
    if cluster.gangctl_namespace is not None:
        return cluster.gangctl_namespace
    if called := services(owned_by(await seen_or(configurations(cluster), ()), "gangctl")):
        return min(called)[0]
    try:
        await cluster.client.get(NAMESPACES, SYSTEM_NAMESPACE)
    except NotFoundError:
        return "default"
    return SYSTEM_NAMESPACE


@fact
async def deployments(cluster: Cluster) -> tuple[Deployment, ...]:
    """In the readable namespaces of gangctl, JobSet and Kueue; ForbiddenError if there are none."""
    called = services(owned_by(await seen_or(configurations(cluster), ()), "gangctl", "jobset"))
    own = cluster.gangctl_namespace or SYSTEM_NAMESPACE
    namespaces = {own, _JOBSET_NAMESPACE, cluster.kueue_namespace, *(namespace for namespace, _ in called)}
    lists = await all_of(_deployments(cluster, namespace) for namespace in sorted(namespaces))
    readable = [items for items in lists if not isinstance(items, ForbiddenError)]
    if not readable and isinstance(lists[0], ForbiddenError):
        raise lists[0]
    return tuple(deployment for items in readable for deployment in items)


async def _deployments(cluster: Cluster, namespace: str) -> list[Deployment] | ForbiddenError:
    try:
        page = await cluster.client.list(DEPLOYMENTS, namespace)
    except ForbiddenError as error:
        return error
    return await all_of(_deployment(cluster, item, namespace) for item in page.items)


async def _deployment(cluster: Cluster, item: Object, namespace: str) -> Deployment:
    spec, status = object_at(item, "spec"), object_at(item, "status")
    containers = objects_at(within(spec, "template", "spec"), "containers")
    wanted, ready = integer_at(spec, "replicas", 1), integer_at(status, "readyReplicas")
    rolls = _rolls(item, wanted)
    # After a complete rollout all pods are those of the template.
    read = await _pods(cluster, item, namespace) if rolls or ready < wanted else _ReadPods()
    # The template has the image that is wanted, which need not be the one that runs.
    runs = read.running if rolls else containers
    return Deployment(
        namespace,
        str(item["metadata"].get("name", "")),
        _images(runs),
        wanted,
        ready,
        _shards([str(word) for container in runs or containers for word in container.get("args") or []]),
        Rollout(_images(containers), stuck=read.stuck) if rolls else None,
        read.waiting,
    )


def _images(containers: Iterable[Object]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(container.get("image", "")) for container in containers))


def _rolls(item: Object, wanted: int) -> bool:
    """Whether not all pods are those of the template, as ``kubectl rollout status`` finds it."""
    status = object_at(item, "status")
    generation = integer_at(item["metadata"], "generation")
    total, updated = (integer_at(status, count) for count in ("replicas", "updatedReplicas"))
    return integer_at(status, "observedGeneration") < generation or updated < wanted or total > updated


@dataclass(frozen=True, slots=True)
class _ReadPods:
    """Of a Deployment: containers of ready pods, why others are not ready, and whether one of them needs help."""

    running: tuple[Object, ...] = ()
    waiting: tuple[str, ...] = ()
    stuck: bool = False


async def _pods(cluster: Cluster, item: Object, namespace: str) -> _ReadPods:
    refused = condition_of(item, "ReplicaFailure")
    waiting = [f"its pods cannot be created: {refused.get('message')}"] if refused.get("status") == "True" else []
    late = condition_of(item, "Progressing").get("reason") == "ProgressDeadlineExceeded"
    labels = object_at(object_at(object_at(item, "spec"), "selector"), "matchLabels")
    selection = Selection(",".join(f"{key}={value}" for key, value in labels.items()))
    try:
        pods = (await cluster.client.list(PODS, namespace, selection=selection)).items
    except ForbiddenError:
        waiting.append(f"you may not {right('list', 'pods', namespace)}: which image runs is not known")
        return _ReadPods((), tuple(waiting), late or bool(refused))
    running: list[Object] = []
    stuck = late or bool(waiting)
    for pod in pods:
        containers = objects_at(object_at(pod, "spec"), "containers")
        if condition_of(pod, "Ready").get("status") == "True":
            running += containers
        elif not is_finished(pod) and not object_at(pod, "metadata").get("deletionTimestamp"):
            reason, message = _why(pod)
            stuck = stuck or reason not in STARTS
            why = ": ".join(filter(None, (reason, message))) or "it is not ready"
            images = ", ".join(_images(containers))
            waiting.append(f"pod {object_at(pod, 'metadata').get('name')} (image {images}): {why}")
    return _ReadPods(tuple(running), tuple(waiting), stuck)


def _why(pod: Object) -> tuple[str, str]:
    """Reason and message of why a pod is not ready."""
    placed = condition_of(pod, "PodScheduled")
    if placed.get("status") == "False":
        return str(placed.get("reason") or ""), str(placed.get("message") or "")
    return waiting_of(object_at(pod, "spec"), object_at(pod, "status"))


def _shards(arguments: list[str]) -> int:
    """The value of ``--shards`` in the arguments of gangctl; 1 if it is absent or invalid."""
    for word, following in zip_longest(arguments, arguments[1:], fillvalue=""):
        flag, _, value = word.partition("=")
        text = value or following
        if flag == "--shards" and text.isdecimal() and 1 <= int(text) <= MOST_SHARDS:
            return int(text)
    return 1
