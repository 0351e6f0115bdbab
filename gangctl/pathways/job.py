"""A PathwaysJob that was read and checked: the valid input of rendering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from gangctl.gang.config import GangMode
from gangctl.pathways.accelerators.slices import Slice
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.result import Origin, OriginKind

DEFAULT_MAIN_CONTAINER: Final = "main"
DEFAULT_SLICE_RESTARTS: Final = 1
_NO_OPTIONS: Final = PathwaysOptions()


class DeploymentMode(StrEnum):
    """``spec.controller.deploymentMode``."""

    COLOCATE = "colocate_head_with_workers"
    DEFAULT = "default"


class ComponentType(StrEnum):
    """``spec.customComponents[].componentType``."""

    SERVER = "pathways_server"
    WORKER = "worker"
    PROXY = "proxy_server"
    SIDECAR = "colocated_python_sidecar"


@dataclass(frozen=True, slots=True)
class Component:
    """The user's changes to one component; ``path`` is the field path of the entry."""

    path: str
    image: str = ""
    flags: tuple[str, ...] = ()
    env: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class PathwaysJob:
    """The request with defaults, every value valid."""

    name: str
    slice: Slice
    slices: int
    """At least 1."""
    mode: DeploymentMode
    namespace: str = ""
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    max_restarts: int = 0
    pathways_dir: str = ""
    pathways_version: str = ""
    template: Mapping[str, Any] | None = None
    """PodTemplateSpec of the user's pod; None is headless."""
    main_container: str = DEFAULT_MAIN_CONTAINER
    metrics: bool = False
    elastic_slices: int = 0
    """Slices that may be missing, less than ``slices``."""
    max_slice_restarts: int = DEFAULT_SLICE_RESTARTS
    worker_grace_seconds: int | None = None
    worker_priority_class: str = ""
    worker_node_selector: Mapping[str, str] = field(default_factory=dict)
    components: Mapping[ComponentType, Component] = field(default_factory=dict)
    options: PathwaysOptions = _NO_OPTIONS
    gang_mode: GangMode | None = None
    """Requested on the PathwaysJob: ``Off``, or ``Gang`` for head and workers together."""
    worker_mode: GangMode | None = None
    """Requested for its workers."""
    user_env_wins: bool = False
    """Whether the main container's own variables override those for the proxy, as with flags."""
    sources: Mapping[str, Origin] = field(default_factory=dict)
    """Origins of values that are not the PathwaysJob's own, by their field path there."""

    @property
    def headless(self) -> bool:
        """Whether there is no user pod: a client connects from outside."""
        return self.template is None

    @property
    def colocated(self) -> bool:
        """Whether the head runs beside the workers, also without a user pod."""
        return self.mode is DeploymentMode.COLOCATE

    @property
    def vms(self) -> int:
        """Worker pods of all slices."""
        return self.slices * self.slice.vms

    def origin(self, path: str) -> Origin:
        """The origin of the value at a field path of the PathwaysJob: that of the longest known prefix."""
        known = [each for each in self.sources if path == each or path.startswith((f"{each}.", f"{each}["))]
        return self.sources[max(known, key=len)] if known else Origin(OriginKind.FIELD, path)
