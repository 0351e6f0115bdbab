"""PathwaysJobs of tests: one base, and what is different about each other one."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

Object = dict[str, Any]

MAIN: Final[Mapping[str, Any]] = {"name": "main", "image": "python:3.12", "command": ["python", "train.py"]}


def container(name: str = "main", **more: Any) -> Object:
    """A container of the user's pod."""
    return {**MAIN, "name": name, **more}


def template(*containers: Object, metadata: Object | None = None, **pod_spec: Any) -> Object:
    """The user's pod; without containers it has one named ``main``."""
    spec = {**pod_spec, "containers": [copy.deepcopy(each) for each in containers or (container(),)]}
    return {"metadata": metadata, "spec": spec} if metadata is not None else {"spec": spec}


def pathways_job(
    name: str = "pw",
    *,
    metadata: Mapping[str, Any] | None = None,
    workers: Mapping[str, Any] | None = None,
    controller: Mapping[str, Any] | None = None,
    headless: bool = False,
    **spec: Any,
) -> Object:
    """A PathwaysJob of two v5p slices with two VMs each, and whatever is different about this one.

    ``workers`` and ``controller`` go into ``spec.workers[0]`` and ``spec.controller``, other keyword arguments into
    ``spec``; None takes a field away.
    """
    group = {"type": "ct5p-hightpu-4t", "topology": "2x2x2", "numSlices": 2}
    head: Object = {"deploymentMode": "default"}
    if not headless:
        head["template"] = template()
    body: Object = {
        "apiVersion": "pathways-job.pathways.domain/v1",
        "kind": "PathwaysJob",
        "metadata": _merged({"name": name, "namespace": "t"}, metadata),
        "spec": _merged(
            {
                "pathwaysDir": "gs://b/d",
                "controller": _merged(head, controller),
                "workers": [_merged(group, workers)],
            },
            spec,
        ),
    }
    return copy.deepcopy(body)


UNUSED_CLAIM = (
    '[{"name": "w", "replicatedJobs": ["worker"], "resourceClaims": [{"name": "net", "resourceClaimName": "c"}]}]'
)
"""A list of gangs that only the JobSet shows to be wrong: no pod uses the claim."""


def annotated(**annotations: str) -> Object:
    """Metadata with gangctl's annotations: ``annotated(gang_mode="Gang")``."""
    return {"annotations": {f"gangctl.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}}


def component(kind: str, **fields: Any) -> Object:
    """An entry of ``spec.customComponents``."""
    return {"componentType": kind, **fields}


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any] | None) -> Object:
    merged = {**base, **(changes or {})}
    return {key: value for key, value in merged.items() if value is not None}
