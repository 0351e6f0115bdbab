"""What the wrapper makes of a command, without running it."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangctl.gang.signals import WRAPPED
from gangctl.pathways.flags.userpod import Shell, wrapped
from tests.pathways.wrapper.conftest import find_image
from tests.pathways.wrapper.containers import expanded

COMMANDS = st.text(st.sampled_from("$()aA x{\n"), max_size=20) | st.text(max_size=20)


@pytest.mark.parametrize("shell", Shell)
def test_the_command_is_an_argument_and_the_script_does_not_depend_on_it(shell: Shell) -> None:
    one, other = wrapped("echo 'a)'", shell), wrapped("python train.py", shell)
    assert one[0] == f"/bin/{shell}"
    assert one[:-1] == other[:-1]
    assert one[-2:] == [WRAPPED, "echo 'a)'"]


def test_each_call_returns_a_new_list() -> None:
    wrapped("true").append("more")
    assert wrapped("true")[-1] == "true"


@given(command=COMMANDS)
def test_the_kubelet_gives_the_shell_what_was_written(command: str) -> None:
    assert expanded(wrapped(command)[-1], {"A": "1", "a": "2", "x": "3"}) == command


@pytest.mark.parametrize("shell", Shell)
def test_the_kubelet_leaves_the_script_alone(shell: Shell) -> None:
    script = wrapped("true", shell)[2]
    assert expanded(script, {}) == script


@pytest.mark.parametrize("name", ["dash", "busybox"])
def test_the_script_is_valid_for_a_posix_shell(name: str) -> None:
    image = find_image(name)
    assert image.sh is not None
    reader = [str(image.sh), *(["sh"] if name == "busybox" else []), "-n", "-c", wrapped("true", Shell.SH)[2]]
    done = subprocess.run(reader, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
