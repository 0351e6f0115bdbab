"""What a judge and its workers say to each other: picklable, and meant for nobody else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from gangctl.judge.policyset import Source
from gangctl.policy.exemptions import LoadedException
from gangctl.policy.review import Review
from gangctl.policy.verdict import Action, Finding, Outcome, Result


class Setup(NamedTuple):
    """The first request: which engine, and whose libraries. Answered by nothing."""

    engine: str
    minor: str


class Lesson(NamedTuple):
    """Policies (name and source) and exceptions by key to be kept, and keys to be forgotten.

    Answered by the key of each policy when it is ready, in order.
    """

    policies: Mapping[str, tuple[str, Source]] = {}
    exceptions: Mapping[str, tuple[LoadedException, ...]] = {}
    forget: frozenset[str] = frozenset()


class Question(NamedTuple):
    """A review, and the keys of what it is judged by.

    Answered by :data:`BOUND` when the review has been read, then by an :class:`~gangctl.policy.verdict.Outcome`
    per policy in order; one that ran out of memory is answered by :data:`MEMORY`, one whose turn did not come
    in time by :data:`LATE`. ``policy_seconds`` bounds each policy, ``seconds`` all of them, as far as an engine
    looks at the clock.
    """

    review: Review
    policies: tuple[str, ...]
    exceptions: str
    policy_seconds: float
    seconds: float


BOUND: Final = "bound"
MEMORY: Final = "memory"
LATE: Final = "late"

CLASSES: Final[frozenset[type]] = frozenset({Action, Finding, Outcome, Result, frozenset})
"""What answers are made of."""
