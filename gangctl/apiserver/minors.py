"""The Kubernetes minors that the rules are known of.

A minor differs in the version of ``scheduling.k8s.io`` that has Workloads and PodGroups.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

SCHEDULING_GROUP: Final = "scheduling.k8s.io"


@dataclass(frozen=True, slots=True)
class Minor:
    """One Kubernetes minor: its release, and what it serves for gangs when switched on."""

    name: str
    release: str
    scheduling_version: str
    resources: tuple[str, ...]
    older_version: str = ""
    """Another version of the same objects, served only where ``runtime_config`` says so."""
    like: str = ""
    """The minor whose fields and rules it has, if it is not released."""

    @property
    def rules(self) -> str:
        """The minor whose fields and rules it has."""
        return self.like or self.name


MINORS: Final = MappingProxyType(
    {
        minor.name: minor
        for minor in (
            Minor("1.35", "v1.35.4", "v1alpha1", ("workloads",)),
            Minor("1.36", "v1.36.3", "v1alpha2", ("workloads", "podgroups")),
            Minor("1.37", "v1.37.2", "v1beta1", ("workloads", "podgroups")),
            Minor("1.38", "v1.38.0", "v1", ("workloads", "podgroups"), older_version="v1beta1", like="1.37"),
        )
    }
)
NEWEST: Final = "1.37"
