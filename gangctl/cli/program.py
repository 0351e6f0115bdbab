"""The program: its commands, each imported on use, and the exit codes.

Exit codes: 0 success, 1 check failed or object not found, 2 bad input or usage, 3 the cluster cannot be
reached or lacks the API, 70 a bug in gangctl, 130 interrupted, 141 the output was closed.
"""

from __future__ import annotations

import errno
import importlib
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path, PurePath
from typing import Any, Final, NoReturn

import click

from gangctl import __version__
from gangctl.cli.messages import print_error, printable
from gangctl.errors import GangctlError, InputError

Commands = Mapping[str, tuple[str, str]]
"""Module and one-line help by name."""

COMMANDS: Final[Commands] = {
    "plan": ("gangctl.cli.plan", "Show which gangs a JobSet becomes."),
    "translate": ("gangctl.cli.translate", "Print the Workload and PodGroups of a JobSet."),
    "convert": ("gangctl.cli.convert", "Write a gang configuration in another notation."),
    "get": ("gangctl.cli.gangs.commands", "List gangs: phase, pods that are ready, and why others are not."),
    "describe": ("gangctl.cli.gangs.commands", "Show one gang: groups, Jobs, pods, nodes, causes, events."),
    "why": ("gangctl.cli.gangs.commands", "Say why gangs are not running, most likely cause first."),
    "wait": ("gangctl.cli.gangs.commands", "Wait until gangs are scheduled, ready, finished or suspended."),
    "top": ("gangctl.cli.gangs.commands", "Show what runs and what waits, by queue: trouble first."),
    "fit": ("gangctl.cli.fit", "Say whether a JobSet can be admitted, ever and now."),
    "drain": ("gangctl.cli.drain", "Say which gangs a drain of nodes stops, and what they lose."),
    "queue": ("gangctl.cli.queue", "Show what waits in a queue, and what it waits for."),
    "policy": ("gangctl.cli.policy", "Evaluate JobSets by CEL policies, and test the policies."),
    "pathways": ("gangctl.cli.pathways", "Turn a PathwaysJob into a JobSet, and say why it looks like that."),
    "install": ("gangctl.cli.install.command", "Print what makes gangctl run in a cluster, or what to delete."),
    "doctor": ("gangctl.cli.doctor.command", "Say whether this cluster is able to run gangs, and what to do."),
    "demo": ("gangctl.cli.demo", "Show what gangs are for, on a simulated cluster or a real one."),
    "sandbox": ("gangctl.cli.sandbox", "Run a simulated cluster until Ctrl-C, or while PROGRAM runs."),
    "controller": ("gangctl.cli.controller", "Run the controller and the admission webhooks."),
    "version": ("gangctl.cli.version", "Print the versions of gangctl and of the cluster."),
    "completion": ("gangctl.cli.completion", "Print a completion script for a shell."),
}

# EX_SOFTWARE of sysexits.h; the others are 128 + SIGINT and 128 + SIGPIPE, as shells report them.
INTERNAL_ERROR: Final = 70
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141

_UNWRITABLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Why a file that exists takes no more: a full disk, a quota, a limit, a fault of the disk."""

_LINE_END: Final = re.compile(r"\s*\n\s*")

COMPLETE_VARIABLE: Final = "_GANGCTL_COMPLETE"


def program_name(path: str) -> str:
    """The command name that the user typed; kubectl runs its plugins under the name ``kubectl-NAME``."""
    return "kubectl gang" if PurePath(path).stem == "kubectl-gang" else "gangctl"


class LazyGroup(click.Group):
    """A group that lists its commands from a table, and imports only the one in use."""

    def __init__(self, *args: Any, table: Commands, **settings: Any) -> None:
        """``table`` has module and one-line help by name; the command is the module's attribute of that name.

        If that is a Python keyword, it is ``command``.
        """
        super().__init__(*args, **settings)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        """All names, without importing anything."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 -- click's signature
        """Import one command."""
        if cmd_name not in self.table:
            return None
        module = importlib.import_module(self.table[cmd_name][0])
        command = getattr(module, cmd_name, None) or getattr(module, "command", None)
        assert isinstance(command, click.Command)  # noqa: S101 -- a slip in the table
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a usage error has the name that may be meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = get_close_matches(args[0], self.table, n=1)
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean '{near[0]}'?", error.ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands for ``--help`` from the table alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_line) for name, (_, help_line) in self.table.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete names of commands from the table, and options as click does."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 -- only while completing

        names = [
            CompletionItem(name, help=line) for name, (_, line) in self.table.items() if name.startswith(incomplete)
        ]
        # Not click.Group's, which imports every command for its help.
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


class RootGroup(LazyGroup):
    """The group of all commands, whose errors become exit codes."""

    def main(  # type: ignore[override]  # click allows not to exit; this program always does
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **_: Any
    ) -> NoReturn:
        """Run, and exit with the code of the result."""
        name = prog_name or "gangctl"
        _open_closed_streams()
        if instruction := os.environ.get(COMPLETE_VARIABLE):
            from click.shell_completion import shell_complete  # noqa: PLC0415 -- only while completing

            sys.exit(shell_complete(self, {}, name, COMPLETE_VARIABLE, instruction))
        sys.exit(exit_code(lambda: self._run(list(sys.argv[1:] if args is None else args), name)))

    def _run(self, args: list[str], name: str) -> None:
        with self.make_context(name, args) as ctx:
            self.invoke(ctx)
        # Here a closed pipe becomes an exit code; when the interpreter ends, Python would print an error of its own.
        sys.stdout.flush()


def exit_code(run: Callable[[], object]) -> int:
    """Run something and return its exit code; only SystemExit passes."""
    try:
        run()
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.NoArgsIsHelpError as usage:
        # It is a ClickException, too, but the help is no error message.
        usage.show()
        return usage.exit_code
    except click.ClickException as refused:
        _print_usage_error(refused)
        return refused.exit_code
    except GangctlError as error:
        print_error(error)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        _close_stdout()
        return BROKEN_PIPE
    except OSError as failed:
        return _print_unwritten(failed) if failed.errno in _UNWRITABLE else _print_bug(failed)
    except Exception as bug:  # noqa: BLE001 -- a user gets a sentence, a developer asks for the traceback
        return _print_bug(bug)
    return 0


def _print_usage_error(error: click.ClickException) -> None:
    if isinstance(error, click.NoSuchOption):
        names = {name.lstrip("-"): name for name in error.possibilities or ()}
        # The dashes that all have in common make no two options similar.
        near = [names[near] for near in get_close_matches(error.option_name.lstrip("-"), names)]
        error = click.NoSuchOption(error.option_name, error.message, near, error.ctx)
    # click lists choices in lines of their own.
    click.echo(f"error: {printable(re.sub(_LINE_END, ' ', error.format_message()))}", err=True)
    context = getattr(error, "ctx", None)
    if context is not None:
        click.echo(f"hint: see {context.command_path} --help", err=True)


def _open_closed_streams() -> None:
    """Replace what the caller has closed by the null device: commands ask whether these are terminals."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 -- to the end


def _print_unwritten(error: OSError) -> int:
    click.echo(f"error: the output cannot be written: {(error.strerror or '').lower()}", err=True)
    _close_stdout()
    return InputError.exit_code


def _close_stdout() -> None:
    """Redirect the interpreter's last flush to the null device."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # pragma: no cover -- stdout is no file, as in a test
        return


def _print_bug(bug: Exception) -> int:
    if os.environ.get("GANGCTL_DEBUG"):
        traceback.print_exception(bug)
    text = printable(str(bug).partition("\n")[0])
    click.echo(f"error: internal error: {type(bug).__name__}: {text}", err=True)
    click.echo("hint: this is a bug in gangctl; GANGCTL_DEBUG=1 shows where", err=True)
    return INTERNAL_ERROR


EPILOG: Final = """\b
Exit codes:
  0    fine
  1    check failed, or what was named does not exist
  2    bad input or usage
  3    the cluster cannot be reached or lacks the API
  70   a bug in gangctl (GANGCTL_DEBUG=1 shows the traceback)
"""


@click.group(
    cls=RootGroup,
    table=COMMANDS,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def program() -> None:
    """Gang scheduling for JobSets: a JobSet's pods start together, or not at all.

    Commands that read files work offline; with --kubeconfig or --context they ask the
    cluster what it supports. Where a command takes the NAME of an object, it takes TYPE/NAME,
    too, as kubectl prints it: jobset/train, gang/train, clusterqueue/research.
    """
