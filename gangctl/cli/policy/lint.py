"""``gangctl policy lint``: mistakes in policies, with their places."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import click

from gangctl.api.documents import Document
from gangctl.cli import options
from gangctl.cli.inputs import read_documents
from gangctl.cli.messages import plural, print_error
from gangctl.cli.output import answer_no, print_objects, wants_colour
from gangctl.cli.policy import flags
from gangctl.cli.policy.bundle import name_of, no_policies, sort_documents
from gangctl.cli.policy.evaluator import now
from gangctl.cli.policy.loading import Remark, Severity, in_order, orphans, refusal, try_to_load
from gangctl.cli.policy.mistakes import find_mistakes
from gangctl.policy.model import API_VERSION

REFUSED: Final = 2
KIND: Final = "PolicyLintReport"
_COLOURS: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow"}


@click.command("lint")
@flags.files_of_policies
@options.output("table", "json", "yaml")
@click.option("--strict", is_flag=True, help="Fail on warnings too.")
@flags.kubernetes
@options.colour
def command(*, files: tuple[str, ...], form: str, strict: bool, kube: str) -> None:
    """Find mistakes in policies, with their places.

    Errors are what keeps a policy from being loaded, and fields that no JobSet has;
    warnings are rules that are never reached, missing messages, unused variables, expressions
    that may cost too much. Each is shown as FILE:LINE:COLUMN, with the line and a caret.

    Exit code 0 when there are no errors, 1 when there are (with --strict also for warnings),
    2 when a policy cannot be loaded.

    \b
    Examples:
      gangctl policy lint policies/
      gangctl policy lint policy.yaml --strict -o json
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    bundle = sort_documents(read_documents(files))
    if not bundle.rules and not bundle.exceptions:
        raise no_policies(bundle)
    loaded = try_to_load(bundle, kube)
    exceptions = {name_of(document.value): document for document in bundle.exceptions}
    remarks = in_order([*loaded.remarks, *find_mistakes(loaded, exceptions, now())])
    remarks += [_orphan(document) for document in bundle.bindings if name_of(document.value) in orphans(bundle)]
    checked = len(bundle.rules) + len(bundle.exceptions)
    _print(remarks, checked, form)
    if loaded.remarks:
        _refuse(loaded.remarks)
    if any(strict or remark.severity is Severity.ERROR for remark in remarks):
        answer_no()


def _orphan(document: Document) -> Remark:
    message = "the policy that it binds is not in these files"
    return Remark(document, Severity.WARNING, "UnknownPolicy", "spec.policyName", message)


def _refuse(remarks: Sequence[Remark]) -> None:
    """Say in one line that policies cannot be loaded: where and why was printed before."""
    error = refusal(remarks)
    error.lines = []
    print_error(error)
    raise click.exceptions.Exit(REFUSED)


def _print(remarks: Sequence[Remark], checked: int, form: str) -> None:
    if form != "table":
        document = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "checked": checked,
            "errors": sum(remark.severity is Severity.ERROR for remark in remarks),
            "warnings": sum(remark.severity is Severity.WARNING for remark in remarks),
            "findings": [remark.as_data() for remark in remarks],
        }
        print_objects([document], form)
        return
    colour = wants_colour()
    for remark in remarks:
        first, *others = remark.lines()
        click.echo(click.style(first, fg=_COLOURS[remark.severity]) if colour else first)
        for line in others:
            click.echo(line)
    counts = Counter(remark.severity for remark in remarks)
    click.echo(f"{plural(checked, 'object')} checked: {_found(counts)}")


def _found(counts: Counter[Severity]) -> str:
    if not counts:
        return "no mistakes found"
    return ", ".join(plural(counts[severity], severity.value) for severity in Severity if counts[severity])
