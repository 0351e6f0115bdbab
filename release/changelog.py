"""CHANGELOG.md in the form of Keep a Changelog: which versions have a section, and since when."""

from __future__ import annotations

import re
from datetime import date
from typing import Final

UNRELEASED: Final = "Unreleased"

_SECTION: Final = re.compile(r"^## \[(\d+\.\d+\.\d+)\] - (.+)$", re.MULTILINE)


def sections(text: str) -> dict[str, date | None]:
    """The day of each version in the order of the file, None for the one that is still being made.

    Raises ``ValueError`` where a day is none, or a version has two sections.
    """
    found: dict[str, date | None] = {}
    for version, day in _SECTION.findall(text):
        if version in found:
            raise ValueError(f"CHANGELOG.md has two sections for {version}")
        found[version] = None if day == UNRELEASED else date.fromisoformat(day)
    return found
