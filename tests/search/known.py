"""Violations that are known, and why they stay: the only place that excuses any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:  # the facts that a search starts from ask for what is known
    from tests.search.explorer import Violation
    from tests.search.world import World


class Known(NamedTuple):
    """A violation of some worlds; ``example`` is one of them, and ``what`` part of what is wrong there."""

    finding: str
    example: str
    what: str
    has: Callable[[World], bool]
    why: str


KNOWN: Final = (
    Known(
        "C10",
        "restart-alone-in-a-shared-gang-1.37",
        "can start with",
        # A gang per replica has a group of its own after that.
        lambda world: world.restart_job and any(job.mode != "ReplicatedGang" for job in world.jobs),
        "minCount followed the tail of a Job; when that Job fails and restarts alone, its pods name the same group and "
        "may be placed before gangctl has raised the number again",
    ),
)

NOT_REPAIRED: Final = frozenset(known.finding for known in KNOWN)
"""Their traces and mutants show nothing: gangctl itself is such a mutant."""


def is_known(violation: Violation, among: Sequence[Known] = KNOWN) -> str:
    """The finding that a violation belongs to, empty if none."""
    for known in among:
        if known.has(violation.world) and known.what in violation.what:
            return known.finding
    return ""


def shares_number(*, has_groups: bool, restarts_left: int, replicas: int) -> bool:
    """Whether other gangs have the same minCount: those of the next attempt, or of ``replicas`` of a ReplicatedJob.

    Kubernetes 1.35 has the number in the Workload only: with a smaller one these could start in part
    (:func:`gangctl.gang.desired.counted_in_workload`). A tail that is suspended and resumed waits there, and an event
    reports it.
    """
    return not has_groups and (restarts_left > 0 or replicas > 1)
