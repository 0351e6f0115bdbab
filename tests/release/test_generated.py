"""``make generate`` writes every file with a generator in its header; tests compare it."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator, Mapping
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


def test_contributing_lists_each_generator() -> None:
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## What is written from code")[2]
    reported = set(re.findall(r"`python -m ([a-z_.]+)`", table.partition("\n## ")[0]))
    assert reported | {"grafana.generate"} == {*GENERATORS}


def texts_of(node: ast.AST, constants: Mapping[str, ast.AST]) -> Iterator[str]:
    """Every text in a piece of code, and in the constants of its module that it names."""
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value
        elif isinstance(part, ast.Name) and part.id in constants:
            yield from texts_of(constants[part.id], {})


def written_by_tests(path: Path) -> Iterator[str]:
    """The files that the golden tests of a module write which ``make generate`` selects."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    constants = {
        target.id: statement.value
        for statement in module.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    for test in ast.walk(module):
        if not isinstance(test, ast.FunctionDef) or not any(word in test.name for word in SELECTED.split(" or ")):
            continue
        for call in ast.walk(test):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "golden":
                yield from texts_of(call.args[0], constants)
                # A file that is an argument of the test is in its table.
                if any(isinstance(part, ast.Name) and part.id not in constants for part in ast.walk(call.args[0])):
                    for table in test.decorator_list:
                        yield from texts_of(table, constants)


def test_every_schema_is_written_by_the_tests_that_make_selects() -> None:
    written = {text for path in (ROOT / "tests/cli").rglob("test_*.py") for text in written_by_tests(path)}
    assert SCHEMAS
    assert [path.name for path in SCHEMAS if path.name not in written] == []
