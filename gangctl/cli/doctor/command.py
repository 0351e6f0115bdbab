"""``gangctl doctor``: whether a cluster is able to run gangs, and if not, what is to be done."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from gangctl.cli import options
from gangctl.cli.messages import confirmed, note
from gangctl.cli.output import answer_no, print_answer


class _CheckName(click.ParamType[str]):
    """A name of a check. The checks are imported once a name is given: ``--help`` does without their imports."""

    name = "check"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name, if there is such a check."""
        return self._choice().convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Names that begin so."""
        return self._choice().shell_complete(ctx, param, incomplete)

    @staticmethod
    def _choice() -> click.Choice[str]:
        from gangctl.cli.doctor.checks import CHECKS  # noqa: PLC0415 -- see above

        return click.Choice([check.id for check in CHECKS])


@click.command("doctor")
@options.namespace_of("Where dry runs and the canary are made. Default: the context's.")
@click.option(
    "--only",
    multiple=True,
    metavar="CHECK",
    type=_CheckName(),
    help="Carry out this check alone. Can be repeated.",
)
@click.option("--canary", is_flag=True, help="Create two tiny gangs, watch them, and delete them again.")
@click.option("--yes", is_flag=True, help="Do not ask before the canary is created.")
@click.option("--strict", is_flag=True, help="Fail on checks without a result (unknown), too.")
@click.option(
    "--timeout",
    type=options.Seconds(min=1, max=3600),
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
    from gangctl.cli.doctor.check import Area  # noqa: PLC0415 -- --help does without the three
    from gangctl.cli.doctor.checks import CHECKS  # noqa: PLC0415
    from gangctl.cli.doctor.report import look, sections  # noqa: PLC0415

    chosen = [check for check in CHECKS if check.id in only or not only]
    of_canary = sorted(check.id for check in chosen if check.area is Area.CANARY)
    if not canary:
        if only and of_canary:
            raise click.UsageError(f"--only {of_canary[0]} needs --canary")
        for name in ("timeout", "yes"):
            options.refuse_given(name, "needs --canary: nothing else waits or asks")
        chosen = [check for check in chosen if check.area is not Area.CANARY]
    elif not of_canary:
        raise click.UsageError("--canary is for its own checks, and --only names none of them: leave one out")
    seconds = timeout if canary and of_canary else None
    report = look(cluster, chosen, canary_seconds=seconds, agree=_agreement(yes=yes), **flags)
    print_answer(form, [report], lambda: sections(report))
    if {"failed", *(["unknown"] if strict else [])} & {check["verdict"] for check in report["checks"]}:
        answer_no()


def _agreement(*, yes: bool) -> Callable[[str], None]:
    """Asks for confirmation before the canary is created, on a terminal."""

    def agree(namespace: str) -> None:
        if yes or not sys.stdin.isatty():
            return
        note(f"two JobSets of two pods (1m CPU, 1Mi memory each) are created in namespace {namespace}, and deleted")
        if not confirmed():
            raise click.Abort

    return agree
