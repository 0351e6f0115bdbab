"""Outcomes of policies for a request, and the verdict."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final


class ValidationAction(StrEnum):
    """``validationActions``."""

    DENY = "Deny"
    WARN = "Warn"
    AUDIT = "Audit"


class Result(StrEnum):
    """The result of one rule for one request."""

    PASS = "pass"  # noqa: S105 - a verdict
    FAIL = "fail"
    ERROR = "error"
    """It could not be evaluated; failurePolicy decides, unless it exceeded its limits."""
    EXEMPT = "exempt"
    """It failed, and an exception covers the failure."""


CODES: Final = {"Unauthorized": 401, "Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}
"""HTTP status by ``reason``, as natively."""


_AS_GO: Final = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}
"""What Go escapes in JSON."""
_VALIDATION_FAILURE: Final = "validation.policy.admission.k8s.io/validation_failure"
_MOST_FAILURES: Final = 50
"""Violations in that annotation of the API server, which is one for all native policies."""


WHOLE_POLICY: Final = "spec"
"""The rule in a finding about a policy of which nothing was evaluated, which no rule has as its name."""


def is_rule(name: str) -> bool:
    """Whether a finding with this rule is about one, and not about a policy or another field of it."""
    return name.partition(".")[0] != WHOLE_POLICY


@dataclass(frozen=True, slots=True)
class Finding:
    """One rule's result. ``rule`` is its name, or its index where it has none.

    ``message`` is the author's text (message, messageExpression) or the native default; of an error its class and
    place. ``params`` names the parameter object, if any.
    """

    policy: str
    rule: str
    result: Result
    message: str = ""
    reason: str = "Invalid"
    params: str = ""
    error: str = ""
    """The kind of a run-time error (:class:`~gangctl.cel.faults.EvalKind`)."""
    exception: str = ""
    """Name of the exception that covers it."""
    always: bool = False
    """It denies for any validationActions, as natively: parameters are missing, an auditAnnotation failed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one policy.

    ``matched`` is whether it applied at all; ``skipped`` is the reason if not, in a few words. ``violations`` are the
    findings with consequences: fails, and errors that failurePolicy does not excuse.
    """

    policy: str
    matched: bool
    skipped: str = ""
    actions: frozenset[ValidationAction] = frozenset()
    findings: tuple[Finding, ...] = ()
    violations: tuple[Finding, ...] = ()
    audit_annotations: tuple[tuple[str, str], ...] = ()
    steps: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of all policies; ``denials`` in the order of the policies' names, the first one leads."""

    outcomes: tuple[Outcome, ...] = ()
    denials: tuple[Finding, ...] = ()
    warnings: tuple[str, ...] = ()
    audit_annotations: dict[str, str] = field(default_factory=dict)

    @property
    def allowed(self) -> bool:
        """Whether the request is admitted."""
        return not self.denials

    @property
    def code(self) -> int:
        """HTTP status of the denial."""
        return CODES.get(self.denials[0].reason, 422) if self.denials else 200


def show(finding: Finding) -> str:
    """A violation as a sentence for users: in kube-apiserver's wording, for a GangPolicy too."""
    return f"{_titled(finding.policy)} denied request: {finding.message}"


def is_native_name(policy: str) -> bool:
    """Whether a policy is a ValidatingAdmissionPolicy with a binding: no GangPolicy's name has a slash."""
    return "/" in policy


def _titled(policy: str) -> str:
    """The title of a policy; a native one has the name of its binding."""
    name, _, binding = policy.partition("/")
    native = is_native_name(policy)
    return f"ValidatingAdmissionPolicy '{name}' with binding '{binding}'" if native else f"GangPolicy '{name}'"


def merge(outcomes: Iterable[Outcome]) -> Verdict:
    """One verdict from the outcomes of every policy."""
    # By name: the first denial decides the HTTP status, and outcomes of broken policies come last.
    ordered = sorted(outcomes, key=lambda outcome: outcome.policy)
    denials: list[Finding] = []
    warnings: list[str] = []
    annotations: dict[str, list[str]] = {}
    failures: list[dict[str, Any]] = []
    for outcome in ordered:
        denials += [
            finding for finding in outcome.violations if finding.always or ValidationAction.DENY in outcome.actions
        ]
        chosen = [finding.message for finding in outcome.violations if not finding.always]
        if ValidationAction.WARN in outcome.actions:
            title = _titled(outcome.policy)
            warnings += [f"Validation failed for {title}: {message}" for message in chosen]
        warnings += left_out(outcome)
        if ValidationAction.AUDIT in outcome.actions and chosen:
            if is_native_name(outcome.policy):
                failures += _failures(outcome)
            else:
                annotations[f"{outcome.policy}/validation_failure"] = ["; ".join(chosen)[:10240]]
        for key, value in outcome.audit_annotations:
            # As natively: the key has the policy's name, and what its bindings say is joined.
            said = annotations.setdefault(f"{outcome.policy.partition('/')[0]}/{key}", [])
            said += [] if value in said else [value]
    if failures:
        text = json.dumps(failures[:_MOST_FAILURES], ensure_ascii=False, separators=(",", ":"))
        annotations[_VALIDATION_FAILURE] = [text.translate(_AS_GO)]
    notes = {key: ", ".join(values) for key, values in annotations.items()}
    return Verdict(tuple(ordered), tuple(denials), tuple(warnings), notes)


def _failures(outcome: Outcome) -> list[dict[str, Any]]:
    """What a native policy with ``Audit`` writes of its violations: ``ValidationFailureValue`` of apiserver."""
    name, _, binding = outcome.policy.partition("/")
    return [
        {
            "message": finding.message,
            "policy": name,
            "binding": binding,
            "expressionIndex": int(finding.rule) if finding.rule.isdecimal() else 0,
            "validationActions": sorted(action.value for action in outcome.actions),
        }
        for finding in outcome.violations
        if not finding.always
    ]


def left_out(outcome: Outcome) -> list[str]:
    """A warning for each reason why a policy was not evaluated, or in part, although its failurePolicy excuses that.

    API servers say nothing of a rule of a native policy.
    """
    errors = [one for one in outcome.findings if one.result is Result.ERROR and one not in outcome.violations]
    native = is_native_name(outcome.policy)
    messages = dict.fromkeys(error.message for error in errors if not native or error.rule == WHOLE_POLICY)
    return [f"{_titled(outcome.policy)} was left out: {message}" for message in messages]


def cause(finding: Finding) -> dict[str, Any]:
    """An entry of the Status' ``details.causes``: which policy and rule, and its message."""
    return {"reason": finding.reason, "message": finding.message, "field": f"{finding.policy}/{finding.rule}"}
