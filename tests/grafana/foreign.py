"""Metric families of others that the dashboards ask for: Kueue 0.19, kube-scheduler 1.37, kube-apiserver, Prometheus.

From their sources: ``pkg/metrics/metrics.go`` of Kueue, ``pkg/scheduler/metrics/metrics.go`` of Kubernetes and
``pkg/admission/metrics/metrics.go`` of its API server library.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangctl.runtime.families import Family, Type

TARGET: Final = frozenset({"cluster", "job", "instance"})
"""Labels that the scraper adds; cluster where several are kept in one place."""

_QUEUE: Final = ("cluster_queue", "replica_role")
_PRIORITY: Final = ("cluster_queue", "priority_class", "replica_role")
_QUOTA: Final = ("cohort", "cluster_queue", "flavor", "resource", "replica_role")
_CAUSE: Final = ("cluster_queue", "reason", "underlying_cause", "priority_class", "replica_role")
_ATTEMPT: Final = ("result", "profile")

_KUEUE: Final[Mapping[str, tuple[Type, tuple[str, ...]]]] = {
    "kueue_admission_wait_time_seconds": ("histogram", _PRIORITY),
    "kueue_admitted_active_workloads": ("gauge", _QUEUE),
    "kueue_admitted_until_ready_wait_time_seconds": ("histogram", _PRIORITY),
    "kueue_admitted_workloads_total": ("counter", _PRIORITY),
    "kueue_build_info": ("gauge", ("git_version", "git_commit", "build_date", "go_version", "compiler", "platform")),
    "kueue_cluster_queue_info": ("gauge", ("cluster_queue", "parent_cohort", "root_cohort", "replica_role")),
    "kueue_cluster_queue_nominal_quota": ("gauge", _QUOTA),
    "kueue_cluster_queue_resource_reservation": ("gauge", _QUOTA),
    "kueue_cluster_queue_resource_usage": ("gauge", _QUOTA),
    "kueue_evicted_workloads_total": ("counter", _CAUSE),
    "kueue_pending_workloads": ("gauge", ("cluster_queue", "status", "replica_role")),
    "kueue_preempted_workloads_total": ("counter", ("preempting_cluster_queue", "reason", "replica_role")),
    "kueue_unadmitted_workloads": ("gauge", ("cluster_queue", "reason", "underlying_cause", "replica_role")),
}
_SCHEDULER: Final[Mapping[str, tuple[Type, tuple[str, ...]]]] = {
    "scheduler_pending_pods": ("gauge", ("queue",)),
    "scheduler_placement_evaluation_duration_seconds": ("histogram", _ATTEMPT),
    "scheduler_placement_evaluations_total": ("counter", _ATTEMPT),
    "scheduler_pod_scheduling_sli_duration_seconds": ("histogram", ("attempts",)),
    "scheduler_podgroup_schedule_attempts_total": ("counter", _ATTEMPT),
    "scheduler_podgroup_scheduling_algorithm_duration_seconds": ("histogram", ()),
    "scheduler_podgroup_scheduling_attempt_duration_seconds": ("histogram", _ATTEMPT),
    "scheduler_preemption_workload_disruptions": ("histogram", ("preemptor",)),
    "scheduler_queued_entities": ("gauge", ("queue", "type")),
    "scheduler_schedule_attempts_total": ("counter", _ATTEMPT),
    "scheduler_unschedulable_pods": ("gauge", ("plugin", "profile")),
    "scheduler_workload_preemption_attempts_total": ("counter", ("result",)),
    "scheduler_workload_preemption_victims": ("histogram", ()),
}
_API_SERVER: Final[Mapping[str, tuple[Type, tuple[str, ...]]]] = {
    "apiserver_admission_webhook_fail_open_count": ("counter", ("name", "type")),
    "apiserver_admission_webhook_rejection_count": (
        "counter",
        ("name", "type", "operation", "error_type", "rejection_code"),
    ),
}
_PROCESS: Final[Mapping[str, tuple[Type, tuple[str, ...]]]] = {
    "process_cpu_seconds_total": ("counter", ()),
    "process_open_fds": ("gauge", ()),
    "process_resident_memory_bytes": ("gauge", ()),
    "process_start_time_seconds": ("gauge", ()),
}
_PROMETHEUS: Final[Mapping[str, tuple[Type, tuple[str, ...]]]] = {
    "ALERTS": (
        "gauge",
        ("alertname", "alertstate", "severity", "namespace", "local_queue", "cluster_queue", "reason"),
    ),
}

FAMILIES: Final = tuple(
    Family(name, kind, "", labels)
    for source in (_KUEUE, _SCHEDULER, _API_SERVER, _PROCESS, _PROMETHEUS)
    for name, (kind, labels) in source.items()
)
