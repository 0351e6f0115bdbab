"""Names of other gang schedulers, of what they read, and of kinds that have no translation.

Sources: Volcano ``apis/pkg/apis/scheduling/v1beta1/labels.go`` and ``pkg/controllers/podgroup``; KAI
``pkg/common/constants`` and ``pkg/podgrouper``; scheduler-plugins ``apis/scheduling/v1alpha1`` and its Helm chart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal

from gangctl.errors import ErrorKind, FieldError

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
    group_field: Field
    """Which of the two that is."""
    group_api: str
    """API group of its PodGroup."""

    def reads(self, key: str) -> bool:
        """Whether a label or annotation is for this system alone."""
        return key == self.group_key or key.startswith(self.prefixes)


NAMES: Final = {
    System.VOLCANO: Names(
        title="Volcano",
        schedulers=frozenset({"volcano"}),
        prefixes=("scheduling.volcano.sh/", "volcano.sh/"),
        group_key="scheduling.k8s.io/group-name",
        group_field="annotations",
        group_api="scheduling.volcano.sh",
    ),
    System.KAI: Names(
        title="KAI",
        schedulers=frozenset({"kai-scheduler"}),
        prefixes=("kai.scheduler/",),
        group_key="pod-group-name",
        group_field="annotations",
        group_api="scheduling.run.ai",
    ),
    System.COSCHEDULING: Names(
        title="coscheduling",
        schedulers=frozenset({"scheduler-plugins-scheduler"}),
        prefixes=("scheduling.x-k8s.io/",),
        group_key="scheduling.x-k8s.io/pod-group",
        group_field="labels",
        group_api="scheduling.x-k8s.io",
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
_KINDS: Final = {"batch.volcano.sh": "Job"}
"""The only workload kind of its API group."""
_JOB: Final = "write a JobSet with this Job as the template of its one replicated job"


def _hint(raw: dict[str, Any], system: System) -> str | None:
    group, _, version = str(raw.get("apiVersion", "")).partition("/")
    kind = raw.get("kind")
    if group == "batch" and version and kind == "Job" and _has_marks(raw, system):
        return _JOB
    if group in _BY_GROUP and kind == _KINDS.get(group, kind):
        return _BY_GROUP[group]
    return None


def inside(value: object) -> Iterator[Any]:
    """A value and everything in it."""
    yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from inside(each)


def _has_marks(value: object, system: System) -> bool:
    """Whether anything in an object is for the system."""
    names = NAMES[system]
    return any(
        each.get("schedulerName") in names.schedulers or any(map(names.reads, each))
        for each in inside(value)
        if isinstance(each, dict)
    )


def check_kind(raw: dict[str, Any], system: System) -> FieldError | None:
    """Why an object of the input cannot become a gang of gangctl, which are JobSets; None for unrelated objects."""
    hint = _hint(raw, system)
    if hint is None:
        return None
    detail = f'"{raw.get("kind")}" of {raw.get("apiVersion")} is no JobSet: {hint}'
    return FieldError("kind", ErrorKind.NOT_SUPPORTED, detail)
