"""What reads commands of pages reads them as a shell and the program would."""

from __future__ import annotations

import click
import pytest

from tests.cli.parsing import calls, parse
from tests.rows import each


@each(
    ("line", "found"),
    [
        ("gangctl get -A  # all of them", [["get", "-A"]]),
        ("kubectl get pods -o yaml | gangctl get -f -", [["get", "-f", "-"]]),
        (
            "gangctl plan -f a.yaml > b.txt && gangctl plan -f b.yaml",
            [["plan", "-f", "a.yaml"], ["plan", "-f", "b.yaml"]],
        ),
        ("GANGCTL_DEBUG=1 gangctl plan -f a.yaml", [["plan", "-f", "a.yaml"]]),
        ("gangctl controller &> a.log & gangctl get &", [["controller"], ["get"]]),
        ("kubectl gang why 'a b'", [["why", "a b"]]),
        ("kubectl apply -f gangctl", []),
    ],
)
def test_calls_of_a_line(line: str, found: list[list[str]]) -> None:
    assert list(calls(line)) == found


@pytest.mark.parametrize("words", [["get", "-A"], ["--version"], ["policy", "eval", "--help"]])
def test_valid_commands_are_accepted(words: list[str]) -> None:
    parse(words)


@each(
    "words",
    ["queue", "get --nonsense", "nonsense", "wait", "queue describe", "get -A --phase No", "queue nonsense"],
)
def test_invalid_commands_are_detected(words: str) -> None:
    with pytest.raises(click.UsageError):
        parse(words.split())
