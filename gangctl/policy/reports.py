"""Results of a scan of the existing JobSets: totals of every policy, and PolicyReports by namespace.

Nothing in them depends on the time of the scan, so that a scan with equal results changes no status.

One report per namespace, with all violations, errors and exemptions, and the number of passed rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from gangctl.api.meta import JOBSET_API_VERSION, MANAGED_BY, MANAGER
from gangctl.api.objects import Object, object_at
from gangctl.errors import one_line
from gangctl.policy.verdict import Finding, Outcome, Result, ValidationAction

MOST_NAMESPACES: Final = 100
"""So many are in the status of a policy."""
_TEXT: Final = 1024
_WRITTEN: Final = ("results", "violations", "lastScanTime")


@dataclass(slots=True)
class PolicyTotals:
    """Totals of one policy: results by kind, and violations and errors by namespace.

    Tenants may read policies: names and contents of JobSets are in the reports of their namespaces, not in the status.
    """

    counts: Counter[Result] = field(default_factory=Counter)
    namespaces: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome, jobset: Object) -> None:
        """Count the outcome for one JobSet."""
        results = Counter(finding.result for finding in outcome.findings)
        self.counts += results
        self.namespaces[str(object_at(jobset, "metadata").get("namespace", ""))] += (
            results[Result.FAIL] + results[Result.ERROR]
        )

    def status(self, before: Mapping[str, Any], now: str) -> dict[str, Any] | None:
        """What to merge into the policy's status, None when it is equal.

        ``before`` is that status, ``now`` (RFC 3339) the time of the scan.
        """
        most = sorted((-count, namespace) for namespace, count in self.namespaces.items() if count)[:MOST_NAMESPACES]
        violations = [{"namespace": namespace, "count": -count} for count, namespace in most]
        results = {result.value: self.counts[result] for result in Result}
        if before.get("results") == results and (before.get("violations") or []) == violations:
            return None
        return {"results": results, "violations": violations, "lastScanTime": now}


def withdrawn(before: Mapping[str, Any]) -> dict[str, None] | None:
    """What to merge into the status of a policy that is no longer scanned, None when it has no results."""
    return dict.fromkeys(key for key in _WRITTEN if before.get(key) is not None) or None


def count(outcomes: Iterable[Outcome], jobset: Object, totals: Mapping[str, PolicyTotals]) -> None:
    """Add the outcomes of every policy for one JobSet to the policies' totals."""
    for outcome in outcomes:
        own = totals.get(outcome.policy)
        if own is not None and outcome.matched:
            own.add(outcome, jobset)


def totals_of(policies: Sequence[str]) -> dict[str, PolicyTotals]:
    """Empty totals by policy."""
    return {policy: PolicyTotals() for policy in policies}


API_VERSION: Final = "wgpolicyk8s.io/v1alpha2"
KIND: Final = "PolicyReport"
NAME: Final = "gangctl"
LABELS: Final = {MANAGED_BY: MANAGER}
MOST_RESULTS: Final = 1000
"""In one report."""
MOST_BYTES: Final = 1 << 20
"""Of the results of one report, as API servers store them: etcd takes 1.5 MiB, and for more they answer 500."""

CATEGORY: Final = "policies.gangctl.dev/category"
SEVERITY: Final = "policies.gangctl.dev/severity"
SEVERITIES: Final = ("high", "medium", "low")
"""The values that every published version of the schema accepts."""


@dataclass(slots=True)
class NamespaceReport:
    """The report of one namespace during a scan."""

    summary: Counter[str] = field(default_factory=Counter)
    results: list[dict[str, Any]] = field(default_factory=list)
    size: int = 0
    """Of the results, in bytes as stored."""
    left_out: int = 0

    def add(self, outcomes: Iterable[Outcome], jobset: Object, annotations: Mapping[str, Mapping[str, str]]) -> None:
        """Add the outcomes of one JobSet; ``annotations`` are those of the policies by name."""
        for outcome in outcomes:
            for finding in outcome.findings if outcome.matched else ():
                result = _result(finding, outcome)
                self.summary[result] += 1
                if result == "pass":
                    continue
                entry = _entry(finding, result, jobset, annotations.get(finding.policy, {}))
                text = orjson.dumps(entry)
                # The API server stores each of these as six bytes.
                size = self.size + len(text) + 5 * sum(map(text.count, (b"<", b">", b"&")))
                if len(self.results) == MOST_RESULTS or size > MOST_BYTES:
                    self.left_out += 1
                    continue
                self.results.append(entry)
                self.size = size

    def build(self, namespace: str, before: Mapping[str, Any] | None, now: int) -> dict[str, Any]:
        """The whole object, equal to ``before`` when the scan found the same.

        A result of the previous report keeps its time, a new one gets ``now`` (Unix seconds).
        """
        # With the times of the previous report an equal one is not written again.
        known = {_identity(result): result.get("timestamp") for result in (before or {}).get("results") or ()}
        results = [
            {**result, "timestamp": known.get(_identity(result)) or {"seconds": now, "nanos": 0}}
            for result in self.results
        ]
        annotations = {"gangctl.dev/results-left-out": str(self.left_out)} if self.left_out else {}
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": NAME, "namespace": namespace, "labels": dict(LABELS), "annotations": annotations},
            "summary": {key: self.summary[key] for key in ("pass", "fail", "warn", "error", "skip")},
            "results": results,
        }


def _result(finding: Finding, outcome: Outcome) -> str:
    """A violation is ``fail`` where admission would refuse it, else ``warn``; exempt is ``skip``."""
    if finding.result is Result.FAIL:
        return "fail" if ValidationAction.DENY in outcome.actions else "warn"
    return {Result.PASS: "pass", Result.ERROR: "error"}.get(finding.result, "skip")


def _entry(finding: Finding, result: str, jobset: Object, annotations: Mapping[str, str]) -> dict[str, Any]:
    metadata = jobset.get("metadata") or {}
    resource = {
        "apiVersion": JOBSET_API_VERSION,
        "kind": "JobSet",
        **{key: str(metadata.get(key, "")) for key in ("namespace", "name", "uid")},
    }
    entry: dict[str, Any] = {
        "source": MANAGER,
        "policy": finding.policy,
        "rule": finding.rule,
        "result": result,
        "scored": result != "skip",
        "message": one_line(finding.message, _TEXT),
        "resources": [resource],
    }
    if finding.exception:
        entry["properties"] = {"exception": finding.exception}
    if category := annotations.get(CATEGORY):
        entry["category"] = one_line(category, 256)
    if annotations.get(SEVERITY) in SEVERITIES:
        entry["severity"] = annotations[SEVERITY]
    return entry


def severity_of(policy: Object) -> str:
    """The severity that a policy's author gave it: one of the schema's, or none."""
    severity = object_at(object_at(policy, "metadata"), "annotations").get(SEVERITY)
    return severity if severity in SEVERITIES else ""


def _identity(entry: Mapping[str, Any]) -> tuple[object, ...]:
    """Equal for results that count as the same."""
    uids = tuple(resource.get("uid") for resource in entry.get("resources") or ())
    return (*(entry.get(key) for key in ("policy", "rule", "result", "message")), uids)
