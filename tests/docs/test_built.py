"""The documentation as a site: it builds without a warning, loads nothing from elsewhere, and is read in a browser."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import pytest
from aiohttp import web

from release.site import build_site, list_versions
from tests.docs.browser import browser, find_browser
from tests.docs.questions import QUESTIONS

ASKED: Final = {questions[0]: page for page, questions in QUESTIONS.items()}
"""One question for each page, which has to be among the first five; test_search.py asks all of them."""

_FOUND: Final = """\
[...document.querySelectorAll('.md-search-result__list > li > a')].slice(0, 5).map(each => each.pathname).join(' ')
"""


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


def pages_of(built: Path) -> list[str]:
    """Every page, but that of a web server for what does not exist, whose links are those of the site's root."""
    return sorted(str(page.relative_to(built)) for page in built.rglob("*.html") if page.name != "404.html")


@asynccontextmanager
async def served(directory: Path) -> AsyncIterator[str]:
    """The address at which the files are."""
    app = web.Application()
    app.router.add_static("/", directory)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


_COPIED: Final = """\
(() => {
  const code = document.querySelector('.language-console code');
  code.setAttribute('data-md-copying', '');
  return code.innerText;
})()
"""
_BROKEN: Final = "getComputedStyle(document.querySelector('td code')).wordBreak"
_BUTTONS: Final = """\
'seen: ' + [...document.querySelectorAll('.language-text .md-code__nav')].filter(each => each.offsetParent).length
"""


@pytest.mark.full("a browser opens pages")
async def test_a_copy_is_the_commands_and_names_are_not_broken(built: Path, tmp_path: Path) -> None:
    program = find_browser()
    if program is None:
        pytest.skip("no browser: apt-get install chromium")
    async with served(built.parent) as address, browser(program, tmp_path) as tab:
        await tab.open(f"{address}/{built.name}/repository/index.html")
        assert (await tab.text(_COPIED)).split("\n")[0] == "gangctl sandbox -- bash"
        assert "simulated Kubernetes" not in await tab.text(_COPIED)
        await tab.open(f"{address}/{built.name}/security.html")
        assert await tab.text(_BROKEN) == "normal"
        await tab.open(f"{address}/{built.name}/first-steps.html")
        assert await tab.text(_BUTTONS) == "seen: 0"


@pytest.mark.full("a browser opens every page")
async def test_a_browser_opens_every_page_and_the_search_finds_common_terms(built: Path, tmp_path: Path) -> None:
    program = find_browser()
    if program is None:
        pytest.skip("no browser: apt-get install chromium")
    (built.parent / "versions.json").write_text(list_versions([built.name]))
    missed = {}
    async with served(built.parent) as address, browser(program, tmp_path) as tab:
        home = f"{address}/{built.name}"
        for name in pages_of(built):
            await tab.open(f"{home}/{name}")
        assert tab.errors == []
        for question, page in ASKED.items():
            await tab.open(f"{home}/index.html?q={quote(question)}")
            found = await tab.text(_FOUND)
            if f"/{built.name}/{page}" not in found.split():
                missed[question] = found
    assert missed == {}
