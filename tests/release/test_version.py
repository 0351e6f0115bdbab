"""The version is in ``gangctl/__init__.py``; all other places have the same."""

from __future__ import annotations

import re
import subprocess
from datetime import date
from pathlib import Path

import pytest
from click.testing import CliRunner

from gangctl import __version__
from gangctl.cli.program import program
from gangctl.client.transport import USER_AGENT
from release.changelog import sections
from tests.rows import each

ROOT = Path(__file__).parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_version_has_the_form_of_a_release() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)


def test_the_program_prints_the_version() -> None:
    assert CliRunner().invoke(program, ["--version"], prog_name="gangctl").output == f"gangctl {__version__}\n"


def test_requests_have_the_version_in_the_user_agent() -> None:
    assert f"gangctl/{__version__}" == USER_AGENT


def test_no_file_names_an_image_or_a_chart_of_another_version() -> None:
    names = r"gangctl:[0-9]+\.[0-9]+\.[0-9]+|newTag: [0-9.]+|^(appVersion|version): .+"
    # Pages may name other releases, tests other charts.
    places = ("*", ":!docs", ":!tests", ":!locks", ":!examples", ":!benchmarks")
    found = subprocess.run(
        ["git", "grep", "-hoE", names, "--", *places], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert {"gangctl", "newTag"} <= {re.split(": ?", line)[0] for line in found}
    assert {re.split(": ?", line)[1].strip("\"'") for line in found} == {__version__}


class TestChangelog:
    def test_this_version_has_the_first_section(self) -> None:
        assert next(iter(sections(CHANGELOG))) == __version__

    def test_only_unreleased_versions_have_no_date_and_the_newest_is_first(self) -> None:
        days = list(sections(CHANGELOG).values())
        assert None not in days[1:]
        released = [day for day in days if day is not None]
        assert released == sorted(released, reverse=True)

    def test_headings_are_those_of_keep_a_changelog(self) -> None:
        kinds = re.findall(r"^### (.+)$", CHANGELOG, flags=re.MULTILINE)
        assert {*kinds} <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
        headings = re.findall(r"^## .+$", CHANGELOG, flags=re.MULTILINE)
        assert len(headings) == len(sections(CHANGELOG))

    def test_a_day_is_read(self) -> None:
        text = "## [0.2.0] - Unreleased\n\n### Added\n\n## [0.1.0] - 2027-03-01\n"
        assert sections(text) == {"0.2.0": None, "0.1.0": date(2027, 3, 1)}

    @each(
        ("text", "why"),
        [
            ("## [0.1.0] - soon\n", "Invalid isoformat string: 'soon'"),
            ("## [0.1.0] - 2027-02-30\n", "month"),
            ("## [1.0.0] - Unreleased\n" * 2, "two sections for 1.0.0"),
        ],
    )
    def test_an_invalid_changelog_is_refused(self, text: str, why: str) -> None:
        with pytest.raises(ValueError, match=re.escape(why)):
            sections(text)
