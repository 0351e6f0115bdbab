"""Messages between the pool and its worker processes: picklable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from gangctl.policy.exemptions import LoadedException
from gangctl.policy.review import Review
from gangctl.policy.snapshot import Source
from gangctl.policy.verdict import Action, Finding, Outcome, Result


class Load(NamedTuple):
    """Policies (name and source) and exceptions to keep, by key, and keys to forget.

    ``minor`` is the Kubernetes minor whose CEL libraries native policies get. Answered by the key of each policy, in
    order, when it is loaded.
    """

    minor: str
    policies: Mapping[str, tuple[str, Source]] = {}
    exceptions: Mapping[str, tuple[LoadedException, ...]] = {}
    forget: frozenset[str] = frozenset()


class Evaluate(NamedTuple):
    """A review, and the keys of the policies and exceptions to evaluate it by.

    Answered by :data:`READ` when the review has been read, then by one :class:`Evaluated` per policy, in order.
    ``policy_seconds`` bounds the CPU time of each policy, ``seconds`` the wall-clock time of all of them, as far as an
    evaluation checks the clock.
    """

    review: Review
    policies: tuple[str, ...]
    exceptions: str
    policy_seconds: float
    seconds: float


READ: Final = "read"
MEMORY: Final = "memory"
"""In place of an outcome: the policy ran out of memory."""
LATE: Final = "late"
"""In place of an outcome: the time of the request was over before the policy began."""


class Evaluated(NamedTuple):
    """The outcome of one policy, and the CPU seconds that it took."""

    outcome: Outcome | str
    seconds: float


CLASSES: Final[frozenset[type]] = frozenset({Action, Finding, Outcome, Result, Evaluated, frozenset})
"""Classes in answers: nothing else is unpickled from a worker."""
