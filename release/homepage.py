"""The address of the project, in the metadata of a release. The sources name none: who publishes knows it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from release.cluster import CHART

BEFORE: Final = "[dependency-groups]"


def https(text: str) -> str:
    """An argument that has to be an address with https and a host."""
    parts = urlsplit(text)
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or '"' in text:
        raise argparse.ArgumentTypeError(f"{text!r} is not https://HOST/PATH")
    return text.rstrip("/")


def set_homepage(tree: Path, url: str) -> None:
    """Write ``project.urls`` of pyproject.toml, and ``home`` and ``sources`` of the chart.

    Raises ``ValueError`` where the sources have such a line already: there is one place for it.
    """
    project, chart = tree / "pyproject.toml", tree / CHART / "Chart.yaml"
    text, described = project.read_text(encoding="utf-8"), chart.read_text(encoding="utf-8")
    if "[project.urls]" in text or "\nhome:" in described:
        raise ValueError(f"{project.name} or {chart.name} has an address already: {url} has no place")
    table = f'Homepage = "{url}"\nIssues = "{url}/issues"\n'
    project.write_text(text.replace(BEFORE, f"[project.urls]\n{table}\n{BEFORE}", 1), encoding="utf-8")
    chart.write_text(f"{described}home: {url}\nsources:\n  - {url}\n", encoding="utf-8")
