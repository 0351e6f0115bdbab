"""The program as a whole: help, exit codes, start-up, and what happens when something goes wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest

from gangctl import __version__
from gangctl.api.scheduling import NEWEST, Generation
from gangctl.cli.messages import printable
from gangctl.cli.options import KUBERNETES, RELEASED
from gangctl.cli.program import COMMANDS, exit_code, program, program_name
from gangctl.errors import (
    ClusterUnavailableError,
    ConfigError,
    ErrorKind,
    FieldError,
    GangctlError,
    InputError,
    NotFoundError,
    OwnershipConflictError,
    ValidationError,
)
from tests.cli.kueueobjects import cluster, queued
from tests.cli.manifests import write
from tests.cli.run import BIN, Answer, gangctl, process
from tests.docpages import ROOT
from tests.rows import each

HEAVY = (
    "pydantic",
    "aiohttp",
    "kubernetes_asyncio",
    "rich",
    "yaml",
    "orjson",
    "structlog",
    "asyncio",
    "prometheus_client",
)


class TestHelp:
    def test_lists_every_command_and_the_exit_codes(self) -> None:
        answer = gangctl("--help")
        assert answer.code == 0
        assert answer.err == ""
        for name, (_, line) in COMMANDS.items():
            assert f"  {name:<10}  {line}" in answer.out
        assert "3    the cluster cannot be reached" in answer.out

    def test_the_version_is_printed(self) -> None:
        assert gangctl("--version").out == f"gangctl {__version__}\n"

    @each("name", [name for name in COMMANDS if name != "controller"])
    def test_help_of_a_command_begins_with_its_line_in_the_list(self, name: str) -> None:
        _, line = COMMANDS[name]
        command = program.get_command(click.Context(program), name)
        assert command is not None
        assert (command.help or "").splitlines()[0] == line
        assert gangctl(name, "-h").code == 0

    def test_help_imports_nothing_heavy(self) -> None:
        code = (
            "import sys\nfrom gangctl.cli.program import program\n"
            "try: program.main(['--help'])\nexcept SystemExit: pass\n"
            f"print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
        assert done.stderr == "[]\n"

    def test_offline_commands_import_no_client(self) -> None:
        code = "import sys, gangctl.cli.plan, gangctl.cli.translate, gangctl.cli.convert\nprint(*sys.modules)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
        assert {"aiohttp", "kubernetes_asyncio", "rich", "structlog"}.isdisjoint(done.stdout.split())

    def test_without_a_command_is_a_usage_error(self) -> None:
        answer = gangctl()
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith("Usage: gangctl ")


def test_the_minors_of_kube_are_those_of_the_api() -> None:
    assert [generation.kubernetes for generation in Generation] == list(KUBERNETES)
    assert NEWEST.kubernetes == RELEASED


@pytest.mark.parametrize(
    ("path", "name"),
    [("/usr/bin/gangctl", "gangctl"), ("/x/kubectl-gang", "kubectl gang"), ("/x/__main__.py", "gangctl")],
)
def test_the_program_is_named_as_it_was_called(path: str, name: str) -> None:
    assert program_name(path) == name


class TestUsage:
    def test_an_option_that_only_shares_its_dashes_is_not_suggested(self) -> None:
        assert gangctl("fit", "--as", "ada").err.splitlines()[0] == "error: No such option '--as'."

    @each(
        ("args", "words"),
        [
            (("no-such",), "No such command 'no-such'."),
            (("instal",), "No such command 'instal'. Did you mean 'install'?"),
            (("policy", "tst"), "No such command 'tst'. Did you mean 'test'?"),
            (("fit", "--nowe"), "No such option '--nowe'. Did you mean '--now'?"),
            (("convert", "-f", "x"), "Missing option '--to'. Choose from: annotations, gangconfig, scheduling"),
            (("plan",), "Missing option '-f'"),
            (
                ("plan", "-f", "x", "-o", "xml"),
                '"xml" is not a format: there are table, yaml, json, name, jsonpath=...',
            ),
            (("plan", "-f", "x", "--kube", "1.34"), "'1.34' is not one of"),
            (("plan", "-f", "x", "-n", "Not A Namespace"), "is not the name of a namespace"),
            (("convert", "-f", "x", "--to", "prose"), "'prose' is not one of"),
        ],
    )
    def test_bad_usage_gives_a_message_a_hint_and_exit_code_2(self, args: tuple[str, ...], words: str) -> None:
        answer = gangctl(*args)
        assert (answer.code, answer.out) == (2, "")
        error, hint = answer.err.splitlines()
        assert error.startswith("error: ")
        assert words in error
        assert hint.startswith("hint: see gangctl")


FIELDS = [FieldError("spec.a", ErrorKind.INVALID, "is odd"), FieldError("spec.b", ErrorKind.REQUIRED, "is missing")]


@each(
    ("error", "code"),
    [
        (InputError("a"), 2),
        (ConfigError("a"), 2),
        (ValidationError(FIELDS), 2),
        (OwnershipConflictError("a"), 1),
        (ClusterUnavailableError("a"), 3),
        (NotFoundError(404, "NotFound", ""), 3),
        (click.exceptions.Exit(1), 1),
        (KeyboardInterrupt(), 130),
        (click.Abort(), 130),
        (RuntimeError("boom"), 70),
    ],
)
def test_each_error_has_its_exit_code(error: BaseException, code: int) -> None:
    def fail() -> None:
        raise error

    assert exit_code(fail) == code


def failing(error: BaseException) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


class TestMessages:
    def test_an_error_has_its_lines_and_a_hint(self, capsys: pytest.CaptureFixture[str]) -> None:
        exit_code(failing(GangctlError("no\nway", hint="try\x07 again")))
        assert capsys.readouterr().err == "error: no\n       way\nhint: try\\x07 again\n"

    def test_an_internal_error_is_one_sentence(self, capsys: pytest.CaptureFixture[str]) -> None:
        exit_code(failing(KeyError("spec\nmore")))
        err = capsys.readouterr().err
        assert err.splitlines()[0].startswith("error: internal error: KeyError: ")
        assert "Traceback" not in err

    def test_a_traceback_is_printed_on_request(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("GANGCTL_DEBUG", "1")
        exit_code(failing(KeyError("spec")))
        assert "Traceback" in capsys.readouterr().err

    def test_control_characters_never_reach_the_terminal(self) -> None:
        assert printable("a\x1b[2J\nb\u202e\ud800ü") == "a\\x1b[2J\\nb\\u202e\\ud800ü"


class TestProcess:
    def test_each_command_needs_nothing_that_another_has_imported(self, tmp_path: Path) -> None:
        """Other tests run them in this process, where all is imported."""
        batch, policy = "examples/pathways/01-batch.yaml", "policies/gang-required/policy.yaml"
        gang = write(tmp_path / "a.yaml", queued())
        queues = tmp_path / "queues.json"
        queues.write_text("".join(json.dumps(each) for each in cluster("8")), encoding="utf-8")
        wrong: list[tuple[str, Answer]] = []
        for line, code in {
            f"why -f {ROOT}/examples/stuck sweep": 1,
            f"top -f {ROOT}/examples/stuck": 0,
            f"queue list -A --queues {queues}": 0,
            f"queue describe q -n t --queues {queues}": 0,
            f"fit -f {gang} --queues {queues}": 0,
            f"policy lint {ROOT}/{policy}": 0,
            f"pathways validate -f {ROOT}/{batch}": 0,
            f"pathways why -f {ROOT}/{batch}": 0,
        }.items():
            answer = process(*line.split())
            if (answer.code, bool(answer.out)) != (code, True):
                wrong.append((line, answer))
        assert wrong == []

    def test_the_program_runs_as_module_and_as_plugin(self) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "gangctl", "--version"], capture_output=True, text=True, check=True, timeout=300
        )
        assert done.stdout == f"gangctl {__version__}\n"
        assert "Usage: kubectl gang plan [OPTIONS]" in process("plan", "-h", program_name="kubectl-gang").out

    def test_a_closed_output_pipe_is_no_error(self) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [BIN / "gangctl", "--help"], stdout=writing, stderr=subprocess.PIPE, check=False, timeout=300
        )
        os.close(writing)
        assert (done.returncode, done.stderr) == (141, b"")

    def test_a_full_disk_is_no_bug(self) -> None:
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                [BIN / "gangctl", "--help"], stdout=full, stderr=subprocess.PIPE, check=False, timeout=300
            )
        assert done.stderr == b"error: the output cannot be written: no space left on device\n"
        assert done.returncode == 2

    def test_closed_streams_are_no_bug(self) -> None:
        """As of some that run commands in the background: the exit code is all that is wanted then."""
        command = f"exec {BIN / 'gangctl'} version --client <&- >&- 2>&-"
        assert subprocess.run(["sh", "-c", command], check=False, timeout=300).returncode == 0

    def test_an_interrupted_process_ends_quietly(self, tmp_path: Path) -> None:
        fifo = tmp_path / "manifests"
        os.mkfifo(fifo)
        running = subprocess.Popen(
            [BIN / "gangctl", "plan", "-f", fifo], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        with fifo.open("wb"):  # returns once gangctl has opened it for reading
            running.send_signal(signal.SIGINT)
            out, err = running.communicate(timeout=300)
        assert (running.returncode, out, err) == (130, b"", b"")
