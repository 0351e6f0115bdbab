"""Causes from containers that start, or run without being ready."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from gangctl.errors import plural
from gangctl.gang.desired import listed
from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import LONG, Command, Context, oldest
from gangctl.readiness.containers import COMPLETED, INITIALIZING, READINESS_GATES, SIDECAR, STARTS
from gangctl.readiness.facts import PodFacts
from gangctl.readiness.membership import Group
from gangctl.readiness.result import Cause


class _Texts(NamedTuple):
    message: str
    usual: str
    late: str
    pod: str = "pod"
    pods: str = "pods"


_NATIVE: Final = (
    "make a container that only serves the others a sidecar (initContainers with restartPolicy: Always), which ends "
    "with them: a pod is not ready once one of its containers has completed, and ends with the last of them"
)
_USUAL: Final[Mapping[Reason, _Texts]] = {
    Reason.STARTING: _Texts(
        "containers of {} are being started",
        "wait: images are pulled and volumes mounted",
        "see the events of the pod: a volume that cannot be mounted, a network without addresses, a large image",
    ),
    Reason.NOT_READY: _Texts(
        "{}",
        "wait: the readiness probe answers once the application is up",
        "see what the readiness probe asks and what the application logs",
        "pod runs and is not ready",
        "pods run and are not ready",
    ),
}
_KNOWN: Final[Mapping[str, _Texts]] = {
    INITIALIZING: _Texts(
        "init containers of {} run, and the others wait for their end",
        "wait: their program decides how long they take",
        "see what the init containers log, and whether they take so long as a rule",
    ),
    SIDECAR: _Texts(
        "sidecars of {} have not started, and the other containers wait for it",
        "wait: the startup probe of the sidecar answers once it is up",
        "see what the startup probe of the sidecar asks and what it logs",
    ),
    COMPLETED: _Texts("containers of {} have completed, and others run on", _NATIVE, _NATIVE),
    READINESS_GATES: _Texts(
        "readiness gates of {} are not met",
        "wait: the controller that added the gate sets its condition, as one of load balancers does",
        "see whether the controller that added the gate runs, as one of load balancers: it sets the condition",
    ),
}
"""By the reason of a pod that has a message, too."""
_MOST_MESSAGES: Final = 3


def begun(pod: PodFacts) -> int:
    """When a pod that is not ready began to start, or was ready last."""
    return max(pod.placed_at, pod.ready_at) or pod.created


def starting(context: Context) -> Iterator[Cause]:
    """Containers that are being created, or run without being ready: normal, unless it takes long."""
    by_reason: dict[tuple[Reason, str], list[tuple[Group, PodFacts]]] = {}
    for group in context.groups:
        for pod in group.pods:
            if pod.node and not pod.ready and pod.waiting in STARTS:
                reason = Reason.NOT_READY if pod.phase == "Running" else Reason.STARTING
                why = pod.waiting if pod.waiting_message and pod.waiting in _KNOWN else ""
                by_reason.setdefault((reason, why), []).append((group, pod))
    for (reason, why), pairs in by_reason.items():
        texts = _KNOWN[why] if why else _USUAL[reason]
        pods = [pod for _, pod in pairs]
        since = oldest(map(begun, pods))
        slow = context.late(since, LONG)
        waiting = sorted({pod.waiting for pod in pods if pod.waiting})
        yield context.cause(
            reason,
            texts.message.format(plural(len(pods), texts.pod, texts.pods)),
            evidence=[
                f"the first of them {context.lasting(since)}: {listed(pod.name for pod in pods)}",
                f"on {listed(pod.node for pod in pods)}",
                *([f"containers wait: {', '.join(waiting)}"] if waiting and why in {"", INITIALIZING} else []),
                *sorted({pod.waiting_message for pod in pods if why})[:_MOST_MESSAGES],
            ],
            remedy=texts.late if slow else texts.usual,
            command=context.suggest(Command.DESCRIBE_POD, pod=min(pod.name for pod in pods)),
            groups=[group for group, _ in pairs],
            pods=len(pods),
            since=since,
            blocking=slow,
        )
