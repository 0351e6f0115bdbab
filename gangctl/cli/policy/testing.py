"""Running test files: every row on every object that it selects; and which rules have been seen to pass and to fail."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from gangctl.api.documents import Document
from gangctl.api.scheduling import NEWEST, Generation, generation_of_minor
from gangctl.cli.messages import plural
from gangctl.cli.policy.bundle import FileCatalogue, name_of
from gangctl.cli.policy.evaluator import Met, evaluator_of, fault_of_message, meet
from gangctl.cli.policy.loading import Loaded, load
from gangctl.cli.policy.requests import Sent, Setting, fit_of
from gangctl.cli.policy.suite import Expected, Row, SuiteFile
from gangctl.errors import InputError
from gangctl.evaluation.evaluator import PolicyEvaluator
from gangctl.policy.loaded import LoadedPolicy, PolicySet
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


@dataclass(frozen=True, slots=True)
class Tested:
    """One row on one object: what was expected, what was said, and what is not right about it."""

    file: SuiteFile
    index: int
    subject: Sent
    seen: Actual
    failure: str
    seconds: float

    @property
    def row(self) -> Row:
        """The row of the file."""
        return self.file.suite.results[self.index]

    @property
    def line(self) -> int:
        """Where the row is."""
        return self.file.line(self.index)

    @property
    def name(self) -> str:
        """What ``--run`` looks into, behind the name of the suite."""
        return name_of_test(self.row, self.subject)


def name_of_test(row: Row, subject: Sent) -> str:
    """Policy, rule, object and operation, and what the author says about it."""
    rule = f"{row.policy}/{row.rule}" if row.rule is not None else row.policy
    params = f" params={row.params}" if row.params is not None else ""
    description = f" ({row.description})" if row.description else ""
    return f"{rule} {subject.place} {row.operation}{params}{description}"


@dataclass(slots=True)
class Tests:
    """What came of all of them."""

    tested: list[Tested] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)
    notes: dict[str, None] = field(default_factory=dict)
    """In their order, each once."""
    sources: dict[str, str] = field(default_factory=dict)
    """The first file of policies of each name."""

    def label(self, policy: LoadedPolicy, document: Document) -> str:
        """What coverage calls a policy: its name, and its file where another file has one of that name."""
        first = self.sources.setdefault(policy.name, document.source)
        return policy.name if first == document.source else f"{policy.name} ({document.source})"

    @property
    def failed(self) -> list[Tested]:
        """Those that are not as expected."""
        return [each for each in self.tested if each.failure]


@dataclass(frozen=True, slots=True)
class Ground:
    """What tests have in common unless their file says otherwise."""

    now: datetime
    generation: Generation = NEWEST
    run: re.Pattern[str] | None = None


async def _run_file(file: SuiteFile, evaluator: PolicyEvaluator, number: int, ground: Ground, tests: Tests) -> None:
    """Run the rows of a file and add to ``tests``; InputError when it names what does not exist."""
    chosen = list(_chosen(file, ground.run))
    if not chosen:
        return
    loaded = load(file.bundle, ground.generation.kubernetes)
    for policy in loaded.policies:
        tests.coverage.expect(tests.label(policy, loaded.documents[policy.name]), policy.rules)
    await evaluator.install(PolicySet(number, policies=loaded.policies, exceptions=loaded.exceptions))
    run = _Run(file, loaded, evaluator, ground, tests)
    for index, subject in chosen:
        await run.test(index, subject)


def _chosen(file: SuiteFile, pattern: re.Pattern[str] | None) -> Iterator[tuple[int, Sent]]:
    for index, row in enumerate(file.suite.results):
        for subject in file.selected(row):
            if pattern is None or pattern.search(f"{file.name}/{name_of_test(row, subject)}"):
                yield index, subject


@dataclass(frozen=True, slots=True)
class _Run:
    """One file; a request that several rows are about is made once."""

    file: SuiteFile
    loaded: Loaded
    evaluator: PolicyEvaluator
    ground: Ground
    tests: Tests
    known: dict[tuple[object, ...], Met] = field(default_factory=dict)

    async def test(self, index: int, subject: Sent) -> None:
        """One row on one object, by every policy of that name: a native one has one for each binding."""
        policies = _policies(self.file, index, self.loaded)
        if not policies:
            return
        start = time.perf_counter()
        met = await self._met(index, subject)
        for note in met.notes:
            self.tests.notes[f"{self.file.path}: {note}"] = None
        for policy in policies:
            outcome = met.refusal(policy.name) if met.conflicts else await self._outcome(policy, met)
            self._compare(index, subject, policy, outcome, start)
            start = time.perf_counter()
            for finding in outcome.findings:
                if finding.result is Result.FAIL:
                    self._note_message_error(index, policy, finding.rule, met)

    async def _outcome(self, policy: LoadedPolicy, met: Met) -> Outcome:
        (outcome,) = await self.evaluator.evaluate(met.review, [policy.name])
        return outcome

    def _compare(self, index: int, subject: Sent, policy: LoadedPolicy, outcome: Outcome, start: float) -> None:
        row = self.file.suite.results[index]
        seen = actual(outcome, row, policy.rules)
        failure = difference(row, seen)
        if not failure:
            label = self.tests.label(policy, self.loaded.documents[policy.name])
            self.tests.coverage.see(label, seen.findings)
        seconds = time.perf_counter() - start
        self.tests.tested.append(Tested(self.file, index, subject, seen, failure, seconds))

    def _note_message_error(self, index: int, policy: LoadedPolicy, rule: str, met: Met) -> None:
        """Note a messageExpression that fails: admission falls back silently."""
        fault = fault_of_message(policy, rule, met.review)
        if fault:
            where = f"{self.file.path}:{self.file.line(index)}"
            self.tests.notes[f"{where}: {policy.name}/{rule}: messageExpression says nothing: {fault}"] = None

    async def _met(self, index: int, subject: Sent) -> Met:
        """The request of a row, as policies meet it."""
        file, row = self.file, self.file.suite.results[index]
        asked = (id(subject), row.operation, row.old, row.user, row.groups)
        if asked not in self.known:
            setting = Setting(
                now=file.suite.now or self.ground.now,
                user=row.user,
                groups=row.groups,
                generation=generation_of_minor(file.suite.kubernetes or "") or self.ground.generation,
                namespaces={name_of(document.value): document.value for document in file.bundle.namespaces},
            )
            if file.queues is not None:
                setting = replace(setting, fit=fit_of(file.queues, setting))
            catalogue = FileCatalogue([document.value for document in file.params])
            old = _old(file, index, subject).obj if row.old is not None else None
            policies = self.loaded.policies
            self.known[asked] = await meet(
                self.evaluator, policies, setting, catalogue, subject.obj, operation=row.operation, old=old
            )
        return self.known[asked]


def _old(file: SuiteFile, index: int, subject: Sent) -> Sent:
    """The object as it was: the one of the same name, or the only one."""
    candidates = [each for each in file.old[index] if each.kind == subject.kind]
    found = [each for each in candidates if each.place == subject.place] or candidates
    if len(found) != 1:
        where = file.document.where(f"results[{index}].old")
        raise InputError(f"{where}: {len(found)} objects could be {subject.kind} {subject.place} as it was")
    return found[0]


def _policies(file: SuiteFile, index: int, loaded: Loaded) -> list[LoadedPolicy]:
    """The policies of a row, several where a native one has several bindings; InputError when there is none."""
    row = file.suite.results[index]
    found = loaded.named(row.policy)
    path = f"results[{index}]"
    if not found:
        names = ", ".join(policy.name for policy in loaded.policies) or "none"
        raise InputError(
            f'{file.document.where(f"{path}.policy")}: no policy "{row.policy}"', hint=f"there are: {names}"
        )
    if row.rule is not None and row.rule not in found[0].rules:
        names = ", ".join(found[0].rules) or "none"
        raise InputError(
            f'{file.document.where(f"{path}.rule")}: policy "{row.policy}" has no rule "{row.rule}"',
            hint=f"there are: {names}",
        )
    return found


def run_tests(files: Sequence[SuiteFile], ground: Ground) -> Tests:
    """Run all files; InputError when there is nothing to run."""
    tests = Tests()

    async def run() -> None:
        async with evaluator_of(ground.generation.kubernetes) as evaluator:
            for number, file in enumerate(files, 1):
                await _run_file(file, evaluator, number, ground, tests)

    asyncio.run(run())
    if not tests.tested:
        what = f" that match {ground.run.pattern!r}" if ground.run is not None else ""
        raise InputError(f"no tests{what} in {plural(len(files), 'test file')}")
    return tests
