"""Verdicts for people and for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from gangctl.api.objects import Object
from gangctl.cli.messages import plural
from gangctl.cli.output import Section, Table
from gangctl.policy.defaults import Source
from gangctl.policy.model import API_VERSION
from gangctl.policy.review import Review
from gangctl.policy.verdict import Finding, Outcome, Result, Verdict, show

KIND: Final = "PolicyVerdict"


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One object, what was asked for it, and what was said.

    ``values`` are variables by policy, where asked for, ``defaults`` what policies filled in, by field path.
    """

    title: str
    subject: Object
    review: Review
    verdict: Verdict
    values: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    defaults: Mapping[str, Source] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def verdict_data(evaluated: Evaluated) -> dict[str, Any]:
    """What ``-o json`` prints for one object."""
    verdict, review = evaluated.verdict, evaluated.review
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": str(review.request.get("name") or ""),
            "namespace": str(review.request.get("namespace") or ""),
        },
        "object": {"apiVersion": evaluated.subject.get("apiVersion"), "kind": evaluated.subject.get("kind")},
        "operation": review.operation,
        "allowed": verdict.allowed,
        "code": verdict.code,
        "message": show(verdict.denials[0]) if verdict.denials else "",
        "denials": [finding_data(finding) for finding in verdict.denials],
        "warnings": list(verdict.warnings),
        "auditAnnotations": dict(verdict.audit_annotations),
        "policies": [outcome_data(outcome, evaluated.values.get(outcome.policy)) for outcome in verdict.outcomes],
        "defaults": [
            {"field": path, "value": source.value, "policies": list(source.policies)}
            for path, source in evaluated.defaults.items()
        ],
        "notes": list(evaluated.notes),
    }


def outcome_data(outcome: Outcome, values: Mapping[str, str] | None) -> dict[str, Any]:
    """One policy of a verdict."""
    data = {
        "policy": outcome.policy,
        "matched": outcome.matched,
        "skipped": outcome.skipped,
        "actions": sorted(action.value for action in outcome.actions),
        "steps": outcome.steps,
        "rules": [finding_data(finding) for finding in outcome.findings],
    }
    return data if values is None else {**data, "variables": dict(values)}


def finding_data(finding: Finding) -> dict[str, Any]:
    """One rule of a verdict."""
    return {
        "policy": finding.policy,
        "rule": finding.rule,
        "result": finding.result.value,
        "message": finding.message,
        "reason": finding.reason,
        "params": finding.params,
        "error": finding.error,
        "exception": finding.exception,
    }


def verdict_sections(evaluated: Sequence[Evaluated], *, everything: bool) -> list[Section]:
    """What is wrong or, with ``everything``, what each rule said, in one table; then each object."""
    rows = tuple(
        (each.title, *_row(outcome, finding))
        for each in evaluated
        for outcome in each.verdict.outcomes
        for finding in outcome.findings
        if everything or finding.result is not Result.PASS
    )
    table = Section(table=Table(("OBJECT", "POLICY", "RULE", "RESULT", "ACTION", "MESSAGE"), rows))
    return [*([table] if rows else []), *map(_verdict_section, evaluated)]


def _verdict_section(evaluated: Evaluated) -> Section:
    verdict = evaluated.verdict
    given = [f"{path}: {source}" for path, source in evaluated.defaults.items()]
    lines = [*_summary(verdict.outcomes), *given, *_skipped(verdict.outcomes), *_values(evaluated.values)]
    answer = "allowed" if verdict.allowed else f"denied ({verdict.code})"
    if verdict.allowed and verdict.warnings:
        answer = "allowed, with warnings"
    return Section(
        title=f"{evaluated.title}: {answer}",
        lines=tuple(lines),
        warnings=(*verdict.warnings, *evaluated.notes),
    )


def _row(outcome: Outcome, finding: Finding) -> tuple[str, ...]:
    message = finding.message
    if finding.exception:
        message = f"allowed by exception {finding.exception}: {message}"
    if finding.params:
        message = f"{message} (params {finding.params})" if message else f"params {finding.params}"
    has_consequences = finding in outcome.violations
    action = ", ".join(sorted(outcome.actions)) if has_consequences else "-"
    return (finding.policy, finding.rule, finding.result.value, "Deny" if finding.always else action, message)


def _summary(outcomes: Sequence[Outcome]) -> list[str]:
    results = Counter(finding.result for outcome in outcomes for finding in outcome.findings)
    counts = ", ".join(f"{results[result]} {result.value}" for result in Result if results[result]) or "no rule"
    applied = sum(outcome.matched for outcome in outcomes)
    return [
        f"{plural(len(outcomes), 'policy', 'policies')}, {applied} {'applies' if applied == 1 else 'apply'}: {counts}"
    ]


def _skipped(outcomes: Iterable[Outcome]) -> list[str]:
    return [f"skipped {outcome.policy}: {outcome.skipped}" for outcome in outcomes if not outcome.matched]


def _values(values: Mapping[str, Mapping[str, str]]) -> list[str]:
    pairs = ((policy, name, value) for policy, variables in values.items() for name, value in variables.items())
    return [f"{policy}: variables.{name} = {value}" for policy, name, value in pairs]
