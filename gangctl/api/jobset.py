"""The parts of a JobSet (``jobset.x-k8s.io/v1alpha2``) that gangctl reads: a small frozen projection of the object.

It has three users: the webhooks (where the CRD's schema has not been checked yet, so every type may be wrong), the
informer (which keeps 10,000 of them) and the CLI (which reads files). Reading never raises: a malformed field is
reported with its path and replaced by the API's default, so that the caller decides whether that is a 422, an exit code
2 or an event. Which restarts the failure policy still allows follows ``executeFailurePolicy`` of JobSet 0.12.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from gangctl.api.failures import DEFAULT_BACKOFF_LIMIT, evictions_survived
from gangctl.api.meta import (
    ADMISSION_GATED_BY,
    EXCLUSIVE_TOPOLOGY,
    JOBSET_CONTROLLER,
    KUEUE_PREFIX,
    NODE_SELECTOR_STRATEGY,
    PATHWAYS_GROUP,
    PLACEMENT,
    PREFIX,
    QUEUE_NAME,
    QUEUE_PRIORITY,
    WRITTEN,
    Place,
    keys_at,
)
from gangctl.api.objects import Reader, controller_owner, integer_at, object_at, objects_at, text_at
from gangctl.api.scheduling import Claim
from gangctl.api.volumes import claim_names
from gangctl.errors import FieldError

GENERATED: Final = "xxxxx"
"""Placeholder for the five characters that the API server appends to ``generateName``."""

MAX_ITEMS: Final = 10_000
"""Of a list that the definition of JobSets does not limit: no object that fits into etcd has more replicated jobs, but
a request is read before that is known."""

_CONDITIONS: Final = ("targetReplicatedJobs", "onJobFailureReasons", "onJobFailureMessagePatterns")
"""Fields that narrow a rule; one without any applies to all failures."""

_DEFAULT: Final = "RestartJobSet"
"""The action where no rule matches a failed Job."""

_COUNTED: Final = frozenset({"RestartJobSet", "RestartJob"})
"""Actions that ``maxRestarts`` limits, taken together; those that end in AndIgnoreMaxRestarts have no limit."""


@dataclass(frozen=True, slots=True)
class Restarts:
    """The possible restarts when a Job fails."""

    whole: bool = False
    """All Jobs of the JobSet may be recreated."""
    alone: frozenset[str] | None = frozenset()
    """ReplicatedJobs whose failed Job alone may be recreated; None for all."""

    def of_job(self, replicated_job: str) -> bool:
        """Whether a failed Job of this ReplicatedJob may be recreated alone."""
        return self.alone is None or replicated_job in self.alone


NONE: Final = Restarts()


def read_restarts(spec: Reader, status: Mapping[str, Any]) -> Restarts:
    """The restarts that are left to a JobSet with this spec and status."""
    policy = spec.child("failurePolicy")
    if not policy.value:
        return NONE
    left = restarts_used(status) < (policy.integer("maxRestarts") or 0)
    actions = [action for action in _actions(policy) if left or action[0] not in _COUNTED]
    alone = [targets for action, targets in actions if action in {"RestartJob", "RestartJobAndIgnoreMaxRestarts"}]
    return Restarts(
        any(action.startswith("RestartJobSet") for action, _ in actions),
        # A rule without targets is for all of them.
        frozenset(name for targets in alone for name in targets) if all(alone) else None,
    )


def _actions(policy: Reader) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The reachable actions and the ReplicatedJobs that each applies to: a rule for all failures is the last."""
    for rule in policy.children("rules", MAX_ITEMS):
        targets = rule.value.get("targetReplicatedJobs")
        names = tuple(map(str, targets)) if isinstance(targets, list) else ()
        yield rule.string("action"), names
        if not any(rule.value.get(condition) for condition in _CONDITIONS):
            return
    yield _DEFAULT, ()


def restarts_used(status: Mapping[str, Any]) -> int:
    """Restarts so far that count towards ``maxRestarts``: of the JobSet, and of single Jobs."""
    used = _number(status.get("restartsCountTowardsMax"))
    for entry in objects_at(status, "replicatedJobsStatus"):
        counts = entry.get("jobRestartsCountTowardsMax")
        used += sum(map(_number, counts)) if isinstance(counts, list) else 0
    return used


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


SCHEDULING_REFERENCES: Final = ("schedulingGroup", "workloadRef")
"""Pod spec fields that put a pod into a gang: Kubernetes 1.36 and later, and 1.35."""

# The definition of JobSets takes five, but a request is read before it is checked by that.
_MAX_DEPENDENCIES: Final = 50

SHRINKING: Final = ("backoffLimitPerIndex", "successPolicy")
"""Fields of a Job's spec with which some of its pods may fail permanently, or end, and the Job does not fail."""

_ON_JOBSETS: Final = frozenset(keys_at(Place.JOBSET))
_ON_TEMPLATES: Final = frozenset(keys_at(Place.TEMPLATE))
_KEPT: Final = (*sorted(_ON_JOBSETS | _ON_TEMPLATES), *PLACEMENT, ADMISSION_GATED_BY)
"""Annotations that the projection keeps: others may be large (``last-applied-configuration``)."""

_MAX_CLAIMS: Final = 1024
_MOST_UNREAD: Final = 8


@dataclass(frozen=True, slots=True)
class ReplicatedJob:
    """One entry of ``spec.replicatedJobs``; numbers are as written, before the Job API's own defaults."""

    index: int
    name: str
    replicas: int
    parallelism: int | None
    completions: int | None
    depends_on: tuple[str, ...]
    annotations: Mapping[str, str]
    gang_config: str | None
    """``gangConfig.gangMode`` (KEP-1068), where a CRD or a file keeps it."""
    scheduling_reference: str
    """The pod spec field of :data:`SCHEDULING_REFERENCES` that the user has set, or empty."""
    priority_class: str
    scheduler: str
    shrinks_by: tuple[str, ...] = ()
    """Fields of the Job's spec, of :data:`SHRINKING`, with which it continues, or succeeds, with fewer pods."""
    job_scheduling: bool = False
    """The Job's own ``spec.scheduling`` is set: the Job controller makes a gang of the Job (KEP-5547)."""
    claims: tuple[Claim, ...] = ()
    """``resourceClaims`` of its pods."""
    volumes: tuple[str, ...] = ()
    """PersistentVolumeClaims of its pods; ``POD-scratch`` of each for an ephemeral volume ``scratch``."""
    pod_annotations: Mapping[str, str] = field(default_factory=dict)
    """Those of its pod template that say how JobSet places the pods, and while the JobSet is suspended Kueue's."""
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    """Kueue's on its pod template, while the JobSet is suspended: those of one that runs Kueue has written."""
    pod_nodes: str = ""
    """Which nodes its pods may use (nodeSelector, tolerations) as a text, while the JobSet is suspended and may change:
    whether it can ever be admitted depends on it."""
    restarted: tuple[int, ...] = ()
    """Restarts of single Jobs by index (failure policy action RestartJob), empty without any."""
    labelled: Mapping[int, int] = field(default_factory=dict)
    """The same by the labels of its Jobs (:func:`gangctl.gang.desired.with_own_restarts`)."""
    evictions: int | None = DEFAULT_BACKOFF_LIMIT
    """How many evicted pods each of its Jobs survives (:func:`~gangctl.api.failures.evictions_survived`)."""
    after_end: bool = False
    """Whether it starts only once another one has ended (dependsOn with status Complete)."""

    def job_restarts(self, index: int) -> int:
        """How often one Job was restarted alone."""
        counted = self.restarted[index] if index < len(self.restarted) else 0
        return max(counted, self.labelled.get(index, 0)) if self.labelled else counted

    @property
    def path(self) -> str:
        """Field path of this entry."""
        return f"spec.replicatedJobs[{self.index}]"

    def annotation_path(self, key: str) -> str:
        """Field path of an annotation of this entry's Job template."""
        return f"{self.path}.template.metadata.annotations[{key}]"


def pod_path(index: int) -> str:
    """Field path of the spec of the pods of an entry of ``spec.replicatedJobs``."""
    return f"spec.replicatedJobs[{index}].template.spec.template.spec"


def gate_names(text: str) -> tuple[str, ...]:
    """The names in a list of admission gates."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


@dataclass(frozen=True, slots=True)
class JobSet:
    """The projection of one JobSet."""

    namespace: str
    name: str
    generate_name: str
    uid: str
    annotations: Mapping[str, str]
    created: str
    """``metadata.creationTimestamp``, RFC 3339."""
    deleting: bool
    suspend: bool
    in_order: bool
    managed_by: str
    queue: str
    """Kueue's LocalQueue, or empty."""
    priority_class: str
    """Kueue's WorkloadPriorityClass, or empty."""
    native_scheduling: bool
    """``spec.scheduling`` is set: JobSet itself creates the Workload (KEP-969)."""
    gang_config: str | None
    replicated_jobs: tuple[ReplicatedJob, ...]
    finished: bool
    restarts: int
    restarts_left: Restarts = NONE
    owner: str = ""
    """Kind and name of the object that controls it (``TrainJob train``), empty for none."""
    owner_group: str = ""
    """API group of that object."""
    outcome: str = ""
    """``Completed`` or ``Failed`` once it has finished."""
    outcome_reason: str = ""
    outcome_message: str = ""
    finished_at: str = ""
    """When it finished, RFC 3339; empty without such a condition."""
    suspended_at: str = ""
    """When its suspension took effect, RFC 3339; empty where it is not suspended, or without such a condition."""
    resumed_at: str = ""
    """When it was resumed; empty where it never was suspended, or is suspended."""
    deleted_at: str = ""
    """When its deletion was asked for; empty where it is not being deleted."""
    finalizers: tuple[str, ...] = ()
    """Those that are left while it is being deleted."""
    stages_begun_at: str = ""
    """When JobSet began the startup stages last (startupPolicy InOrder)."""
    restarting_at: str = ""
    """When the restart began after which not all Jobs have been ready yet; empty before JobSet 0.12."""
    restarted_at: str = ""
    """When all of them were ready after the last restart, if that is over."""
    reported: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Of a JobSet whose pods are not known, as of one that runs elsewhere: how many Jobs its status counts as ready
    (all pods are) and as succeeded, by ReplicatedJob."""
    unread: tuple[tuple[str, str], ...] = ()
    """Keys with gangctl's prefix that have no meaning in their place: field path of the map, and key."""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def named(self) -> Self:
        """The same with a name, also where it has only a ``generateName``."""
        return self if self.name or not self.generate_name else replace(self, name=self.generate_name + GENERATED)

    @property
    def owned(self) -> bool:
        """Whether another object controls it, such as a TrainJob."""
        return bool(self.owner)

    @property
    def jobs(self) -> int:
        """How many Jobs it has."""
        return sum(rj.replicas for rj in self.replicated_jobs)

    @property
    def gates(self) -> tuple[str, ...]:
        """Names in the admission gates: Kueue does not queue it until each is removed."""
        return gate_names(self.annotations.get(ADMISSION_GATED_BY, ""))

    @property
    def managed_elsewhere(self) -> bool:
        """Whether another controller than JobSet's runs this object (MultiKueue)."""
        return self.managed_by not in {"", JOBSET_CONTROLLER}


def exclusive_topology(jobset: JobSet, rj: ReplicatedJob) -> tuple[str, str] | None:
    """The topology of which JobSet's webhook for pods gives each Job a domain, and the field path of its annotation.

    None where it places no pods. JobSet copies the annotation to them, and with it the strategy that stands beside it:
    the strategy of the JobSet has no effect on the topology of a template, nor that of a template on the JobSet's. What
    is written on the pod template, the pods have in any case.
    """
    everywhere = (rj.pod_annotations, jobset.annotations, rj.annotations)
    # Before the paths: few JobSets have it.
    if not any(EXCLUSIVE_TOPOLOGY in notes for notes in everywhere):
        return None
    paths = (
        f"{rj.path}.template.spec.template.metadata.annotations[{EXCLUSIVE_TOPOLOGY}]",
        f"metadata.annotations[{EXCLUSIVE_TOPOLOGY}]",
        rj.annotation_path(EXCLUSIVE_TOPOLOGY),
    )
    placed: tuple[str, str] | None = None
    by_selector = NODE_SELECTOR_STRATEGY in rj.pod_annotations
    for notes, path in zip(everywhere, paths, strict=True):
        if EXCLUSIVE_TOPOLOGY in notes:
            placed = notes[EXCLUSIVE_TOPOLOGY], path
            by_selector = by_selector or NODE_SELECTOR_STRATEGY in notes
    return None if by_selector else placed


_NOTHING: Final[Mapping[str, Any]] = {}


def _annotations(metadata: Reader) -> Mapping[str, str]:
    values = metadata.strings("annotations")
    return {key: values[key] for key in _KEPT if key in values} if values else _NOTHING


def _of_pods(pod_template: Reader, part: str, kept: tuple[str, ...]) -> Mapping[str, str]:
    """Labels or annotations of a pod template whose keys begin with one of these."""
    values = object_at(object_at(pod_template.value, "metadata"), part) if kept else _NOTHING
    return {key: text for key, text in values.items() if key.startswith(kept) and isinstance(text, str)} or _NOTHING


def _unread(metadata: Reader, read: Container[str]) -> list[tuple[str, str]]:
    """Keys with gangctl's prefix in labels and annotations that have no meaning there."""
    keys = []
    for part in ("annotations", "labels"):
        values = metadata.value.get(part)
        known = read if part == "annotations" else ()
        for key in values if isinstance(values, dict) else ():
            if key.startswith(PREFIX) and key not in known and not key.startswith(WRITTEN):
                keys.append((f"{metadata.path}.{part}", key))
    return keys


def _pod_nodes(pod_spec: Mapping[str, Any]) -> str:
    fields = {name: pod_spec[name] for name in ("nodeSelector", "tolerations") if pod_spec.get(name)}
    return repr(fields) if fields else ""


def _claims(pod_spec: Reader) -> tuple[Claim, ...]:
    return tuple(
        Claim(child.string("name"), child.string("resourceClaimName"), child.string("resourceClaimTemplateName"))
        for child in pod_spec.children("resourceClaims", _MAX_CLAIMS)
    )


def _restarted(status: Mapping[str, Any]) -> Mapping[str, tuple[int, ...]]:
    """Restarts of single Jobs by ReplicatedJob; those without any are left out."""
    restarts: dict[str, tuple[int, ...]] = {}
    for entry in objects_at(status, "replicatedJobsStatus"):
        counts = entry.get("jobRestarts")
        if isinstance(counts, list) and any(counts):
            restarts[str(entry.get("name"))] = tuple(count if isinstance(count, int) else 0 for count in counts)
    return restarts


def reported_jobs(status: Mapping[str, Any]) -> Mapping[str, tuple[int, int]]:
    """Ready and succeeded Jobs by ReplicatedJob."""
    entries = objects_at(status, "replicatedJobsStatus")
    return {str(entry.get("name")): (integer_at(entry, "ready"), integer_at(entry, "succeeded")) for entry in entries}


def _replicated_job(
    entry: Reader,
    index: int,
    raw: Mapping[str, Any],
    restarted: Mapping[str, tuple[int, ...]],
    unread: list[tuple[str, str]],
    *,
    suspended: bool,
) -> ReplicatedJob:
    template = entry.child("template")
    metadata = template.child("metadata")
    unread += _unread(metadata, _ON_TEMPLATES)
    job_spec = template.child("spec")
    pod_template = job_spec.child("template")
    if pod_template.value.get("metadata"):  # JobSet writes an empty one
        unread += _unread(pod_template.child("metadata"), ())
    pod_spec = pod_template.child("spec")
    dependencies = entry.children("dependsOn", _MAX_DEPENDENCIES)
    name, replicas = entry.string("name"), entry.integer("replicas")
    of_kueue = (KUEUE_PREFIX,) if suspended else ()
    return ReplicatedJob(
        index=index,
        name=name,
        replicas=1 if replicas is None else replicas,
        parallelism=job_spec.integer("parallelism"),
        completions=job_spec.integer("completions"),
        depends_on=tuple(item.string("name") for item in dependencies) if dependencies else (),
        annotations=_annotations(metadata),
        gang_config=entry.child("gangConfig").optional_string("gangMode"),
        scheduling_reference=next((field for field in SCHEDULING_REFERENCES if pod_spec.value.get(field)), ""),
        priority_class=pod_spec.string("priorityClassName"),
        scheduler=pod_spec.string("schedulerName"),
        shrinks_by=tuple(field for field in SHRINKING if job_spec.value.get(field) is not None),
        job_scheduling=job_spec.value.get("scheduling") is not None,
        claims=_claims(pod_spec) if "resourceClaims" in pod_spec.value else (),
        volumes=claim_names(raw, pod_spec.value),
        pod_annotations=_of_pods(pod_template, "annotations", (*PLACEMENT, *of_kueue)),
        pod_labels=_of_pods(pod_template, "labels", of_kueue),
        pod_nodes=_pod_nodes(pod_spec.value) if suspended else "",
        restarted=restarted.get(name, ()) if restarted else (),
        evictions=evictions_survived(job_spec.value),
        after_end=bool(dependencies) and any(item.string("status") == "Complete" for item in dependencies),
    )


def _end(status: Mapping[str, Any], conditions: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The condition Completed or Failed; synthesized where only ``terminalState`` is set."""
    for condition in conditions:
        if condition.get("type") in ("Completed", "Failed") and condition.get("status") == "True":
            return condition
    terminal = status.get("terminalState")
    return {"type": terminal} if terminal else None


def _finalizers(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """Only of one that is being deleted: any other keeps them."""
    names = metadata.get("finalizers") if metadata.get("deletionTimestamp") else None
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def _owner(metadata: Mapping[str, Any]) -> tuple[str, str]:
    """Kind and name of the object that controls it, and its API group."""
    owner = controller_owner(metadata) or {}
    group, _, version = text_at(owner, "apiVersion").partition("/")
    # Nothing changes the JobSet of a PathwaysJob once it is made: it is queued and resumed as one without an owner.
    if group == PATHWAYS_GROUP:
        return "", ""
    return " ".join(text_at(owner, field) for field in ("kind", "name")).strip(), group if version else ""


def _conditions(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """By type; of several of one type the first."""
    conditions: dict[str, Mapping[str, Any]] = {}
    for condition in objects_at(status, "conditions"):
        conditions.setdefault(text_at(condition, "type"), condition)
    return conditions


def _since(condition: Mapping[str, Any], *, holds: bool) -> str:
    """Since when a condition is true, or false; empty where it has another status, or is missing."""
    return text_at(condition, "lastTransitionTime") if (condition.get("status") == "True") is holds else ""


def read_jobset(raw: Mapping[str, Any]) -> tuple[JobSet, tuple[FieldError, ...]]:
    """Project a raw JobSet; the errors name every field whose type differs from the API's."""
    errors: list[FieldError] = []
    root = Reader(raw, "", errors)
    metadata = root.child("metadata")
    spec = root.child("spec")
    status = object_at(raw, "status")
    conditions = _conditions(status)
    end = _end(status, conditions.values())
    suspended = conditions.get("Suspended", _NOTHING)
    labels = metadata.strings("labels")
    suspend = spec.boolean("suspend")
    unread = _unread(metadata, _ON_JOBSETS)
    restarted = _restarted(status)
    owner, owner_group = _owner(metadata.value)
    jobset = JobSet(
        namespace=metadata.string("namespace"),
        name=metadata.string("name"),
        generate_name=metadata.string("generateName"),
        uid=metadata.string("uid"),
        annotations=_annotations(metadata),
        created=metadata.string("creationTimestamp"),
        deleting=bool(metadata.value.get("deletionTimestamp")),
        suspend=suspend,
        in_order=spec.child("startupPolicy").string("startupPolicyOrder") == "InOrder",
        managed_by=spec.string("managedBy"),
        queue=labels.get(QUEUE_NAME, ""),
        priority_class=labels.get(QUEUE_PRIORITY, ""),
        native_scheduling=spec.value.get("scheduling") is not None,
        gang_config=spec.child("gangConfig").optional_string("gangMode"),
        replicated_jobs=tuple(
            _replicated_job(entry, index, raw, restarted, unread, suspended=suspend)
            for index, entry in enumerate(spec.children("replicatedJobs", MAX_ITEMS))
        ),
        finished=end is not None,
        restarts=integer_at(status, "restarts"),
        restarts_left=read_restarts(spec, status),
        owner=owner,
        owner_group=owner_group,
        outcome=text_at(end or _NOTHING, "type"),
        outcome_reason=text_at(end or _NOTHING, "reason"),
        outcome_message=text_at(end or _NOTHING, "message"),
        finished_at=text_at(end or _NOTHING, "lastTransitionTime"),
        suspended_at=_since(suspended, holds=True),
        resumed_at=_since(suspended, holds=False),
        deleted_at=text_at(metadata.value, "deletionTimestamp"),
        finalizers=_finalizers(metadata.value),
        # The time stays when the condition becomes False, beside StartupPolicyCompleted.
        stages_begun_at=text_at(conditions.get("StartupPolicyInProgress", _NOTHING), "lastTransitionTime"),
        restarting_at=_since(conditions.get("RestartingJobSet", _NOTHING), holds=True),
        restarted_at=_since(conditions.get("RestartingJobSet", _NOTHING), holds=False),
        unread=tuple(unread[:_MOST_UNREAD]),
    )
    if jobset.managed_elsewhere:
        # Not for others: these counts change with every Job, and each change of a projection is a reconcile.
        jobset = replace(jobset, reported=reported_jobs(status))
    return jobset, tuple(errors)
