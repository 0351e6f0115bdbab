"""Subjects of the doctor, by the names for ``--only``; without slow imports, for ``--help``."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Area(StrEnum):
    """Headings of the report, in its order."""

    KUBERNETES = "Kubernetes"
    JOBSET = "JobSet"
    GANGCTL = "gangctl"
    GANGS = "Gangs of this cluster"
    KUEUE = "Kueue"
    RIGHTS = "Your rights"
    CANARY = "Canary"


@dataclass(frozen=True, slots=True)
class Subject:
    """One check: its name, its question, and how it is answered."""

    id: str
    area: Area
    question: str
    tried: str


SUBJECTS: Final = (
    Subject("kubernetes-version", Area.KUBERNETES, "Is it a Kubernetes that gangctl knows?", "GET /version"),
    Subject(
        "scheduling-api",
        Area.KUBERNETES,
        "Which generation of the scheduling API is served?",
        "discovery of scheduling.k8s.io",
    ),
    Subject(
        "pod-field",
        Area.KUBERNETES,
        "Does the API server keep what pods say of their group?",
        "a Job created with dryRun=All, else Jobs that exist and the OpenAPI schema",
    ),
    Subject(
        "stored-objects",
        Area.KUBERNETES,
        "Can every Workload and PodGroup be read that an earlier Kubernetes stored?",
        "a list of one Workload and one PodGroup",
    ),
    Subject("jobset-api", Area.JOBSET, "Are JobSets served?", "discovery and OpenAPI schema of jobset.x-k8s.io"),
    Subject(
        "jobset-controller",
        Area.JOBSET,
        "Does a JobSet controller of a known version run?",
        "Deployments beside JobSet's webhook, and the status of JobSets",
    ),
    Subject(
        "jobset-webhooks",
        Area.JOBSET,
        "Are JobSet's webhooks registered, and do they answer?",
        "webhook configurations, EndpointSlices, a JobSet created with dryRun=All",
    ),
    Subject(
        "gangctl-webhooks",
        Area.GANGCTL,
        "Are gangctl's webhooks registered as this version wants them?",
        "webhook configurations gangctl-gangs and gangctl-jobs",
    ),
    Subject(
        "job-groups",
        Area.GANGCTL,
        "Who names the group of a gang's Jobs: the API server, or gangctl?",
        "a Job created with dryRun=All, webhook configuration gangctl-jobs",
    ),
    Subject(
        "gangctl-authority",
        Area.GANGCTL,
        "Is there a valid caBundle in every webhook of gangctl?",
        "the certificates in the caBundle",
    ),
    Subject(
        "webhook-order",
        Area.GANGCTL,
        "Is gangctl asked before JobSet and Kueue?",
        "names of webhook configurations, which are called in their order",
    ),
    Subject(
        "gangctl-replicas",
        Area.GANGCTL,
        "Are replicas of gangctl ready behind its Service?",
        "Deployments and EndpointSlices in gangctl's namespace",
    ),
    Subject(
        "gangctl-leader", Area.GANGCTL, "Does a replica hold the Lease, with shards each of them?", "Lease gangctl"
    ),
    Subject(
        "admission",
        Area.GANGCTL,
        "Does gangctl answer, and stamp a JobSet that asks for a gang?",
        "a JobSet created with dryRun=All",
    ),
    Subject("policies", Area.GANGCTL, "Are GangPolicies evaluated?", "conditions of GangPolicies"),
    Subject("skipped-namespaces", Area.GANGCTL, "Which namespaces does gangctl leave alone?", "labels of namespaces"),
    Subject(
        "scheduler-gate",
        Area.GANGS,
        "Does the scheduler place pods by their group?",
        "conditions of PodGroups and pods that exist",
    ),
    Subject(
        "exclusive-topology",
        Area.GANGS,
        "Does a gang wait for itself because of exclusive placement?",
        "JobSets, their pods and refusals",
    ),
    Subject(
        "job-controller-gangs",
        Area.GANGS,
        "Does the Job controller make gangs of its own of JobSets' Jobs (WorkloadWithJob)?",
        "Workloads that a Job controls",
    ),
    Subject(
        "priorities", Area.GANGS, "Have all pods of a gang the priority of their group?", "PodGroups and their pods"
    ),
    Subject(
        "terminating-groups",
        Area.GANGS,
        "Do PodGroups hang while they are deleted?",
        "PodGroups with a deletionTimestamp",
    ),
    Subject(
        "object-quotas",
        Area.GANGS,
        "Have ResourceQuotas room for the Workloads and PodGroups of gangs?",
        "ResourceQuotas on them, and what the gangs of their namespaces lack",
    ),
    Subject(
        "gangs-in-name-only",
        Area.GANGS,
        "Are there JobSets that ask for a gang, and whose pods come one by one?",
        "JobSets, their stamps and Jobs",
    ),
    Subject("kueue-api", Area.KUEUE, "Is Kueue there, in a version that gangctl knows?", "discovery and Deployments"),
    Subject("kueue-configuration", Area.KUEUE, "Does Kueue manage JobSets?", "ConfigMap kueue-manager-config"),
    Subject(
        "kueue-checks",
        Area.KUEUE,
        "Are gangctl's AdmissionChecks looked after?",
        "AdmissionChecks of gangctl.dev/gang-ready",
    ),
    Subject(
        "rights",
        Area.RIGHTS,
        "May you do what gangctl's commands do?",
        "SelfSubjectAccessReviews, which change nothing",
    ),
    Subject(
        "canary-admission",
        Area.CANARY,
        "Is a JobSet that asks for a gang stamped?",
        "a JobSet of two pods, created and deleted",
    ),
    Subject(
        "canary-groups",
        Area.CANARY,
        "Do its group and the pods' reference to it exist?",
        "Workload, PodGroup and pods of that JobSet",
    ),
    Subject("canary-scheduled", Area.CANARY, "Are both pods placed?", "the pods of that JobSet"),
    Subject(
        "canary-all-or-nothing",
        Area.CANARY,
        "Is no pod placed while another one of the gang cannot be?",
        "a JobSet of two pods, one with a nodeSelector that no node has",
    ),
    Subject("canary-cleanup", Area.CANARY, "Is everything gone again?", "deleting both, and looking"),
)
IDS: Final = tuple(each.id for each in SUBJECTS)
