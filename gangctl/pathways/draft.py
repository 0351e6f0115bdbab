"""The desired JobSet of a stored PathwaysJob, or why there is none; and whether a node can hold its head."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from gangctl.fit.floor import NodeShape, takes
from gangctl.fit.report import joined, show, show_all
from gangctl.fit.requests import podsets_of
from gangctl.gang.reasons import Notice, Reason
from gangctl.pathways.job import PathwaysJob, asks_for_mode, wants_gang
from gangctl.pathways.options import PathwaysOptions
from gangctl.pathways.reading import read_pathways_job
from gangctl.pathways.rendering.jobset import render
from gangctl.pathways.result import Rendering, RenderingInputs, Without
from gangctl.pathways.status import Obstacle, PathwaysPhase
from gangctl.pathways.words import DIGEST, HEAD


def check_head(rendering: Rendering, nodes: Iterable[NodeShape]) -> Notice | None:
    """A notice if there are eligible nodes for the head, and all of them are too small even when empty.

    None if one is large enough, and if no node is eligible: an autoscaler may add some. Usage of the nodes
    is ignored, and so are pods that will run beside the head.
    """
    head = next(podset for podset in podsets_of(rendering.jobset) if podset.name == HEAD)
    wanted = {name: amount for name, amount in rendering.head_requests.items() if amount > 0}
    candidates = [node for node in nodes if node.capacity and takes(node, head)]
    if not candidates or any(_holds(node, wanted) for node in candidates):
        return None
    nearest = max(
        candidates,
        key=lambda node: (min(node.capacity.get(name, 0) / amount for name, amount in wanted.items()), node.name),
    )
    has = joined([show(name, nearest.capacity.get(name, 0)) for name in wanted])
    count = f"{len(candidates)} nodes take" if len(candidates) > 1 else "1 node takes"
    message = (
        f"The head's pod requests {show_all(wanted)}: {count} it by labels and taints, none is that large. "
        f"The nearest, {nearest.name}, has {has}. Add larger nodes, or lower headResources and the requests of the "
        "user's containers."
    )
    return Notice(Reason.HEAD_DOES_NOT_FIT, message)


def _holds(node: NodeShape, wanted: Mapping[str, int]) -> bool:
    return all(node.capacity.get(name, 0) >= amount for name, amount in wanted.items())


def head_requests_in_words(requests: Mapping[str, Any]) -> str:
    """Requests of the head's pod: ``26 cpu and 140Gi memory``."""
    return show_all({name: amount for name, amount in requests.items() if amount > 0})


@dataclass(frozen=True, slots=True)
class Draft:
    """The object to create, and notices for the user."""

    job: PathwaysJob
    rendering: Rendering
    notices: tuple[Notice, ...]
    digest: str
    obstacle: Obstacle | None = None
    """Why it cannot be created yet."""

    def body(self) -> dict[str, Any]:
        """The JobSet with its digest, as it is created."""
        jobset = dict(self.rendering.jobset)
        metadata = dict(jobset["metadata"])
        metadata["annotations"] = {**metadata.get("annotations", {}), DIGEST: self.digest}
        return {**jobset, "metadata": metadata}


def draft(raw: Mapping[str, Any], options: PathwaysOptions, setting: RenderingInputs) -> Draft | Obstacle:
    """Read, check and render an object that an API server stored; ``options`` are those of the controller."""
    reading = read_pathways_job(raw, options, cluster_checked=True)
    if reading.job is None:
        first = reading.problems[0]
        return Obstacle(first.reason.value, "; ".join(str(problem.error) for problem in reading.problems))
    rendering = render(reading.job, setting)
    # Whether the cluster has gangs may change later, while the user's spec stays.
    standard = rendering if setting == RenderingInputs() else render(reading.job)
    notices = dict.fromkeys((*reading.notices, *rendering.notices))
    digest = _digest(standard.jobset["spec"])
    return Draft(reading.job, rendering, tuple(notices), digest, _without_gang(reading.job, setting))


def _without_gang(job: PathwaysJob, setting: RenderingInputs) -> Obstacle | None:
    """The obstacle if it must not lose its gang: a JobSet that is created without one never gets it."""
    if setting.gangs or setting.without is Without.ALL or not wants_gang(job):
        return None
    if setting.without is Without.UNASKED and not asks_for_mode(job):
        return None
    message = (
        f"No gang can be made now: {setting.reason}. The JobSet is created as soon as one can; a PathwaysJob that asks "
        "for no gang does not wait"
    )
    return Obstacle(Reason.API_UNAVAILABLE.value, message, PathwaysPhase.PENDING)


def _digest(spec: Mapping[str, Any]) -> str:
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:32]
