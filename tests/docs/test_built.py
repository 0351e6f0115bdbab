"""The documentation as a site: it builds without a warning, loads nothing from elsewhere, and is read in a browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from release.site import build_site


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page that is not in the navigation, or a link or heading that does not exist, fails it."""
    directory = tmp_path_factory.mktemp("site")
    build_site(directory)
    return directory


def test_a_browser_loads_nothing_from_other_hosts(built: Path) -> None:
    loaded = re.compile(
        r'<(?:script|img|iframe)[^>]* src="?(\w+:)?//|<link[^>]* rel="?stylesheet"?[^>]* href="?(\w+:)?//'
    )
    assert [page.name for page in built.rglob("*.html") if loaded.search(page.read_text(encoding="utf-8"))] == []


def test_pages_of_the_repository_are_on_the_site(built: Path) -> None:
    page = (built / "index.html").read_text(encoding="utf-8")
    assert 'href="repository/index.html#quick-start"' in page
    assert (built / "repository" / "manifests" / "index.html").is_file()
