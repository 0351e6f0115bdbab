"""The example PathwaysJobs: nothing is wrong with them, and what they become is known byte by byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Golden
from tests.cli.run import fine, gangctl

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples" / "pathways").glob("*.yaml"))
GOLDEN = Path(__file__).parents[1] / "golden" / "pathways"

pytestmark = pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)


def test_examples_are_valid(example: Path) -> None:
    assert gangctl("pathways", "validate", "-f", str(example)).code == 0


def test_examples_render_as_recorded(example: Path, golden: Golden) -> None:
    golden(GOLDEN / f"{example.stem}.yaml", fine("pathways", "render", "-f", str(example)).out)


def test_examples_give_the_recorded_notes(example: Path, golden: Golden) -> None:
    golden(GOLDEN / f"{example.stem}.notes", fine("pathways", "render", "-f", str(example)).err)


def test_examples_plan_as_recorded(example: Path, golden: Golden) -> None:
    golden(GOLDEN / f"{example.stem}.plan", fine("plan", "-f", str(example)).out)
