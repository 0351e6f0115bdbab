"""PathwaysJobs as they are after reading: two v5p slices of two VMs, and whatever is different."""

from __future__ import annotations

from typing import Any, Final

from gangctl.pathways.accelerators import MachineType, Slice
from gangctl.pathways.job import ComponentChanges, ComponentType, DeploymentMode, PathwaysJob

V5P: Final = MachineType("v5p", "ct5p-hightpu-4t", "tpu-v5p-slice", "tpuv5", 4, 2, 3)


def job(**changes: Any) -> PathwaysJob:
    """A job with a user's pod; ``changes`` are fields of :class:`PathwaysJob`."""
    fields: dict[str, Any] = {
        "name": "pw",
        "slice": Slice(V5P, "2x2x2"),
        "slices": 2,
        "mode": DeploymentMode.DEFAULT,
        "pathways_dir": "gs://b/d",
        "template": {"spec": {"containers": [{"name": "main", "image": "python:3.12"}]}},
    }
    return PathwaysJob(**(fields | changes))


def components(**chosen: dict[str, Any]) -> dict[ComponentType, ComponentChanges]:
    """Components by name of their type, each an entry of ``spec.customComponents``: ``worker={"image": "x:y"}``."""
    return {
        ComponentType(name): ComponentChanges(f"spec.customComponents[{index}]", **fields)
        for index, (name, fields) in enumerate(chosen.items())
    }


def variable(name: str, value: str) -> dict[str, Any]:
    """An EnvVar."""
    return {"name": name, "value": value}
