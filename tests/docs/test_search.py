"""What people ask in their first hour is answered by the page that the site's own search finds first."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from release.site import build_site
from tests.docs.questions import QUESTIONS

HERE = Path(__file__).parent


def test_fifty_questions_lead_to_the_right_page_first(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node, which runs the search of the site's theme")
    site = tmp_path / "site"
    build_site(site)
    wanted = {question: page for page, questions in QUESTIONS.items() for question in questions}
    assert len(wanted) >= 50
    command = [node, str(HERE / "search.js"), str(site), *wanted]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    answers = dict(zip(wanted, map(json.loads, printed), strict=True))
    assert [
        (question, page, answers[question][:3]) for question, page in wanted.items() if answers[question][:1] != [page]
    ] == []
