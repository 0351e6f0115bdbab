"""What a person sees on a terminal, and a script in a pipe."""

from __future__ import annotations

import os
import pty
import signal
import subprocess

import click
import pytest

from gangctl.cli.demo import until_interrupted
from gangctl.cli.messages import confirmed
from gangctl.cli.output import Section, Table, text_of, wants_colour
from gangctl.cli.plan import plan
from tests.cli.manifests import EXAMPLES
from tests.cli.run import BIN

LONG = "the scheduler finds no nodes for all of its pods together"
TABLE = Table(
    ("GANG", "MINPODS", "JOBS"), (("distributed-training-fd57c9b9a8", "33", "driver 1x1, workers 4x8, evaluators 2x2"),)
)
DESCRIPTION = Section("JobSet [bold]t/js", (f"  {LONG}", f"  $ {LONG}"), TABLE, ("GangEmpty: \x1b[2Jnone",))
LIST = Section(table=TABLE, lines=("a summary",), legend="JOBS: what they are")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_question_in_a_coroutine(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    answered: list[str] = []

    def prompt(_: str) -> str:
        os.kill(os.getpid(), number)
        answered.append("y")
        return answered[0]

    async def work() -> bool:
        return confirmed()

    monkeypatch.setattr("click.termui.visible_prompt_func", prompt)
    with pytest.raises((click.Abort, KeyboardInterrupt)):
        until_interrupted(work())
    assert answered == []


def shown(section: Section, width: int | None, *, headers: bool = True) -> list[str]:
    return click.unstyle(text_of([section], width, headers=headers)).splitlines()


def test_nothing_is_wrapped_in_a_pipe() -> None:
    assert shown(DESCRIPTION, None) == [
        "JobSet [bold]t/js",
        f"    {LONG}",
        f"    $ {LONG}",
        "  GANG                              MINPODS   JOBS",
        "  distributed-training-fd57c9b9a8   33        driver 1x1, workers 4x8, evaluators 2x2",
        "  ! GangEmpty: \\x1b[2Jnone",
    ]


def test_on_a_terminal_sentences_are_wrapped_but_tables_and_commands_are_not() -> None:
    lines = shown(DESCRIPTION, 40)
    assert lines[1:4] == ["    the scheduler finds no nodes for all", "      of its pods together", f"    $ {LONG}"]
    assert lines[4:] == shown(DESCRIPTION, None)[3:]


def test_a_list_explains_its_columns_on_a_terminal_only() -> None:
    header, row, *after = shown(LIST, None)
    assert (header.split(), row.split()[:2]) == (["GANG", "MINPODS", "JOBS"], ["distributed-training-fd57c9b9a8", "33"])
    assert after == ["", "a summary"]
    assert shown(LIST, None, headers=False) == [row, *after]
    assert shown(LIST, 200) == [header, row, *after, "", "JOBS: what they are"]


def on_a_terminal(*args: str, **environment: str) -> str:
    """What ``gangctl plan`` writes to a terminal of 80 columns."""
    leader, follower = pty.openpty()
    done = subprocess.Popen(
        [BIN / "gangctl", "plan", "-f", EXAMPLES[0], *args],
        stdout=follower,
        stderr=subprocess.PIPE,
        env={"PATH": str(BIN), "LANG": "C.UTF-8", "TERM": "xterm-256color", "COLUMNS": "80", **environment},
    )
    os.close(follower)
    text = b""
    while True:
        try:
            text += os.read(leader, 65536)
        except OSError:  # the other end is closed
            break
    os.close(leader)
    _, err = done.communicate(timeout=300)
    assert (done.returncode, err) == (0, b"")
    return text.decode()


def test_colours_are_used_on_a_terminal_unless_disabled() -> None:
    assert "\x1b[" in on_a_terminal()
    assert "\x1b[" not in on_a_terminal("--no-color")
    plain = on_a_terminal(NO_COLOR="1")
    assert "\x1b[" not in plain
    assert "MINPODS: pods that the gang needs at once" in plain


@pytest.mark.parametrize("variable", ["NO_COLOR", "TERM"])
def test_colour_is_decided_by_flag_environment_and_terminal(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert wants_colour()
    with click.Context(plan, color=False):  # as --no-color has it
        assert not wants_colour()
    monkeypatch.setenv(variable, "dumb")
    assert not wants_colour()
