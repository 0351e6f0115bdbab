"""Whether a policy said what its test expects; and which rules have been seen to pass and to fail."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from gangctl.cli.policy.suite import Expected, Row
from gangctl.policy.verdict import Action, Finding, Outcome, Result

_SEVERITY: Final = (Expected.SKIP, Expected.PASS, Expected.WARN, Expected.FAIL, Expected.ERROR)
"""Of several results the last one counts."""


@dataclass(frozen=True, slots=True)
class Actual:
    """What was said: the result, and the messages of the findings that made it."""

    result: Expected
    messages: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    steps: int = 0


def actual(outcome: Outcome, row: Row, rules: Collection[str]) -> Actual:
    """What ``outcome`` says about the rule of ``row``, or about the whole policy; ``rules`` are all of its rules."""
    if not outcome.matched and not outcome.findings:
        return Actual(Expected.SKIP, (outcome.skipped,) if outcome.skipped else (), (), outcome.steps)
    # What concerns no rule in particular (a match condition, missing parameters) concerns each of them.
    findings = tuple(
        finding
        for finding in outcome.findings
        if (row.rule is None or finding.rule == row.rule or finding.rule not in rules)
        and (row.params is None or finding.params in {row.params, ""} or finding.params.endswith(f"/{row.params}"))
    )
    results = [_result(finding, outcome.actions) for finding in findings]
    worst = max(results, key=_SEVERITY.index, default=Expected.SKIP)
    messages = tuple(f.message for f, result in zip(findings, results, strict=True) if result is worst and f.message)
    return Actual(worst, messages, findings, outcome.steps)


def _result(finding: Finding, actions: Collection[Action]) -> Expected:
    match finding.result:
        case Result.PASS:
            return Expected.PASS
        case Result.EXEMPT:
            return Expected.SKIP
        case Result.ERROR:
            return Expected.ERROR
        case _:
            return Expected.FAIL if finding.always or Action.DENY in actions else Expected.WARN


def difference(row: Row, seen: Actual) -> str:
    """What is not as expected, empty when everything is."""
    if seen.result is not row.result:
        said = f": {seen.messages[0]}" if seen.messages else ""
        return f"expected {row.result}, got {seen.result}{said}"
    if row.message is not None and row.message not in seen.messages:
        return f"expected the message {row.message!r}, got {_quoted(seen.messages)}"
    if row.message_regex is not None and not any(re.search(row.message_regex, each) for each in seen.messages):
        return f"expected a message that matches {row.message_regex!r}, got {_quoted(seen.messages)}"
    return ""


def _quoted(messages: Sequence[str]) -> str:
    return " and ".join(map(repr, messages)) or "none"


Rule = tuple[str, str]
"""Name of a policy and one of its rules."""


@dataclass(slots=True)
class Coverage:
    """Which rules there are, and which of them tests saw pass and fail."""

    rules: set[Rule] = field(default_factory=set)
    passing: set[Rule] = field(default_factory=set)
    failing: set[Rule] = field(default_factory=set)

    def expect(self, policy: str, rules: Iterable[str]) -> None:
        """Count the rules of a policy."""
        self.rules |= {(policy, rule) for rule in rules}

    def see(self, policy: str, findings: Iterable[Finding]) -> None:
        """Count what a test that held has shown."""
        for finding in findings:
            if finding.result is Result.PASS:
                self.passing.add((policy, finding.rule))
            elif finding.result is Result.FAIL:
                self.failing.add((policy, finding.rule))

    @property
    def covered(self) -> set[Rule]:
        """Rules with both examples."""
        return self.rules & self.passing & self.failing

    def missing(self) -> list[tuple[Rule, str]]:
        """Rules without one of the examples, or both."""
        found = []
        for rule in sorted(self.rules - self.covered):
            wanted = [name for name, seen in (("passing", self.passing), ("failing", self.failing)) if rule not in seen]
            found.append((rule, f"no {' and no '.join(wanted)} example"))
        return found
