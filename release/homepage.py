"""The address of the project, in a release. The sources have a placeholder for it: who publishes knows it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from release.cluster import CHART

ADDRESS: Final = "https://git.example/gangctl"
"""The placeholder: where links from outside lead, those of alerts and dashboards to runbooks."""
DOCS: Final = f"{ADDRESS}/blob/main/docs"

PUBLISHED: Final = ("README.md", "charts", "docs", "gangctl/cli/install", "grafana", "manifests")
BEFORE: Final = "[dependency-groups]"


def https(text: str) -> str:
    """An argument that has to be an address with https and a host."""
    parts = urlsplit(text)
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment or '"' in text:
        raise argparse.ArgumentTypeError(f"{text!r} is not https://HOST/PATH")
    return text.rstrip("/")


def set_homepage(tree: Path, url: str) -> None:
    """Put it in the place of ``ADDRESS``, into ``project.urls`` of pyproject.toml, and ``home`` of the chart.

    Raises ``ValueError`` where the sources have such a line already: there is one place for it.
    """
    project, chart = tree / "pyproject.toml", tree / CHART / "Chart.yaml"
    text, described = project.read_text(encoding="utf-8"), chart.read_text(encoding="utf-8")
    if "[project.urls]" in text or "\nhome:" in described:
        raise ValueError(f"{project.name} or {chart.name} has an address already: {url} has no place")
    table = f'Homepage = "{url}"\nIssues = "{url}/issues"\n'
    project.write_text(text.replace(BEFORE, f"[project.urls]\n{table}\n{BEFORE}", 1), encoding="utf-8")
    chart.write_text(f"{described}home: {url}\nsources:\n  - {url}\n", encoding="utf-8")
    for place in map(tree.joinpath, PUBLISHED):
        for path in [place] if place.is_file() else sorted(place.rglob("*")):
            if path.is_file() and ADDRESS.encode() in (content := path.read_bytes()):
                path.write_bytes(content.replace(ADDRESS.encode(), url.encode()))
