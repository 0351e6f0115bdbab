"""State of one JobSet's migration: the marks of another scheduler on it, and the results so far.

Marks are labels, annotations and scheduler names, with their field paths. JobSet copies those of a ReplicatedJob's
template to the Jobs, and those of the pod template to the pods; those of the JobSet itself are not copied.

Names of other gang schedulers, of what they read, and of kinds that have no translation.

Sources: Volcano ``apis/pkg/apis/scheduling/v1beta1/labels.go`` and ``pkg/controllers/podgroup``; KAI
``pkg/common/constants`` and ``pkg/podgrouper``; scheduler-plugins ``apis/scheduling/v1alpha1`` and its Helm chart.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal

from gangctl.api.fieldpath import FieldPath
from gangctl.api.jobset import JobSet, ReplicatedJob, pod_path
from gangctl.api.objects import object_at
from gangctl.errors import ErrorKind, FieldError, one_line, shown
from gangctl.gang.convert import Object
from gangctl.gang.plan import replicated_job_pods
from gangctl.gang.validate import pod_field

Field = Literal["labels", "annotations"]


class System(StrEnum):
    """Another gang scheduler."""

    VOLCANO = "volcano"
    KAI = "kai"
    COSCHEDULING = "coscheduling"


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one system."""

    title: str
    schedulers: frozenset[str]
    """The default ``schedulerName``."""
    prefixes: tuple[str, ...]
    """Prefixes of labels and annotations that only this system reads."""
    group_key: str
    """The key on a pod template that names the pods' PodGroup."""
    group_apis: frozenset[str]
    """API groups of its PodGroup, those of earlier versions among them."""
    old_keys: tuple[str, ...] = ()
    """Keys that named the PodGroup in earlier versions."""
    labels: frozenset[str] = frozenset()
    """Those of its keys that it reads in labels; all others are annotations."""

    def field(self, key: str) -> Field:
        """Where it reads a key."""
        return "labels" if key in self.labels else "annotations"

    def reads(self, key: str) -> bool:
        """Whether a label or annotation is for this system alone."""
        return key == self.group_key or key.startswith(self.prefixes)


_OLD: Final = ("pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.x-k8s.io")
MIN_AVAILABLE: Final = tuple(f"{key}/min-available" for key in _OLD)
"""Labels of pods, which was all that a gang of coscheduling had before there were PodGroups."""
_OLD_GROUPS: Final = (*_OLD, *(f"{key}/name" for key in _OLD))
_COSCHEDULING_GROUP: Final = "scheduling.x-k8s.io/pod-group"
KAI_QUEUE: Final = "kai.scheduler/queue"
KAI_PRIORITY: Final = "priorityClassName"

NAMES: Final = {
    System.VOLCANO: Names(
        title="Volcano",
        schedulers=frozenset({"volcano"}),
        prefixes=("scheduling.volcano.sh/", "volcano.sh/"),
        group_key="scheduling.k8s.io/group-name",
        group_apis=frozenset({"scheduling.volcano.sh"}),
    ),
    System.KAI: Names(
        title="KAI",
        schedulers=frozenset({"kai-scheduler"}),
        prefixes=("kai.scheduler/",),
        group_key="pod-group-name",
        labels=frozenset({KAI_QUEUE, KAI_PRIORITY}),
        group_apis=frozenset({"scheduling.run.ai"}),
    ),
    System.COSCHEDULING: Names(
        title="coscheduling",
        schedulers=frozenset({"scheduler-plugins-scheduler"}),
        prefixes=("scheduling.x-k8s.io/", "pod-group.scheduling."),
        group_key=_COSCHEDULING_GROUP,
        old_keys=_OLD_GROUPS,
        labels=frozenset({_COSCHEDULING_GROUP, *_OLD_GROUPS, *MIN_AVAILABLE}),
        group_apis=frozenset({"scheduling.x-k8s.io", "scheduling.sigs.k8s.io"}),
    ),
}


_BY_GROUP: Final = {
    "batch.volcano.sh": "write a JobSet with one replicated job per task",
    "kubeflow.org": "write a JobSet with one replicated job per replica type, or a TrainJob, which becomes one",
    "trainer.kubeflow.org": "it makes a JobSet: put gangctl.dev/gang-mode into the JobSet template of its runtime",
    "ray.io": "its pods are not made by JobSet, and stay with their scheduler",
    "leaderworkerset.x-k8s.io": "its pods are not made by JobSet, and stay with their scheduler",
    "sparkoperator.k8s.io": "its pods are not made by JobSet, and stay with their scheduler",
}
_ONLY_JOBS: Final = ("batch.volcano.sh", "kubeflow.org")
"""API groups of which only the kinds that end in Job are workloads: a Profile or a Notebook is none."""
_RUNTIME: Final = (
    "it has the template of a JobSet: write gangctl.dev/gang-mode into annotations of its spec.template.metadata, and "
    "remove spec.podGroupPolicy and schedulerName, which are for another scheduler"
)
_JOB: Final = "write a JobSet with this Job as the template of its one replicated job"


def inside(value: object) -> Iterator[Any]:
    """A value and everything in it."""
    yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from inside(item)


_SCHEDULER_FIELDS: Final = ("schedulerName", "batchScheduler", "ray.io/scheduler-name")
"""Names of a scheduler: in pods, and what the operators of Spark and Ray write into them."""


def _has_marks(value: object, system: System) -> bool:
    """Whether anything in an object is for the system, podGroupPolicy of Kubeflow Trainer's runtimes included."""
    names = NAMES[system]
    return any(
        any(item.get(key) == name for key in _SCHEDULER_FIELDS for name in names.schedulers)
        or any(map(names.reads, item))
        or system in object_at(item, "podGroupPolicy")
        for item in inside(value)
        if isinstance(item, dict)
    )


def no_jobset(raw: Mapping[str, Any]) -> str:
    """What a workload of another kind is, and what to write instead of it; empty for unrelated objects."""
    group, _, version = str(raw.get("apiVersion", "")).partition("/")
    kind, hint = str(raw.get("kind")), _BY_GROUP.get(group)
    if group == "batch" and version and kind == "Job":
        hint = _JOB
    elif group in _ONLY_JOBS and not kind.endswith("Job"):
        hint = None
    elif group == "trainer.kubeflow.org" and kind.endswith("TrainingRuntime"):
        hint = _RUNTIME
    return f'"{one_line(kind)}" of {one_line(str(raw.get("apiVersion")))} is no JobSet: {hint}' if hint else ""


def check_kind(raw: dict[str, Any], system: System) -> FieldError | None:
    """Why an object of the input cannot become a gang of gangctl, which are JobSets; None if it is not the system's."""
    detail = no_jobset(raw)
    volcanos = system is System.VOLCANO and str(raw.get("apiVersion")).startswith("batch.volcano.sh/")
    # Another workload stays with its scheduler.
    if not detail or not (volcanos or _has_marks(raw, system)):
        return None
    return FieldError("kind", ErrorKind.NOT_SUPPORTED, detail)


FIELDS: Final[tuple[Field, ...]] = ("labels", "annotations")


class Level(StrEnum):
    """The object that gets a label or an annotation."""

    JOBSET = "JobSet"
    JOB = "Job"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class Mark:
    """One label or annotation; ``index`` is that of the ReplicatedJob, -1 on the JobSet."""

    level: Level
    index: int
    field: Field
    key: str
    value: str
    path: str


def mentions(value: object, key: str) -> bool:
    """Whether a label or annotation is used anywhere in an object: by a selector, an expression, the downward API."""
    return any(key in item for item in inside(value) if isinstance(item, str)) or any(
        key in name for item in inside(value) if isinstance(item, dict) for name in item
    )


def pod_template(entry: Object) -> Object:
    """The pod template of an entry of ``spec.replicatedJobs``."""
    return object_at(object_at(object_at(entry, "template"), "spec"), "template")


def replicated_jobs(raw: Object) -> Sequence[Object]:
    """The entries of ``spec.replicatedJobs``, valid or not."""
    entries = object_at(raw, "spec").get("replicatedJobs")
    return [entry if isinstance(entry, dict) else {} for entry in (entries if isinstance(entries, list) else ())]


def _holders(raw: Object) -> Iterator[tuple[Level, int, str, Object]]:
    yield Level.JOBSET, -1, "", raw
    for index, entry in enumerate(replicated_jobs(raw)):
        path = f"spec.replicatedJobs[{index}].template"
        template = object_at(entry, "template")
        yield Level.JOB, index, path, template
        yield Level.POD, index, f"{path}.spec.template", pod_template(entry)


def _all_marks(raw: Object) -> Iterator[tuple[Mark, object]]:
    """Every label and annotation with its value, which may be no string."""
    for level, index, path, holder in _holders(raw):
        for field in FIELDS:
            for key, value in object_at(object_at(holder, "metadata"), field).items():
                where = FieldPath.parse(path).child("metadata", field).key(key)
                yield Mark(level, index, field, key, value, str(where)), value


def read_marks(raw: Object) -> Iterator[Mark]:
    """Every label and annotation of a JobSet and its templates; strings only, see :func:`check_texts`."""
    return (mark for mark, value in _all_marks(raw) if isinstance(value, str))


def check_texts(raw: Object, system: System) -> Iterator[FieldError]:
    """Labels and annotations of the system that are no strings: an API server rejects these."""
    for mark, value in _all_marks(raw):
        if NAMES[system].reads(mark.key) and not isinstance(value, str):
            detail = f"must be a text, in quotes, got {shown(value)}"
            yield FieldError(mark.path, ErrorKind.TYPE_INVALID, detail)


def systems_seen(raw: Object) -> dict[System, tuple[str, str]]:
    """The systems with marks on a JobSet, each with its first mark and field path."""
    seen: dict[System, tuple[str, str]] = {}
    for system, names in NAMES.items():
        for index, entry in enumerate(replicated_jobs(raw)):
            scheduler = str(object_at(pod_template(entry), "spec").get("schedulerName") or "")
            if scheduler in names.schedulers:
                path = f"{pod_path(index)}.schedulerName"
                seen.setdefault(system, (f"schedulerName {scheduler}", path))
        for mark in read_marks(raw):
            if names.reads(mark.key):
                seen.setdefault(system, (f"{mark.field.removesuffix('s')} {mark.key}", mark.path))
    return seen


# Bounded, because ``int`` refuses thousands of digits.
_NUMBER: Final = re.compile("0{0,9}[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True)
class Note:
    """A note about a conversion: the object of the input, and the field."""

    position: int
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class NotConverted:
    """Why there is no conversion: the object of the input, and the error."""

    position: int
    error: FieldError


@dataclass(frozen=True, slots=True)
class DraftGang:
    """Pods that start together: of these ReplicatedJobs, or of each Job of one of them."""

    members: tuple[ReplicatedJob, ...]
    path: str
    """The field that makes it a group."""
    per_job: bool = False
    minimum: int | None = None
    """Pods that start together, where these are not all."""
    topology_key: str | None = None
    """The node label of which it has one value for itself, beside other gangs with others."""

    @property
    def pods(self) -> int:
        """All pods of the ReplicatedJobs that exist at once."""
        return sum(map(replicated_job_pods, self.members))


@dataclass(slots=True)
class ConversionDraft:
    """``position`` is the JobSet's in the input; ``groups`` are its groups in the system."""

    position: int
    raw: Object
    jobset: JobSet
    system: System
    marks: tuple[Mark, ...]
    groups: list[DraftGang] = dataclasses.field(default_factory=list)
    queues: list[str] = dataclasses.field(default_factory=list)
    topology_key: str | None = None
    composite: bool = False
    """Whether all groups start together."""
    dropped: set[int] = dataclasses.field(default_factory=set)
    """Objects of the input that this JobSet no longer needs."""
    leaving: set[int] = dataclasses.field(default_factory=set)
    """Indexes of the ReplicatedJobs whose ``schedulerName`` is removed."""
    problems: list[NotConverted] = dataclasses.field(default_factory=list)
    notes: list[Note] = dataclasses.field(default_factory=list)

    @property
    def names(self) -> Names:
        """The names of the system."""
        return NAMES[self.system]

    def refuse(self, path: str, detail: str, kind: ErrorKind = ErrorKind.FORBIDDEN) -> None:
        """Add a reason against the conversion."""
        self.refuse_at(self.position, path, detail, kind)

    def refuse_at(self, position: int, path: str, detail: str, kind: ErrorKind = ErrorKind.FORBIDDEN) -> None:
        """The same, of a field of another object of the input."""
        self.problems.append(NotConverted(position, FieldError(path, kind, detail)))

    def note(self, path: str, text: str) -> None:
        """Add a note about an omission or assumption of the conversion."""
        self.notes.append(Note(self.position, path, text))

    def found(self, key: str, *levels: Level) -> Iterator[Mark]:
        """Labels or annotations with this key, where the system reads it: on these levels or on any."""
        marks = (mark for mark in self.marks if (mark.key, mark.field) == (key, self.names.field(key)))
        return (mark for mark in marks if not levels or mark.level in levels)

    def on(self, rj: ReplicatedJob, key: str, level: Level) -> Mark | None:
        """The label or annotation of one ReplicatedJob on one level."""
        return next((mark for mark in self.found(key, level) if mark.index == rj.index), None)

    def scheduled(self) -> list[ReplicatedJob]:
        """ReplicatedJobs whose pods name the system's scheduler."""
        return [rj for rj in self.jobset.replicated_jobs if rj.scheduler in self.names.schedulers]

    def group_of(self, rj: ReplicatedJob) -> Mark | None:
        """The label or annotation that puts a ReplicatedJob's pods into a PodGroup."""
        keys = (self.names.group_key, *self.names.old_keys)
        return next((mark for key in keys if (mark := self.on(rj, key, Level.POD)) is not None), None)

    def number(self, mark: Mark) -> int | None:
        """The number in a mark; None, with a problem, if it is not above zero."""
        if _NUMBER.fullmatch(mark.value):
            return int(mark.value)
        self.refuse(mark.path, f'must be a number above 0, got "{mark.value}"', ErrorKind.INVALID)
        return None


def scheduler_path(rj: ReplicatedJob) -> str:
    """Field path of the scheduler of a ReplicatedJob's pods."""
    return pod_field(rj, "schedulerName")


def listed(rjs: Iterable[ReplicatedJob]) -> str:
    """Names of ReplicatedJobs, for messages."""
    return ", ".join(f'"{rj.name}"' for rj in rjs)


def least(draft: ConversionDraft, position: int, path: str, minimum: int, pods: int) -> int | None:
    """The minimum of a group, None where it is all of its pods; adds a problem if it is more."""
    if minimum > pods:
        detail = f"is {minimum}, and only {pods} pods exist at once: this gang could never start"
        draft.refuse_at(position, path, detail)
    return minimum if minimum < pods else None
