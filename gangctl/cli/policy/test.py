"""``gangctl policy test``: whether policies say what their test files expect, and which rules pass and fail there."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import click

from gangctl.api.documents import Document
from gangctl.api.meta import API_VERSION
from gangctl.api.objects import Object
from gangctl.api.scheduling import NEWEST, Generation, generation_of_minor
from gangctl.cli import options
from gangctl.cli.inputs import reason
from gangctl.cli.messages import note, plural
from gangctl.cli.output import Section, Table, answer_no, print_answer
from gangctl.cli.policy.bundle import kubernetes
from gangctl.cli.policy.loading import LoadedPolicies, load
from gangctl.cli.policy.requests import FileCatalogue, RequestSetting, Sent, fit_of, now
from gangctl.cli.policy.session import Met, Session, evaluator_of, fault_of_message
from gangctl.cli.policy.suite import (
    Actual,
    SuiteFile,
    SuiteRow,
    actual,
    difference,
    find_suite_files,
    read_suite_file,
)
from gangctl.errors import InputError
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.verdict import Finding, Result

KIND: Final = "PolicyTestReport"
Rule = tuple[str, str]
"""Name of a policy and one of its rules."""


def _pattern(ctx: click.Context, param: click.Parameter, value: str | None) -> re.Pattern[str] | None:  # noqa: ARG001
    try:
        return None if value is None else re.compile(value)
    except re.error as error:
        raise click.BadParameter(f"{value!r} is no regular expression: {error}") from None


@click.command("test")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path())
@click.option(
    "--run",
    "run",
    metavar="REGEX",
    callback=_pattern,
    help="Only tests whose name (SUITE/POLICY/RULE NAMESPACE/NAME OPERATION) it is found in.",
)
@click.option("--fail-only", is_flag=True, help="Show only tests that fail.")
@options.output("table", "json", "yaml", "junit")
@click.option("--junit", "junit_file", metavar="FILE", type=click.Path(dir_okay=False), help="Also write JUnit XML.")
@click.option("--coverage", "coverage", is_flag=True, help="Fail when a rule lacks a passing or a failing example.")
@kubernetes
@options.colour
def command(
    *,
    paths: tuple[str, ...],
    run: re.Pattern[str] | None,
    fail_only: bool,
    form: str,
    junit_file: str | None,
    coverage: bool,
    kube: str,
) -> None:
    """Run the test files of policies.

    PATH is a test file, or a directory in or below which there are files called
    gangctl-test.yaml; docs/policies.md says how to write one. Exit code 0 when everything
    is as expected, 1 when something is not, 2 when a policy or a test file is refused, or
    there is nothing to test.

    \b
    Examples:
      gangctl policy test policies/
      gangctl policy test policies/ --coverage --junit report.xml
      gangctl policy test policies/ --run 'gang-required/.* CREATE'
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    generation = generation_of_minor(kube) or NEWEST
    files = [read_suite_file(path, generation) for path in find_suite_files(paths)]
    tests = run_tests(files, now(), generation, run)
    for text in tests.notes:
        note(text)
    if junit_file is not None:
        try:
            Path(junit_file).write_text(junit(tests.tested), encoding="utf-8")
        except OSError as error:
            raise InputError(f"--junit {junit_file}: {reason(error)}") from error
    if form == "junit":
        click.echo(junit(tests.tested), nl=False)
    else:
        report = report_data(tests, fail_only=fail_only)
        print_answer(form, [report], lambda: _sections(tests, fail_only=fail_only))
    uncovered = tests.coverage.missing() if coverage else []
    for (policy, rule), what in uncovered:
        click.echo(f"error: {policy}/{rule}: {what}", err=True)
    if tests.failed or uncovered:
        answer_no()


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
        missing = []
        for rule in sorted(self.rules - self.covered):
            wanted = [name for name, seen in (("passing", self.passing), ("failing", self.failing)) if rule not in seen]
            missing.append((rule, f"no {' and no '.join(wanted)} example"))
        return missing


@dataclass(frozen=True, slots=True)
class Case:
    """One row of a file on one object."""

    file: SuiteFile
    index: int
    subject: Sent

    @property
    def row(self) -> SuiteRow:
        """The row of the file."""
        return self.file.suite.results[self.index]

    @property
    def line(self) -> int:
        """Where the row is."""
        return self.file.line(self.index)

    @property
    def name(self) -> str:
        """Policy, rule, object and operation, and what the author says about it; ``--run`` has the suite before it."""
        row = self.row
        rule = f"{row.policy}/{row.rule}" if row.rule is not None else row.policy
        params = f" params={row.params}" if row.params is not None else ""
        description = f" ({row.description})" if row.description else ""
        return f"{rule} {self.subject.place} {row.operation}{params}{description}"

    def old(self) -> Object | None:
        """The object as it was: the one of the same name, or the only one."""
        if self.row.old is None:
            return None
        subject = self.subject
        candidates = [old for old in self.file.old[self.index] if old.kind == subject.kind]
        chosen = [old for old in candidates if old.place == subject.place] or candidates
        if len(chosen) != 1:
            where = self._where("old")
            raise InputError(f"{where}: {len(chosen)} objects could be {subject.kind} {subject.place} as it was")
        return chosen[0].obj

    def policies(self, loaded: LoadedPolicies) -> list[LoadedPolicy]:
        """Those of the row's name, several where a native one has several bindings; InputError when there is none."""
        row, policies = self.row, loaded.named(self.row.policy)
        if not policies:
            names = ", ".join(policy.name for policy in loaded.policies) or "none"
            raise InputError(f'{self._where("policy")}: no policy "{row.policy}"', hint=f"there are: {names}")
        if row.rule is not None and row.rule not in policies[0].rules:
            names = ", ".join(policies[0].rules) or "none"
            wrong = f'{self._where("rule")}: policy "{row.policy}" has no rule "{row.rule}"'
            raise InputError(wrong, hint=f"there are: {names}")
        return policies

    def _where(self, field_name: str) -> str:
        return self.file.document.where(f"results[{self.index}].{field_name}")


@dataclass(frozen=True, slots=True)
class Tested(Case):
    """What was said of it, and what is not right about that."""

    seen: Actual
    failure: str
    seconds: float


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
        return [tested for tested in self.tested if tested.failure]


def run_tests(
    files: Sequence[SuiteFile],
    moment: datetime,
    generation: Generation = NEWEST,
    pattern: re.Pattern[str] | None = None,
) -> Tests:
    """Run all files at this time, unless they have another; InputError when there is nothing to run."""
    tests = Tests()

    async def run() -> None:
        async with evaluator_of(generation.kubernetes) as evaluator:
            for number, file in enumerate(files, 1):
                cases = list(_chosen(file, pattern))
                if not cases:
                    continue
                loaded = load(file.bundle, generation.kubernetes)
                catalogue = FileCatalogue([document.value for document in file.params], policies=loaded.policies)
                session = await Session.start(evaluator, loaded, catalogue, number)
                setting = RequestSetting(
                    now=file.suite.now or moment,
                    generation=file.generation,
                    namespaces=file.bundle.namespaces_by_name,
                )
                await _Run(session, setting, tests).all(cases)

    asyncio.run(run())
    if not tests.tested:
        what = f" that match {pattern.pattern!r}" if pattern is not None else ""
        raise InputError(f"no tests{what} in {plural(len(files), 'test file')}")
    return tests


def _chosen(file: SuiteFile, pattern: re.Pattern[str] | None) -> Iterator[Case]:
    for index, row in enumerate(file.suite.results):
        for subject in file.selected(row):
            case = Case(file, index, subject)
            if pattern is None or pattern.search(f"{file.name}/{case.name}"):
                yield case


@dataclass(frozen=True, slots=True)
class _Run:
    """The cases of one file; a request that several of them are about is made once."""

    session: Session
    setting: RequestSetting
    tests: Tests
    known: dict[tuple[object, ...], Met] = field(default_factory=dict)

    async def all(self, cases: Iterable[Case]) -> None:
        """Add to the tests; InputError when the file names what does not exist."""
        for policy in self.session.loaded.policies:
            self.tests.coverage.expect(self._label(policy), policy.rules)
        for case in cases:
            await self._test(case)

    async def _test(self, case: Case) -> None:
        """By every policy of that name: a native one has one for each binding."""
        policies = case.policies(self.session.loaded)
        start = time.perf_counter()
        met = await self._met(case)
        for text in met.notes:
            self.tests.notes[f"{case.file.path}: {text}"] = None
        for policy in policies:
            (outcome,) = await self.session.outcomes(met, policy.name)
            seen = actual(outcome, case.row, policy.rules)
            failure = difference(case.row, seen)
            if not failure:
                self.tests.coverage.see(self._label(policy), seen.findings)
            seconds = time.perf_counter() - start
            self.tests.tested.append(Tested(case.file, case.index, case.subject, seen, failure, seconds))
            start = time.perf_counter()
            for finding in outcome.findings:
                if finding.result is Result.FAIL and (fault := fault_of_message(policy, finding, met.review)):
                    # Admission falls back silently.
                    rule = f"{case.file.path}:{case.line}: {policy.name}/{finding.rule}"
                    self.tests.notes[f"{rule}: messageExpression says nothing: {fault}"] = None

    def _label(self, policy: LoadedPolicy) -> str:
        return self.tests.label(policy, self.session.loaded.documents[policy.name])

    async def _met(self, case: Case) -> Met:
        """The request of a case, as policies meet it."""
        row = case.row
        # By identity: objects are not hashable, and a subject lives as long as its file.
        asked = (id(case.subject), row.operation, row.old, row.user, row.groups)
        if asked not in self.known:
            setting = replace(self.setting, user=row.user, groups=row.groups)
            if case.file.queues is not None:
                setting = replace(setting, fit=fit_of(case.file.queues, setting))
            self.known[asked] = await self.session.meet(case.subject.obj, setting, row.operation, case.old())
        return self.known[asked]


# What XML 1.0 can hold (2.2); a message may quote anything.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(tested: Sequence[Tested]) -> str:
    """JUnit XML, as CI systems read it: one ``testsuite`` per suite, in the order of the first test of each."""
    suites: dict[str, list[Tested]] = {}
    for test in tested:
        suites.setdefault(test.file.name, []).append(test)
    root = Element("testsuites", _totals("gangctl policy test", tested))
    for suite, members in suites.items():
        element = SubElement(root, "testsuite", _totals(suite, members))
        for test in members:
            _add(element, test)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _add(suite: Element, test: Tested) -> None:
    attributes = {
        "classname": _clean(test.row.policy),
        "name": _clean(test.name),
        "file": _clean(test.file.path),
        "line": str(test.line),
        "time": f"{test.seconds:.6f}",
    }
    element = SubElement(suite, "testcase", attributes)
    if test.failure:
        failure = SubElement(element, "failure", {"message": _clean(test.failure), "type": "ExpectationFailed"})
        failure.text = _clean(f"{test.file.path}:{test.line}: {test.failure}")


def _totals(name: str, tested: Sequence[Tested]) -> dict[str, str]:
    return {
        "name": _clean(name),
        "tests": str(len(tested)),
        "failures": str(sum(bool(test.failure) for test in tested)),
        "errors": "0",
        "skipped": "0",
        "time": f"{sum(test.seconds for test in tested):.6f}",
    }


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


def report_data(tests: Tests, *, fail_only: bool = False) -> dict[str, Any]:
    """What ``-o json`` prints."""
    covered = tests.coverage
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "tests": len(tests.tested),
        "failed": len(tests.failed),
        "results": [_result_data(tested) for tested in (tests.failed if fail_only else tests.tested)],
        "coverage": {
            "rules": len(covered.rules),
            "covered": len(covered.covered),
            "missing": [
                {"policy": policy, "rule": rule, "message": what} for (policy, rule), what in covered.missing()
            ],
        },
    }


def _result_data(tested: Tested) -> dict[str, Any]:
    row = tested.row
    return {
        "suite": tested.file.name,
        "file": tested.file.path,
        "line": tested.line,
        "policy": row.policy,
        "rule": row.rule or "",
        "kind": tested.subject.kind,
        "namespace": tested.subject.namespace,
        "name": tested.subject.name,
        "operation": row.operation,
        "params": row.params or "",
        "description": row.description,
        "expected": row.result.value,
        "actual": tested.seen.result.value,
        "messages": list(tested.seen.messages),
        "passed": not tested.failure,
        "failure": tested.failure,
        "steps": tested.seen.steps,
    }


def _sections(tests: Tests, *, fail_only: bool) -> list[Section]:
    headers = ("TEST", "POLICY", "RULE", "OBJECT", "OPERATION", "FILE", "RESULT")
    rows = tuple(
        (
            "FAIL" if tested.failure else "ok",
            tested.row.policy,
            tested.row.rule or "*",
            tested.subject.place,
            tested.row.operation,
            f"{tested.file.path}:{tested.line}",
            tested.failure or tested.seen.result.value,
        )
        for tested in (tests.failed if fail_only else tests.tested)
    )
    return [*([Section(table=Table(headers, rows))] if rows else []), _summary(tests)]


def _summary(tests: Tests) -> Section:
    total, failed = len(tests.tested), len(tests.failed)
    covered, rules = len(tests.coverage.covered), len(tests.coverage.rules)
    missing = [f"{policy}/{rule}: {what}" for (policy, rule), what in tests.coverage.missing()]
    return Section(
        title=f"{plural(total, 'test')}, {failed} failed",
        lines=(f"coverage: {covered} of {plural(rules, 'rule')} seen to pass and to fail",),
        warnings=tuple(missing),
    )
