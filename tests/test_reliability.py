"""The pages of guarantees name tests that exist, and docs/reliability.md the tier in which they run."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROWS = [line for line in (ROOT / "docs/reliability.md").read_text().splitlines() if re.match(r"\| \d+ \|", line)]
POLICIES = [line for line in (ROOT / "docs/policy-guarantees.md").read_text().splitlines() if line.startswith("| ")]
NAMED = re.compile(r"`(tests/[\w/]+\.py(?:::\w+)?)`( \(full\))?")


@cache
def _tests(path: str) -> dict[str, bool]:
    """The tests of a file, and whether only the full tier runs them."""
    tree = ast.parse((ROOT / path).read_text())
    named = {ast.unparse(each.targets[0]): each.value for each in tree.body if isinstance(each, ast.Assign)}
    marks = named.get("pytestmark")
    module = any(map(_is_full, marks.elts if isinstance(marks, ast.List) else [marks]))
    return {
        node.name: module or any(_is_full(named.get(ast.unparse(each), each)) for each in node.decorator_list)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def _is_full(mark: ast.expr | None) -> bool:
    """Not so a mark of some of a test's parameters."""
    return isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.full"


def test_the_page_has_every_row_of_the_checklist() -> None:
    assert [int(row.split("|")[1]) for row in ROWS] == list(range(1, 44))


def test_every_row_names_a_test_and_the_tier_in_which_it_is_proved() -> None:
    for row in ROWS:
        tiers = {"full" if full else "first" for _, full in NAMED.findall(row)}
        assert tiers, f"no test is named: {row}"
        said = row.rstrip(" |").rpartition("|")[2].strip()
        assert said == ("first" if "first" in tiers else "full"), row


def test_every_guarantee_of_policies_names_a_test() -> None:
    assert all(NAMED.search(row) for row in POLICIES if not row.startswith("| guarantee"))


def test_named_tests_exist_and_those_of_the_full_tier_are_marked() -> None:
    wrong = []
    rows = [*ROWS, *POLICIES]
    for path, _, name, full in ((*named.partition("::"), full) for row in rows for named, full in NAMED.findall(row)):
        if not (ROOT / path).is_file():
            wrong.append(f"{path} does not exist")
        elif name and name not in _tests(path):
            wrong.append(f"{path} has no {name}")
        elif name and _tests(path)[name] is not bool(full):
            wrong.append(f"{name}: {'say' if _tests(path)[name] else 'do not say'} (full)")
    assert wrong == []
