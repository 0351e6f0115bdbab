"""Every link leads somewhere, every page is found, and the program takes every command that a page has people run."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Final

import click
import pytest

from tests.cli.parsing import calls, parse
from tests.cli.run import gangctl
from tests.docpages import ROOT
from tests.docs.site import Text, anchor_of, texts

PAGES: Final = {text.name: text for text in texts()}
INDEX: Final = "docs/README.md"
STEPS: Final = sorted(name for name in PAGES if name.startswith(("docs/howto/", "docs/troubleshooting")))
CONTAINER_ENGINES: Final = frozenset({"docker", "podman", "nerdctl", "buildah", "kind", "minikube"})
OVERLAYS: Final = {
    place
    for text in PAGES.values()
    for place in re.findall(r"^`([\w./-]+)/kustomization\.yaml`", text.whole, flags=re.MULTILINE)
}
"""Directories that a page shows, for a reader to make."""
TARGETS: Final = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))


@pytest.fixture(params=sorted(PAGES))
def page(request: pytest.FixtureRequest) -> Text:
    """One page after the other."""
    return PAGES[request.param]


def test_links_lead_to_files_and_headings(page: Text) -> None:
    assert [link for link in page.links if not link.path.exists()] == []
    named = [link for link in page.links if link.anchor and link.path.suffix == ".md"]
    lost = [link for link in named if link.anchor not in Text(link.path.relative_to(ROOT).as_posix()).anchors]
    assert lost == []


def test_links_are_seen() -> None:
    assert len(PAGES[INDEX].links) > 40
    assert anchor_of("Is it running, and if not, why: `gangctl why`") == "is-it-running-and-if-not-why-gangctl-why"


def linked(page: Text) -> set[str]:
    """Names of the pages that it links to, those of a directory that it links to among them."""
    targets = {link.path for link in page.links}
    return {name for name, text in PAGES.items() if targets & {text.path, text.path.parent}}


def test_the_index_has_every_page_of_its_own() -> None:
    own = {name for name in PAGES if name.startswith("docs/") and not name.startswith("docs/runbooks/")}
    assert sorted(own - linked(PAGES[INDEX]) - {INDEX}) == []


def test_the_index_has_every_schema() -> None:
    targets = {link.path for link in PAGES[INDEX].links}
    assert sorted(set((ROOT / "docs").glob("*.schema.json")) - targets) == []


def test_every_page_is_found_from_the_index() -> None:
    found, look = set[str](), {INDEX}
    while look:
        found |= look
        look = {name for each in look for name in linked(PAGES[each])} - found
    assert sorted(set(PAGES) - found) == []
    assert INDEX in linked(PAGES["README.md"])


def run(page: Text, program: str) -> Iterator[list[str]]:
    """Arguments of every call of a program in the commands of a page."""
    for line in page.commands:
        if re.search(rf"\b({program}|kubectl gang)\b", line):
            yield from calls(line, program)


def test_the_program_takes_every_command(page: Text) -> None:
    for words in run(page, "gangctl"):
        parse(words)


def test_the_program_knows_every_command_that_a_sentence_names(page: Text) -> None:
    for mention in page.mentions:
        if re.match(r"(gangctl|kubectl gang) (?=[\w-])", mention):
            for words in calls(mention):
                with contextlib.suppress(click.MissingParameter, click.BadOptionUsage):
                    parse(words)


def test_directories_targets_and_modules_exist(page: Text) -> None:
    applied = [after for words in run(page, "kubectl") for word, after in pairwise(words) if word == "-k"]
    assert [place for place in applied if place not in OVERLAYS and not _kustomization(place).exists()] == []
    made = {word for words in run(page, "make") for word in words if "=" not in word and not word.startswith("-")}
    assert made <= TARGETS
    modules = {module for line in page.commands for module in re.findall(r"\bpython -m ([\w.]+)", line)}
    assert [module for module in modules if find_spec(module) is None] == []


def _kustomization(place: str) -> Path:
    return ROOT / place / "kustomization.yaml"


def test_what_needs_a_container_engine_says_that_it_is_not_run_here(page: Text) -> None:
    needing = [line for line in page.commands if line.split()[0] in CONTAINER_ENGINES]
    told = re.search("not run here|no container engine", page.whole)
    assert [line for line in needing if not told and not line.endswith("# needs a container engine")] == []


def offline_steps() -> Iterator[tuple[str, str]]:
    """Pages that lead through a task, each with a command on files of the repository that needs no cluster."""
    for name in STEPS:
        for line in PAGES[name].commands:
            own = re.match(r"gangctl (plan|convert|policy (eval|list|lint|bench|test))\b", line)
            if own and re.search(r" (examples|policies)\b", line) and "--context" not in line:
                yield name, line


OFFLINE: Final = list(offline_steps())


def test_there_are_steps_to_run() -> None:
    assert len(OFFLINE) >= 8
    assert len({name for name, _ in OFFLINE}) >= 3


@pytest.mark.parametrize(("name", "line"), OFFLINE)
def test_offline_steps_end_as_they_say(name: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("examples", "policies"):
        (tmp_path / place).symlink_to(ROOT / place)
    monkeypatch.chdir(tmp_path)
    command, _, comment = line.partition("#")
    answer = gangctl(*shlex.split(command)[1:])
    assert (answer.code, bool(answer.out)) == (int((re.findall(r"exit (\d)", comment) or ["0"])[0]), True), name
