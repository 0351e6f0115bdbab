"""Violations that are known, and why they stay: the only place that excuses any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

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
        lambda world: world.restart_job and bool(world.mode or world.gangs),
        "minCount followed the tail of a Job; when that Job fails and restarts alone, its pods name the same group and "
        "may be placed before gangctl has raised the number again",
    ),
    Known(
        "taken name",
        "failover-1.37",
        "until the resync",
        lambda world: bool({"fault.failover", "fault.late"} & set(world.steps)),
        "a create finds gangctl's own group with another minCount, and nothing compares the two until the resync",
    ),
    Known(
        "unprepared",
        "restart-1.37",
        "until the resync",
        lambda world: world.max_restarts > 0 and world.generation.capabilities.min_count_mutable,
        "the response to a patch shows that the gang has started, so that its watch event is no news, and the groups "
        "of the next attempt are not made until the resync",
    ),
)

UNTIL_REPAIRED: Final[tuple[Known, ...]] = (
    Known("C1", "suspend-1.37", "wait", lambda _: True, "PodGroups are created with the template's minCount"),
    Known("9.1 resync", "lost-trigger-1.37", "wait", lambda _: True, "there is no reconcile without a trigger"),
    Known("9.1 resync", "lost-trigger-1.37", "is left", lambda _: True, "there is no reconcile without a trigger"),
    Known("9.1 resync", "restart-1.37", "not prepared", lambda _: True, "there is no reconcile without a trigger"),
    Known("C4", "quota-1.37", "waits", lambda world: world.quota is not None, "deletes come after creates"),
    Known("C5", "work-queue-1.37", "waits", lambda _: True, "a success lowers minCount, and no pod takes its place"),
    Known("C6", "held-in-deletion-1.37", "waits", lambda world: world.held, "what is being deleted is not followed"),
    Known("C7", "orphaned-1.37", "name no group", lambda _: True, "an orphan counts as another owner's"),
)
"""To be deleted with the repair of each."""

NOT_REPAIRED: Final = frozenset(known.finding for known in (*KNOWN, *UNTIL_REPAIRED))
"""Their traces and mutants show nothing: gangctl itself is such a mutant."""


def is_known(violation: Violation, among: Sequence[Known] = (*KNOWN, *UNTIL_REPAIRED)) -> str:
    """The finding that a violation belongs to, empty if none."""
    for known in among:
        if known.has(violation.world) and known.what in violation.what:
            return known.finding
    return ""
