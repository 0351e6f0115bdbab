"""Print results as kubectl does, in the formats of ``-o``: tables for people, documents for programs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from gangctl.api.emit import to_json, to_yaml
from gangctl.api.quantity import parse_quantity
from gangctl.cli.messages import printable
from gangctl.errors import InputError

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
            allowed = ", ".join([*self.formats, *(f"{template}=..." for template in self.templates)])
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


def columns_of(spec: str) -> list[tuple[str, str]]:
    """Headers and paths of ``custom-columns=``; ValueError where it is none."""
    pairs = [part.partition(":") for part in spec.split(",")]
    for header, colon, path in pairs:
        if not (header and path):
            raise ValueError(f'"{header}{colon}{path}" is no column: write HEADER:.path, such as NAME:.metadata.name')
    return [(header, path) for header, _, path in pairs]


def _check(name: str, template: str) -> None:
    """ValueError where a template is none."""
    from gangctl.api import jsonpath  # noqa: PLC0415 -- only with a template

    if name == JSONPATH:
        jsonpath.parse(template)
        return
    for _, path in columns_of(template):
        jsonpath.parse_path(path)


EMPTY: Final = "-"
_NO_VALUE: Final = "<none>"
_NULL: Final = "<nil>"
"""Of a column of ``custom-columns`` without a value, and of one that is null, as kubectl shows them."""

INDENT: Final = "  "
_GAP: Final = 3
_NARROWEST: Final = 6
"""Characters of a column with the gap behind it: both as kubectl has them."""
_LEAST_WIDTH: Final = 20


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headers; every cell is plain text, and an empty one is shown as a dash."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """Widths of all columns but the last, with the gap behind them."""
        columns = range(len(self.headers) - 1)
        return tuple(
            max(_NARROWEST, *(len(printable(row[column])) + _GAP for row in (self.headers, *self.rows)))
            for column in columns
        )

    def lines(self, *, headers: bool = True) -> Iterator[str]:
        """Its lines, the header first."""
        widths = self.widths
        for row in (self.headers, *self.rows) if headers else self.rows:
            yield row_line(row, widths)


def row_line(row: Sequence[str], widths: Sequence[int]) -> str:
    """One row; the last column has no width."""
    cells = [printable(cell) or EMPTY for cell in row]
    return "".join([*map(str.ljust, cells, widths), cells[-1]]).rstrip()


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the text: with a title the description of one object, without one a list.

    A description has its lines before the table, and both indented; a list begins with the header of the table.
    """

    title: str = ""
    lines: tuple[str, ...] = ()
    table: Table | None = None
    warnings: tuple[str, ...] = ()
    legend: str = ""
    """What columns mean, shown on a terminal only."""


@dataclass(frozen=True, slots=True)
class ListItem:
    """One object of a list: the document, its row, and what ``-o name`` prints of it where that differs."""

    document: Mapping[str, Any]
    row: tuple[str, ...]
    named: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """How to print a list: the flags ``-o``, ``--no-headers`` and ``--sort-by``."""

    form: str = TABLE
    headers: bool = True
    sort_by: str = ""

    def print(
        self,
        headers: Sequence[str],
        entries: Sequence[ListItem],
        *,
        wide: Sequence[str] = (),
        nothing: str = "No resources found",
        legend: str = "",
        listed: bool = True,
    ) -> None:
        """Print a list; the last cells of the rows are those of ``wide``, the columns of ``-o wide``.

        What is ``listed`` is a List also where it is one object; an object that was asked for by name is not.
        """
        entries = in_order(entries, self.sort_by) if self.sort_by else entries
        if self.form not in {TABLE, WIDE}:
            documents = [entry.document for entry in entries]
            names = [entry.named or entry.document for entry in entries]
            print_answer(self.form, documents, names=names, headers=self.headers, listed=listed)
            return
        if not entries:
            click.echo(nothing, err=True)
            return
        shown = (*headers, *wide) if self.form == WIDE else tuple(headers)
        table = Table(shown, tuple(entry.row[: len(shown)] for entry in entries))
        print_sections([Section(table=table, legend=legend)], headers=self.headers)


def print_answer(
    form: str,
    objects: Sequence[Mapping[str, Any]],
    sections: Callable[[], Sequence[Section]] | None = None,
    names: Iterable[Mapping[str, Any]] | None = None,
    *,
    headers: bool = True,
    listed: bool = False,
) -> None:
    """Print a result in a format of ``-o``; ``names`` are the objects for ``-o name``, if these differ.

    ``listed`` objects are a List also where there is one or none, as those that kubectl lists.
    """
    name, _, template = form.partition("=")
    if form == TABLE and sections is not None:
        print_sections(sections(), headers=headers)
        return
    if form == "name":
        print_names(objects if names is None else names)
        return
    if name == COLUMNS:
        print_sections([Section(table=_custom_table(template, objects))], headers=headers)
        return
    if listed or (name == JSONPATH and len(objects) != 1):
        objects = [{"apiVersion": "v1", "kind": "List", "metadata": {}, "items": list(objects)}]
    if name == JSONPATH:
        # kubectl prints no newline after a template.
        click.echo(_selected(template, objects[0]), nl=False)
    else:
        click.echo(to_json(objects) if form == "json" else to_yaml(objects), nl=False)


def answer_no() -> NoReturn:
    """Exit with the code of a failed check."""
    raise click.exceptions.Exit(1)


def _selected(template: str, value: Any) -> str:
    from gangctl.api.jsonpath import TemplateError, render  # noqa: PLC0415 -- only with -o jsonpath

    try:
        return render(template, value)
    except TemplateError as error:
        raise InputError(f"-o jsonpath: {error}", hint="-o json prints what there is") from error


def _custom_table(spec: str, objects: Sequence[Mapping[str, Any]]) -> Table:
    from gangctl.api.jsonpath import TemplateError, parse_path, show  # noqa: PLC0415 -- only with custom-columns

    columns = [(header, parse_path(path)) for header, path in columns_of(spec)]
    try:
        rows = tuple(
            tuple(",".join(show(value, _NULL) for value in path.find(item)) or _NO_VALUE for _, path in columns)
            for item in objects
        )
    except TemplateError as error:
        raise InputError(f"-o custom-columns: {error}", hint="-o json prints what there is") from error
    return Table(tuple(header for header, _ in columns), rows)


def in_order(entries: Sequence[ListItem], sort_by: str) -> list[ListItem]:
    """The entries in the order of a field of their documents: those without it first, as kubectl has it."""
    from gangctl.api.jsonpath import TemplateError, parse_path  # noqa: PLC0415 -- only with --sort-by

    path = parse_path(sort_by)

    def values(document: Mapping[str, Any]) -> Sequence[Any]:
        try:
            return path.find(document)
        except TemplateError:  # an index beyond the end of a list: kubectl refuses all for one such object
            return ()

    keys = [values(entry.document) for entry in entries]
    if entries and not any(keys):
        raise InputError(f"--sort-by: no object has {sort_by}", hint="-o json prints what there is")
    order = sorted(range(len(entries)), key=lambda index: _rank(keys[index]))
    return [entries[index] for index in order]


def _rank(found: Sequence[Any]) -> tuple[Any, ...]:
    """Numbers and quantities by size, before other text."""
    if not found or found[0] is None:
        return (0,)
    value = found[0]
    if isinstance(value, int | float):
        return 1, value
    text = str(value)
    try:
        return 1, parse_quantity(text)
    except ValueError:
        return 2, text


def print_names(objects: Iterable[Mapping[str, Any]]) -> None:
    """Print ``kind.group/name`` of each object, as ``kubectl -o name`` does."""
    for item in objects:
        group, slash, _ = str(item["apiVersion"]).partition("/")
        kind = str(item["kind"]).lower()
        click.echo(f"{kind}.{group}/{item['metadata']['name']}" if slash else f"{kind}/{item['metadata']['name']}")


def without_colour() -> bool:
    """Whether ``--no-color`` disables colours."""
    context = click.get_current_context(silent=True)
    return context is not None and context.color is False


def wants_colour() -> bool:
    """Whether stdout is a terminal, and colours are not disabled."""
    # An empty NO_COLOR counts as unset (no-color.org).
    if without_colour() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return sys.stdout.isatty()


def print_sections(sections: Sequence[Section], *, headers: bool = True) -> None:
    """Print text. On a terminal sentences are fitted to its width, and legends are shown; tables are never wrapped."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    click.echo(text_of(sections, width, headers=headers), nl=False, color=wants_colour())


def text_of(sections: Sequence[Section], width: int | None = None, *, headers: bool = True) -> str:
    """Sections with blank lines between them, in colours; ``width`` is that of a terminal."""
    shown = ("".join(f"{line}\n" for line in _lines(section, width, headers=headers)) for section in sections)
    return "\n".join(filter(None, shown))


def _lines(section: Section, width: int | None, *, headers: bool) -> Iterator[str]:
    indent = INDENT if section.title else ""
    if section.title:
        yield click.style(printable(section.title), fg="cyan", bold=True)
        yield from _fitted([f"{indent}{line}" for line in section.lines], width)
    if section.table is not None:
        for number, line in enumerate(section.table.lines(headers=headers)):
            yield click.style(f"{indent}{line}", bold=True) if headers and not number else f"{indent}{line}"
    if not section.title and section.lines:
        if section.table is not None:
            yield ""
        yield from _fitted(section.lines, width)
    for warning in _fitted([f"{indent}! {warning}" for warning in section.warnings], width):
        yield click.style(warning, fg="yellow")
    if width is not None and section.legend:
        if section.title or section.table is not None:
            yield ""
        yield from _fitted(section.legend.splitlines(), width)


def _fitted(lines: Iterable[str], width: int | None) -> Iterator[str]:
    """Lines for a terminal of a width, None for no limit; a command stays whole, because users copy it."""
    for line in map(printable, lines):
        body = line.lstrip()
        if width is None or len(line) <= width or body.startswith("$ "):
            yield line
            continue
        indent = line[: len(line) - len(body)] + INDENT
        # Names of objects have hyphens, and are copied: they stay whole.
        yield from wrap(
            line, max(width, _LEAST_WIDTH), subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
