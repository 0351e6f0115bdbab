"""How hard to try: the same few examples in every CI run, new ones for as long as one likes in a long run."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

LONG = "GANGCTL_HOSTILE_LONG"
"""Environment variable of a long run; :mod:`tests.hostile.__main__` sets it."""

_TIMES = 20


def tries(examples: int) -> settings:
    """So many examples, always the same; twenty times as many new ones in a long run."""
    long = LONG in os.environ
    return settings(
        max_examples=examples * (_TIMES if long else 1),
        derandomize=not long,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
