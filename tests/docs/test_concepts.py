"""docs/concepts.md: every concept has a drawing that holds together, and the numbers are those of the plan."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gangctl.api.meta import GANG_MODE
from gangctl.readiness.result import GangPhase
from tests.cli.run import fine
from tests.docpages import Page
from tests.docs.drawings import loose_ends
from tests.rows import each

PAGE: Final = Page("concepts.md")
SECTIONS: Final = dict(re.findall(r"^## (.+?)$\n(.*?)(?=^## |\Z)", PAGE.text, flags=re.MULTILINE | re.DOTALL))
WIDEST: Final = 92
"""Columns of a drawing: more would be broken into two lines on a page."""


def drawing(section: str) -> str:
    (found,) = re.findall(r"^```text\n(.*?)^```$", SECTIONS[section], flags=re.MULTILINE | re.DOTALL)
    assert isinstance(found, str)
    return found


def test_the_page_has_every_concept() -> None:
    wanted = "Gang|Group and template|Scope|minCount|Sequenced startup|Queue|Readiness|Policy|Pathways head and slice"
    assert list(SECTIONS) == wanted.split("|")


@each("section", SECTIONS)
def test_a_drawing_has_connected_lines(section: str) -> None:
    text = drawing(section)
    assert list(loose_ends(text)) == []
    assert max(map(len, text.splitlines())) <= WIDEST


@each("wrong", ["┌──┐\n│  │\n└─ ┘\n", "┌─┐\n│ │\n└─┘\n  ▼\n", "┌─┐\n│  │\n└─┘\n"])
def test_a_drawing_with_a_gap_is_detected(wrong: str) -> None:
    assert list(loose_ends(wrong))


def plan(tmp_path: Path, mode: str | None) -> Any:
    """``gangctl plan`` of the page's JobSet, as it stands or with a mode on the workers in its place."""
    jobset = yaml.safe_load(PAGE.files["train.yaml"])
    if mode is not None:
        del jobset["metadata"]["annotations"]
        jobset["spec"]["replicatedJobs"][1]["template"]["metadata"] = {"annotations": {GANG_MODE: mode}}
    file = tmp_path / "train.yaml"
    file.write_text(yaml.safe_dump(jobset), encoding="utf-8")
    return fine("plan", "-f", str(file), "-o", "json").json


@pytest.mark.parametrize(
    ("mode", "words"), [(None, "one group of {}"), ("Gang", "one group of {}"), ("ReplicatedGang", "two groups of {}")]
)
def test_groups_are_as_drawn(mode: str | None, words: str, tmp_path: Path) -> None:
    groups = plan(tmp_path, mode)["groups"]
    assert len(groups) == (2 if "two" in words else 1)
    (count,) = {group["minCount"] for group in groups}
    assert words.format(count) in drawing("Scope")


def test_min_count_is_the_sum_that_is_shown(tmp_path: Path) -> None:
    (group,) = plan(tmp_path, None)["groups"]
    rows = [list(map(int, re.findall(r"\d+", line))) for line in drawing("minCount").splitlines() if " x " in line]
    assert all(replicas * pods == product for replicas, pods, product in rows)
    assert sum(product for *_, product in rows) == group["minCount"]
    assert f"minCount: {group['minCount']}" in drawing("Group and template")
    assert f"places all {group['minCount']}" in drawing("Queue")


def test_phases_are_those_of_the_code() -> None:
    named = set(re.findall(r"│ (\w+) [├│]", drawing("Readiness")))
    assert len(named) == 7
    assert named <= {phase.value for phase in GangPhase}


def test_the_command_prints_what_the_page_shows(tmp_path: Path) -> None:
    (command,) = PAGE.commands
    PAGE.keeps_its_word(*command, tmp_path)
