"""The closed list of reasons that gangctl gives, in events, warnings and the CLI alike."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gangctl.errors import one_line


class Reason(StrEnum):
    """Stable, CamelCase, safe to match in alerts."""

    WORKLOAD_CREATED = "WorkloadCreated"
    WORKLOAD_UPDATED = "WorkloadUpdated"
    WORKLOAD_DELETED = "WorkloadDeleted"
    POD_GROUP_CREATED = "PodGroupCreated"
    POD_GROUP_UPDATED = "PodGroupUpdated"
    POD_GROUP_DELETED = "PodGroupDeleted"
    GANG_EMPTY = "GangEmpty"
    GANG_SPLIT = "GangSplitSequencedStartup"
    GANG_TAIL_BLOCKED = "GangTailBlocked"
    USER_MANAGED = "UserManagedSchedulingGroup"
    FOREIGN_WORKLOAD = "ForeignWorkload"
    NAME_CONFLICT = "NameConflict"
    CONFIG_IGNORED = "ConfigIgnored"
    INVALID_GANG_CONFIG = "InvalidGangConfig"
    NOT_GANGED = "NotGanged"
    UPSTREAM_SCHEDULING = "UpstreamSchedulingActive"
    UNSUPPORTED_SCHEDULER = "UnsupportedScheduler"
    MIXED_PRIORITY = "MixedPriority"
    API_UNAVAILABLE = "GangAPIUnavailable"
    FIELD_DROPPED = "FieldDropped"
    FAILED_CREATE = "FailedCreate"
    NEVER_FITS = "NeverFits"
    QUEUE_BLOCKED = "QueueBlocked"
    QUEUE_CONFLICT = "QueueConflict"
    GATE_NOT_HONOURED = "AdmissionGateNotHonoured"
    GATE_REMOVED = "AdmissionGateRemoved"
    CHECK_READY = "AdmissionCheckReady"
    CHECK_PENDING = "AdmissionCheckPending"
    CHECK_RETRY = "AdmissionCheckRetry"
    CHECK_REJECTED = "AdmissionCheckRejected"


_NORMAL = frozenset(
    {
        Reason.WORKLOAD_CREATED,
        Reason.WORKLOAD_UPDATED,
        Reason.WORKLOAD_DELETED,
        Reason.POD_GROUP_CREATED,
        Reason.POD_GROUP_UPDATED,
        Reason.POD_GROUP_DELETED,
        Reason.GANG_EMPTY,
        Reason.GATE_REMOVED,
        Reason.CHECK_READY,
        Reason.CHECK_PENDING,
    }
)


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a person should know about one JobSet: an event, a response warning, a line of ``gangctl plan``.

    The message is made one printable line of bounded length.
    """

    reason: Reason
    message: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", one_line(self.message))

    @property
    def is_warning(self) -> bool:
        """Whether the event is of type Warning."""
        return self.reason not in _NORMAL
