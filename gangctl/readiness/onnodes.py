"""What a comparison of the pods of a JobSet with the nodes gave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gangctl.readiness.autoscaling import ScaleUp
from gangctl.readiness.holders import Holder


@dataclass(frozen=True, slots=True)
class OnNodes:
    """It; commands compare, the controller does not."""

    fits_now: Mapping[str, bool] = field(default_factory=dict)
    """By group: whether its pods without a node would fit now. Unknown for other groups."""
    never: str = ""
    """Why the nodes can never hold it, with nothing else on them; empty if they can, and if that is unknown."""
    changes: tuple[str, ...] = ()
    """What decides where its pods may run and is not in their templates, each in a line."""
    flavors: tuple[str, ...] = ()
    """Node labels (``key=value``) that Kueue has added to what its pods select: those of its flavors."""
    newcomers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By resource that its pods ask for: other pods that have it and came after its own were placed, newest first."""
    holders: Mapping[str, Sequence[Holder]] | None = field(default_factory=dict)
    """By resource that its pods ask for: who has it on the nodes that they may be placed on. None if pods of other
    namespaces may not be read."""
    without_plugins: tuple[str, ...] = ()
    """Resources that its pods ask for and no device plugin reports on some nodes, each in a line."""
    scale_ups: Mapping[str, ScaleUp] = field(default_factory=dict)
    """By pod without a node: the last that an autoscaler said of it."""
