"""The commands of the pages about migration are run on the files that they show, and give those that they show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from gangctl.api.documents import parse_documents
from gangctl.gang.reasons import Reason
from gangctl.migration.draft import System
from tests.docpages import ROOT, Page
from tests.rows import each

PAGE: Final = Page("migration-volcano.md", "migration-kai.md", "migration-coscheduling.md", "migration.md")
COMMANDS: Final = re.findall(r"^    (gangctl .*)\n((?:    note: .*\n)*)", PAGE.prose, flags=re.MULTILINE)
OTHERS: Final = [(line, code) for line, code in PAGE.commands if not line.startswith("gangctl ")]


def test_the_pages_have_commands() -> None:
    converted = [command for command, _ in COMMANDS if "convert" in command]
    assert [re.findall(r"--from (\w+)", command) for command in converted] == [
        *([str(system)] for system in System),
        [],
        [],
        [],
    ]
    assert all(">" in command for command in converted)
    assert len(COMMANDS) + len(OTHERS) == len(PAGE.commands)
    assert OTHERS == [("kubectl explain jobset.spec.scheduling", 1)]  # tests/live runs it


@each(("command", "notes"), COMMANDS)
def test_commands_give_what_is_shown(command: str, notes: str, tmp_path: Path) -> None:
    done = PAGE.run(command.partition(">")[0], tmp_path)
    shown = "".join(f"{line.strip()}\n" for line in notes.splitlines())
    assert (done.code, done.err) == (0, shown)
    _, redirected, target = command.partition(">")
    if redirected:
        assert done.out == PAGE.files[target.strip()]
    assert done.out


@each("name", sorted(PAGE.files))
def test_every_file_is_used_and_of_its_kind(name: str) -> None:
    assert any(name in command for command, _ in COMMANDS)
    assert any(document.value["kind"] == "JobSet" for document in parse_documents(PAGE.files[name], name))


def test_words_are_those_of_the_program() -> None:
    assert f"`{Reason.UPSTREAM_SCHEDULING}`" in PAGE.prose
    assert [system for system in System if f"--from {system}" not in PAGE.text] == []


def test_the_readme_links_to_the_page() -> None:
    assert "[docs/migration.md](docs/migration.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
