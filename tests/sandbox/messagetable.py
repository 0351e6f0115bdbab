"""Writes ``gangctl/sandbox/rules/messages.json``: the protobuf numbers of the fields in ``fields.json``.

Read from the struct tags of ``k8s.io/api`` and ``k8s.io/apimachinery`` in the newest minor's Go
modules (a number never changes its meaning). Run ``python -m tests.sandbox.messagetable`` after
``fieldtable``; it needs Go.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from gangctl.apiserver.fields import FieldType, fields_of
from tests.controlplane.minors import NEWEST

TABLE: Final = Path(__file__).parents[2] / "gangctl" / "sandbox" / "rules" / "messages.json"
MADE: Final = "by python -m tests.sandbox.messagetable from the Go modules of Kubernetes; not to be edited"
_MODULES: Final = Path(__file__).parents[1] / "controlplane" / "gomod" / f"kubernetes-{NEWEST}"
_STRUCT: Final = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", flags=re.MULTILINE | re.DOTALL)
_FIELD: Final = re.compile(r'^\t(?:\w+ +)?(\S+) +`.*?json:"([^",]*).*?protobuf:"\w+,(\d+),', flags=re.MULTILINE)
FOREIGN: Final = ("jobset.", "apiextensions.")
"""What goes over the wire as JSON only: custom resources, and definitions of them, whose schemas are recursive."""

Message = dict[str, str]


def messages(sources: Mapping[str, str]) -> dict[str, Message]:
    """By name as in ``fields.json``: number to field name, ``*`` in front of a pointer, ``<TYPE`` for an inlined one.

    ``sources`` are the Go files of each package.
    """
    found: dict[str, Message] = {}
    for package, text in sources.items():
        for name, body in _STRUCT.findall(text):
            fields = {number: _entry(package, go, field) for go, field, number in _FIELD.findall(body)}
            if fields:
                found[f"{package}.{name}"] = fields
    return found


def _entry(package: str, go: str, field: str) -> str:
    if not field:
        return f"<{package}.{go}"
    return f"*{field}" if go.startswith("*") else field


def needed(found: Mapping[str, Message]) -> dict[str, Message]:
    """Of all messages those of the kinds in ``fields.json``, and what they inline."""
    fields = fields_of(NEWEST)
    chosen: dict[str, Message] = {}

    def add(message: str, definition: str) -> None:
        if message in chosen or message not in found:
            return
        chosen[message] = found[message]
        for entry in found[message].values():
            if entry.startswith("<"):
                add(entry[1:], definition)
        for struct in structs(fields.of(definition).values()):
            add(struct, struct)

    for root in fields.kinds.values():
        if not root.startswith(FOREIGN):
            add(root, root)
    return dict(sorted(chosen.items()))


def structs(shapes: Iterable[FieldType]) -> Iterable[str]:
    """The definitions that types refer to."""
    for shape in shapes:
        if shape.item is not None:
            yield from structs([shape.item])
        elif shape.form == "struct":
            yield shape.name


def sources() -> dict[str, str]:
    """The packages that ``fields.json`` names."""
    packages = {name.rpartition(".")[0] for name in names()}
    found = {}
    for package in sorted(packages):
        group, version = package.split(".")
        module, path = ("k8s.io/api", group) if group != "meta" else ("k8s.io/apimachinery", "pkg/apis/meta")
        directory = _module(module) / path / version
        found[package] = "".join(file.read_text(encoding="utf-8") for file in sorted(directory.glob("*.go")))
    return found


def names() -> set[str]:
    """The definitions of what goes over the wire in protobuf."""
    found: set[str] = set()
    left = [root for root in fields_of(NEWEST).kinds.values() if not root.startswith(FOREIGN)]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += structs(fields_of(NEWEST).of(name).values())
    return found


def _module(name: str) -> Path:
    command = ["go", "list", "-m", "-f", "{{.Dir}}", name]
    done = subprocess.run(command, cwd=_MODULES, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip())


def main() -> None:
    """Write the table, one message a line."""
    table = needed(messages(sources()))
    lines = [f"{json.dumps(name)}:{json.dumps(fields, separators=(',', ':'))}" for name, fields in table.items()]
    TABLE.write_text(f'{{\n"made": {json.dumps(MADE)},\n"messages": {{\n' + ",\n".join(lines) + "\n}\n}\n")


if __name__ == "__main__":
    main()
