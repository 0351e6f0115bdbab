"""What the statuses of a pod's containers have: what one waits for, how one ended, and why a pod failed."""

from __future__ import annotations

from collections.abc import Iterator
from signal import Signals
from typing import Final

from gangctl.api.objects import Object, integer_at, object_at, objects_at, text_at
from gangctl.errors import one_line, plural
from gangctl.gang.desired import listed

CRASH_LOOP: Final = "CrashLoopBackOff"
INITIALIZING: Final = "PodInitializing"
COMPLETED: Final = "Completed"
READINESS_GATES: Final = "ReadinessGatesNotReady"
"""Reason of condition Ready of a pod whose containers are all ready."""
SIDECAR: Final = "SidecarNotStarted"
"""gangctl's own reason, of a pod whose other containers wait until a native sidecar has started."""
STARTS: Final = frozenset({"", "ContainerCreating", INITIALIZING, SIDECAR, COMPLETED, READINESS_GATES})
"""Reasons why a pod is not ready although none of its containers has failed."""
RAN: Final = frozenset({"Error", "OOMKilled", COMPLETED})
"""Termination reasons of a container that ran: it has logs, and the message is its own, perhaps from its log."""
_DULL: Final = frozenset({"ContainerCreating", INITIALIZING, COMPLETED})
"""Unspecific reasons: another container may have a better one."""
_INIT: Final = "init container"
_MESSAGE_CHARACTERS: Final = 200
_REJECTED: Final = "Pod was rejected: "
"""Begins the message of a pod that failed because its kubelet did not admit it (``rejectPod``)."""
_SIGNALLED: Final = 128
"""A shell adds the number of the signal that ended a program to this, and so do container runtimes."""


def waiting_of(spec: Object, status: Object) -> tuple[str, str]:
    """Waiting or termination reason of the first container that is not ready; starting containers come last.

    Containers that restart repeatedly have their last termination reason: the kubelet's message contains the pod's
    name and a time. Of a pod whose init containers run, the message says which, and of one that runs on although a
    container has completed.
    """
    dull = ("", "")
    pending = text_at(status, "phase") == "Pending"
    for kind, container in _by_kind(status):
        if container.get("ready") is True:
            continue
        state = object_at(container, "state")
        if pending and kind == _INIT and object_at(state, "running"):
            dull = dull if dull[0] else _initializing(spec, container)
            continue
        waits, ended = object_at(state, "waiting"), object_at(state, "terminated")
        reason, message = text_at(waits or ended, "reason"), one_line(text_at(waits or ended, "message"))
        if reason == CRASH_LOOP:
            return reason, ending_of(object_at(object_at(container, "lastState"), "terminated"))
        if reason and reason not in _DULL:
            # The controller stores it where others read it than those who may read logs.
            own = not message or (ended and reason in RAN)
            return reason, ending_of(ended) if own else message
        # A container that has completed holds nothing up: the next one may say what does.
        dull = dull if dull[0] or reason == COMPLETED else (reason, message)
    return dull if dull[0] else _completed(status)


def _initializing(spec: Object, container: Object) -> tuple[str, str]:
    """What the others wait for while an init container runs: its end, or the start of a sidecar, which has none."""
    name = text_at(container, "name")
    own = next((one for one in objects_at(spec, "initContainers") if text_at(one, "name") == name), {})
    if text_at(own, "restartPolicy") != "Always":
        return INITIALIZING, one_line(f"{_INIT} {name} runs")
    return ("", "") if container.get("started") is True else (SIDECAR, one_line(f"sidecar {name} has not started"))


def _completed(status: Object) -> tuple[str, str]:
    """Containers that have completed beside others that run: the kubelet ends sidecars with them, and these not."""
    names: dict[str, list[str]] = {"terminated": [], "running": []}
    for container in objects_at(status, "containerStatuses"):
        for state in object_at(container, "state"):
            names.setdefault(state, []).append(text_at(container, "name"))
    if not (names["terminated"] and names["running"]):
        return "", ""
    return COMPLETED, one_line(f"completed: {listed(names['terminated'])}; still running: {listed(names['running'])}")


def ending_of(ended: Object) -> str:
    """Termination reason, exit code and signal of a container."""
    if not ended:
        return ""
    code, number = integer_at(ended, "exitCode"), integer_at(ended, "signal")
    number = number or code - _SIGNALLED
    name = Signals(number).name if number in set(Signals) else ""
    return one_line(f"{text_at(ended, 'reason') or 'Ended'}, exit code {code}" + (f" ({name})" if name else ""))


def failure_of(status: Object, *, quoted: bool = True) -> str:
    """Why a pod failed: what its status says, or else the container that failed first; empty if that is not known.

    What the container itself said is ``quoted``, or left out.
    """
    reason, message = text_at(status, "reason"), text_at(status, "message")
    if reason:
        return one_line(f"{reason}: {message}" if message else reason)
    failed = [
        (text_at(ended, "finishedAt"), kind, container, ended)
        for kind, container in _by_kind(status)
        if integer_at((ended := object_at(object_at(container, "state"), "terminated")), "exitCode")
    ]
    if not failed:
        return one_line(message)
    # Kubernetes writes times in one form, in UTC: their texts have their order.
    _, kind, container, ended = min(failed, key=lambda one: one[0])
    name, own = text_at(container, "name"), text_at(ended, "message") if quoted else ""
    return (
        (f"{kind} {name}: " if name else "")
        + ending_of(ended)
        + (f', "{one_line(own, _MESSAGE_CHARACTERS)}"' if own else "")
        + (f"; then {plural(len(failed) - 1, 'other container')}" if failed[1:] else "")
    )


def was_rejected(status: Object) -> bool:
    """Whether the kubelet did not admit a pod that has failed: it started no container, and there are no logs."""
    if not text_at(status, "reason"):
        return False
    # A node with too many volumes is found out later: containers have statuses then, and none of them was started.
    return text_at(status, "message").startswith(_REJECTED) or next(containers_of(status), None) is None


def containers_of(status: Object) -> Iterator[Object]:
    """Statuses of containers, in the order in which they run."""
    return (container for _, container in _by_kind(status))


def _by_kind(status: Object) -> Iterator[tuple[str, Object]]:
    for part, kind in (("initContainerStatuses", _INIT), ("containerStatuses", "container")):
        for container in objects_at(status, part):
            yield kind, container
