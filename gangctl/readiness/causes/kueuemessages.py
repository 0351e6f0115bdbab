"""Why Kueue does not admit a Workload, by its message, and what helps.

The texts are those of Kueue's ``pkg/scheduler/flavorassigner`` and ``pkg/cache/scheduler`` (v0.19). The message of a
Workload has a part for each pod set that does not fit, and in it what is against each flavor: one flavor is enough, so
that a pod set waits if quota of one of them comes back when others finish.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final

from gangctl.readiness.causes.filters import SELECTED, TAINTED

SMALLER: Final = "make it smaller, use another queue, or have the quota of this one raised"
RESOURCES: Final = "ask only for resources that the queue has, or use another queue"
# Kueue compares tolerations and containers with its Workload, and no nodeSelector (pkg/util/equality/podset.go).
FLAVORS: Final = (
    "tolerate the taints and select the nodes of one of its flavors (a changed nodeSelector takes effect in a new "
    "JobSet only), or use another queue"
)
LEVEL: Final = "ask for a level of the queue's topology, or use another queue"
ROOM: Final = "wait for others to finish, add nodes, or ask for less, or for a wider level of the topology"
UNLABELED: Final = "give the nodes the labels of its topology's levels, or use another queue"

REMEDIES: Final = {
    "NeverExceedsQuota": SMALLER,
    "NeverExceedsTopology": "ask for fewer pods, smaller ones, or a wider level of the topology, or use another queue",
    "NeverNoFlavor": FLAVORS,
    "NeverUndeclaredResource": RESOURCES,
}
"""What helps against a verdict ``never`` of gangctl, by its reason."""
_POD_SET: Final = re.compile(r"couldn't assign flavors to pod set \S{1,253}: ")
_SAME: Final = 256


class Against(Enum):
    """What a refusal is about."""

    USAGE = 1
    """Quota that others use."""
    QUEUE = 2
    """The quotas, flavors and topology of the queue, whatever is used."""
    ROOM = 3
    """Room on the nodes of a topology."""
    NODES = 4
    """Taints and labels of the nodes of a topology."""


_TEXTS: Final = tuple(
    (re.compile(text, re.DOTALL), against, remedy)
    for text, against, remedy in (
        (r"insufficient unused quota for ", Against.USAGE, ""),
        (r"insufficient quota for ", Against.QUEUE, SMALLER),
        (r"untolerated taint |doesn't match node affinity", Against.QUEUE, FLAVORS),
        (r"resource \S{1,317} unavailable in ClusterQueue|does not provide resource ", Against.QUEUE, RESOURCES),
        (r"does not contain the requested level|no requested topology level", Against.QUEUE, LEVEL),
        (r"TopologyAwareScheduling", Against.QUEUE, LEVEL),
        (r"no topology domains at level", Against.NODES, UNLABELED),
        (
            # Some pods fit, so that there are nodes that take them: those that are excluded are others.
            (
                r'topology "[^"]{0,253}" (?:allows to fit only |doesn\'t allow to fit; '
                r".{0,2000}?\b[1-9]\d{0,9}/\d{1,10} slice|(?:doesn't allow|allows) to fit(?:(?! excluded: ).)*$)"
            ),
            Against.ROOM,
            ROOM,
        ),
        (r' excluded: .{0,2000}resource "', Against.ROOM, ROOM),
        (r' excluded: .{0,2000}taint "', Against.NODES, TAINTED.remedy),
        (r" excluded: .{0,2000}(?:nodeSelector|affinity): ", Against.NODES, SELECTED.remedy),
    )
)


@dataclass(frozen=True, slots=True)
class QueueRefusal:
    """What is against the first pod set that quota of others does not help."""

    against: Against
    remedy: str


@lru_cache(_SAME)
def read_queue_refusal(message: str) -> QueueRefusal | None:
    """Content of the message of ``QuotaReserved``; None where all wait for quota that others use, or it is unknown."""
    for part in _POD_SET.split(message)[1:]:
        matching = [(against, remedy) for text, against, remedy in _TEXTS if text.search(part)]
        kinds = {against for against, _ in matching}
        if not matching or Against.USAGE in kinds:
            continue
        # One flavor is enough: the one for which the least has to change decides.
        against = next(kind for kind in (Against.ROOM, Against.NODES, Against.QUEUE) if kind in kinds)
        return QueueRefusal(against, "; ".join(dict.fromkeys(remedy for _, remedy in matching)))
    return None
