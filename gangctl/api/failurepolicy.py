"""Which restarts the failure policy of a JobSet still allows (``executeFailurePolicy`` of JobSet 0.12)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gangctl.api.reader import Reader

_MAX_RULES: Final = 20
"""The limit in the definition of JobSets."""

_CONDITIONS: Final = ("targetReplicatedJobs", "onJobFailureReasons", "onJobFailureMessagePatterns")
"""Fields that narrow a rule; one without any applies to all failures."""

_DEFAULT: Final = "RestartJobSet"
"""The action where no rule matches a failed Job."""

_COUNTED: Final = frozenset({"RestartJobSet", "RestartJob"})
"""Actions that ``maxRestarts`` limits, taken together; those that end in AndIgnoreMaxRestarts have no limit."""


@dataclass(frozen=True, slots=True)
class Restarts:
    """The possible restarts when a Job fails."""

    whole: bool = False
    """All Jobs of the JobSet may be recreated."""
    alone: tuple[tuple[str, ...], ...] = ()
    """ReplicatedJobs whose failed Job alone may be recreated.

    An entry for each rule with that action, empty for all.
    """

    def of_job(self, replicated_job: str) -> bool:
        """Whether a failed Job of this ReplicatedJob may be recreated alone."""
        return any(not targets or replicated_job in targets for targets in self.alone)


NONE: Final = Restarts()


def read_restarts(spec: Reader, status: Mapping[str, Any]) -> Restarts:
    """The restarts that are left to a JobSet with this spec and status."""
    policy = spec.child("failurePolicy")
    if not policy.value:
        return NONE
    left = _used(status) < (policy.integer("maxRestarts") or 0)
    actions = [each for each in _actions(policy) if left or each[0] not in _COUNTED]
    return Restarts(
        any(action.startswith("RestartJobSet") for action, _ in actions),
        tuple(targets for action, targets in actions if action in {"RestartJob", "RestartJobAndIgnoreMaxRestarts"}),
    )


def _actions(policy: Reader) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The reachable actions and the ReplicatedJobs that each applies to: a rule for all failures is the last."""
    for rule in policy.children("rules", _MAX_RULES):
        targets = rule.value.get("targetReplicatedJobs")
        names = tuple(map(str, targets)) if isinstance(targets, list) else ()
        yield rule.string("action"), names
        if not any(rule.value.get(condition) for condition in _CONDITIONS):
            return
    yield _DEFAULT, ()


def _used(status: Mapping[str, Any]) -> int:
    """Restarts so far that count towards ``maxRestarts``: of the JobSet, and of single Jobs."""
    used = _number(status.get("restartsCountTowardsMax"))
    entries = status.get("replicatedJobsStatus")
    for entry in entries if isinstance(entries, list) else ():
        counts = entry.get("jobRestartsCountTowardsMax") if isinstance(entry, dict) else None
        used += sum(map(_number, counts)) if isinstance(counts, list) else 0
    return used


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
