"""What a person sees on a terminal."""

from __future__ import annotations

import io
import os
import pty
import subprocess

import click
import pytest
from rich.console import Console

from gangctl.cli.output import Section, Table, print_on_terminal, wants_colour
from gangctl.cli.plan import plan
from tests.cli.manifests import EXAMPLES
from tests.cli.run import BIN

TABLE = Table(
    ("GANG", "MIN", "JOBS"),
    (("distributed-training-fd57c9b9a8", "33", "driver 1x1, workers 4x8, evaluators 2x2"),),
    right=frozenset({1}),
)
SECTION = Section("JobSet [bold]t/js", ("9 of 9 pods",), TABLE, ("GangEmpty: \x1b[2Jnone",))


def shown(width: int) -> list[str]:
    stream = io.StringIO()
    print_on_terminal([SECTION, SECTION], Console(file=stream, width=width, color_system=None))
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_names_stay_whole_and_jobs_wrap() -> None:
    lines = shown(54)
    assert lines[:6] == [
        "JobSet [bold]t/js",
        "  9 of 9 pods",
        "  GANG                             MIN  JOBS",
        "  distributed-training-fd57c9b9a8   33  driver 1x1,",
        "                                        workers 4x8,",
        "                                        evaluators 2x2",
    ]
    assert lines[6] == "  ! GangEmpty: \\x1b[2Jnone"
    assert lines[7:9] == ["", "JobSet [bold]t/js"]


def test_nothing_is_lost_on_a_narrow_one() -> None:
    text = "".join(line.replace(" ", "") for line in shown(30))
    assert "33" in text
    assert "evaluators" in text
    assert max(map(len, shown(30))) <= 30


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


def test_colours_on_a_terminal_and_none_for_who_says_no() -> None:
    assert "\x1b[" in on_a_terminal()
    assert "\x1b[" not in on_a_terminal("--no-color")
    assert "\x1b[" not in on_a_terminal(NO_COLOR="1")


@pytest.mark.parametrize("variable", ["NO_COLOR", "TERM"])
def test_wants_colour(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert wants_colour()
    with click.Context(plan, color=False):  # as --no-color has it
        assert not wants_colour()
    monkeypatch.setenv(variable, "dumb")
    assert not wants_colour()
