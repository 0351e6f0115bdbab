"""Running test files: every row on every object that it selects, on one engine or on all."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from gangctl.api.scheduling import NEWEST, Generation, generation_of_minor
from gangctl.cli.policy.bundle import FileCatalogue, name_of
from gangctl.cli.policy.court import Court
from gangctl.cli.policy.defaulting import Admission, Met
from gangctl.cli.policy.expectation import Actual, Coverage, actual, difference
from gangctl.cli.policy.explain import fault_of_message
from gangctl.cli.policy.loading import Loaded, load
from gangctl.cli.policy.requests import Setting
from gangctl.cli.policy.suite import Row
from gangctl.cli.policy.suitefiles import Subject, SuiteFile
from gangctl.errors import InputError
from gangctl.policy.cel.engine import Engine
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.verdict import Outcome, Result


@dataclass(frozen=True, slots=True)
class Tested:
    """One row on one object and one engine: what was expected, what was said, and what is not right about it."""

    file: SuiteFile
    index: int
    subject: Subject
    engine: str
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
        return self.file.where(self.index)[0]

    @property
    def name(self) -> str:
        """What ``--run`` looks into, behind the name of the suite."""
        return name_of_test(self.row, self.subject)


def name_of_test(row: Row, subject: Subject) -> str:
    """Policy, rule, object and operation, and what the author says about it."""
    rule = f"{row.policy}/{row.rule}" if row.rule is not None else row.policy
    params = f" params={row.params}" if row.params is not None else ""
    description = f" ({row.description})" if row.description else ""
    return f"{rule} {subject.title} {row.operation}{params}{description}"


@dataclass(slots=True)
class Tests:
    """What came of all of them."""

    tested: list[Tested] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)
    notes: dict[str, None] = field(default_factory=dict)
    """In their order, each once."""

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
    lenient: bool = False
    """Whether a policy that an engine has no means for is left out there, because another engine tests it."""

    @property
    def minor(self) -> str:
        """The Kubernetes minor whose CEL libraries count."""
        return self.generation.kubernetes


class Tester:
    """Runs test files on one engine; the court is open for all of them."""

    def __init__(self, court: Court, ground: Ground, tests: Tests) -> None:
        """Ask ``court`` and add to ``tests``."""
        self._court = court
        self._ground = ground
        self._tests = tests

    def run(self, file: SuiteFile) -> None:
        """Run the rows of a file; InputError when it names what does not exist."""
        chosen = list(self._chosen(file))
        if not chosen:
            return
        loaded = load(file.bundle, self._court.engine, self._ground.minor, lenient=self._ground.lenient)
        for name in loaded.left_out:
            note = f"{file.path}: {self._court.engine.name} cannot evaluate {name}: tested on other engines only"
            self._tests.notes[note] = None
        for policy in loaded.policies:
            self._tests.coverage.expect(policy.name, policy.rules)
        self._court.install(loaded.policies, loaded.exceptions)
        known: dict[tuple[object, ...], Met] = {}
        for index, subject in chosen:
            self._test(file, index, subject, loaded, known)

    def _chosen(self, file: SuiteFile) -> Iterator[tuple[int, Subject]]:
        pattern = self._ground.run
        for index, row in enumerate(file.suite.results):
            for subject in file.selected(row):
                if pattern is None or pattern.search(f"{file.name}/{name_of_test(row, subject)}"):
                    yield index, subject

    def _test(
        self, file: SuiteFile, index: int, subject: Subject, loaded: Loaded, known: dict[tuple[object, ...], Met]
    ) -> None:
        row = file.suite.results[index]
        policies = _policies(file, index, loaded)
        if not policies:
            return
        start = time.perf_counter()
        asked = (id(subject), row.operation, row.old, row.user, row.groups)
        if asked not in known:
            known[asked] = self._request(file, index, subject, loaded)
        met = known[asked]
        for note in met.request.notes:
            self._tests.notes[f"{file.path}: {note}"] = None
        for policy in policies:
            if met.conflicts:
                outcome = met.refusal(policy.name)
            else:
                (outcome,) = self._court.judge(met.request.review, [policy.name])
            self._add(file, index, subject, (policy, outcome), time.perf_counter() - start)
            for rule in [finding.rule for finding in outcome.findings if finding.result is Result.FAIL]:
                self._tell_of_message(file, index, (policy, rule), met)
            start = time.perf_counter()

    def _tell_of_message(self, file: SuiteFile, index: int, which: tuple[LoadedPolicy, str], met: Met) -> None:
        """Tell of a messageExpression that does not work: admission falls back without a word."""
        policy, rule = which
        fault = fault_of_message(policy, rule, met.request.review, self._court.engine)
        if fault:
            where = f"{file.path}:{file.where(index)[0]}"
            self._tests.notes[f"{where}: {policy.name}/{rule}: messageExpression says nothing: {fault}"] = None

    def _add(
        self, file: SuiteFile, index: int, subject: Subject, said: tuple[LoadedPolicy, Outcome], seconds: float
    ) -> None:
        policy, outcome = said
        row = file.suite.results[index]
        seen = actual(outcome, row, policy.rules)
        failure = difference(row, seen)
        if not failure:
            self._tests.coverage.see(policy.name, seen.findings)
        self._tests.tested.append(Tested(file, index, subject, self._court.engine.name, seen, failure, seconds))

    def _request(self, file: SuiteFile, index: int, subject: Subject, loaded: Loaded) -> Met:
        row = file.suite.results[index]
        ground = self._ground
        setting = Setting(
            now=file.suite.at(ground.now),
            user=row.user,
            groups=row.groups,
            generation=generation_of_minor(file.suite.kubernetes or "") or ground.generation,
            namespaces={name_of(document.value): document.value for document in file.bundle.namespaces},
        )
        catalogue = FileCatalogue([document.value for document in file.params])
        old = _old(file, index, subject).value if row.old is not None else None
        return Admission(self._court, loaded.policies, setting, catalogue).meet(subject.value, row.operation, old)


def _old(file: SuiteFile, index: int, subject: Subject) -> Subject:
    """The object as it was: the one of the same name, or the only one."""
    candidates = [each for each in file.old[index] if each.kind == subject.kind]
    found = [each for each in candidates if each.title == subject.title] or candidates
    if len(found) != 1:
        where = file.document.where(f"results[{index}].old")
        raise InputError(f"{where}: {len(found)} objects could be {subject.kind} {subject.title} as it was")
    return found[0]


def _policies(file: SuiteFile, index: int, loaded: Loaded) -> list[LoadedPolicy]:
    """The policies of a row, several where a native one has several bindings; InputError when there is none."""
    row = file.suite.results[index]
    found = loaded.named(row.policy)
    path = f"results[{index}]"
    if not found:
        if row.policy in loaded.left_out:
            return []
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


def run_tests(files: Sequence[SuiteFile], engines: Sequence[Engine], ground: Ground) -> Tests:
    """Run all files on all engines; InputError when there is nothing to run."""
    tests = Tests()
    for engine in engines:
        with Court(engine, ground.minor) as court:
            tester = Tester(court, ground, tests)
            for file in files:
                tester.run(file)
    if not tests.tested:
        what = f" that match {ground.run.pattern!r}" if ground.run is not None else ""
        raise InputError(f"no tests{what} in {len(files)} test file{'' if len(files) == 1 else 's'}")
    return tests
