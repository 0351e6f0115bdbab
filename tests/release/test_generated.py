"""``make generate`` writes all that says of itself that it is written from code; .ci/run shows that nothing changes."""

from __future__ import annotations

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

from tests.rows import each

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
(GENERATORS,) = (each.split() for each in re.findall(r"^GENERATORS := (.+)$", MAKEFILE, flags=re.MULTILINE))
(SELECTED,) = re.findall(r'tests/cli -k "([^"]+)" --update-golden', MAKEFILE)
SCHEMAS = sorted((ROOT / "docs").glob("*.schema.json"))


def grep(pattern: str, *places: str) -> list[str]:
    command = ["git", "grep", "--untracked", "-hoE", pattern, "--", *places]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


@each("module", GENERATORS)
def test_a_generator_exists_and_a_test_compares_what_it_makes(module: str) -> None:
    assert find_spec(module) is not None
    package, _, name = module.rpartition(".")
    imports = rf"^(from {re.escape(package)} import .*\b{name}\b|from {re.escape(module)}(\.\w+)? import )"
    assert grep(imports, "tests/**/test_*.py", "tests/test_*.py")


def test_every_file_that_names_its_generator_is_written() -> None:
    headers = grep("(Written by `|<!-- .*: )python -m [a-z_.]+", "docs", "manifests", "policies")
    named = {header.split()[-1] for header in headers}
    assert named
    assert named <= {*GENERATORS}


def test_contributors_are_told_of_each() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## What is written from code")[2]
    told = set(re.findall(r"`python -m ([a-z_.]+)`", table.partition("\n## ")[0]))
    assert told | {"grafana.generate"} == {*GENERATORS}


@each("schema", SCHEMAS, ids=lambda path: path.name)
def test_every_schema_is_written(schema: Path) -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "tests/cli").rglob("test_*.py")]
    tests = [
        test
        for text in texts
        if f'"{schema.name}"' in text
        for test in re.findall(r"def (test_\w+)\(.*golden: Golden", text)
    ]
    assert [test for test in tests if any(word in test for word in SELECTED.split(" or "))]


def test_ci_writes_everything_and_looks_whether_it_is_the_same() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert re.search(r"^make generate$", script, flags=re.MULTILINE)
