"""``gangctl policy test``: whether policies say what their test files expect."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import click

from gangctl.api.scheduling import NEWEST, generation_of_minor
from gangctl.cli import options
from gangctl.cli.inputs import reason
from gangctl.cli.messages import note, plural
from gangctl.cli.output import Section, Table, answer_no, print_answer
from gangctl.cli.policy import flags
from gangctl.cli.policy.evaluator import now
from gangctl.cli.policy.suite import find_suite_files, read_suite_file
from gangctl.cli.policy.testing import Ground, Tested, Tests, run_tests
from gangctl.errors import InputError
from gangctl.policy.model import API_VERSION

KIND: Final = "PolicyTestReport"


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
@flags.kubernetes
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
    files = [read_suite_file(path) for path in find_suite_files(paths)]
    ground = Ground(now(), generation_of_minor(kube) or NEWEST, run)
    tests = run_tests(files, ground)
    for each in tests.notes:
        note(each)
    if junit_file is not None:
        _write(junit_file, junit(tests.tested))
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


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--junit {path}: {reason(error)}") from error


# What XML 1.0 can hold (2.2); a message may quote anything.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(tested: Sequence[Tested]) -> str:
    """JUnit XML, as CI systems read it: one ``testsuite`` per suite, in the order of the first test of each."""
    suites: dict[str, list[Tested]] = {}
    for each in tested:
        suites.setdefault(each.file.name, []).append(each)
    root = Element("testsuites", _totals("gangctl policy test", tested))
    for suite, members in suites.items():
        element = SubElement(root, "testsuite", _totals(suite, members))
        for each in members:
            _add(element, each)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _add(suite: Element, each: Tested) -> None:
    attributes = {
        "classname": _clean(each.row.policy),
        "name": _clean(each.name),
        "file": _clean(each.file.path),
        "line": str(each.line),
        "time": f"{each.seconds:.6f}",
    }
    element = SubElement(suite, "testcase", attributes)
    if each.failure:
        failure = SubElement(element, "failure", {"message": _clean(each.failure), "type": "ExpectationFailed"})
        failure.text = _clean(f"{each.file.path}:{each.line}: {each.failure}")


def _totals(name: str, tested: Sequence[Tested]) -> dict[str, str]:
    return {
        "name": _clean(name),
        "tests": str(len(tested)),
        "failures": str(sum(bool(each.failure) for each in tested)),
        "errors": "0",
        "skipped": "0",
        "time": f"{sum(each.seconds for each in tested):.6f}",
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
        "results": [_result_data(each) for each in (tests.failed if fail_only else tests.tested)],
        "coverage": {
            "rules": len(covered.rules),
            "covered": len(covered.covered),
            "missing": [
                {"policy": policy, "rule": rule, "message": what} for (policy, rule), what in covered.missing()
            ],
        },
    }


def _result_data(each: Tested) -> dict[str, Any]:
    row = each.row
    return {
        "suite": each.file.name,
        "file": each.file.path,
        "line": each.line,
        "policy": row.policy,
        "rule": row.rule or "",
        "kind": each.subject.kind,
        "namespace": each.subject.namespace,
        "name": each.subject.name,
        "operation": row.operation,
        "params": row.params or "",
        "description": row.description,
        "expected": row.result.value,
        "actual": each.seen.result.value,
        "messages": list(each.seen.messages),
        "passed": not each.failure,
        "failure": each.failure,
        "steps": each.seen.steps,
    }


def _sections(tests: Tests, *, fail_only: bool) -> list[Section]:
    headers = ("TEST", "POLICY", "RULE", "OBJECT", "OPERATION", "FILE", "RESULT")
    rows = tuple(
        (
            "FAIL" if each.failure else "ok",
            each.row.policy,
            each.row.rule or "*",
            each.subject.place,
            each.row.operation,
            f"{each.file.path}:{each.line}",
            each.failure or each.seen.result.value,
        )
        for each in (tests.failed if fail_only else tests.tested)
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
