r"""Rewrites what cel-python's grammar lacks or misreads into calls and literals that it reads as CEL means them.

============================  ======================================
written                       becomes
============================  ======================================
``a.?b``                      ``a.__optional_select("b")``
``a[?i]``                     ``a.__optional_index(i)``
``a.`b-c```                   ``a.__field("b-c")``
``[?x]``, ``{?k: v}``         ``[__optional_entry(x)]``, ``{__optional_entry(k): v}``
``[a, b,]``, ``{k: v,}``      without the last comma
``- 1``                       ``-1``, where it is no difference
============================  ======================================

Everything happens between tokens; what is inside of strings is never looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from gangctl.cel.faults import CompileError, CompileKind
from gangctl.cel.literals import quoted
from gangctl.cel.tokens import Token, tokens

SELECT: Final = "__optional_select"
INDEX: Final = "__optional_index"
FIELD: Final = "__field"
ENTRY: Final = "__optional_entry"
SUGAR: Final = frozenset({SELECT, INDEX, FIELD, ENTRY})
"""Names that only rewriting makes; the parser refuses them in the user's text."""

_ENDS_VALUE: Final = frozenset({"name", "int", "uint", "float", "string", "bytes"})
KEYWORDS: Final = frozenset({"true", "false", "null", "in"})
"""Keywords of the language, which are not names, not even of fields."""


def plain(text: str) -> list[Token]:
    """The tokens of ``text`` with the sugar rewritten; an added token has the place of the one it replaces."""
    return list(_Rewriter(list(tokens(text))).run())


def no_name(token: Token) -> CompileError:
    """The refusal of a keyword where a field is expected."""
    message = f"'{token.text}' is a word of the language and no name"
    hint = f"write .`{token.text}` or ['{token.text}']"
    return CompileError(CompileKind.SYNTAX, message, token.start, token.end - token.start, hint=hint)


@dataclass(slots=True)
class _Bracket:
    """An open bracket: how it was opened, and the state of a ``?`` entry in it."""

    opening: str
    closing: str
    entry: bool = False
    questions: int = 0


class _Rewriter:
    def __init__(self, words: list[Token]) -> None:
        self.words = words
        self.at = 0
        self.open: list[_Bracket] = []
        self.previous: Token | None = None

    def run(self) -> Iterator[Token]:
        while self.at < len(self.words):
            token = self.words[self.at]
            self.at += 1
            yield from self._one(token)
            # Not ``token``: a number behind a minus, or a field behind a dot, may have been taken with it.
            self.previous = self.words[self.at - 1]

    def _one(self, token: Token) -> Iterator[Token]:
        if token.kind != "operator":
            yield token
        elif token.text == "-":
            yield self._minus(token)
        elif token.text == ".":
            yield from self._dot(token)
        elif token.text in "([{":
            yield from self._opening(token)
        elif token.text in ")]}":
            yield from self._closing(token)
        elif token.text in ",:?" and self.open:
            yield from self._separator(token)
        else:
            yield token

    def _peek(self, ahead: int = 0) -> Token | None:
        index = self.at + ahead
        return self.words[index] if index < len(self.words) else None

    def _minus(self, minus: Token) -> Token:
        """``- 1`` is one number where no value comes before; ``a - 1`` is a difference."""
        number = self._peek()
        if number is None or number.kind not in {"int", "float"} or self._after_value():
            return minus
        self.at += 1
        # As in CEL's grammar, where a literal has its sign: otherwise the smallest int, -9223372036854775808, would not
        # fit.
        return Token(number.kind, f"-{number.text}", minus.start, number.end)

    def _dot(self, dot: Token) -> Iterator[Token]:
        """``.?name``, ``.`name``` and ``.?`name```."""
        following = self._peek()
        optional = following is not None and following.is_operator("?")
        name = self._peek(1) if optional else following
        yield dot
        if name is None or name.kind not in {"name", "escaped"} or (name.kind == "name" and not optional):
            return
        if name.text in KEYWORDS:
            raise no_name(name)
        self.at += 2 if optional else 1
        field = name.text.strip("`")
        yield replace(name, kind="name", text=SELECT if optional else FIELD)
        yield _operator("(", name)
        yield replace(name, kind="string", text=quoted(field))
        yield _operator(")", name)

    def _opening(self, token: Token) -> Iterator[Token]:
        following = self._peek()
        if token.text == "[" and self._after_value():
            if following is not None and following.is_operator("?"):
                self.at += 1
                # Its end becomes the end of the call.
                self.open.append(_Bracket("index", ")"))
                yield replace(token, text=".")
                yield Token("name", INDEX, token.start, following.end)
                yield _operator("(", following)
                return
            self.open.append(_Bracket("index", "]"))
            yield token
            return
        kind = {"(": "call", "[": "list", "{": "map"}[token.text]
        self.open.append(_Bracket(kind, {"(": ")", "[": "]", "{": "}"}[token.text]))
        yield token
        if kind != "call":
            yield from self._entry()

    def _entry(self) -> Iterator[Token]:
        """The ``?`` in front of an element."""
        mark = self._peek()
        if mark is None or not mark.is_operator("?"):
            return
        self.at += 1
        self.open[-1].entry = True
        yield Token("name", ENTRY, mark.start, mark.end)
        yield _operator("(", mark)

    def _end_entry(self, token: Token) -> Iterator[Token]:
        if self.open[-1].entry:
            self.open[-1].entry = False
            yield _operator(")", token)
        self.open[-1].questions = 0

    def _closing(self, token: Token) -> Iterator[Token]:
        if not self.open:
            yield token
            return
        yield from self._end_entry(token)
        bracket = self.open.pop()
        expected = {"call": ")", "list": "]", "map": "}", "index": "]"}[bracket.opening]
        if token.text != expected:
            message = f"'{token.text}' cannot stand here"
            raise CompileError(CompileKind.SYNTAX, message, token.start, hint=f"'{expected}'")
        yield replace(token, text=bracket.closing)

    def _separator(self, token: Token) -> Iterator[Token]:
        bracket = self.open[-1]
        if token.text == "?":
            bracket.questions += 1
            yield token
        elif token.text == ":":
            # This colon belongs to a conditional, not to an entry of the map.
            if bracket.questions:
                bracket.questions -= 1
            elif bracket.opening == "map":
                yield from self._end_entry(token)
            yield token
        else:
            yield from self._comma(token, bracket)

    def _comma(self, token: Token, bracket: _Bracket) -> Iterator[Token]:
        if bracket.opening not in {"list", "map"}:
            yield token
            return
        following = self._peek()
        # CEL allows one comma after the last element, cel-python's grammar none.
        last = following is not None and following.is_operator("]" if bracket.opening == "list" else "}")
        twice = self.previous is not None and self.previous.is_operator(",")
        if last and not twice:
            return
        yield from self._end_entry(token)
        yield token
        yield from self._entry()

    def _after_value(self) -> bool:
        """Whether a value precedes: then ``[`` indexes it."""
        if self.previous is None:
            return False
        if self.previous.kind in _ENDS_VALUE:
            # An operator with the form of a name: ``a in [b]`` is followed by a list.
            return self.previous.text != "in"
        return self.previous.kind == "escaped" or self.previous.is_operator(")", "]", "}")


def _operator(text: str, place: Token) -> Token:
    return Token("operator", text, place.start, place.end)
