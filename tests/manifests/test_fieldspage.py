"""The pages about objects have the content of the definitions, and every field of a manifest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from tests.manifests import fieldspage
from tests.manifests.files import MANIFESTS
from tests.rows import each

POLICY: Final = fieldspage.pages()["gangpolicy.md"]
FILES: Final = sorted(path for path in MANIFESTS.glob("*/crds/*.yaml") if path.stem != "kustomization")


def test_the_pages_are_generated_from_the_definitions() -> None:
    for name, text in fieldspage.pages().items():
        assert (fieldspage.DIRECTORY / name).read_text(encoding="utf-8") == text, fieldspage.__doc__


def names(schema: Any) -> Iterator[str]:
    """Every name of a field, however deep."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            yield from value if key == "properties" else ()
            yield from names(value)
    elif isinstance(schema, list):
        for each in schema:
            yield from names(each)


@each("file", FILES, ids=lambda file: file.stem)
def test_every_field_of_the_installed_definitions_is_listed(file: Path) -> None:
    (definition,) = yaml.safe_load_all(file.read_text(encoding="utf-8"))
    section = fieldspage.pages()[f"{definition['spec']['names']['kind'].lower()}.md"]
    shown = {part for path in re.findall(r"^\| `([^`]+)`", section, re.MULTILINE) for part in re.findall(r"\w+", path)}
    schema = definition["spec"]["versions"][0]["schema"]
    assert set(names(schema)) - shown <= {"apiVersion", "kind", "metadata"}


def test_required_fields_are_marked() -> None:
    assert "| `spec.validations[].expression`* | string |" in POLICY
    assert "| `spec.expiresAt`* | date-time |" in fieldspage.pages()["gangpolicyexception.md"]
    assert "| `spec.validations[].message` |" in POLICY


def test_limits_and_defaults_are_listed() -> None:
    (row,) = re.findall(r"^\| `spec\.failurePolicy` \|.*$", POLICY, flags=re.MULTILINE)
    assert "One of `Fail`, `Ignore`." in row
    (row,) = re.findall(r"^\| `spec\.background` \|.*$", POLICY, flags=re.MULTILINE)
    assert "Default: `true`." in row
