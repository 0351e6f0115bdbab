"""docs/reference/annotations.md names every key that the code uses, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import pytest

from gangctl.api import meta
from gangctl.api.meta import KEYS, Key, KeyRole, Place
from gangctl.gang.config import GangMode, GangOptions
from gangctl.gang.naming import Scope
from tests.docpages import ROOT
from tests.docs.tables import code, rows
from tests.rows import each

TEXT: Final = (ROOT / "docs/reference/annotations.md").read_text(encoding="utf-8")
KEY: Final = re.compile(r"(?:[a-z0-9-]+\.)+[a-z0-9]+/(?!v\d)[A-Za-z](?:[\w.-]*[A-Za-z0-9])?")
ELSEWHERE: Final = ("sandbox", "apiserver", "cli/sandbox.py", "migration", "demo/real.py", "client/config.py")
"""Who plays other controllers, reads other schedulers' keys, which docs/migration.md has, or reads kubeconfigs."""
LISTED: Final = [(code(cell), row) for row in rows(TEXT) for cell in row[:2] if KEY.fullmatch(code(cell))]


def constants() -> Iterator[str]:
    """Every string of the package that looks like a key."""
    for path in (ROOT / "gangctl").rglob("*.py"):
        if path.relative_to(ROOT / "gangctl").as_posix().startswith(ELSEWHERE):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and KEY.fullmatch(node.value):
                yield node.value


KNOWN: Final = frozenset(constants())
MANIFESTS: Final = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "manifests").rglob("*.yaml"))


def test_every_key_of_the_code_is_named() -> None:
    assert meta.GANG_MODE in KNOWN
    assert sorted(KNOWN - {key for key, _ in LISTED}) == []


@each("key", sorted({key for key, _ in LISTED}))
def test_every_key_that_is_named_exists(key: str) -> None:
    assert key in KNOWN or re.search(rf"{re.escape(key)}[:=\n]", MANIFESTS)


def test_every_key_of_the_manifests_is_named() -> None:
    ours = set(re.findall(r"(?<!\bpolicies\.)\b(gangctl\.dev/(?!v\d)[a-z][a-z-]*[a-z])(?![a-z-])", MANIFESTS))
    assert len(ours) > 5
    assert ours <= {key for key, _ in LISTED}


def test_each_key_has_one_row_per_place() -> None:
    places = [(key, row[2]) for key, row in LISTED if len(row) > 2]
    assert sorted(set(places)) == sorted(places)


PLACES: Final = {Place.JOBSET: "a JobSet", Place.TEMPLATE: f"`{Place.TEMPLATE}`", Place.NAMESPACE: "a Namespace"}


@each(("key", "place"), [(key, place) for key in KEYS for place in key.places])
def test_each_key_has_its_row_where_it_belongs(key: Key, place: Place) -> None:
    (row,) = [row for name, row in LISTED if name == key.name and PLACES[place] in row[2]]
    assert row[0] == ("l" if place is Place.NAMESPACE else "a")
    assert ("at any time" in row[-1]) is (key.role is KeyRole.CHANGEABLE)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (meta.GANG_MODE, {str(mode) for mode in GangMode}),
        (meta.GANG_OPTIONS, {field.alias for field in GangOptions.model_fields.values()}),
        (meta.GANG_REF, {str(scope) for scope in Scope}),
    ],
)
def test_values_are_those_of_the_code(key: str, words: set[str]) -> None:
    readme = rows((ROOT / "README.md").read_text(encoding="utf-8"))
    for table in (LISTED, [(code(row[0]), row) for row in readme]):
        reported = " ".join(" ".join(row[1:]) for found, row in table if found == key)
        # The README has the keys that most users write.
        assert not reported or words <= set(re.findall(r"`(\w+)`", reported))
