"""Every alert has a runbook, and the commands in it exist."""

from __future__ import annotations

import contextlib
import re
import subprocess
from pathlib import Path
from typing import Final

import click
import pytest

from gangctl.cli.program import program
from gangctl.gang.reasons import Reason
from tests.cli.parsing import parse
from tests.controlplane.build import ensure_binary
from tests.controlplane.minors import NEWEST
from tests.monitoring import runbooks
from tests.monitoring.rulefiles import RUNBOOKS, Rule, alerts
from tests.monitoring.runbooks import HEADINGS, INDEX, runbook
from tests.rows import each

OTHERS: Final = {"break-glass", "README"}
NAMES: Final = [rule.name for rule in alerts()]
OBJECTS: Final = {"GangPolicy", "GangPolicies", "GangPolicyException"}


def test_the_index_is_that_of_the_rules() -> None:
    assert INDEX.read_text(encoding="utf-8") == runbooks.render()


def test_every_alert_has_a_page_and_every_page_an_alert() -> None:
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == set(NAMES) | OTHERS


@each("name", NAMES)
def test_a_page_has_every_section(name: str) -> None:
    page = runbook(name)
    assert page.text.startswith(f"# {name}\n")
    assert page.headings == HEADINGS
    assert page.expressions
    assert page.unknown_lines == []
    assert len(page.text.splitlines()) < 70


@each("rule", alerts(), ids=NAMES)
def test_every_reason_of_an_alert_is_on_its_page(rule: Rule) -> None:
    reasons = re.findall(r'\{(?:reason|cause)=~"([^"]+)"\}', rule.own)
    text = runbook(rule.name).text.partition("## Mitigation")[2]
    assert [reason for each in reasons for reason in each.split("|") if f"`{reason}`" not in text] == []


@each("name", NAMES)
def test_named_alerts_and_reasons_exist(name: str) -> None:
    text = re.sub(r"^```promql.*?^```$", "", runbook(name).text, flags=re.MULTILINE | re.DOTALL)
    words = set(re.findall(r"\b((?:Gang|Gangctl|Queue)[A-Z]\w+)\b", text))
    assert words - set(NAMES) - OBJECTS - {reason.value for reason in Reason} - {"GangScheduling"} == set()


@each("name", NAMES)
def test_links_exist(name: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", runbook(name).text):
        assert (RUNBOOKS / target).exists()


@each("name", NAMES)
def test_gangctl_commands_of_a_page_are_valid(name: str) -> None:
    for words in runbook(name).commands("gangctl"):
        parse(words)
    for words in runbook(name).mentions("gangctl"):
        with contextlib.suppress(click.MissingParameter):
            parse(words)


@each("name", NAMES)
def test_named_flags_exist(name: str) -> None:
    known = {option for each in _every_command(program) for parameter in each.params for option in parameter.opts}
    assert runbook(name).flags - known == set()


def _every_command(command: click.Command) -> list[click.Command]:
    if not isinstance(command, click.Group):
        return [command]
    context = click.Context(command)
    below = [command.get_command(context, name) for name in command.list_commands(context)]
    return [command, *(each for found in below if found is not None for each in _every_command(found))]


def kubectl_takes(words: list[str], home: Path) -> str:
    """What kubectl has against a command, by asking for its help: flags and verbs are read before it."""
    done = subprocess.run(
        [ensure_binary("kubectl", NEWEST), *words, "--help"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={"HOME": str(home)},
    )
    # Of a verb that it does not know it shows the help of all.
    of_all = "kubectl controls the Kubernetes cluster manager" in done.stdout
    return "no such command" if of_all else done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_kubectl_commands_of_a_page_are_valid(name: str, tmp_path: Path) -> None:
    for words in (*runbook(name).commands("kubectl"), *runbook(name).mentions("kubectl")):
        assert kubectl_takes(words, tmp_path) == "", words


def test_kubectl_refuses_an_invalid_command(tmp_path: Path) -> None:
    assert "unknown flag" in kubectl_takes(["get", "pods", "--nonsense"], tmp_path)
    assert kubectl_takes(["--namespace", "a", "nonsense"], tmp_path)
