"""What a judge and its workers say to each other: picklable, and meant for nobody else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from gangctl.judge.policyset import Source
from gangctl.policy.exemptions import LoadedException
from gangctl.policy.review import Review
from gangctl.policy.verdict import Action, Finding, Outcome, Result


class Setup(NamedTuple):
    """The first request: whose libraries. Answered by nothing."""

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

    Answered by :data:`BOUND` when the review has been read, then by a :class:`Statement` per policy in order.
    ``policy_seconds`` bounds the CPU time of each policy, ``seconds`` the time of all of them, as far as an evaluation
    looks at the clock.
    """

    review: Review
    policies: tuple[str, ...]
    exceptions: str
    policy_seconds: float
    seconds: float


BOUND: Final = "bound"
MEMORY: Final = "memory"
"""In place of an outcome: the policy ran out of memory."""
LATE: Final = "late"
"""In place of an outcome: the policy's turn did not come in time."""


class Statement(NamedTuple):
    """What came of one policy, and the CPU seconds that it took."""

    outcome: Outcome | str
    seconds: float


CLASSES: Final[frozenset[type]] = frozenset({Action, Finding, Outcome, Result, Statement, frozenset})
"""What answers are made of."""
