"""``gangctl doctor``: whether a cluster is able to run gangs, and if not, what is to be done."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

import click

from gangctl.cli import options
from gangctl.cli.doctor.subjects import IDS, SUBJECTS, Area, Subject
from gangctl.cli.messages import note
from gangctl.cli.output import answer_no, print_answer

_CANARY: Final = frozenset(each.id for each in SUBJECTS if each.area is Area.CANARY)


@click.command("doctor")
@click.option(
    "-n",
    "--namespace",
    metavar="NAMESPACE",
    callback=options.check_namespace,
    help="Where dry runs and the canary are made. Default: the context's.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="CHECK",
    type=click.Choice(IDS),
    help="Carry out this check alone. Can be repeated.",
)
@click.option("--canary", is_flag=True, help="Create two tiny gangs, watch them, and delete them again.")
@click.option("--yes", is_flag=True, help="Do not ask before the canary is created.")
@click.option("--strict", is_flag=True, help="Fail on checks without a result (unknown), too.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=1, max=3600),
    default=30.0,
    metavar="SECONDS",
    show_default=True,
    help="How long each step of the canary may take.",
)
@click.option(
    "--gangctl-namespace",
    metavar="NAMESPACE",
    callback=options.check_namespace,
    help="Where gangctl runs. Default: where its webhooks' Service is, else gangctl-system.",
)
@options.kueue_namespace
@options.cluster
@options.output("table", "json", "yaml")
@options.colour
def command(
    *,
    only: tuple[str, ...],
    canary: bool,
    yes: bool,
    strict: bool,
    cluster: options.ClusterFlags,
    form: str,
    timeout: float,
    **flags: Any,
) -> None:
    """Say whether this cluster is able to run gangs, and what to do.

    Each check says what was tried, what was seen, and what follows: ok, warning, failed, or
    unknown, which names the right that is missing. Nothing is written: requests that create
    something are dry runs and access reviews. With --canary two JobSets of two tiny pods are
    created, to see that one of them starts as a whole and the other, of which a pod cannot be
    placed, not at all; both are deleted again, also after Ctrl-C.

    Exit code 0 when no check has failed, 1 when one has (with --strict: or is unknown), 2 for bad
    usage, 3 when the cluster cannot be reached.

    \b
    Examples:
      gangctl doctor
      gangctl doctor --context production -n team-a -o json
      gangctl doctor --only scheduling-api --only pod-field
      gangctl doctor --canary --yes -n team-a
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    subjects = _chosen(only, canary=canary)
    from gangctl.cli.doctor.report import sections  # noqa: PLC0415 -- --help does without both
    from gangctl.cli.doctor.run import look  # noqa: PLC0415

    with_canary = any(each.id in _CANARY for each in subjects)
    report = look(cluster, subjects, canary=timeout if with_canary else None, agree=_agreement(yes=yes), **flags)
    print_answer(form, [report], lambda: sections(report))
    if {"failed", *(["unknown"] if strict else [])} & {each["verdict"] for each in report["checks"]}:
        answer_no()


def _chosen(only: tuple[str, ...], *, canary: bool) -> list[Subject]:
    """Subjects to check; those of the canary only if it is enabled."""
    if (wanted := sorted(_CANARY & set(only))) and not canary:
        raise click.UsageError(f"--only {wanted[0]} needs --canary")
    return [each for each in SUBJECTS if (each.id in only or not only) and (canary or each.id not in _CANARY)]


def _agreement(*, yes: bool) -> Callable[[str], None]:
    """Asks for confirmation before the canary is created, on a terminal."""

    def agree(namespace: str) -> None:
        if yes or not sys.stdin.isatty():
            return
        note(f"two JobSets of two pods (1m CPU, 1Mi memory each) are created in namespace {namespace}, and deleted")
        click.confirm("Go on?", err=True, abort=True)

    return agree
