"""Names of other gang schedulers, and of the labels, annotations and kinds that they read.

Sources: Volcano ``apis/pkg/apis/scheduling/v1beta1/labels.go`` and ``pkg/controllers/podgroup``; KAI
``pkg/common/constants`` and ``pkg/podgrouper``; scheduler-plugins ``apis/scheduling/v1alpha1`` and its Helm chart.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Literal

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
