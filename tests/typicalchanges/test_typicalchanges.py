"""The rows of CONTRIBUTING.md: what they name is all that a change needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.changes import ROOT, TESTS
from tests.rows import each
from tests.typicalchanges.clone import Clone, is_named, places
from tests.typicalchanges.edits import AnchorError, Copy, Edit
from tests.typicalchanges.table import CHANGES


@each("name", [*CHANGES])
def test_each_row_names_every_file_of_its_change(name: str) -> None:
    row = places(name)
    assert name in TESTS
    for edit in CHANGES[name]:
        path = f"{edit.path}/x" if isinstance(edit, Copy) else edit.path
        assert is_named(path, row), f"the row of {name} does not name {path}"


@each("edit", [edit for change in CHANGES.values() for edit in change if isinstance(edit, Edit) and edit.anchor])
def test_each_edit_has_its_anchor_once(edit: Edit) -> None:
    assert (ROOT / edit.path).read_text(encoding="utf-8").count(edit.anchor) == 1


def test_an_edit_refuses_an_anchor_that_is_there_twice(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x x")
    with pytest.raises(AnchorError, match="2 times"):
        Edit("a", "y", after="x").apply(tmp_path)


def test_a_command_that_fails_before_a_test_is_a_failure(tmp_path: Path) -> None:
    clone = Clone(tmp_path / "clone")
    (failure,) = clone.failures("make", "--silent", "no-such-target")
    assert "no-such-target" in failure


@pytest.mark.full("minutes: it writes what is derived, and runs the tests of fifteen changes")
@pytest.mark.timeout(3600)
def test_nothing_fails_after_a_change_that_follows_its_row(tmp_path: Path) -> None:
    clone = Clone(tmp_path / "clone")
    failures = {name: clone.try_change(name, change).failures for name, change in CHANGES.items()}
    assert {name: tests for name, tests in failures.items() if tests} == {}
