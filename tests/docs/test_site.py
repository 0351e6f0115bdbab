"""Every link leads somewhere, every page is found, and the program takes every command that a page has people run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Final

import click
import pytest

from tests.cli.parsing import calls, parse
from tests.cli.run import gangctl
from tests.docpages import ROOT, Page
from tests.docs.site import Text, anchor_of, texts
from tests.test_words import GENERATED

INDEX: Final = "docs/README.md"
CONTAINER_ENGINES: Final = frozenset({"docker", "podman", "nerdctl", "buildah", "kind", "minikube"})


@cache
def pages() -> dict[str, Text]:
    """Every page by its name."""
    return {text.name: text for text in texts()}


def test_links_lead_to_files_and_headings() -> None:
    links = [(name, link) for name, page in pages().items() for link in page.links]
    assert [(name, link) for name, link in links if not link.path.exists()] == []
    named = [(name, link) for name, link in links if link.anchor and link.path.suffix == ".md"]
    assert named
    anchors = {path: Text(path.relative_to(ROOT).as_posix()).anchors for path in {link.path for _, link in named}}
    assert [(name, link) for name, link in named if link.anchor not in anchors[link.path]] == []


def test_links_are_found_in_pages() -> None:
    assert len(pages()[INDEX].links) > 40
    assert anchor_of("Is it running, and if not, why: `gangctl why`") == "is-it-running-and-if-not-why-gangctl-why"


MOST_LINES: Final = 250


def linked(page: Text) -> set[str]:
    """Names of the pages that it links to, those of a directory that it links to among them."""
    targets = {link.path for link in page.links}
    return {name for name, text in pages().items() if targets & {text.path, text.path.parent}}


def test_the_index_of_each_directory_has_its_pages() -> None:
    own = {name for name in pages() if re.match(r"docs/(?!runbooks/|reference/)", name)}
    assert sorted(own - linked(pages()[INDEX]) - {INDEX}) == []


def by_hand() -> dict[str, Text]:
    """Pages of the documentation that are not written from code: those are as long as what they list."""
    return {
        name: page for name, page in pages().items() if name.startswith("docs/") and not GENERATED.search(page.whole)
    }


def test_the_length_of_pages_written_by_hand_is_bounded() -> None:
    lines = {name: len(page.whole.splitlines()) for name, page in by_hand().items()}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_the_length_of_pages_written_from_code_is_not_bounded() -> None:
    rest = {name for name in pages().keys() - by_hand().keys() if name.startswith("docs/")}
    assert {"docs/metrics.md", "docs/reference/cli.md", "docs/reference/gangpolicy.md"} <= rest
    assert not {"docs/cel.md", "docs/causes.md", "docs/monitoring.md"} & rest


def test_the_index_has_every_schema() -> None:
    targets = {link.path for link in pages()[INDEX].links}
    assert sorted(set((ROOT / "docs").glob("*.schema.json")) - targets) == []


def test_every_page_is_found_from_the_index() -> None:
    found, look = set[str](), {INDEX}
    while look:
        found |= look
        look = {name for each in look for name in linked(pages()[each])} - found
    assert sorted(set(pages()) - found) == []
    assert INDEX in linked(pages()["README.md"])


def run(page: Text, program: str) -> Iterator[list[str]]:
    """Arguments of every call of a program in the commands of a page."""
    for line in page.commands:
        if re.search(rf"\b({program}|kubectl gang)\b", line):
            yield from calls(line, program)


def refused(words: list[str]) -> str:
    """Why the program would not take the arguments, or nothing."""
    try:
        parse(words)
    except click.ClickException as error:
        return error.format_message()
    return ""


def test_every_command_in_the_pages_is_valid() -> None:
    commands = [(name, words) for name, page in pages().items() for words in run(page, "gangctl")]
    assert commands
    assert [(name, words, why) for name, words in commands if (why := refused(words))] == []


def test_every_installation_in_the_pages_names_an_image() -> None:
    """The placeholder of manifests/base is one that no node can pull."""
    installed = [
        (name, words) for name, page in pages().items() for words in run(page, "gangctl") if "install" in words
    ]
    without = {"--image", "--uninstall", "--out-of-cluster"}
    assert len(installed) > 10
    assert [(name, words) for name, words in installed if not without & {*words}] == []
    assert [name for name, page in pages().items() if re.search(r"apply -k \S*manifests/base\b", page.whole)] == []


def test_every_how_to_links_to_the_installation_of_the_program() -> None:
    how_tos = {name: page for name, page in pages().items() if name.startswith("docs/howto/")}
    assert how_tos
    assert [
        name for name, page in how_tos.items() if ROOT / "docs" / "cli.md" not in {each.path for each in page.links}
    ] == []


def test_every_command_named_in_a_sentence_exists() -> None:
    mentions = [
        (name, words)
        for name, page in pages().items()
        for mention in page.mentions
        if re.match(r"(gangctl|kubectl gang) (?=[\w-])", mention)
        for words in calls(mention)
    ]
    assert mentions
    wrong: list[tuple[str, list[str], str]] = []
    for name, words in mentions:
        # A sentence may leave out what the command needs.
        try:
            parse(words)
        except (click.MissingParameter, click.BadOptionUsage):
            continue
        except click.ClickException as error:
            wrong.append((name, words, error.format_message()))
    assert wrong == []


def test_directories_that_are_applied_exist() -> None:
    shown = {
        place
        for page in pages().values()
        for place in re.findall(r"^`([\w./-]+)/kustomization\.yaml`", page.whole, flags=re.MULTILINE)
    }
    """Those that a page shows, for a reader to make."""
    applied = [
        (name, after)
        for name, page in pages().items()
        for words in run(page, "kubectl")
        for word, after in pairwise(words)
        if word == "-k"
    ]
    assert applied
    assert [(name, place) for name, place in applied if place not in shown and not _kustomization(place).exists()] == []


def test_targets_of_make_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    made = [
        (name, word)
        for name, page in pages().items()
        for words in run(page, "make")
        for word in words
        if "=" not in word and not word.startswith("-")
    ]
    assert made
    assert [(name, word) for name, word in made if word not in targets] == []


def test_modules_that_are_run_exist() -> None:
    modules = [
        (name, module)
        for name, page in pages().items()
        for line in page.commands
        for module in re.findall(r"\bpython -m ([\w.]+)", line)
    ]
    assert modules
    assert [(name, module) for name, module in modules if find_spec(module) is None] == []


def test_tests_that_the_pages_name_exist() -> None:
    named = [
        (name, path, test)
        for name, page in pages().items()
        for path, test in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.whole)
    ]
    assert len(named) > 200
    assert [(name, path, test) for name, path, test in named if not _has(ROOT / path, test)] == []


@cache
def _functions(path: Path) -> set[str]:
    return set(re.findall(r"^ *(?:async )?def (\w+)\(", path.read_text(encoding="utf-8"), flags=re.MULTILINE))


def _has(path: Path, test: str) -> bool:
    """Whether a module exists, and has a test of this name, if it is one."""
    return path.is_file() and (not test or test in _functions(path))


def _kustomization(place: str) -> Path:
    return ROOT / place / "kustomization.yaml"


def test_steps_that_need_a_container_engine_are_marked() -> None:
    needing = {
        name: lines
        for name, page in pages().items()
        if (lines := [line for line in page.commands if line.split()[0] in CONTAINER_ENGINES])
    }
    assert needing
    assert [
        (name, line)
        for name, lines in needing.items()
        if not re.search("not run here|no container engine", pages()[name].whole)
        for line in lines
        if not line.endswith("# needs a container engine")
    ] == []


@cache
def offline_steps() -> list[tuple[str, str]]:
    """Pages that lead through a task, each with a command on files of the repository that needs no cluster."""
    return [
        (name, line)
        for name, page in pages().items()
        if name.startswith(("docs/howto/", "docs/troubleshooting"))
        for line in page.commands
        if re.match(r"gangctl (plan|convert|policy (eval|list|lint|test))\b", line)
        and re.search(r" (examples|policies)\b", line)
        and "--context" not in line
    ]


def test_pages_have_offline_steps() -> None:
    assert len(offline_steps()) >= 8
    assert len({name for name, _ in offline_steps()}) >= 3


def test_offline_steps_have_the_described_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for place in ("examples", "policies"):
        (tmp_path / place).symlink_to(ROOT / place)
    monkeypatch.chdir(tmp_path)
    wrong: list[str] = []
    for name, line in offline_steps():
        command, _, comment = line.partition("#")
        page = Page(name.removeprefix("docs/"))
        page.write_files(tmp_path)
        shown = {sample: output for sample, _, output in page.samples}
        answer = gangctl(*shlex.split(command)[1:])
        if answer.code != int((re.findall(r"exit (\d)", comment) or ["0"])[0]) or not answer.out:
            wrong.append(f"{name}: {line}: exit {answer.code}: {answer.err}")
        elif answer.out != shown.get(command.strip(), answer.out):
            wrong.append(f"{name}: {line}: prints {answer.out}")
    assert wrong == []
