"""What the controller knew of a gang when it wrote its Gang object: whether it was ready, which no other object has.

A command that starts with it decides as the controller does. It is as old as the object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.api.objects import Object, controller_owner, integer_at, is_jobset_owner, object_at, objects_at, text_at
from gangctl.readiness.facts import unix
from gangctl.readiness.result import Counts, GangPhase, GroupReadiness, Readiness

_PHASES: Final[Mapping[str, GangPhase]] = {phase.value: phase for phase in GangPhase}
_BEEN_READY: Final = frozenset({GangPhase.READY, GangPhase.DEGRADED})


def remembered(raw: dict[str, Any]) -> Readiness | None:
    """The result that a Gang object was written from; None for one that is not the JobSet's of its name."""
    metadata, status = object_at(raw, "metadata"), object_at(raw, "status")
    owner = controller_owner(metadata)
    phase = _PHASES.get(text_at(status, "phase"))
    if owner is None or not is_jobset_owner(owner) or owner.get("name") != metadata.get("name") or phase is None:
        return None
    written = max((unix(entry.get("time")) for entry in objects_at(metadata, "managedFields")), default=0)
    groups = tuple(_group(entry, written) for entry in objects_at(status, "groups"))
    return Readiness(
        namespace=text_at(metadata, "namespace"),
        name=text_at(metadata, "name"),
        uid=text_at(owner, "uid"),
        phase=phase,
        since=unix(status.get("since")),
        counts=_counts(status),
        groups=groups,
        attempt=integer_at(status, "attempt"),
        admitted_at=unix(status.get("admittedTime")),
        been_ready=bool(groups) and all(group.been_ready for group in groups),
    )


def _group(entry: Object, written: int) -> GroupReadiness:
    phase = _PHASES.get(text_at(entry, "phase"), GangPhase.PENDING)
    return GroupReadiness(
        name=text_at(entry, "name"),
        template=text_at(entry, "template"),
        replicated_jobs=(),
        phase=phase,
        since=unix(entry.get("since")),
        counts=_counts(entry),
        # The object does not say it: a gang in one of these phases is ready, or was.
        been_ready=phase in _BEEN_READY,
        written_at=written,
    )


def _counts(entry: Object) -> Counts:
    pods = object_at(entry, "pods")
    return Counts(*(integer_at(pods, count) for count in ("desired", "minimum", "wanted", "created")))
