"""The desired JobSet of a stored PathwaysJob, or why there is none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from gangctl.gang.reasons import Notice
from gangctl.pathways.job import PathwaysJob
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.reading.pathwaysjob import read_pathways_job
from gangctl.pathways.rendering.render import render
from gangctl.pathways.result import Rendering, Setting
from gangctl.pathways.status.facts import Obstacle
from gangctl.pathways.words import DIGEST


@dataclass(frozen=True, slots=True)
class Draft:
    """The object to create, and notices for the user."""

    job: PathwaysJob
    rendering: Rendering
    notices: tuple[Notice, ...]
    digest: str

    def body(self) -> dict[str, Any]:
        """The JobSet with its digest, as it is created."""
        jobset = dict(self.rendering.jobset)
        metadata = dict(jobset["metadata"])
        metadata["annotations"] = {**metadata.get("annotations", {}), DIGEST: self.digest}
        return {**jobset, "metadata": metadata}


def draft(raw: Mapping[str, Any], options: PathwaysOptions, setting: Setting) -> Draft | Obstacle:
    """Read, check and render an object that an API server stored; ``options`` are those of the controller."""
    reading = read_pathways_job(raw, options, cluster_checked=True)
    if reading.job is None:
        first = reading.problems[0]
        return Obstacle(first.reason.value, "; ".join(str(each.error) for each in reading.problems))
    rendering = render(reading.job, setting)
    # Whether the cluster has gangs may change later, while the user's spec stays.
    standard = rendering if setting == Setting() else render(reading.job)
    notices = dict.fromkeys((*reading.notices, *rendering.notices))
    return Draft(reading.job, rendering, tuple(notices), _digest(standard.jobset["spec"]))


def _digest(spec: Mapping[str, Any]) -> str:
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:32]
