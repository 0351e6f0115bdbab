"""The closed list of reasons of events, warnings and the CLI."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from gangctl.errors import one_line

_NORMAL: Final = False


class Reason(StrEnum):
    """Stable, CamelCase, safe to match in alerts."""

    is_warning: bool
    """Whether its events are of type Warning."""

    def __new__(cls, value: str, is_warning: bool = True) -> Self:
        reason = str.__new__(cls, value)
        # Otherwise Enum makes the value of both arguments, and str() takes no bool as an encoding.
        reason._value_ = value
        reason.is_warning = is_warning
        return reason

    WORKLOAD_CREATED = "WorkloadCreated", _NORMAL
    WORKLOAD_UPDATED = "WorkloadUpdated", _NORMAL
    WORKLOAD_DELETED = "WorkloadDeleted", _NORMAL
    POD_GROUP_CREATED = "PodGroupCreated", _NORMAL
    POD_GROUP_UPDATED = "PodGroupUpdated", _NORMAL
    POD_GROUP_DELETED = "PodGroupDeleted", _NORMAL
    COMPOSITE_POD_GROUP_CREATED = "CompositePodGroupCreated", _NORMAL
    COMPOSITE_POD_GROUP_UPDATED = "CompositePodGroupUpdated", _NORMAL
    COMPOSITE_POD_GROUP_DELETED = "CompositePodGroupDeleted", _NORMAL
    GANG_EMPTY = "GangEmpty", _NORMAL
    GANG_SPLIT = "GangSplitSequencedStartup"
    GANG_TAIL_BLOCKED = "GangTailBlocked"
    USER_MANAGED = "UserManagedSchedulingGroup"
    FOREIGN_WORKLOAD = "ForeignWorkload"
    NAME_CONFLICT = "NameConflict"
    CONFIG_IGNORED = "ConfigIgnored"
    CONFIG_CHANGED = "ConfigChanged"
    INVALID_GANG_CONFIG = "InvalidGangConfig"
    NOT_GANGED = "NotGanged"
    UPSTREAM_SCHEDULING = "UpstreamSchedulingActive"
    UNSUPPORTED_SCHEDULER = "UnsupportedScheduler"
    MIXED_PRIORITY = "MixedPriority"
    GANG_MAY_SHRINK = "GangMayShrink", _NORMAL
    OPTION_DROPPED = "GangOptionDropped"
    UNKNOWN_KEY = "UnknownKey"
    NO_EFFECT = "NoEffect"
    SIGNAL_LOST = "SignalLost"
    API_UNAVAILABLE = "GangAPIUnavailable"
    FIELD_DROPPED = "FieldDropped"
    FAILED_CREATE = "FailedCreate"
    NEVER_FITS = "NeverFits"
    QUEUE_BLOCKED = "QueueBlocked"
    QUEUE_CONFLICT = "QueueConflict"
    CHECK_READY = "AdmissionCheckReady", _NORMAL
    CHECK_PENDING = "AdmissionCheckPending", _NORMAL
    CHECK_RETRY = "AdmissionCheckRetry"
    CHECK_REJECTED = "AdmissionCheckRejected"

    GANG_READY = "GangReady", _NORMAL
    GANG_DEGRADED = "GangDegraded"
    GANG_EVICTED = "GangEvicted"

    # Why a gang is not ready, most of them also labels of metrics (gangctl/readiness).
    SUSPENDED = "Suspended"
    WAITING_FOR_QUOTA = "WaitingForQuota"
    ADMISSION_GATED = "AdmissionGated"
    WAITING_FOR_CHECK = "WaitingForAdmissionCheck"
    QUEUE_BACKOFF = "QueueBackoff"
    POD_GROUP_MISSING = "PodGroupMissing"
    POD_GROUP_TERMINATING = "PodGroupTerminating"
    MIN_COUNT_UNREACHABLE = "MinCountUnreachable"
    SCHEDULING_GATE_OFF = "SchedulingGateOff"
    PRIORITY_MISMATCH = "PriorityMismatch"
    JOB_CREATION_REFUSED = "JobCreationRefused"
    POD_CREATION_REFUSED = "PodCreationRefused"
    EXCLUSIVE_TOPOLOGY_DEADLOCK = "ExclusiveTopologyDeadlock"
    WAITING_FOR_STAGE = "WaitingForStage"
    PODS_MISSING = "PodsMissing"
    PODS_GATED = "PodsGated"
    VOLUME_NOT_BOUND = "VolumeNotBound"
    UNSCHEDULABLE = "Unschedulable"
    TOPOLOGY_TOO_SMALL = "TopologyTooSmall"
    SCHEDULER_ERROR = "SchedulerError"
    SCHEDULER_BACKOFF = "SchedulerBackoff"
    SCALE_UP_RUNNING = "ScaleUpRunning"
    SCALE_UP_REFUSED = "ScaleUpRefused"
    SCHEDULER_SILENT = "SchedulerSilent"
    NODE_LOST = "NodeLost"
    NODE_UNHEALTHY = "NodeUnhealthy"
    PREEMPTED = "Preempted"
    PODS_TERMINATING = "PodsTerminating"
    IMAGE_PULL = "ImagePull"
    CONTAINER_CONFIG = "ContainerConfigError"
    CRASH_LOOP = "CrashLoop"
    STARTING = "ContainersStarting"
    NOT_READY = "ContainersNotReady"
    RESTARTING = "Restarting"
    UNKNOWN = "Unknown"

    # Kueue problems that need an action (gangctl.kueue.blocked), beside QueueBlocked.
    FAILED_TO_START = "FailedToStart"
    DEACTIVATED = "Deactivated"
    PODS_NOT_READY = "PodsNotReady"
    EVICTED_AS_NOT_READY = "EvictedAsNotReady"
    EVICTED_HOLDS_QUOTA = "EvictedHoldsQuota"
    FINISHED_HOLDS_QUOTA = "FinishedHoldsQuota"
    FAILED_CHECK_WITHOUT_QUOTA = "FailedCheckWithoutQuota"
    HEAD_BLOCKS_QUEUE = "HeadBlocksQueue"
    FRAMEWORK_NOT_ENABLED = "FrameworkNotEnabled"
    NAMESPACE_NOT_MANAGED = "NamespaceNotManaged"
    PRIORITY_CLASS_MISSING = "PriorityClassMissing"
    TOO_MANY_PODSETS = "TooManyPodSets"
    WORKLOAD_MISSING = "WorkloadMissing"

    # Reasons of events on a PathwaysJob (gangctl/pathways); NoEffect, Suspended, Restarting and NameConflict are above.
    JOBSET_CREATED = "JobSetCreated", _NORMAL
    JOBSET_CREATE_FAILED = "JobSetCreateFailed"
    JOBSET_GONE = "JobSetGone"
    INVALID_SPEC = "InvalidSpec"
    SPEC_CHANGE_IGNORED = "SpecChangeIgnored"
    ADMISSION_DENIED = "AdmissionDenied"
    RESUMED = "Resumed", _NORMAL
    SLICE_LOST = "SliceLost"
    SLICE_RECOVERED = "SliceRecovered", _NORMAL
    COMPLETED = "Completed", _NORMAL
    FAILED = "Failed"
    ENV_OVERRIDDEN = "EnvOverridden"
    METADATA_MOVED = "MetadataMoved"
    GANG_DISABLED = "GangDisabledExclusivePlacement", _NORMAL
    GANG_CHOICE = "GangChoice"
    HEAD_MAY_BE_APART = "HeadMayBeApart"
    HEAD_DOES_NOT_FIT = "HeadDoesNotFit"
    FLOATING_IMAGE = "FloatingImage"
    DIRECTORY_MISSING = "DirectoryMissing"
    PRIVILEGED_POD = "PrivilegedPod"


@dataclass(frozen=True, slots=True)
class Notice:
    """Information for the user about one JobSet: an event, a response warning, a line of ``gangctl plan``.

    The message is made one printable line of bounded length.
    """

    reason: Reason
    message: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", one_line(self.message))

    @property
    def is_warning(self) -> bool:
        """Whether the event is of type Warning."""
        return self.reason.is_warning
