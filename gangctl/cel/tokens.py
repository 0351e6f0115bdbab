"""The tokens of an expression, exactly as CEL's grammar defines them.

cel-python's own lexer is more permissive than the language in places (raw strings that end in a backslash, ``1.``,
keywords as fields), so it is not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from gangctl.cel.faults import CompileError, CompileKind

Kind = Literal["float", "uint", "int", "string", "bytes", "name", "escaped", "operator"]

_ESCAPE: Final = r"\\(?:[abfnrtv\"'\\?`]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-3][0-7]{2})"
_STRING: Final = (
    r"[rR]\"\"\"(?s:.*?)\"\"\"|[rR]'''(?s:.*?)'''"
    r"|[rR]\"[^\"\n\r]*\"|[rR]'[^'\n\r]*'"
    rf"|\"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\"|'''(?:{_ESCAPE}|[^\\])*?'''"
    rf"|\"(?:{_ESCAPE}|[^\\\"\n\r])*\"|'(?:{_ESCAPE}|[^\\'\n\r])*'"
)
_TOKEN: Final = re.compile(
    # In this order: the prefix of a string is no name, a float begins like an int, and ``==`` is not two operators.
    r"(?P<blank>[\t\n\r\f ]+|//[^\n]*)"
    rf"|(?P<bytes>[bB](?:{_STRING}))"
    rf"|(?P<string>{_STRING})"
    r"|(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])"
    r"|(?P<int>0x[0-9a-fA-F]+|[0-9]+)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<escaped>`[A-Za-z0-9_./ -]+`)"
    r"|(?P<operator>==|!=|<=|>=|&&|\|\||[-<>\[\]{}().,!?:+*/%])"
)
_OPENS_STRING: Final = re.compile(r"[bB]?[rR]?(?:\"\"\"|'''|\"|')")
_BAD_ESCAPE: Final = re.compile(rf"(?:{_ESCAPE}|[^\\])*?(?P<bad>\\(?!{_ESCAPE[2:]}).?)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Token:
    """One token; ``start`` and ``end`` in code points of the text."""

    kind: Kind
    text: str
    start: int
    end: int

    def is_operator(self, *texts: str) -> bool:
        """Whether it is one of these operators or brackets."""
        return self.kind == "operator" and self.text in texts


def tokens(text: str) -> Iterator[Token]:
    """The tokens of ``text`` without blanks and comments; CompileError at the first invalid one."""
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise _no_token(text, position)
        kind = match.lastgroup
        if kind != "blank":
            yield Token(kind, match.group(), position, match.end())  # type: ignore[arg-type] # the groups are the kinds
        position = match.end()


def _no_token(text: str, position: int) -> CompileError:
    opening = _OPENS_STRING.match(text, position)
    if opening is not None:
        return _bad_string(text, position, opening)
    if text[position] == "`":
        hint = "a field in backticks holds letters, digits, and any of _ . - / and blank"
        return CompileError(CompileKind.SYNTAX, "the field in backticks is not closed or empty", position, hint=hint)
    hint = {"&": "&& is the operator", "|": "|| is the operator", "=": "== compares"}.get(text[position], "")
    return CompileError(CompileKind.SYNTAX, f"{text[position]!r} has no meaning here", position, hint=hint)


def _bad_string(text: str, position: int, opening: re.Match[str]) -> CompileError:
    """An escape that does not exist, or a string without an end: the only reasons why no string matches."""
    if "r" not in opening.group().lower():
        bad = _BAD_ESCAPE.match(text, opening.end())
        quote = opening.group().lstrip("bBrR")
        if bad is not None and quote not in text[opening.end() : bad.start("bad")]:
            hint = r"escapes are \n \t \r \\ \" \' \` \? \a \b \f \v \xHH \uHHHH \UHHHHHHHH \OOO; r'...' has none"
            message = f"{bad.group('bad')} is no escape"
            return CompileError(CompileKind.SYNTAX, message, bad.start("bad"), len(bad.group("bad")), hint=hint)
    message = f"the string that starts with {opening.group()} has no end"
    return CompileError(CompileKind.SYNTAX, message, position, len(opening.group()))
