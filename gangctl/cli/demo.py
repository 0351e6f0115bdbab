"""``gangctl demo``: a demonstration of gangs."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from gangctl.cli.messages import confirmed, log_to_stderr
from gangctl.cli.options import KUBERNETES, RELEASED, ClusterFlags, colour, output
from gangctl.cli.options import cluster as cluster_flags
from gangctl.cli.output import answer_no, wants_colour

if TYPE_CHECKING:
    from gangctl.demo.display import Display


T = TypeVar("T")


@click.command()
@click.option("--kube", type=click.Choice(KUBERNETES), help=f"Kubernetes minor to simulate. Default: {RELEASED}.")
@click.option(
    "--record",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True),
    help="Also write a plain log with times.",
)
@output("table", "json")
@colour
@cluster_flags
@click.option("--nodes", is_flag=True, help="On a cluster: add two nodes that are only objects, and play on them.")
@click.option(
    "--start-controller",
    is_flag=True,
    help="On a cluster without gangctl: run it from here meanwhile, where the API server reaches 127.0.0.1.",
)
@click.option("--yes", is_flag=True, help="On a cluster: do not ask before anything is created.")
def demo(  # noqa: PLR0917 -- one for each option
    kube: str | None,
    record: str | None,
    form: str,
    cluster: ClusterFlags,
    nodes: bool,
    start_controller: bool,
    yes: bool,
) -> None:
    """Show what gangs are for, on a simulated cluster or a real one.

    Four JobSets of five pods on eight CPUs, first without gangs, then with gangctl running for real beside a simulated
    cluster. Exits 0 if pods were stranded without it and none with it.

    With --kubeconfig or --context it plays on that cluster, in a namespace of its own that it deletes at the end, and
    needs JobSet, the scheduling API and gangctl there.
    """
    real = cluster.given
    if real and kube is not None:
        raise click.UsageError("--kube is for the simulated cluster; the one of --kubeconfig has a version of its own")
    if not real and (nodes or start_controller or yes):
        raise click.UsageError("--nodes, --start-controller and --yes need --kubeconfig or --context")
    with _display(form, record) as display:
        if real:
            from gangctl.cli.cluster import transport_options  # noqa: PLC0415 -- as below
            from gangctl.demo.real import play_on_cluster  # noqa: PLC0415

            verdict = until_interrupted(
                play_on_cluster(
                    cluster.kubeconfig,
                    cluster.context,
                    transport_options(cluster),
                    display,
                    _confirmation(yes=yes),
                    own_nodes=nodes,
                    start_controller=start_controller,
                )
            )
        else:
            from gangctl.demo.simulated import play_simulated  # noqa: PLC0415 -- a second that --help need not wait for

            verdict = until_interrupted(play_simulated(kube or RELEASED, display))
    if form == "json":
        from gangctl.api.emit import to_json  # noqa: PLC0415 -- only for this form

        click.echo(to_json([verdict.as_json()]), nl=False)
    if not verdict.passed:
        answer_no()


def _confirmation(*, yes: bool) -> Callable[[list[str]], None]:
    """Print what will be created, and ask for confirmation, unless a flag gave it."""

    def confirm(intentions: list[str]) -> None:
        for line in intentions:
            click.echo(line, err=True)
        if yes:
            return
        if not sys.stdin.isatty():
            raise click.UsageError("this needs a confirmation: give --yes")
        if not confirmed():
            answer_no()

    return confirm


@contextlib.contextmanager
def _display(form: str, record: str | None) -> Iterator[Display]:
    """A live table in a terminal, else lines; with JSON output they go to stderr."""
    from gangctl.demo.display import Lines, Several  # noqa: PLC0415 -- as above

    with contextlib.ExitStack() as stack:
        displays: list[Display] = []
        if form == "table" and wants_colour():
            from rich.console import Console  # noqa: PLC0415 -- only where it shows

            from gangctl.demo.display import LiveTable  # noqa: PLC0415 -- only where it shows

            table = LiveTable(Console(highlight=False))
            stack.callback(table.close)
            displays.append(table)
        else:
            displays.append(Lines(lambda line: click.echo(line, err=form == "json")))
        if record is not None:
            displays.append(Lines(_timed(stack.enter_context(_opened(record)))))
        yield Several(displays)


def _opened(file: str) -> IO[str]:
    try:
        return open(file, "w", encoding="utf-8")  # noqa: PTH123 -- the caller's exit stack closes it
    except OSError as error:
        raise click.BadParameter(f"{file}: {error.strerror}", param_hint="--record") from error


def _timed(file: IO[str]) -> Callable[[str], None]:
    def write(line: str) -> None:
        moment = datetime.now(UTC).strftime("%H:%M:%S.%f")[:-3]
        file.write(f"{moment}Z {line}".rstrip() + "\n")
        file.flush()

    return write


def until_interrupted(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work``; SIGTERM ends it as Ctrl-C does: in order, with exit code 130."""
    log_to_stderr(warnings_only=True)

    async def run() -> T:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 -- it is this one
        loop = asyncio.get_running_loop()
        # Event loops of Windows have no signal handlers.
        if sys.platform != "win32":
            # asyncio.run cancels the task at SIGINT, and at no other signal.
            loop.add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    try:
        return asyncio.run(run())
    except asyncio.CancelledError:
        # asyncio.run raises this itself only if SIGINT was what cancelled the task.
        raise KeyboardInterrupt from None
