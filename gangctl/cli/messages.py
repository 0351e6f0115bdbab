"""Output on stderr: errors, hints and notes. stdout is only for the result."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click

from gangctl.errors import GangctlError, InputError, plural
from gangctl.errors import escaped as printable

__all__ = [
    "InvalidInputError",
    "confirmed",
    "errors_in",
    "full_name",
    "log_to_stderr",
    "note",
    "plural",
    "print_error",
    "printable",
]


class InvalidInputError(InputError):
    """All errors of the input, one line each: ``file:line:column: field.path: detail``."""

    def __init__(self, lines: list[str], summary: str, *, hint: str = "") -> None:
        """Keep the lines; ``summary`` is the message."""
        super().__init__(summary, hint=hint)
        self.lines = lines


def errors_in(place: str, lines: list[str], *, hint: str = "") -> InvalidInputError:
    """The errors of a place, each a line, with their number as the summary."""
    return InvalidInputError(lines, f"{plural(len(lines), 'error')} in {place}", hint=hint)


def full_name(namespace: str, name: str) -> str:
    """The name of an object, after its namespace if it has one."""
    return f"{namespace}/{name}" if namespace else name


def note(text: str) -> None:
    """Print a note that does not affect the result."""
    click.echo(f"note: {printable(text)}", err=True)


def confirmed() -> bool:
    """Whether the user wants to go on; click.Abort after Ctrl-C or SIGTERM, also in a coroutine."""
    with _interruptible():
        return click.confirm("Go on?", err=True)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGINT and SIGTERM end what blocks: the handlers of asyncio.run only cancel the task, which does not run."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def log_to_stderr(*, warnings_only: bool = False) -> None:
    """Print logs, which are for developers, on stderr: stdout is for the result."""
    import structlog  # noqa: PLC0415 -- a tenth of a second that --help need not wait for

    structlog.configure(
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING) if warnings_only else None,
    )


def print_error(error: GangctlError) -> None:
    """Print an error, with details before it and a hint after it."""
    for line in getattr(error, "lines", ()):
        click.echo(printable(line), err=True)
    for number, line in enumerate(error.message.splitlines() or [error.code]):
        click.echo(("error: " if number == 0 else "       ") + printable(line), err=True)
    if error.hint:
        click.echo(f"hint: {printable(error.hint)}", err=True)
