"""Why a gang is not ready: causes with what shows them and what helps, the most likely first.

Each cause is a small function of a module by subject; :mod:`.ranking` puts them in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gangctl.readiness.causes import api, suspended
from gangctl.readiness.causes.ranking import place_of
from gangctl.readiness.causes.scene import Finder, Scene, Until
from gangctl.readiness.facts import Snapshot
from gangctl.readiness.membership import Group
from gangctl.readiness.result import Cause, Readiness

FINDERS: Final[tuple[Finder, ...]] = (
    suspended.suspended,
    api.api_unavailable,
    api.not_ganged,
)


def find_causes(
    snapshot: Snapshot, groups: Sequence[Group], readiness: Readiness, now: float
) -> tuple[tuple[Cause, ...], float | None]:
    """Why it is not ready, and when (Unix seconds) time alone will have changed that; total.

    ``groups`` are all of the JobSet (:func:`gangctl.readiness.membership.members`); ``readiness`` is the one found for
    them, without causes.
    """
    open_groups = [group for group in groups if not group.finished]
    scene = Scene(snapshot, open_groups, readiness, now, len(groups))
    causes: list[Cause] = []
    looks: list[float] = []
    for finder in FINDERS:
        for found in finder(scene):
            if isinstance(found, Until):
                looks.append(found.at)
            else:
                causes.append(found)
    return tuple(sorted(causes, key=place_of)), min((at for at in looks if at > now), default=None)
