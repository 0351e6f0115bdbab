"""YAML text to values with places, from the events of libyaml.

Events instead of ``compose``: libyaml's composer recurses in C, and a text of a hundred thousand brackets ends the
process.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from gangctl.api.scalars import Scalar, json_number, key_text, resolve_plain
from gangctl.api.sourcetext import SourceError, SourceText
from gangctl.api.valuetree import MERGE, Allowance, Built, TreeBuilder, weight

# The characters of YAML 1.1 (5.1) that libyaml reads; others it reports by byte and without a line.
_UNREADABLE: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")

_TAG: Final = "tag:yaml.org,2002:"
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
    "null": (type(None),),
}

_HINTS: Final = {
    "mapping values are not allowed in this context": "a value that contains ': ' needs quotes",
    "did not find expected key": "check the indentation of this line and of those above it",
}


class YamlReader:
    """Reads one text; ``max_expanded`` bounds how many values aliases may add over all documents."""

    def __init__(self, source: SourceText, max_depth: int, max_values: int, max_expanded: int) -> None:
        """Read nothing yet."""
        self._source = source
        self._max_depth = max_depth
        self._allowance = Allowance(source, max_values)
        self._budget = max_expanded
        self._max_expanded = max_expanded
        self._anchors: dict[str, Built | None] = {}
        self._open: list[str | None] = []

    def read(self) -> Iterator[tuple[Built, int]]:
        """Yield each document's value and its offset; SourceError on the first error."""
        unreadable = _UNREADABLE.search(self._source.text)
        if unreadable is not None:
            character = unreadable[0]
            raise self._source.error(unreadable.start(), f"character U+{ord(character):04X} is not allowed in YAML")
        parser = yaml.CSafeLoader(self._source.text)
        try:
            yield from self._documents(parser)
        except yaml.MarkedYAMLError as error:
            raise self._syntax_error(error) from error
        finally:
            parser.dispose()

    def _documents(self, parser: yaml.CSafeLoader) -> Iterator[tuple[Built, int]]:
        builder = TreeBuilder(self._source, self._max_depth, self._allowance)
        while parser.check_event():
            event = parser.get_event()
            match event:
                case yaml.ScalarEvent():
                    self._scalar(builder, event)
                case yaml.MappingStartEvent():
                    self._start(builder, event, {}, "map")
                case yaml.SequenceStartEvent():
                    self._start(builder, event, [], "seq")
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    built = builder.close()
                    self._name(self._open.pop(), built)
                case yaml.AliasEvent():
                    self._alias(builder, event)
                case yaml.DocumentStartEvent():
                    builder = TreeBuilder(self._source, self._max_depth, self._allowance)
                    self._anchors = {}
                case yaml.DocumentEndEvent() if builder.root is not None:
                    yield builder.root, builder.root_offset

    def _start(self, builder: TreeBuilder, event: Any, empty: dict[str, Any] | list[Any], kind: str) -> None:
        offset = event.start_mark.index
        if builder.wants_key:
            raise self._source.error(offset, "a key must be text, not a mapping or a list")
        if event.tag is not None and event.tag != _TAG + kind:
            raise self._unknown_tag(offset, event.tag)
        builder.open(empty, offset)
        self._open.append(event.anchor)
        self._name(event.anchor, None)

    def _name(self, anchor: str | None, built: Built | None) -> None:
        """Remember the value of ``&anchor``; None while it is still being read."""
        if anchor is not None:
            self._anchors[anchor] = built

    def _scalar(self, builder: TreeBuilder, event: Any) -> None:
        offset = event.start_mark.index
        value = self._value(event)
        self._name(event.anchor, Built(value, None, weight(value), 0))
        if not builder.wants_key:
            builder.scalar(self._json(value, offset), offset)
        elif value == MERGE and (event.implicit[0] or event.tag == _TAG + "merge"):
            builder.merge_key(offset)
        else:
            self._key(builder, value, offset)

    def _key(self, builder: TreeBuilder, value: Scalar, offset: int) -> None:
        key = key_text(value)
        if key is None:
            raise self._source.error(offset, "a key must not be null", hint="quote it if it is meant as text")
        builder.key(key, offset)

    def _value(self, event: Any) -> Scalar:
        text, offset = event.value, event.start_mark.index
        if event.tag is None and not event.implicit[0]:
            return str(text)
        value = resolve_plain(text)
        if event.tag is not None:
            value = self._tagged(event.tag, text, value, offset)
        return value

    def _json(self, value: Scalar, offset: int) -> Scalar:
        if not isinstance(value, float):
            return value
        number = json_number(value)
        if number is None:
            raise self._source.error(offset, f"JSON has no number {value}", hint="quote it if it is meant as text")
        return number

    def _tagged(self, tag: str, text: str, value: Scalar, offset: int) -> Scalar:
        name = tag.removeprefix(_TAG)
        if tag in {"!", _TAG + "str", _TAG + "merge"}:
            return text
        if not tag.startswith(_TAG) or name not in _TYPES:
            raise self._unknown_tag(offset, tag)
        if not isinstance(value, _TYPES[name]) or (isinstance(value, bool) and name != "bool"):
            raise self._source.error(offset, f"{text!r} is not a !!{name}")
        return value

    def _alias(self, builder: TreeBuilder, event: Any) -> None:
        offset, name = event.start_mark.index, event.anchor
        built = self._anchors.get(name)
        if built is None:
            what = "is part of what it stands for" if name in self._anchors else "has no anchor before it"
            raise self._source.error(offset, f"alias *{name} {what}")
        if builder.wants_key:
            if built.parts is not None:
                raise self._source.error(offset, "a key must be text, not a mapping or a list")
            self._key(builder, built.value, offset)
            return
        self._budget -= built.size
        if self._budget < 0:
            raise self._source.error(offset, f"aliases stand for more than {self._max_expanded} values in all")
        if built.parts is None:
            builder.scalar(self._json(built.value, offset), offset)
            return
        # A copy, so that changing one place in the data never changes another.
        builder.add(built._replace(value=copy.deepcopy(built.value)), offset)

    def _unknown_tag(self, offset: int, tag: str) -> SourceError:
        shown = tag.replace(_TAG, "!!", 1)
        return self._source.error(offset, f"tag {shown} has no meaning in a Kubernetes manifest", hint="remove it")

    def _syntax_error(self, error: yaml.MarkedYAMLError) -> SourceError:
        mark = error.problem_mark or error.context_mark
        offset = mark.index if mark is not None else 0
        problem = error.problem or "not YAML"
        if problem == "found character that cannot start any token":
            character = self._source.text[offset : offset + 1]
            if character == "\t":
                return self._source.error(offset, "a tab cannot indent YAML", hint="indent with spaces")
            return self._source.error(offset, f"{character!r} cannot begin a value", hint="quote the value")
        context = ""
        if error.context and error.context_mark is not None:
            context = f" ({error.context} that begins at line {self._source.position(error.context_mark.index)[0]})"
        return self._source.error(offset, f"{problem}{context}", hint=_HINTS.get(problem, ""))
