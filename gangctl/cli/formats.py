"""Formats of ``-o``, written as for kubectl."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

TABLE: Final = "table"
WIDE: Final = "wide"
JSONPATH: Final = "jsonpath"
COLUMNS: Final = "custom-columns"
_TEMPLATES: Final = {JSONPATH: "{.metadata.name}", COLUMNS: "NAME:.metadata.name"}
"""Formats that take a template, each with an example."""


class Format(click.ParamType[str]):
    """One of some formats; where YAML is one, ``jsonpath=`` and ``custom-columns=`` with a template, too."""

    name = "format"

    def __init__(self, formats: tuple[str, ...]) -> None:
        """``formats`` are those without a template."""
        self.formats = formats
        self.templates = tuple(_TEMPLATES) if "yaml" in formats else ()

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:  # noqa: ARG002 -- click's signature
        """All formats, as click shows choices."""
        return f"[{'|'.join([*self.formats, *(f'{name}=...' for name in self.templates)])}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The format; a usage error says what is allowed."""
        text = str(value)
        name, equals, template = text.partition("=")
        if text in self.formats:
            return text
        if name not in self.templates:
            allowed = ", ".join([*self.formats, *(f"{each}=..." for each in self.templates)])
            self.fail(f'"{text}" is not a format: there are {allowed}', param, ctx)
        if not equals or not template:
            self.fail(f"{name} needs a template, such as {name}={_TEMPLATES[name]}", param, ctx)
        try:
            _check(name, template)
        except ValueError as error:
            self.fail(f"{name}: {error}", param, ctx)
        return text

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002
        """Names of formats."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 -- only while completing

        names = [*self.formats, *(f"{name}=" for name in self.templates)]
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


class FieldPath(click.ParamType[str]):
    """A field, as ``--sort-by`` takes it."""

    name = "field"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The path as it is written; a usage error where it is none."""
        from gangctl.cli.jsonpath import parse_path  # noqa: PLC0415 -- only with --sort-by

        try:
            parse_path(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


def columns_of(spec: str) -> list[tuple[str, str]]:
    """Headers and paths of ``custom-columns=``; ValueError where it is none."""
    pairs = [part.partition(":") for part in spec.split(",")]
    for header, colon, path in pairs:
        if not (header and path):
            raise ValueError(f'"{header}{colon}{path}" is no column: write HEADER:.path, such as NAME:.metadata.name')
    return [(header, path) for header, _, path in pairs]


def _check(name: str, template: str) -> None:
    """ValueError where a template is none."""
    from gangctl.cli import jsonpath  # noqa: PLC0415 -- only with a template

    if name == JSONPATH:
        jsonpath.parse(template)
        return
    for _, path in columns_of(template):
        jsonpath.parse_path(path)
