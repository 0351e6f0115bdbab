"""Templates of ``-o jsonpath=`` and paths of ``-o custom-columns=``, ``--sort-by`` and definitions, as in kubectl.

No library on PyPI has that syntax: theirs is RFC 9535, which has no templates, no ``range`` and no relaxed paths.
``tests/cli/test_jsonpath.py`` compares the results with those of kubectl.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from json import dumps
from typing import Any, Final

_FIELD: Final = re.compile(r"(?:\\.|[^\s.,\[\]$@{}()'\"=!<>?*\\])+")
# As RelaxedJSONPathExpression of kubectl (pkg/cmd/get/customcolumn.go).
_RELAXED: Final = re.compile(r"\{?\.?([^{}]+)\}?")
_MOST_DIGITS: Final = 18
"""Of a number: kubectl's have 64 bits."""
_INTEGER: Final = re.compile(rf"-?\d{{1,{_MOST_DIGITS}}}")
_SLICE: Final = re.compile(rf"({_INTEGER.pattern})?:({_INTEGER.pattern})?(?::({_INTEGER.pattern})?)?")
_LITERAL: Final = re.compile(r"true|false|-?\d+(?:\.\d+)?")
_MOST_RANGES: Final = 100
"""Ranges within each other."""
_COMPARISON: Final = re.compile(r"==|!=|<=|>=|<|>")
_KEYWORD: Final = re.compile(r"(range|end)(?![^\s}])")
_QUOTED: Final = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r"}
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}

Step = Callable[[Any], Iterator[Any]]
"""From one value to those that a part of a path selects in it."""


class TemplateError(ValueError):
    """A template that kubectl refuses, too, or one that does not match the data."""


@dataclass(frozen=True, slots=True)
class Path:
    """A path: the steps from a value to what it selects."""

    steps: tuple[Step, ...]

    def find(self, value: Any) -> list[Any]:
        """Everything that it selects; a missing key selects nothing."""
        matches = [value]
        for step in self.steps:
            matches = [inner for item in matches for inner in step(item)]
        return matches


@dataclass(frozen=True, slots=True)
class _Range:
    """``{range PATH}...{end}``."""

    path: Path
    parts: list[_Part]


_Part = str | Path | _Range


def render(template: str, value: Any) -> str:
    """What kubectl prints of a value for ``-o jsonpath=template``."""
    return _render(parse(template), value)


def parse(template: str) -> list[_Part]:
    """The parts of a template; TemplateError where it is none."""
    return _Parser(template).template()


def parse_path(text: str) -> Path:
    """A path of a column or a sort key: ``{.a.b}``, ``.a.b`` or ``a.b``; TemplateError where it is none."""
    match = _RELAXED.fullmatch(text.strip())
    if match is None:
        raise TemplateError(f'"{text}" is no path such as .metadata.name')
    inner = match[1] if match[1].startswith("[") else f".{match[1]}"
    match _Parser(f"{{{inner}}}").template():
        case [Path() as path]:
            return path
    raise TemplateError(f'"{text}" is more than one path: write one, such as .metadata.name')


def show(value: Any, null: str = "null") -> str:
    """A value as kubectl prints it: text as it is, objects and lists as JSON; ``null`` is for a null."""
    if isinstance(value, str):
        return value
    if value is None:
        return null
    # Go's encoding/json writes maps in the order of their keys, and without blanks.
    return dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def _render(parts: Sequence[_Part], value: Any) -> str:
    shown = []
    for part in parts:
        if isinstance(part, str):
            shown.append(part)
        elif isinstance(part, Path):
            shown.append(" ".join(map(show, part.find(value))))
        else:
            shown += [_render(part.parts, match) for match in part.path.find(value)]
    return "".join(shown)


class _Parser:
    """One template, read from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def template(self, ranges: int = 0) -> list[_Part]:
        """Texts and actions; inside of ``ranges`` up to the end of the innermost."""
        # Each range is one more call of this function: without a bound it would be a RecursionError.
        if ranges > _MOST_RANGES:
            raise TemplateError(f"more than {_MOST_RANGES} ranges within each other")
        parts: list[_Part] = []
        while self._at < len(self._text):
            opening = self._text.find("{", self._at)
            end = len(self._text) if opening < 0 else opening
            if text := self._text[self._at : end]:
                parts.append(text)
            self._at = end + 1
            if opening < 0:
                break
            keyword = self._keyword()
            if keyword == "end":
                self._expect("}")
                if not ranges:
                    raise TemplateError("{end} without {range}")
                return parts
            if keyword == "range":
                path = self._path()
                self._expect("}")
                parts.append(_Range(path, self.template(ranges + 1)))
                continue
            parts += self._action()
        if ranges:
            raise TemplateError("{range} without {end}")
        return parts

    def _keyword(self) -> str:
        self._blank()
        match = _KEYWORD.match(self._text, self._at)
        if match is None:
            return ""
        self._at = match.end()
        return match[1]

    def _action(self) -> Iterator[_Part]:
        """Quoted texts and paths up to the closing brace; the whole value where there is none."""
        if self._peek() == "}":
            yield Path(())
        while not self._take("}"):
            if self._at >= len(self._text):
                raise TemplateError("a { without its }")
            yield self._quoted() if self._peek() in {'"', "'"} else self._path()
            self._blank()

    def _path(self) -> Path:
        self._blank()
        start = self._at
        steps: list[Step] = []
        if self._peek() in {"$", "@"}:
            self._at += 1
        while (step := self._step()) is not None:
            steps.append(step)
        if self._at == start:
            raise self._unexpected("a path such as .metadata.name")
        return Path(tuple(steps))

    def _step(self) -> Step | None:
        if self._text.startswith("..", self._at):
            self._at += 1
            # The second dot of `..name` begins the next step; that of `..[0]` begins nothing.
            if self._text.startswith(".[", self._at):
                self._at += 1
            return _descend
        if self._take("["):
            return self._bracket()
        if not self._take("."):
            return None
        if self._take("*"):
            return _all
        match = _FIELD.match(self._text, self._at)
        if match is None:
            return _itself
        self._at = match.end()
        return _member(_unescaped(match[0]))

    def _bracket(self) -> Step:
        self._blank()
        if self._take("*"):
            self._expect("]")
            return _all
        if self._text.startswith("?(", self._at):
            self._at += 2
            return self._filter()
        steps: list[Step] = []
        while True:
            self._blank()
            steps.append(self._selector())
            self._blank()
            if self._take("]"):
                return steps[0] if len(steps) == 1 else _union(steps)
            self._expect(",")

    def _selector(self) -> Step:
        if self._peek() in {'"', "'"}:
            return _member(self._quoted())
        # Before an index, which begins alike.
        if match := _SLICE.match(self._text, self._at):
            self._at = match.end()
            first, last, step = (int(group) if group else None for group in match.groups())
            if step == 0:
                raise TemplateError("the step of a slice is 0: there are 1, 2 and so on")
            return _slice(slice(first, last, step))
        if match := _INTEGER.match(self._text, self._at):
            self._at = match.end()
            return _item(int(match[0]))
        raise self._unexpected("an index, a slice, a quoted name, * or ?(...)")

    def _filter(self) -> Step:
        left = self._operand()
        self._blank()
        match = _COMPARISON.match(self._text, self._at)
        if match is None:
            self._expect(")")
            self._expect("]")
            return _where(lambda each: bool(left(each)))
        self._at = match.end()
        right, compare = self._operand(), _COMPARE[match[0]]
        self._blank()
        self._expect(")")
        self._expect("]")
        return _where(lambda each: _holds(compare, left(each), right(each)))

    def _operand(self) -> Callable[[Any], list[Any]]:
        """A literal, or a path from the element."""
        self._blank()
        if self._peek() in {'"', "'"}:
            text = self._quoted()
            return lambda _: [text]
        if self._peek() in {"@", "$", "."}:
            return self._path().find
        match = _LITERAL.match(self._text, self._at)
        if match is None:
            raise self._unexpected("@.field, a number, true, false or a quoted text")
        self._at = match.end()
        literal: Any = match[0] == "true" if match[0] in {"true", "false"} else float(match[0])
        return lambda _: [literal]

    def _quoted(self) -> str:
        match = _QUOTED.match(self._text, self._at)
        if match is None:
            raise TemplateError("a quoted text without its closing quote")
        self._at = match.end()
        return _unescaped(match[0][1:-1])

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self, character: str) -> bool:
        taken = self._peek() == character
        self._at += taken
        return taken

    def _blank(self) -> None:
        while self._peek().isspace():
            self._at += 1

    def _expect(self, character: str) -> None:
        self._blank()
        if not self._take(character):
            raise self._unexpected(f'"{character}"')

    def _unexpected(self, wanted: str) -> TemplateError:
        rest = f'"{self._text[self._at : self._at + 20]}"' if self._peek() else "the end"
        return TemplateError(f"expected {wanted} at character {self._at + 1}, found {rest}")


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text)


def _itself(value: Any) -> Iterator[Any]:
    yield value


def _all(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descend(value: Any) -> Iterator[Any]:
    """A value and everything in it."""
    yield value
    for item in _all(value):
        if isinstance(item, dict | list):
            yield from _descend(item)


def _member(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _item(index: int) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if value is None:
            return
        if not isinstance(value, list):
            raise TemplateError(f"[{index}] is of a list, and {show(value)[:40]} is none")
        if not -len(value) <= index < len(value):
            raise TemplateError(f"[{index}] is out of bounds: the list has {len(value)}")
        yield value[index]

    return step


def _slice(part: slice) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if value is None:
            return
        if not isinstance(value, list):
            raise TemplateError(f"a slice is of a list, and {show(value)[:40]} is none")
        yield from value[part]

    return step


def _union(steps: Sequence[Step]) -> Step:
    def step(value: Any) -> Iterator[Any]:
        for step in steps:
            yield from step(value)

    return step


def _where(test: Callable[[Any], bool]) -> Step:
    def step(value: Any) -> Iterator[Any]:
        yield from (item for item in _all(value) if test(item))

    return step


def _holds(compare: Callable[[Any, Any], bool], left: Sequence[Any], right: Sequence[Any]) -> bool:
    if not left or not right:
        return False
    try:
        return compare(left[0], right[0])
    except TypeError:
        return False
