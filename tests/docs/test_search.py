"""What people ask in their first hour is answered by the page that the site's own search finds first."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from release.site import build_site
from tests.docs.questions import QUESTIONS
from tests.docs.site import texts

HERE = Path(__file__).parent
STOPPED = {"where"}
"""Words that lunr leaves out."""

Search = Callable[[Iterable[str]], dict[str, list[str]]]


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Search:
    """Pages for each question, best first."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node, which runs the search of the site's theme")
    site = tmp_path_factory.mktemp("search") / "site"
    build_site(site)

    def ask(questions: Iterable[str]) -> dict[str, list[str]]:
        command = [node, str(HERE / "search.js"), str(site), *questions]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        return dict(zip(questions, map(json.loads, printed), strict=True))

    return ask


def test_fifty_questions_lead_to_the_right_page_first(search: Search) -> None:
    wanted = {question: page for page, questions in QUESTIONS.items() for question in questions}
    assert len(wanted) >= 50
    answers = search(wanted)
    assert [
        (question, page, answers[question][:3]) for question, page in wanted.items() if answers[question][:1] != [page]
    ] == []


def test_every_word_of_a_heading_is_found(search: Search) -> None:
    """A word that the search fails for is found nowhere, however often it is written."""
    headings = (
        line
        for page in texts()
        if page.name.startswith("docs/")
        for line in page.prose.splitlines()
        if re.match("#+ ", line)
    )
    words = sorted({word for line in headings if line for word in re.findall(r"[a-z]{4,}", line.lower())} - STOPPED)
    assert len(words) > 250
    assert [word for word, pages in search(words).items() if not pages] == []
