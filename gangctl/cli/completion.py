"""Completion: scripts for the shells, and kubectl's completion protocol for plugins."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import IntEnum

import click
from click.shell_completion import ShellComplete, get_completion_class

from gangctl.cli.program import COMPLETE_VARIABLE, exit_code, program


class Directive(IntEnum):
    """Directives for kubectl's shell besides the candidates (``cobra.ShellCompDirective``)."""

    FILES = 0
    NO_FILES = 4
    DIRECTORIES = 16


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a completion script for a shell.

    \b
    bash, in ~/.bashrc:  eval "$(gangctl completion bash)"
    zsh, in ~/.zshrc:    eval "$(gangctl completion zsh)"
    fish, once:          gangctl completion fish > ~/.config/fish/completions/gangctl.fish

    kubectl completes "kubectl gang" by itself when kubectl_complete-gang is on the PATH.
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    completer = get_completion_class(shell)
    assert completer is not None  # noqa: S101 -- click knows the shells of the table
    # The base class, because bash's own runs bash to check its version.
    click.echo(ShellComplete.source(completer(program, {}, "gangctl", COMPLETE_VARIABLE)))


def candidates(words: Sequence[str]) -> tuple[list[str], Directive]:
    """Lines for kubectl: ``candidate<TAB>help``; the last word is the one being typed."""
    completions = ShellComplete(program, {}, "gangctl", COMPLETE_VARIABLE).get_completions(list(words[:-1]), words[-1])
    lines = [f"{item.value}\t{item.help or ''}".rstrip() for item in completions if item.type == "plain"]
    if any(item.type == "file" for item in completions):
        return lines, Directive.FILES
    if any(item.type == "dir" for item in completions):
        return lines, Directive.DIRECTORIES
    return lines, Directive.NO_FILES


def complete_for_kubectl(words: Sequence[str]) -> None:
    """Print candidates for kubectl, then the directive."""

    def answer() -> None:
        # kubectl passes the word that is being typed also if it is empty; a call by hand may pass none.
        lines, directive = candidates(words or [""])
        click.echo("\n".join([*lines, f":{int(directive)}"]))

    sys.exit(exit_code(answer))
