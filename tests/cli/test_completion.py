"""Completion in shells and in kubectl."""

from __future__ import annotations

import pytest

from gangctl.cli.completion import candidates
from gangctl.cli.program import COMMANDS
from tests.cli.run import fine, gangctl, process


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_printed_alone(shell: str) -> None:
    """A shell that starts evaluates it."""
    answer = fine("completion", shell)
    assert "_GANGCTL_COMPLETE" in answer.out
    assert answer.err == ""
    assert gangctl("completion", "tcsh").code == 2


def test_bash_completes_by_calling_the_program() -> None:
    answer = process(_GANGCTL_COMPLETE="bash_complete", COMP_WORDS="gangctl pl", COMP_CWORD="1")
    assert answer.out == "plain,plan\n"
    options = process(_GANGCTL_COMPLETE="bash_complete", COMP_WORDS="gangctl plan --k", COMP_CWORD="2")
    assert options.out.splitlines() == ["plain,--kube", "plain,--kubeconfig"]


class TestKubectl:
    def test_commands_are_completed_with_their_help(self) -> None:
        lines, directive = candidates([""])
        assert lines[: len(COMMANDS)] == [f"{name}\t{line}" for name, (_, line) in COMMANDS.items()]
        assert directive == 4

    def test_values_files_and_options_are_completed(self) -> None:
        assert candidates(["plan", "-o", "j"]) == (["json", "jsonpath="], 4)
        assert candidates(["plan", "-f", ""]) == ([], 0)
        assert candidates(["convert", "--t"])[0][0].startswith("--to\t")

    def test_the_kubectl_plugin_completes(self) -> None:
        answer = process("completion", "z", program_name="kubectl_complete-gang")
        assert answer.out == "zsh\n:4\n"
        assert process(program_name="kubectl_complete-gang").out.endswith("\n:4\n")
