"""Causes for pods with a node that are not ready."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from gangctl.errors import plural
from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.commands import Command
from gangctl.readiness.causes.context import LONG, Context, Finding, Until, are, listed, oldest
from gangctl.readiness.facts import PodFacts
from gangctl.readiness.membership import Group

_PULL: Final = frozenset(
    {
        "ImagePullBackOff",
        "ErrImagePull",
        "ErrImageNeverPull",
        "InvalidImageName",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    }
)
_CONFIG: Final = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "PreCreateHookError",
        "PreStartHookError",
        "PostStartHookError",
        "CreatePodSandboxError",
        "ConfigPodSandboxError",
    }
)
_STARTS: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons as ``pkg/kubelet`` writes them; all other reasons are crashes."""


_REMEDIES: Final = {
    Reason.IMAGE_PULL: "see that the image exists under this name and for this architecture, and that the pods' "
    "imagePullSecrets may read it",
    Reason.CONTAINER_CONFIG: "create what the message names (ConfigMap, Secret, volume, device), or repair the command "
    "in a new JobSet",
    Reason.CRASH_LOOP: "see what it logged before it ended",
}


def troubles(context: Context) -> Iterator[Finding]:
    """Containers that cannot start or that crash."""
    found: dict[tuple[Reason, str], list[tuple[Group, PodFacts]]] = {}
    for group in context.groups:
        for pod in group.pods:
            if pod.node and not pod.ready and pod.waiting not in _STARTS:
                found.setdefault((_reason(pod), pod.waiting), []).append((group, pod))
    for (reason, waiting), members in found.items():
        yield _trouble(context, reason, waiting, members)


def _reason(pod: PodFacts) -> Reason:
    if pod.waiting in _PULL:
        return Reason.IMAGE_PULL
    return Reason.CONTAINER_CONFIG if pod.waiting in _CONFIG else Reason.CRASH_LOOP


def _trouble(context: Context, reason: Reason, waiting: str, found: Sequence[tuple[Group, PodFacts]]) -> Finding:
    pods = [pod for _, pod in found]
    first = min(pods, key=lambda pod: pod.name)
    restarts = sum(pod.restarts for pod in pods)
    messages = sorted({pod.waiting_message for pod in pods if pod.waiting_message})
    count = plural(len(pods), "pod")
    match reason:
        case Reason.IMAGE_PULL:
            message = f"an image of {count} cannot be pulled ({waiting})"
        case Reason.CONTAINER_CONFIG:
            message = f"a container of {count} cannot be created ({waiting})"
        case _:
            message = f"a container of {count} does not stay up ({waiting})"
    logs = reason is Reason.CRASH_LOOP and first.restarts
    return context.cause(
        reason,
        message,
        evidence=[
            *(f"{waiting}: {each}" for each in messages[:3]),
            f"pods {listed(pod.name for pod in pods)} on {listed(pod.node for pod in pods)}",
            *([f"restarted {plural(restarts, 'time')}"] if restarts else []),
        ],
        remedy=_REMEDIES[reason],
        command=context.suggest(Command.POD_LOGS if logs else Command.DESCRIBE_POD, pod=first.name),
        groups=[group for group, _ in found],
        pods=len(pods),
        since=oldest(pod.ready_at or pod.placed_at for pod in pods),
    )


def starting(context: Context) -> Iterator[Finding]:
    """Containers that are being created: normal, unless it takes long."""
    found = [
        (group, pod)
        for group in context.groups
        for pod in group.pods
        if pod.node and not pod.ready and pod.phase != "Running" and pod.waiting in _STARTS
    ]
    yield from _slow(
        context,
        Reason.STARTING,
        found,
        lambda count: f"containers of {plural(count, 'pod')} are being started",
        usual="wait: images are pulled and volumes mounted",
        late="see the events of the pod: a volume that cannot be mounted, a network without addresses, a large image",
    )


def not_ready(context: Context) -> Iterator[Finding]:
    """Containers that run, and whose readiness is not confirmed."""
    found = [
        (group, pod)
        for group in context.groups
        for pod in group.pods
        if pod.node and not pod.ready and pod.phase == "Running" and pod.waiting in _STARTS
    ]
    yield from _slow(
        context,
        Reason.NOT_READY,
        found,
        lambda count: are(count, "pod", "runs and is not ready", "run and are not ready"),
        usual="wait: the readiness probe answers once the application is up",
        late="see what the readiness probe asks and what the application logs",
    )


def _slow(
    context: Context,
    reason: Reason,
    found: Sequence[tuple[Group, PodFacts]],
    words: Callable[[int], str],
    *,
    usual: str,
    late: str,
) -> Iterator[Finding]:
    if not found:
        return
    since = oldest(max(pod.placed_at, pod.ready_at) or pod.created for _, pod in found)
    slow = context.now - since >= LONG
    if not slow:
        yield Until(since + LONG)
    first = min((pod for _, pod in found), key=lambda pod: pod.name)
    reasons = sorted({pod.waiting for _, pod in found if pod.waiting})
    yield context.cause(
        reason,
        words(len(found)),
        evidence=[
            f"the first of them {context.lasting(since)}: {listed(pod.name for _, pod in found)}",
            f"on {listed(pod.node for _, pod in found)}",
            *([f"containers wait: {', '.join(reasons)}"] if reasons else []),
        ],
        remedy=late if slow else usual,
        command=context.suggest(Command.DESCRIBE_POD, pod=first.name),
        groups=[group for group, _ in found],
        pods=len(found),
        since=since,
        blocking=slow,
    )
