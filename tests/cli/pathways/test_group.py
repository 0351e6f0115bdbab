"""``gangctl pathways``: its verbs, their help and what it costs."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from gangctl.cli.completion import candidates
from gangctl.cli.pathways import VERBS, pathways
from tests.cli.run import fine
from tests.rows import each

HEAVY = ("pydantic", "aiohttp", "kubernetes_asyncio", "rich", "structlog", "asyncio")


@pytest.mark.parametrize("verb", VERBS)
class TestVerbs:
    def test_help_begins_with_its_line_in_the_list(self, verb: str) -> None:
        command = pathways.get_command(click.Context(pathways), verb)
        assert command is not None
        assert (command.help or "").splitlines()[0] == VERBS[verb][1]

    def test_help_has_examples(self, verb: str) -> None:
        assert f"gangctl pathways {verb}" in fine("pathways", verb, "--help").out.partition("Examples:")[2]


@each("words", [["--help"], ["render", "--help"], ["validate", "-h"], ["status", "-h"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    code = (
        "import sys\nfrom gangctl.cli.program import program\n"
        f"try: program.main(['pathways', *{words}])\nexcept SystemExit: pass\n"
        f"print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert done.stderr == "[]\n"


class TestCompletion:
    def test_verbs_and_flags_are_completed(self) -> None:
        lines, _ = candidates(["pathways", "r"])
        assert lines == [f"render\t{VERBS['render'][1]}"]
        assert [line.partition("\t")[0] for line in candidates(["pathways", "render", "--ela"])[0]] == [
            "--elastic-slices"
        ]

    def test_values_are_completed(self) -> None:
        assert candidates(["pathways", "render", "--profile", ""])[0] == ["gang", "xpk"]
        types = [line.partition("\t")[0] for line in candidates(["pathways", "render", "--tpu-type", "ct5p"])[0]]
        assert "ct5p-hightpu-4t" in types

    def test_names_where_no_cluster_answers(self) -> None:
        assert candidates(["pathways", "status", "--kubeconfig", "/nonexistent", ""])[0] == []
