"""Violations that are known, and why they stay: the only place that excuses any."""

from __future__ import annotations

from typing import Final, NamedTuple

from tests.search.explorer import Violation


class Known(NamedTuple):
    """A violation of some worlds."""

    finding: str
    world: str
    """The beginning of their names."""
    what: str
    """Part of what is wrong."""
    why: str


KNOWN: Final = (
    Known(
        "C10",
        "restart-alone-in-a-shared-gang",
        "can start with",
        "minCount followed the tail of a Job; when that Job fails and restarts alone, its pods name the same group and may "
        "be placed before gangctl has raised the number again",
    ),
)


def is_known(violation: Violation) -> str:
    """The finding that a violation belongs to, empty if none."""
    for known in KNOWN:
        if violation.world.startswith(known.world) and known.what in violation.what:
            return known.finding
    return ""
