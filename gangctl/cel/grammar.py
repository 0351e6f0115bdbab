"""cel-python's grammar, fed token by token.

Its own lexer is not used: see :mod:`gangctl.cel.tokens`. Positions in the tree are indexes of tokens, so that every
node leads to the exact place of its operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from gangctl.cel.desugar import no_name
from gangctl.cel.faults import CompileError, CompileKind
from gangctl.cel.tokens import Token

if TYPE_CHECKING:
    from lark import Lark, Tree
    from lark import Token as Terminal

RESERVED: Final = frozenset(
    [
        "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
        "namespace", "return", "var", "void", "while",
    ]
)  # fmt: skip
"""Keywords that may be fields, but neither variables nor functions."""

_KINDS: Final = {
    "float": "FLOAT_LIT",
    "uint": "UINT_LIT",
    "int": "INT_LIT",
    "string": "STRING_LIT",
    "bytes": "BYTES_LIT",
    "name": "IDENT",
}
_WORDS: Final = {"true": "BOOL_LIT", "false": "BOOL_LIT", "null": "NULL_LIT", "in": "IN"}
_EXPECTED: Final = {
    "IDENT": "a name",
    "RPAR": "')'",
    "RSQB": "']'",
    "RBRACE": "'}'",
    "COLON": "':'",
    "COMMA": "','",
    "LPAR": "'('",
}


def parse_tokens(tokens: Sequence[Token]) -> Tree[Terminal]:
    """cel-python's tree; CompileError at the first token that the grammar does not allow."""
    from lark import UnexpectedToken  # noqa: PLC0415 - it takes its time to load

    lark, names = _lark()
    parser: Any = lark.parse_interactive("")  # which lark leaves untyped
    for index, token in enumerate(tokens):
        terminal = _terminal(token, names)
        try:
            parser.feed_token(_fed(terminal, token.text, index))
        except UnexpectedToken:
            raise _unexpected(tokens, index, parser.accepts()) from None
    try:
        tree: Tree[Terminal] = parser.feed_eof(_fed("$END", "", len(tokens)))
    except UnexpectedToken:
        raise _ended(tokens, parser.accepts()) from None
    return tree


@cache
def _lark() -> tuple[Lark, dict[str, str]]:
    """The parser that cel-python shares within the process, and its terminals by their text."""
    from celpy.celparser import CELParser  # noqa: PLC0415 - it takes 0.2 s to load

    # The constructor builds the parser of the class, the first time.
    CELParser()
    lark = CELParser.CEL_PARSER
    if lark is None:  # pragma: no cover - the constructor has just made it
        raise RuntimeError("cel-python has made no parser")
    return lark, {
        terminal.pattern.value: terminal.name for terminal in lark.terminals if terminal.pattern.type == "str"
    }


def _terminal(token: Token, names: dict[str, str]) -> str:
    if token.kind == "operator":
        return names[token.text]
    if token.kind == "name" and token.text in _WORDS:
        return _WORDS[token.text]
    if token.kind == "escaped":
        hint = "a field in backticks comes after a dot"
        raise CompileError(CompileKind.SYNTAX, "a field in backticks cannot stand here", token.start, hint=hint)
    return _KINDS[token.kind]


def _fed(terminal: str, text: str, index: int) -> Terminal:
    from lark import Token as Terminal  # noqa: PLC0415 - it takes its time to load

    return Terminal(terminal, text, index, 1, index, 1, index + 1, index + 1)


def _unexpected(tokens: Sequence[Token], index: int, expected: set[str]) -> CompileError:
    token = tokens[index]
    message = f"{_spelled(token)} cannot stand here"
    hint = _hint(expected)
    if token.kind == "name" and token.text in _WORDS and "IDENT" in expected:
        return no_name(token)
    return CompileError(CompileKind.SYNTAX, message, token.start, token.end - token.start, hint=hint)


def _spelled(token: Token) -> str:
    return f"'{token.text}'" if token.kind in {"operator", "name"} else f"the {token.kind} {token.text}"


def _ended(tokens: Sequence[Token], expected: set[str]) -> CompileError:
    if not tokens:
        return CompileError(CompileKind.SYNTAX, "the expression is empty", 0)
    offset = tokens[-1].end
    return CompileError(CompileKind.SYNTAX, "the expression ends too early", offset, hint=_hint(expected))


def _hint(expected: set[str]) -> str:
    # Where an int may stand, any value may; where a plus may stand, a value has just ended.
    if "INT_LIT" in expected:
        return "a value is expected"
    words = sorted(_EXPECTED[token] for token in expected & _EXPECTED.keys())
    return f"{' or '.join(words)} or an operator is expected" if words and "PLUS" in expected else " or ".join(words)
