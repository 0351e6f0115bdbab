"""Names of annotations, labels and identities that gangctl reads or writes, each defined once.

The ``jobset.sigs.k8s.io`` keys are set by the JobSet controller on every Job and pod it creates (JobSet API
``jobset.x-k8s.io/v1alpha2``); the ``gangctl.dev`` keys are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Final

MANAGER: Final = "gangctl"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
"""Label of what gangctl makes, with the value :data:`MANAGER`."""

API_VERSION: Final = "gangctl.dev/v1alpha1"
"""Of all that gangctl defines, stores and prints."""

SYSTEM_NAMESPACE: Final = "gangctl-system"
"""Where the manifests install gangctl, unless another namespace is chosen."""

PREFIX: Final = "gangctl.dev/"
"""Prefix of all annotations and labels of gangctl."""

GANG_MODE: Final = "gangctl.dev/gang-mode"
"""On a JobSet or on ``replicatedJobs[].template.metadata``: the user's request."""

GANG_OPTIONS: Final = "gangctl.dev/gang-options"
"""On a JobSet: JSON object with the options of the gang."""

GANGS: Final = "gangctl.dev/gangs"
"""On a JobSet: list of gangs over named ReplicatedJobs, in YAML or JSON."""

EXPECTED_DURATION: Final = "gangctl.dev/expected-duration"
"""On a JobSet or a Workload of Kueue: how long it runs, as a Go duration such as ``2h30m``; it limits nothing."""

EVICT_STRANDED_AFTER: Final = "gangctl.dev/evict-stranded-after"
"""How long a gang may run below its minimum before its remaining pods are evicted: a duration, or ``never``."""

GANG_REF: Final = "gangctl.dev/gang-ref"
"""On ``replicatedJobs[].template.metadata`` and Jobs: the stamp that the webhook for JobSets writes."""

KUEUE_PREFIX: Final = "kueue.x-k8s.io/"
QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"
"""On a JobSet, and only there: the LocalQueue of Kueue that it waits in."""
QUEUE_PRIORITY: Final = "kueue.x-k8s.io/priority-class"
"""Beside it: the WorkloadPriorityClass of Kueue."""

ADMISSION_GATED_BY: Final = "kueue.x-k8s.io/admission-gated-by"
"""On a JobSet: comma-separated names of gates; Kueue does not queue it until each is removed."""

SKIP_LABEL: Final = "gangctl.dev/skip"
"""On a Namespace, value ``"true"``: nothing in it is ever sent to gangctl's webhooks (break-glass)."""

WRITTEN: Final = ("gangctl.dev/pathways-", "gangctl.dev/canary", "gangctl.dev/demo")
"""Prefixes of the keys on gangctl's own JobSets: they ask for no gang, and are no mistakes."""


class Place(StrEnum):
    """Where a key has a meaning: as an annotation, and as a label of namespaces."""

    JOBSET = "the JobSet"
    TEMPLATE = "replicatedJobs[].template.metadata"
    NAMESPACE = "namespaces"


class KeyRole(Enum):
    """Who writes a key, and when."""

    CONFIGURATION = auto()
    """The user, when the JobSet is created: a later change is refused."""
    CHANGEABLE = auto()
    """The user, at any time."""
    WRITTEN = auto()
    """gangctl: what an update changes is restored."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key of gangctl that JobSets, their templates or namespaces have."""

    name: str
    role: KeyRole
    places: tuple[Place, ...] = (Place.JOBSET,)


KEYS: Final = (
    Key(GANG_MODE, KeyRole.CONFIGURATION, (Place.JOBSET, Place.TEMPLATE)),
    Key(GANG_OPTIONS, KeyRole.CONFIGURATION),
    Key(GANGS, KeyRole.CONFIGURATION),
    Key(GANG_REF, KeyRole.WRITTEN, (Place.TEMPLATE,)),
    Key(EXPECTED_DURATION, KeyRole.CHANGEABLE),
    Key(EVICT_STRANDED_AFTER, KeyRole.CHANGEABLE),
    Key(SKIP_LABEL, KeyRole.CHANGEABLE, (Place.NAMESPACE,)),
)
"""All of them: what is read, compared and reported of keys follows from this table."""


def keys_at(place: Place, *roles: KeyRole) -> tuple[str, ...]:
    """Names of the keys that have a meaning there, of these roles or of all, in the order of the table."""
    return tuple(key.name for key in KEYS if place in key.places and key.role in (roles or KeyRole))


JOBSET_GROUP: Final = "jobset.x-k8s.io"
PATHWAYS_GROUP: Final = "pathways-job.pathways.domain"
JOBSET_API_VERSION: Final = "jobset.x-k8s.io/v1alpha2"
JOBSET_CONTROLLER: Final = "jobset.sigs.k8s.io/jobset-controller"

JOBSET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
JOBSET_UID: Final = "jobset.sigs.k8s.io/jobset-uid"
REPLICATED_JOB_NAME: Final = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
RESTART_ATTEMPT: Final = "jobset.sigs.k8s.io/restart-attempt"
JOB_RESTART_ATTEMPT: Final = "jobset.sigs.k8s.io/job-restart-attempt"
"""Restarts of this Job alone, with JobSet's feature gate RestartJob."""
JOB_KEY: Final = "jobset.sigs.k8s.io/job-key"
"""One value for each Job: a hash of its namespace and name."""
JOBSET_PRIORITY: Final = "jobset.sigs.k8s.io/priority"
"""The number of a pod's priority; JobSet 0.11 and later put it on every pod."""

EXCLUSIVE_TOPOLOGY: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR_STRATEGY: Final = "alpha.jobset.sigs.k8s.io/node-selector"
PLACEMENT: Final = (EXCLUSIVE_TOPOLOGY, NODE_SELECTOR_STRATEGY)
"""Annotations of exclusive placement: the topology of which each Job gets a domain, and the strategy."""
NAMESPACED_JOB: Final = "alpha.jobset.sigs.k8s.io/namespaced-job"
"""Label of the nodes of one Job, which JobSet makes the pods of that Job select with the strategy."""
TOLERATION: Final[Mapping[str, str]] = {
    "key": "alpha.jobset.sigs.k8s.io/no-schedule",
    "operator": "Exists",
    "effect": "NoSchedule",
}
"""Of the taint of these nodes, which JobSet adds to the same pods."""

NODE_SELECTORS: Final = ("scheduler.alpha.kubernetes.io/node-selector", "openshift.io/node-selector")
"""Annotations of a Namespace whose node selectors admission adds to pods: PodNodeSelector, and OpenShift's plugin."""
DEFAULT_TOLERATIONS: Final = "scheduler.alpha.kubernetes.io/defaultTolerations"
"""The same of tolerations, in JSON: PodTolerationRestriction."""

DEFAULT_SCHEDULER: Final = "default-scheduler"


def selects_nodes(of_jobset: Mapping[str, object], of_template: Mapping[str, object]) -> bool:
    """Whether JobSet pins the pods of each Job to its nodes, by annotations of the JobSet and of the Job template.

    ``constructJob`` of JobSet 0.12: a Job has the annotations of its template, and of the JobSet the topology with the
    strategy beside it.
    """
    copied = of_jobset if EXCLUSIVE_TOPOLOGY in of_jobset else {}
    return all(key in of_template or key in copied for key in PLACEMENT)
