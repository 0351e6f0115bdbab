"""Values of literals, and literals of values."""

from __future__ import annotations

import math
from typing import Final

from gangctl.cel.faults import CompileError, CompileKind
from gangctl.cel.library.values import INT_MAX, INT_MIN, UINT_MAX, Uint
from gangctl.cel.tokens import Token

_HIGHEST: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)
_PLANE: Final = 0x10000
_MOST_DIGITS: Final = len(str(UINT_MAX))

_HEX: Final = {"x": 2, "X": 2, "u": 4, "U": 8}
_SHORT: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_PLAIN: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def string_value(token: Token) -> str:
    """The value of a string literal; CompileError for an escaped code point that does not exist."""
    body, raw = _body(token.text)
    if raw:
        return body
    parts: list[str] = []
    for plain, code, _ in _pieces(body):
        if plain is not None:
            parts.append(plain)
        elif code is not None and (code > _HIGHEST or code in _SURROGATES):
            message = f"the string has an escape for U+{code:04X}, which is no character"
            raise CompileError(CompileKind.SYNTAX, message, token.start, token.end - token.start)
        elif code is not None:
            parts.append(chr(code))
    return "".join(parts)


def bytes_value(token: Token) -> bytes:
    r"""The value of a bytes literal; CompileError for ``\u``, which bytes do not have."""
    body, raw = _body(token.text[1:])
    if raw:
        return _utf8(body, token)
    parts = bytearray()
    for plain, code, letter in _pieces(body):
        if plain is not None:
            parts += _utf8(plain, token)
        elif code is not None and letter in "uU":
            message = f"bytes have no \\{letter} escapes"
            raise CompileError(CompileKind.SYNTAX, message, token.start, token.end - token.start)
        elif code is not None:
            parts.append(code)
    return bytes(parts)


def _utf8(text: str, token: Token) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        message = "the literal holds half a character"
        raise CompileError(CompileKind.SYNTAX, message, token.start, token.end - token.start) from None


def _body(text: str) -> tuple[str, bool]:
    """The inside of the quotes with newlines normalised, and whether it is raw."""
    # Before all else, also of raw literals, as cel-go's unescape.
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if text.startswith(('"""', "'''")) else 1
    return text[quotes:-quotes], raw


def _pieces(body: str) -> list[tuple[str | None, int | None, str]]:
    """Plain text, or a number and the letter before it."""
    pieces: list[tuple[str | None, int | None, str]] = []
    position = 0
    while position < len(body):
        if body[position] != "\\":
            end = body.find("\\", position)
            end = len(body) if end < 0 else end
            pieces.append((body[position:end], None, ""))
        elif (letter := body[position + 1]) in _HEX:
            end = position + 2 + _HEX[letter]
            pieces.append((None, int(body[position + 2 : end], 16), letter))
        elif letter in "0123":
            end = position + 4
            pieces.append((None, int(body[position + 1 : end], 8), "o"))
        else:
            end = position + 2
            pieces.append((_SHORT.get(letter, letter), None, ""))
        position = end
    return pieces


def _magnitude(digits: str) -> int:
    """The number, or one beyond 64 bits for all that have so many digits: Python reads no more than 4,300."""
    base = 16 if digits.startswith("0x") else 10
    significant = digits.removeprefix("0x").lstrip("0")
    return int(significant or "0", base) if len(significant) <= _MOST_DIGITS else UINT_MAX + 1


def int_value(token: Token) -> int:
    """An int literal, its sign included; CompileError outside of 64 bits."""
    value = _magnitude(token.text.lstrip("-")) * (-1 if token.text.startswith("-") else 1)
    if not INT_MIN <= value <= INT_MAX:
        raise _range("an int has 64 bits", token)
    return value


def uint_value(token: Token) -> Uint:
    """An unsigned literal; CompileError outside of 64 bits."""
    value = _magnitude(token.text[:-1])
    if value > UINT_MAX:
        raise _range("a uint has 64 bits", token)
    return Uint(value)


def double_value(token: Token) -> float:
    """A double literal, its sign included; CompileError when it is too large to be one."""
    value = float(token.text)
    if math.isinf(value):
        raise _range("a double is below 1.8e308", token)
    return value


def _range(message: str, token: Token) -> CompileError:
    return CompileError(CompileKind.SYNTAX, f"the number is too large: {message}", token.start, token.end - token.start)


def quoted(value: str) -> str:
    """A string literal in a form that every CEL parser reads equally: double quotes, few escapes."""
    return '"' + "".join(map(_character, value)) + '"'


def _character(character: str) -> str:
    if character in _PLAIN:
        return _PLAIN[character]
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < _PLANE else f"\\U{code:08x}"
