"""Totals of a scan of the existing JobSets: counts and newest violations of every policy.

Nothing in them depends on the time of the scan, so that a scan with equal results changes no status.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from gangctl.api.objects import Object
from gangctl.errors import one_line
from gangctl.policy.status import NEWEST_VIOLATIONS
from gangctl.policy.verdict import Outcome, Result

_TEXT: Final = 1024
_WRITTEN: Final = ("results", "violations", "lastScanTime")


@dataclass(frozen=True, slots=True, order=True)
class Violated:
    """A rule that one JobSet breaks; in order of the JobSets' creation, then of their names."""

    created: str
    namespace: str
    name: str
    uid: str
    rule: str
    result: Literal["fail", "error"]
    message: str


@dataclass(slots=True)
class Totals:
    """Totals of one policy: results by kind, and the violations of the JobSets that were created last."""

    counts: Counter[Result] = field(default_factory=Counter)
    newest: list[Violated] = field(default_factory=list)
    """A heap, the oldest first."""

    def add(self, outcome: Outcome, jobset: Object) -> None:
        """Count the outcome for one JobSet."""
        for finding in outcome.findings:
            self.counts[finding.result] += 1
            if finding.result is Result.FAIL or finding.result is Result.ERROR:
                self._keep(violated(jobset, finding.rule, finding.result, finding.message))

    def _keep(self, violation: Violated) -> None:
        if len(self.newest) < NEWEST_VIOLATIONS:
            heapq.heappush(self.newest, violation)
        else:
            heapq.heappushpop(self.newest, violation)

    def status(self, before: Mapping[str, Any], now: str) -> dict[str, Any] | None:
        """What to merge into the policy's status, None when it is equal.

        ``before`` is that status. A violation in it keeps its time; ``now`` (RFC 3339) is that of new ones, and of the
        scan.
        """
        known = {_identity(each): each.get("time") for each in before.get("violations") or [] if isinstance(each, dict)}
        violations = [_entry(each, known, now) for each in sorted(self.newest, reverse=True)]
        results = {result.value: self.counts[result] for result in Result}
        if before.get("results") == results and (before.get("violations") or []) == violations:
            return None
        return {"results": results, "violations": violations, "lastScanTime": now}


def withdrawn(before: Mapping[str, Any]) -> dict[str, None] | None:
    """What to merge into the status of a policy that is no longer scanned, None when it has no results."""
    return dict.fromkeys(key for key in _WRITTEN if before.get(key) is not None) or None


def violated(jobset: Object, rule: str, result: Result, message: str) -> Violated:
    """One violation as reported; text of others is cut to one line."""
    metadata = jobset.get("metadata") or {}
    return Violated(
        str(metadata.get("creationTimestamp", "")),
        str(metadata.get("namespace", "")),
        str(metadata.get("name", "")),
        str(metadata.get("uid", "")),
        rule,
        "error" if result is Result.ERROR else "fail",
        one_line(message, _TEXT),
    )


def _entry(violation: Violated, known: Mapping[tuple[object, ...], object], now: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "namespace": violation.namespace,
        "name": violation.name,
        "uid": violation.uid,
        "rule": violation.rule,
        "result": violation.result,
        "message": violation.message,
    }
    return {**entry, "time": known.get(_identity(entry)) or now}


def _identity(entry: Mapping[str, Any]) -> tuple[object, ...]:
    return tuple(entry.get(key) for key in ("uid", "namespace", "name", "rule"))


def count(outcomes: Iterable[Outcome], jobset: Object, totals: Mapping[str, Totals]) -> None:
    """Add the outcomes of every policy for one JobSet to the policies' totals."""
    for outcome in outcomes:
        own = totals.get(outcome.policy)
        if own is not None and outcome.matched:
            own.add(outcome, jobset)


def totals_of(policies: Sequence[str]) -> dict[str, Totals]:
    """Empty totals by policy."""
    return {policy: Totals() for policy in policies}
