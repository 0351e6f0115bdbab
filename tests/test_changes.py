"""`make test-for`: each row of CONTRIBUTING.md has its tests, which exist and are some."""

from __future__ import annotations

import re

import pytest

from tests.changes import ROOT, TESTS, main

ROW = re.compile(r"^\| .+ \| .+ \| ([a-z-]+) \|$", flags=re.MULTILINE)


def test_each_typical_change_has_its_tests() -> None:
    (table,) = re.findall(
        r"^## Typical changes$(.*?)^## ",
        (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"),
        flags=re.MULTILINE | re.DOTALL,
    )
    assert ROW.findall(table) == [*TESTS]


def test_the_tests_of_each_change_exist() -> None:
    paths = {path for places in TESTS.values() for path in places}
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []
    assert [
        path for path in sorted(paths) if not [*(ROOT / path).rglob("test_*.py")] and not path.endswith(".py")
    ] == []


@pytest.mark.parametrize("names", [[], ["alarm"], ["alert", "alarm"]], ids=["none", "wrong", "one wrong"])
def test_an_unknown_change_is_refused_with_the_names(names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(names) == 2
    assert "is none of refusal, annotation, cause," in capsys.readouterr().err
