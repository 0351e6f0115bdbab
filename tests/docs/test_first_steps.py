"""docs/first-steps.md: each reader finds the answer in three clicks or two commands, which print what is shown."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Final

from tests.docpages import ROOT, Page
from tests.docs.site import Text
from tests.monitoring.rulefiles import alerts
from tests.rows import each

PAGE: Final = Page("first-steps.md")
SECTIONS: Final = re.split(r"^## ", PAGE.text, flags=re.MULTILINE)[1:]
MOST_CLICKS: Final = 3
MOST_COMMANDS: Final = 2


def paths(section: str) -> list[Path]:
    """The pages of its line of links, in order."""
    line = section.partition("\nLinks: ")[2].partition("\n")[0]
    return [(ROOT / "docs" / target).resolve() for target in re.findall(r"\]\(([^)]+)\)", line)]


def test_each_reader_needs_three_clicks_or_two_commands() -> None:
    assert len(SECTIONS) == 3
    for section in SECTIONS:
        assert 1 <= len(paths(section)) <= MOST_CLICKS
        assert section.count("\n    gangctl ") + section.count("\n       gangctl ") <= MOST_COMMANDS


def test_each_page_links_to_the_next_one() -> None:
    for section in SECTIONS:
        for here, there in pairwise(paths(section)):
            links = {link.path for link in Text(here.relative_to(ROOT).as_posix()).links}
            assert there in links, (here, there)


def test_the_alert_leads_to_the_page() -> None:
    (page,) = paths(SECTIONS[1])
    (alert,) = [alert for alert in alerts() if alert.name == page.stem]
    assert alert.annotations["runbook_url"].endswith(page.relative_to(ROOT).as_posix())


@each(("command", "code", "shown"), PAGE.samples)
def test_samples_are_what_is_printed(command: str, code: int, shown: str) -> None:
    PAGE.prints_what_it_shows(command, code, shown)
