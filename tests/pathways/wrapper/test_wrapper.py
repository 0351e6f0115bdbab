"""The wrapper, run as a kubelet runs it: process 1 of a container, in every shell that it is written for."""

import os
import signal
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.pathways.wrapper.conftest import find_image
from tests.pathways.wrapper.containers import CHILD, Container, Image, running, start_line, until, way_in
from tests.rows import each

LOOP = "while sleep 0.01; do :; done"
"""A command that cannot miss a signal: its shell looks for one after each step, none of which fails."""


@dataclass(frozen=True)
class Shape:
    """A command, and the programs in it that must get the signal."""

    command: str
    names: tuple[str, ...] = ("a",)


SHAPES = {
    "single": Shape(f"{CHILD} a 0"),
    "list": Shape(f"cd . && {CHILD} a 0"),
    "lines": Shape(f"echo before\n{CHILD} a 0\necho never"),
    "pipeline": Shape(f"{CHILD} a 0 | cat"),
    "heredoc": Shape(f"{CHILD} a 0 <<'END'\n  text with ) and ' in it\nEND\necho never"),
    "subshell": Shape(f"(cd . && ({CHILD} a 0))"),
    "background": Shape(f"{CHILD} a 0 & {CHILD} b 0 & wait", ("a", "b")),
    "both": Shape(f"{CHILD} a 0 &\n{CHILD} b 0\necho never", ("a", "b")),
}


def end(container: Container, *names: str) -> None:
    """SIGTERM, and the programs save what they have."""
    until(lambda: container.saw(*(f"{name}.ready" for name in names)), "the programs to start")
    container.send()
    until(lambda: container.saw(*(f"{name}.told-1" for name in names)), "every program to be told")
    for name in names:
        container.let_go(name)


@each("name", SHAPES)
def test_every_program_saves_its_state_before_the_container_ends(image: Image, name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    (tmp_path / name).mkdir()
    with running(image, shape.command, tmp_path / name) as container:
        end(container, *shape.names)
        assert container.wait() == 143
    assert container.saw(*(f"{name}.saved" for name in shape.names))
    assert "never" not in container.output


def test_the_wrapper_waits_for_all_processes(image: Image, tmp_path: Path) -> None:
    with running(image, f"{CHILD} slow 0 & exec {CHILD} quick 9", tmp_path) as container:
        until(lambda: container.saw("slow.ready", "quick.ready"), "the programs to start")
        container.send()
        container.let_go("quick")
        until(lambda: container.saw("slow.told-1", "quick.saved"), "one to end and the other to be told")
        until(lambda: not any("quick" in each for each in container.children()), "the first to be gone")
        assert container.running
        container.let_go("slow")
        assert container.wait() == 9
    assert container.saw("slow.saved")


def test_each_signal_is_handed_on(image: Image, tmp_path: Path) -> None:
    with running(image, f"{CHILD} a 0 2", tmp_path) as container:
        until(lambda: container.saw("a.ready"), "the program to start")
        container.send()
        until(lambda: container.saw("a.told-1"), "the program to be told")
        container.send()
        until(lambda: container.saw("a.told-2"), "the program to be told again")
        container.let_go("a")
        assert container.wait() == 143


def test_sigint_is_handled_like_sigterm(image: Image, tmp_path: Path) -> None:
    with running(image, f"{CHILD} a 0", tmp_path) as container:
        until(lambda: container.saw("a.ready"), "the program to start")
        container.send(signal.SIGINT)
        until(lambda: container.saw("a.told-1"), "the program to be told")
        container.let_go("a")
        assert container.wait() == 143


@pytest.mark.parametrize("command", [f"{CHILD} a 9", f"echo before\n{CHILD} a 9\necho never"], ids=["single", "lines"])
def test_a_failure_at_the_end_keeps_its_code(image: Image, command: str, tmp_path: Path) -> None:
    with running(image, command, tmp_path) as container:
        end(container, "a")
        assert container.wait() == 9


def test_a_command_that_ends_during_the_signal_keeps_its_code(image: Image, tmp_path: Path) -> None:
    """Bash itself may lose the code of what ends in that moment; then it is that of the process that got the signal."""
    lost = {143} if image.name.startswith("bash") else set()
    for number in range(5):
        directory = tmp_path / str(number)
        directory.mkdir()
        with running(image, "trap '' TERM; kill -TERM 1; exit 3", directory) as container:
            assert container.wait() in {3} | lost


@each(
    ("command", "code"),
    [("exit 0", 0), ("false", 1), ("exit 42", 42), ("kill -9 $$", 137), ("no-such-program", 127), ("false; true", 0)],
)
def test_without_a_signal_the_code_is_the_commands(image: Image, command: str, code: int, tmp_path: Path) -> None:
    with running(image, command, tmp_path) as container:
        assert container.wait() == code


def test_a_signal_that_comes_at_once_is_not_lost(image: Image, tmp_path: Path) -> None:
    for number in range(5):
        directory = tmp_path / str(number)
        directory.mkdir()
        with running(image, LOOP, directory) as container:
            until(lambda: container.catches(signal.SIGTERM), "the trap")
            container.send()
            assert container.wait() == 143


@pytest.mark.parametrize("name", ["dash", "bash-as-sh"])
def test_a_signal_before_the_command_runs_waits_for_it(name: str, tmp_path: Path) -> None:
    """The command does not exist yet while setsid is starting: a signal without a receiver would be lost.

    Not with busybox, whose shell has a setsid of its own.
    """
    sh_image = find_image(name)
    tools = tmp_path / "tools"
    tools.mkdir()
    slow = tools / "setsid"
    script = 'touch starting\nuntil [ -e go ]; do sleep 0.005; done\nPATH=${PATH#*:} exec setsid "$@"\n'
    slow.write_text(f"#!/bin/bash\n{script}")
    slow.chmod(0o755)
    image = replace(sh_image, path=f"{tools}:{sh_image.path or os.environ['PATH']}")
    with running(image, LOOP, tmp_path) as container:
        until(lambda: container.saw("starting"), "the start")
        container.send()
        assert container.running
        (tmp_path / "go").touch()
        assert container.wait() == 143


def test_nothing_polls_while_the_command_runs(image: Image, tmp_path: Path) -> None:
    with running(image, f"exec {CHILD} a 0", tmp_path) as container:
        until(lambda: container.saw("a.ready"), "the program to start")
        assert ["child.py" in each for each in container.children()] == [True]
        end(container, "a")
        assert container.wait() == 143


def test_no_process_is_left_in_a_shared_pid_namespace(image: Image, tmp_path: Path) -> None:
    """With one process namespace for a pod, or behind an init process, what the wrapper leaves is not killed."""
    with running(image, f"{CHILD} a 0 & {CHILD} b 0", tmp_path, isolated=False) as container:
        end(container, "a", "b")
        assert container.wait() == 143
        assert not [pid for pid in map(container.number, ("a", "b")) if Path(f"/proc/{pid}").exists()]


TEXTS = {
    "heredoc": "cat <<END\n  indented $((1 + 1))\n\ttab\nEND\necho after",
    "parenthesis": "echo 'a)'; echo \"(b\"",
    "quotes": 'echo "it\'s" \'a "word"\' \\"x\\" \'$HOME\' `echo tick`',
    "dollars": "x=1; echo $x ${x}y $(echo $(echo z)) '$$' a$ $# \"$@\"",
    "comment": "# nothing\necho a # b",
    "continued": "echo a \\\n  b",
    "unicode": "echo \u00e9\u4e16",
    "blank lines": "\n\n  echo a\n\n",
    "exit trap": "trap 'echo bye' EXIT; echo hello",
    "input": "read line || echo nothing to read",
}


@each("command", TEXTS.values(), ids=TEXTS)
def test_the_shell_gets_the_command_as_it_was_written(image: Image, command: str, tmp_path: Path) -> None:
    plain = ["/bin/bash" if image.sh is None else "/bin/sh", "-c", command]
    line = ["unshare", *(way_in() or ()), "--mount", *start_line(image, plain)]
    wanted = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert not wanted.stderr
    with running(image, command, tmp_path) as container:
        assert container.wait() == wanted.returncode
        assert container.output == wanted.stdout
