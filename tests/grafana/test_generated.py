"""What is committed is what the code makes, and Grafana's own types read all of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.dashboard import Dashboard

from grafana.generate import __main__ as command
from grafana.generate import files
from tests.grafana.queries import DASHBOARDS, dashboards, panels
from tests.rows import each

PATHS = sorted(DASHBOARDS.glob("*.json"))
UNITS = {value for name, value in vars(units).items() if isinstance(value, str) and not name.startswith("_")}


def test_the_files_are_up_to_date() -> None:
    assert files.stale() == [], "run make dashboards"


def test_the_check_names_the_outdated_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(files, "DIRECTORY", tmp_path)
    assert command.main([]) == 0
    assert command.main(["--check"]) == 0
    changed, left = tmp_path / "gangctl-gang.json", tmp_path / "of-nobody.json"
    changed.write_text("{}")
    left.write_text("{}")
    assert command.main(["--check"]) == 1
    assert capsys.readouterr().err == "".join(
        f"{path} is not up to date: run make dashboards\n" for path in (changed, left)
    )
    assert command.main([]) == 0
    assert command.main(["--check"]) == 0
    assert not left.exists()


def test_the_command_refuses_unknown_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--chek"]) == 2
    assert "usage" in capsys.readouterr().err


@each("path", PATHS, ids=lambda path: path.stem)
def test_the_types_of_grafana_read_and_write_every_key(path: Path) -> None:
    register_default_plugins()
    given = json.loads(path.read_text(encoding="utf-8"))
    read = Dashboard.from_json(given)
    assert json.loads(json.dumps(read, cls=JSONEncoder)) == given


@each("path", PATHS, ids=lambda path: path.stem)
def test_a_file_is_strict_json(path: Path) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    assert json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)["uid"] == path.stem


@each("uid", dashboards())
def test_units_are_grafanas(uid: str) -> None:
    for panel in panels(dashboards()[uid]):
        used = {panel["fieldConfig"]["defaults"].get("unit")} | {
            each["value"]
            for override in panel["fieldConfig"]["overrides"]
            for each in override["properties"]
            if each["id"] == "unit"
        }
        assert used - {None} <= UNITS, panel["title"]
