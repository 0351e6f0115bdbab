"""Whether any eligible node is large enough for the head."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gangctl.fit.floor import NodeShape, takes
from gangctl.fit.podsets import podsets_of
from gangctl.fit.words import joined, show, show_all
from gangctl.gang.reasons import Notice, Reason
from gangctl.pathways.result import Rendering
from gangctl.pathways.words import HEAD


def check_head(rendering: Rendering, nodes: Iterable[NodeShape]) -> Notice | None:
    """A notice if there are eligible nodes for the head, and all of them are too small even when empty.

    None if one is large enough, and if no node is eligible: an autoscaler may add some. Usage of the nodes
    is ignored, and so are pods that will run beside the head.
    """
    head = next(each for each in podsets_of(rendering.jobset) if each.name == HEAD)
    wanted = {name: amount for name, amount in rendering.head_requests.items() if amount > 0}
    candidates = [node for node in nodes if node.capacity and takes(node, head)]
    if not candidates or any(_holds(node, wanted) for node in candidates):
        return None
    nearest = max(candidates, key=lambda node: (_share(node, wanted), node.name))
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


def _share(node: NodeShape, wanted: Mapping[str, int]) -> float:
    """Fraction of the scarcest resource that the node has."""
    return min(node.capacity.get(name, 0) / amount for name, amount in wanted.items())


def head_requests_in_words(requests: Mapping[str, Any]) -> str:
    """Requests of the head's pod: ``26 cpu and 140Gi memory``."""
    return show_all({name: amount for name, amount in requests.items() if amount > 0})
