"""Words that were private to this project do not come back: the field has its own (CONTRIBUTING.md)."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable
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
    "get on by itself": "continues without a change",
    "reckon with": "read, consider",
    "be had now": "is available now",
    "ever be had": "ever be available",
    "from getting on": "from being admitted",
    "good to know": "a note",
    "hands SIGTERM on": "forwards SIGTERM",
    "say nothing themselves": "do not set the field",
    "stands as it does": "is in its phase",
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
    "be let through": "be admitted",
    "comes to an end": "ends",
    "no fault of theirs": "although they are valid",
    "rid of": "uninstall",
    "to the letter": "exactly",
    "unjudged": "without evaluation",
    "without further ado": "by default",
}
"""The word, and what to write."""

PAGES: Final = (
    "README.md",
    "CHANGELOG.md",
    "docs/*.md",
    "examples/README.md",
    "grafana/*.md",
    "manifests/*.md",
    "policies/*.md",
)
GENERATED: Final = re.compile(r"Written by `python -m ")
"""In pages that are written from code, with its words."""
WORDS_OF_PAGES: Final = {
    "anybody": "any client",
    "everybody": "all users",
    "for ever": "permanently",
    "is what ends": "is the limit",
    "goes on": "continues",
    "hears": "receives",
    "here and there": "name the place",
    "in the way": "conflicts with",
    "in vain": "without use",
    "is well": "works",
    "let through": "admitted",
    "lets": "allows",
    "nobody": "no one, or name the actor",
    "none of it": "name the objects",
    "of one's own": "separate",
    "somebody": "another client, the user",
    "told": "reported",
    "to and fro": "repeatedly",
    "whoever": "the user, the client",
    "without end": "permanently",
}
"""What a user reads has none of these, but for the output of programs, which is in code."""
WORDS_OF_SOURCE: Final = ("anybody", "everybody", "for ever", "hears", "in vain", "of one's own", "to and fro")
"""Those of them that are gone from the package, too."""

WORDS_OF_TESTS: Final = (
    *("anybody", "everybody", "hears", "nobody", "say", "says", "somebody", "tell", "tells", "told", "whoever", "wish"),
    *("by luck", "comes and goes", "for ever"),
)
"""That no test has in its name, which is read in a log by a user of Kubernetes."""


def found(text: str, listed: Iterable[str] = WORDS) -> list[str]:
    words = "|".join(re.escape(word) for word in listed)
    return [hit.group(1).lower() for hit in re.finditer(rf"(?<![a-z])({words})(?![a-z])", text, flags=re.IGNORECASE)]


def prose(text: str) -> str:
    """A page without its code: fences, indented blocks, and what is in backquotes."""
    text = re.sub(
        r"^( *)```.*?^\1```$", lambda block: "\n" * block[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL
    )
    return re.sub(r"^ {4,}\S.*$|`[^`\n]+`", "", text, flags=re.MULTILINE)


def test_replaced_words_do_not_come_back() -> None:
    listed = subprocess.run(["git", "ls-files", "--", *PLACES], cwd=ROOT, check=True, capture_output=True, text=True)
    wrong = []
    for name in listed.stdout.split():
        path = ROOT / name
        if name in EXCEPTIONS or name == HERE or OF_BENCHMARKS in name or not path.exists():
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            wrong += [f"{name}:{number}: {word}: write {WORDS[word]}" for word in found(line)]
    assert wrong == []


def test_pages_have_plain_words() -> None:
    listed = subprocess.run(["git", "ls-files", "--", *PAGES], cwd=ROOT, check=True, capture_output=True, text=True)
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in sorted({*listed.stdout.split()} - EXCEPTIONS)}
    pages = {name: text for name, text in texts.items() if not GENERATED.search(text)}
    assert len(pages) > 60
    assert [
        f"{name}:{number}: {word}: write {WORDS_OF_PAGES[word]}"
        for name, text in pages.items()
        for number, line in enumerate(prose(text).splitlines(), start=1)
        for word in found(line, WORDS_OF_PAGES)
    ] == []


def test_the_package_has_plain_words() -> None:
    names = subprocess.run(
        ["git", "ls-files", "--", "gangctl/*.py"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    assert len(names) > 300
    assert [
        f"{name}:{number}: {word}: write {WORDS_OF_PAGES[word]}"
        for name in names
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), start=1)
        for word in found(line, WORDS_OF_SOURCE)
    ] == []


def test_names_of_tests_are_plain() -> None:
    names = subprocess.run(
        ["git", "ls-files", "--", "tests/*.py"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    tests = [
        (name, test)
        for name in names
        for test in re.findall(r"^ *(?:async )?def test_(\w+)", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert len(tests) > 4000
    assert [(name, test) for name, test in tests if found(test.replace("_", " "), WORDS_OF_TESTS)] == []


def test_a_word_is_one_class() -> None:
    """A reader who has seen a class by its name need not ask which of several it is."""
    homes: dict[str, list[str]] = {}
    for path in sorted((ROOT / "gangctl").rglob("*.py")):
        for name in re.findall(r"^ *class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            homes.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert len(homes) > 800
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


def test_local_variables_are_nouns() -> None:
    """``found`` and ``each`` do not say what they hold."""
    stored = {
        (str(path.relative_to(ROOT)), name.lineno)
        for path in sorted((ROOT / "gangctl").rglob("*.py"))
        for name in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store) and name.id in {"each", "found"}
    }
    assert stored == set()


def test_code_does_not_count_as_prose() -> None:
    assert found(prose("a\n```sh\ntold\n```\n\n    told\n`test_told`\nis told\n"), WORDS_OF_PAGES) == ["told"]
