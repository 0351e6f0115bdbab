"""The checks by the names of their subjects: the facts each needs, and its evaluation. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gangctl.cli.doctor.checks import gangctl, gangs, jobset, kubernetes, kueue
from gangctl.cli.doctor.outcome import Check

CHECKS: Final[Mapping[str, Check]] = {
    "kubernetes-version": Check(("version",), kubernetes.version),
    "scheduling-api": Check(("served", "version"), kubernetes.scheduling_api),
    "pod-field": Check(("served", "pod_field", "gangs", "version"), kubernetes.pod_field),
    "stored-objects": Check(("stored",), kubernetes.stored_objects),
    "jobset-api": Check(("jobset_versions", "jobset_schedules"), jobset.api),
    "jobset-controller": Check(("configurations", "deployments", "gangs", "version", "canary"), jobset.controller),
    "jobset-webhooks": Check(("configurations", "endpoints", "dry_run"), jobset.webhooks),
    "gangctl-webhooks": Check(("configurations",), gangctl.registered),
    "job-groups": Check(("served", "job_policy", "configurations"), kubernetes.job_groups),
    "gangctl-authority": Check(("configurations",), gangctl.authority),
    "webhook-order": Check(("configurations",), gangctl.order),
    "gangctl-replicas": Check(("configurations", "endpoints", "deployments"), gangctl.replicas),
    "gangctl-leader": Check(("leases", "gangctl_namespace", "deployments"), gangctl.leader),
    "admission": Check(("dry_run", "skipped"), gangctl.admission),
    "policies": Check(("policies",), gangctl.policies),
    "skipped-namespaces": Check(("skipped",), gangctl.skipped),
    "scheduler-gate": Check(("gangs", "served", "canary"), gangs.scheduler_gate),
    "exclusive-topology": Check(("gangs",), gangs.exclusive_topology),
    "job-controller-gangs": Check(("job_workloads",), gangs.job_controller_gangs),
    "priorities": Check(("gangs",), gangs.priorities),
    "terminating-groups": Check(("leaving",), gangs.terminating_groups),
    "object-quotas": Check(("quotas",), gangs.object_quotas),
    "gangs-in-name-only": Check(("gangs",), gangs.in_name_only),
    "kueue-api": Check(("kueue_versions", "deployments"), kueue.api),
    "kueue-configuration": Check(("kueue_versions", "kueue_configuration"), kueue.configuration),
    "kueue-checks": Check(("kueue_versions", "kueue_checks"), kueue.checks),
    "rights": Check(("rights",), kubernetes.rights),
    "canary-admission": Check(("canary",), gangs.admission),
    "canary-groups": Check(("canary",), gangs.groups),
    "canary-scheduled": Check(("canary",), gangs.scheduled),
    "canary-all-or-nothing": Check(("canary",), gangs.all_or_nothing),
    "canary-cleanup": Check(("canary",), gangs.cleanup),
}
