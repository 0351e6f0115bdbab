"""Words that were private to this project do not come back: the field has its own (CONTRIBUTING.md)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
HERE: Final = "tests/test_words.py"
PLACES: Final = ("*.py", "*.md", "*.yaml", "*.tpl", "Makefile", "*.toml")
EXCEPTIONS: Final = {"docs/test-report.md", "benchmarks/RESULTS.md"}
"""Written by a run of an earlier commit."""
OF_BENCHMARKS: Final = "benchmarks/"
"""Figures are judged by budgets."""

WORDS: Final = {
    "judge": "evaluate",
    "judged": "evaluated",
    "judges": "evaluates",
    "judging": "evaluating",
    "docket": "snapshot",
    "lesson": "load message",
    "school": "loader",
    "courtroom": "evaluator",
    "desk": "slot",
    "errand": "task",
    "minder": "supervisor",
    "caretaker": "controller",
    "specimen": "sample",
    "mend": "repair",
    "mended": "repaired",
    "mends": "repairs",
    "gone wild": "misbehaving",
    "by luck": "without the guarantee",
    "be rid of": "uninstall",
    "stands down": "defers to",
    "untold": "unreported",
    "outsider": "unlinked Job",
    "outsiders": "unlinked Jobs",
    "ledger": "aggregates",
    "agenda": "requeue timers",
    "tally": "totals",
    "tallies": "totals",
    "scene": "context",
    "scenes": "contexts",
    "player": "simulated controller",
    "players": "simulated controllers",
}
"""The word, and what to write."""


def found(text: str) -> list[str]:
    words = "|".join(re.escape(word) for word in WORDS)
    return [hit.group(1).lower() for hit in re.finditer(rf"(?<![a-z])({words})(?![a-z])", text, flags=re.IGNORECASE)]


def test_words_are_those_of_the_field() -> None:
    listed = subprocess.run(["git", "ls-files", "--", *PLACES], cwd=ROOT, check=True, capture_output=True, text=True)
    wrong = []
    for name in listed.stdout.split():
        path = ROOT / name
        if name in EXCEPTIONS or name == HERE or OF_BENCHMARKS in name or not path.exists():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            wrong += [f"{name}:{number}: {word}: write {WORDS[word]}" for word in found(line)]
    assert wrong == []
