"""Values of the chart from their schema, the one place with their descriptions: values.yaml and a table."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.manifests.templating import scalar

Object = dict[str, Any]

_HEAD: Final = """\
# Written by `python -m tests.manifests.chart` from values.schema.json, which refuses every other value. README.md has
# the same as a table. Names of objects are fixed, so that there is one gangctl in a cluster. With these values and an
# image Helm installs what kustomize makes of manifests/base.
"""
_TABLE: Final = "| value | type | default | description |\n|---|---|---|---|\n"
_FILES: Final = "| file | for |\n|---|---|\n"
_WIDTH: Final = 120


@dataclass(frozen=True)
class Value:
    """A value by its whole name; one with ``parts`` has no default of its own."""

    name: str
    schema: Object
    parts: tuple[Value, ...] = ()

    @property
    def description(self) -> str:
        """What it is for."""
        return str(self.schema["description"])

    @property
    def type(self) -> str:
        """The types of JSON that it may have, or what it may be."""
        if "enum" in self.schema:
            return " or ".join(f"`{json.dumps(each)}`" for each in self.schema["enum"])
        said = self.schema.get("type", "object")
        return said if isinstance(said, str) else " or ".join(said)

    @property
    def leaves(self) -> Iterator[Value]:
        """Itself, or what it consists of."""
        if not self.parts:
            yield self
        for each in self.parts:
            yield from each.leaves


def read(chart: Path) -> list[Value]:
    """Every value, in the order of the schema."""
    return list(_values(json.loads((chart / "values.schema.json").read_text(encoding="utf-8"))))


def _values(schema: Object, prefix: str = "") -> Iterator[Value]:
    for name, each in schema["properties"].items():
        parts = () if "default" in each else tuple(_values(each, f"{prefix}{name}."))
        yield Value(prefix + name, each, parts)


def values_yaml(values: list[Value]) -> str:
    """The defaults, each below its description."""
    return _HEAD + "".join("\n" + "".join(f"{line}\n" for line in _lines(each, "")) for each in values)


def _lines(value: Value, indent: str) -> Iterator[str]:
    start = f"{indent}# "
    yield from textwrap.wrap(
        value.description, _WIDTH, initial_indent=start, subsequent_indent=start, break_on_hyphens=False
    )
    name = value.name.rpartition(".")[2]
    if not value.parts:
        yield f"{indent}{name}: {scalar(value.schema['default'])}"
        return
    yield f"{indent}{name}:"
    for each in value.parts:
        yield from _lines(each, f"{indent}  ")


def readme(text: str, chart: Path) -> str:
    """The README with its tables as they should be: of values, and of files in ``ci`` by their first lines."""
    leaves = [leaf for each in read(chart) for leaf in each.leaves]
    rows = [
        (f"`{each.name}`", each.type, f"`{json.dumps(each.schema['default'])}`", each.description) for each in leaves
    ]
    files = sorted((chart / "ci").glob("*.yaml"))
    text = _replaced(text, _TABLE, rows)
    return _replaced(text, _FILES, [(f"[{each.name}](ci/{each.name})", _first(each)) for each in files])


def _first(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def _replaced(text: str, head: str, rows: Iterable[Sequence[str]]) -> str:
    before, found, rest = text.partition(head)
    assert found, f"no table with {head!r}"
    after = re.sub(r"^(\|.*\n)*", "", rest)
    return before + head + "".join(f"| {' | '.join(row)} |\n" for row in rows) + after


def write(chart: Path) -> None:
    """Write both."""
    (chart / "values.yaml").write_text(values_yaml(read(chart)), encoding="utf-8")
    path = chart / "README.md"
    path.write_text(readme(path.read_text(encoding="utf-8"), chart), encoding="utf-8")
