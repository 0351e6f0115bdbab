"""One PathwaysJob that must be refused, and how the tables write such ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gangctl.pathways.problems import InvalidReason as Why
from tests.pathways.samples import Object, annotated, container, pathways_job, template

PATHWAYS_OPTIONS: Final = "metadata.annotations[gangctl.dev/pathways-options]"
GANG_MODE: Final = "metadata.annotations[gangctl.dev/gang-mode]"
WORKER_MODE: Final = "metadata.annotations[gangctl.dev/pathways-worker-mode]"
EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
POD: Final = "spec.controller.template.spec"
WORKER: Final = "spec.workers[0]"
COLOCATED: Final = "colocate_head_with_workers"


@dataclass(frozen=True)
class Refused:
    """One object, and the one problem that it has."""

    title: str
    value: Mapping[str, Any]
    reason: Why
    path: str
    says: str
    """Part of the message."""
    by_server: bool = False
    """Whether the definition lets an API server refuse it, too."""

    def __str__(self) -> str:
        return self.title.replace(" ", "-")


def put(*keys: str | int, value: object = None) -> Object:
    """The base with another value at a place; None takes the field away."""
    found = job = pathways_job()
    for key in keys[:-1]:
        found = found[key]  # type: ignore[index] # an index of a list, or the name of a field
    if value is None:
        del found[keys[-1]]  # type: ignore[arg-type]
    else:
        found[keys[-1]] = value  # type: ignore[index]
    return job


def user(*containers: Object, mode: str = "default", **pod: Any) -> Object:
    """The base with another pod of the user's."""
    return pathways_job(controller={"deploymentMode": mode, "template": template(*containers, **pod)})


def ports(*entries: Object, name: str = "main", **more: Any) -> Object:
    """A container with these ports."""
    return container(name, ports=list(entries), **more)


def options(text: str, **changes: Any) -> Object:
    """The base with options."""
    return pathways_job(metadata=annotated(pathways_options=text), **changes)
