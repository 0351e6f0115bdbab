"""Modules that ARCHITECTURE.md and CONTRIBUTING.md name exist, and are as long as those say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tests.docpages import ROOT
from tests.docs.site import Text

ARCHITECTURE: Final = Text("ARCHITECTURE.md")
CONTRIBUTING: Final = Text("CONTRIBUTING.md")
PATH: Final = re.compile(r"(?!gangctl\.dev/)[\w.*-]+(?:/[\w.*-]*)+|[\w-]+\.py")
"""What is in backticks and has a slash, or is a module."""


def named(line: str) -> list[str]:
    return [word for word in re.findall(r"`([^`\n]+)`", line) if PATH.fullmatch(word)]


def exists(word: str, *places: str) -> bool:
    """Whether a path or a pattern is below one of the directories, the root and gangctl/ among them."""
    pattern = word.rstrip("/").replace("1.NN", "1.*")
    return any(any((ROOT / place).glob(pattern)) for place in ("", "gangctl", *places))


def unresolved(text: str, *, context: bool = False) -> Iterator[str]:
    """Paths that lead nowhere; with a context a path may begin where another of its paragraph does."""
    for paragraph in text.split("\n\n"):
        words = named(paragraph)
        places = {f"{at}{word.rpartition('/')[0]}" for word in words for at in ("", "gangctl/")} | {"tests"}
        yield from (word for word in words if not exists(word, *(places if context else ())))


def test_paths_in_the_architecture_exist() -> None:
    assert len(named(ARCHITECTURE.prose)) > 80
    assert [*unresolved(ARCHITECTURE.prose, context=True)] == []


def test_paths_in_contributing_exist_at_the_root_or_under_gangctl() -> None:
    assert len(named(CONTRIBUTING.prose)) > 120
    assert [*unresolved(CONTRIBUTING.prose)] == []


def test_a_path_that_leads_nowhere_is_found() -> None:
    text = "`gang/validate.py`, `plan.py`, `readiness/aggregates.py`, `gangctl.dev/gang` and `tests/docs/`"
    assert [*unresolved(text)] == ["plan.py", "readiness/aggregates.py"]
    assert [*unresolved(text, context=True)] == ["readiness/aggregates.py"]


def test_no_module_is_longer_than_contributing_allows() -> None:
    (most,) = re.findall(r"(\d+) lines at\s+most", CONTRIBUTING.prose)
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "gangctl").rglob("*.py")}
    assert {str(path.relative_to(ROOT)): count for path, count in lines.items() if count > int(most)} == {}


def test_the_pythons_of_the_set_up_are_those_of_the_package() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    minors = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    assert f"needs Python {minors[0]} to {minors[-1]}" in CONTRIBUTING.whole
