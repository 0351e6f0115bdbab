"""Facts from raw pods, nodes and events: total for objects of any shape, and small.

A controller stores 100,000 pods, so equal values share one object: names of namespaces, JobSets, groups and
nodes, messages, times.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, TypeVar

from gangctl.api.meta import DEFAULT_SCHEDULER, JOB_INDEX, JOBSET_NAME, REPLICATED_JOB_NAME, RESTART_ATTEMPT
from gangctl.api.objects import Object, condition_of, object_at, objects_at
from gangctl.api.scheduling import named_group
from gangctl.errors import one_line
from gangctl.readiness.facts import NodeFacts, PodFacts, Refused

H = TypeVar("H", bound=Hashable)

FAILED_CREATE: Final = "FailedCreate"
"""Reason of the Job controller's event: a pod could not be created."""
JOB_CREATION_FAILED: Final = "JobCreationFailed"
"""Reason of JobSet's event: a Job could not be created."""
REFUSING_KINDS: Final[Mapping[str, str]] = {FAILED_CREATE: "Job", JOB_CREATION_FAILED: "JobSet"}
"""Kinds of objects of these events; ReplicaSets and others have FailedCreate events, too."""

NEVER_UPDATED: Final = "NodeStatusNeverUpdated"
"""Reason of the node lifecycle controller for a node whose kubelet has never reported."""

_NUMBER_DIGITS: Final = 9
_SAME: Final = 8192
_CRASH_LOOP: Final = "CrashLoopBackOff"
_DULL: Final = frozenset({"ContainerCreating", "PodInitializing", "Completed"})
"""Unspecific reasons: another container may have a better one."""
_RAN: Final = frozenset({"Error", "OOMKilled", "Completed"})
"""Termination reasons whose message is the container's own, perhaps from its log: it is not shown."""


def read_pod(raw: Object) -> PodFacts | None:
    """The facts of one pod; None for one that belongs to no JobSet."""
    metadata, spec, status = (object_at(raw, part) for part in ("metadata", "spec", "status"))
    labels = object_at(metadata, "labels")
    jobset = _name(labels.get(JOBSET_NAME))
    if not jobset:
        return None
    conditions = {_text(each.get("type")): each for each in objects_at(status, "conditions")}
    placed = object_at(conditions, "PodScheduled")
    refused = _name(placed.get("reason")) if placed.get("status") == "False" else ""
    ready = object_at(conditions, "Ready")
    disruption = object_at(conditions, "DisruptionTarget")
    waiting, waiting_message = _waiting(status)
    return PodFacts(
        namespace=_name(metadata.get("namespace")),
        name=_text(metadata.get("name")),
        jobset=jobset,
        replicated_job=_name(labels.get(REPLICATED_JOB_NAME)),
        job_index=_number(labels.get(JOB_INDEX)),
        attempt=_number(labels.get(RESTART_ATTEMPT)),
        group=sys.intern(named_group(spec)),
        scheduler=_name(spec.get("schedulerName")) or DEFAULT_SCHEDULER,
        priority=_integer(spec.get("priority")),
        created=unix(metadata.get("creationTimestamp")),
        deleting=bool(metadata.get("deletionTimestamp")),
        phase=_name(status.get("phase")),
        gates=_same(tuple(_name(gate.get("name")) for gate in objects_at(spec, "schedulingGates"))),
        node=_name(spec.get("nodeName")),
        placed_at=unix(placed.get("lastTransitionTime")) if placed.get("status") == "True" else 0,
        refused=refused,
        refusal=_message(placed.get("message")) if refused else "",
        refused_at=unix(placed.get("lastTransitionTime")) if refused else 0,
        ready=ready.get("status") == "True",
        ready_at=unix(ready.get("lastTransitionTime")),
        waiting=waiting,
        waiting_message=waiting_message,
        restarts=sum(_integer(each.get("restartCount")) for each in _containers(status)),
        disrupted=_name(disruption.get("reason")) if disruption.get("status") == "True" else "",
    )


def read_node(raw: Object) -> NodeFacts:
    """The facts of one node. One that has never reported is not ready since its creation."""
    metadata, spec = object_at(raw, "metadata"), object_at(raw, "spec")
    never = {"reason": NEVER_UPDATED, "lastTransitionTime": metadata.get("creationTimestamp")}
    condition = condition_of(raw, "Ready") or never
    ready = condition.get("status") == "True"
    return NodeFacts(
        name=_name(metadata.get("name")),
        ready=ready,
        reason="" if ready else _name(condition.get("reason")),
        since=0 if ready else unix(condition.get("lastTransitionTime")),
        unschedulable=spec.get("unschedulable") is True,
    )


def read_refusal(raw: Object) -> Refused | None:
    """The denied creation in an event of ``events.k8s.io/v1``; None for other events."""
    about = object_at(raw, "regarding")
    kind = _name(about.get("kind"))
    if not kind or REFUSING_KINDS.get(_text(raw.get("reason"))) != kind:
        return None
    return Refused(
        namespace=_name(about.get("namespace") or object_at(raw, "metadata").get("namespace")),
        kind=kind,
        name=_name(about.get("name")),
        uid=_name(about.get("uid")),
        message=_message(raw.get("note")),
        at=event_seen_at(raw),
    )


def event_seen_at(raw: Object) -> int:
    """Last occurrence of an event of ``events.k8s.io/v1``, Unix seconds; 0 if unknown."""
    times = (
        object_at(raw, "series").get("lastObservedTime"),
        raw.get("deprecatedLastTimestamp"),
        raw.get("eventTime"),
        object_at(raw, "metadata").get("creationTimestamp"),
    )
    return next((found for found in map(unix, times) if found), 0)


def unix(text: object) -> int:
    """Unix seconds of a time in RFC 3339, 0 if there is none."""
    return _unix(text) if isinstance(text, str) else 0


@lru_cache(_SAME)
def _unix(text: str) -> int:
    # Cached, because the pods of a gang have equal times: they share one number.
    try:
        found = datetime.fromisoformat(text)
        moment = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
        return max(0, int(moment.timestamp()))
    except (ValueError, OverflowError):
        return 0


def _waiting(status: Object) -> tuple[str, str]:
    """Waiting or termination reason of the first container that is not ready; starting containers come last.

    Containers that restart repeatedly have their last termination reason: the kubelet's message contains the pod's
    name and a time.
    """
    dull = ("", "")
    for container in _containers(status):
        if container.get("ready") is True:
            continue
        state = object_at(container, "state")
        waits, ended = object_at(state, "waiting"), object_at(state, "terminated")
        reason, message = _name((waits or ended).get("reason")), _message((waits or ended).get("message"))
        if reason == _CRASH_LOOP:
            return reason, _ending(object_at(object_at(container, "lastState"), "terminated"))
        if reason and reason not in _DULL:
            own = not message or (ended and reason in _RAN)
            return reason, _ending(ended) if own else message
        dull = dull if dull[0] or reason == "Completed" else (reason, message)
    return dull


def _ending(ended: Object) -> str:
    """Termination reason and exit code of a container."""
    if not ended:
        return ""
    return _message(f"{_text(ended.get('reason')) or 'Ended'}, exit code {_integer(ended.get('exitCode'))}")


def _containers(status: Object) -> Iterator[Object]:
    """Statuses of containers, in the order in which they run."""
    for part in ("initContainerStatuses", "containerStatuses"):
        yield from objects_at(status, part)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _name(value: object) -> str:
    """A shared text."""
    return sys.intern(value) if isinstance(value, str) else ""


def _message(value: object) -> str:
    """A text of another component, on one line of bounded length."""
    return sys.intern(one_line(value)) if isinstance(value, str) else ""


def _number(value: object) -> int:
    """The number in a label, 0 if there is none."""
    text = _text(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _NUMBER_DIGITS else 0


def _integer(value: object) -> int:
    return _same(value) if type(value) is int else 0


@lru_cache(_SAME)
def _same(value: H) -> H:
    """One object for all equal values. Not for mixed types: 1 and True are equal."""
    return value
