"""What autoscalers say of pods that have no node, in events on these.

Source: ``processors/status/eventing_scale_up_processor.go`` of cluster-autoscaler 1.33, to which that of GKE adds
``FailedScaleUp``, and ``pkg/controllers/provisioning/scheduling/events.go`` of Karpenter 1.6. Both look at each pod for
itself: neither knows that pods belong together (autoscaler 8783).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from gangctl.api.meta import DEFAULT_SCHEDULER
from gangctl.errors import plural

_NOMINATED: Final = "Nominated"
_UNFIT: Final = "FailedScheduling"
"""Of Karpenter, and of the scheduler, whose messages begin otherwise."""
STARTED: Final = frozenset({"TriggeredScaleUp", _NOMINATED})
"""A node is on its way: of cluster-autoscaler, and of Karpenter."""
REFUSED: Final = frozenset({"NotTriggerScaleUp", "FailedScaleUp", _UNFIT})
"""No node group that it may grow would help, or the provider has no node."""
NODE_SECONDS: Final = 900
"""How long a node may take to join: ``--max-node-provision-time`` of cluster-autoscaler, and the time after which
Karpenter gives a NodeClaim up."""
REASONS: Final = (*sorted(STARTED), *sorted(REFUSED))


@dataclass(frozen=True, slots=True)
class ScaleUp:
    """The last that an autoscaler said of a pod; ``at`` is in Unix seconds."""

    pod: str
    reason: str
    message: str
    at: int

    @property
    def there(self) -> bool:
        """Whether it names a node: one that has room by Karpenter's count, or that is about to be ready."""
        return self.reason == _NOMINATED and "node/" in self.message

    @property
    def node(self) -> str:
        """The node that it names; empty without one."""
        return self.message.rpartition("node/")[2] if self.there else ""

    def running(self, now: float) -> bool:
        """Whether the pod may still get the node that it was given."""
        return self.reason in STARTED and now < self.at + NODE_SECONDS

    def adds(self, now: float) -> bool:
        """Whether a node is added for it, and may still come."""
        return self.running(now) and not self.there


def field_selector(reason: str) -> str:
    """Selects the events of pods with a reason. The scheduler writes one for each pod that it refuses."""
    return f"reason={reason},regarding.kind=Pod,reportingController!={DEFAULT_SCHEDULER}"


def is_saying(reason: str, note: str) -> bool:
    """Whether an event of a pod says that it gets a node, or gets none."""
    return note.startswith("Failed to schedule pod") if reason == _UNFIT else reason in REASONS


def sayings(found: Mapping[str, ScaleUp], pods: Collection[str], now: float) -> tuple[str, ...]:
    """What autoscalers said last of these pods, each in a line; ``found`` is by pod, ``now`` in Unix seconds."""
    last = [found[pod] for pod in sorted(pods) if pod in found]
    coming = [one for one in last if one.adds(now)]
    failed = [one for one in last if one.reason in STARTED and not one.there and not one.running(now)]
    refused = [one for one in last if one.reason in REFUSED]
    lines = []
    if coming:
        some = f" of {len(pods)}, and it knows no gangs" if len(coming) < len(pods) else ""
        lines.append(f"an autoscaler adds nodes for {plural(len(coming), 'pod')}{some} ({coming[0].reason})")
    if failed:
        lines.append(
            f"an autoscaler began to add nodes for {plural(len(failed), 'pod')} more than "
            f"{NODE_SECONDS // 60} minutes ago ({failed[0].reason}), and they still have none"
        )
    if refused:
        lines.append(f"the autoscaler adds no node for {plural(len(refused), 'pod')}: {refused[0].message}")
    return tuple(lines)


def latest(found: Iterable[ScaleUp]) -> dict[str, ScaleUp]:
    """The last of each pod, by its name."""
    # Times are in whole seconds: of two events in one, the one that promises a node counts.
    return {one.pod: one for one in sorted(found, key=lambda one: (one.at, one.reason in STARTED))}
