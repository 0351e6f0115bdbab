"""Size limits of an expression: checked before any costly step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gangctl.cel.ast import Node
from gangctl.cel.faults import CompileError, CompileKind
from gangctl.cel.tokens import Token
from gangctl.cel.walk import children

CHARACTERS: Final = 4096
"""Length of an expression's text."""
NODES: Final = 1000
"""Nodes of its tree, with macros counted as written."""
NESTING: Final = 30
"""Brackets within brackets."""
DEPTH: Final = 100
"""Depth of the tree: ``a + b + c`` is one deeper than ``a + b``.

``&&`` and ``||`` are balanced, so they hardly count.
"""

_OPENING: Final = {"(": ")", "[": "]", "{": "}"}


def check_text(text: str) -> None:
    """Refuse text that is too long, and lone surrogates, which no document can hold."""
    if len(text) > CHARACTERS:
        message = f"the expression has {len(text)} characters, at most {CHARACTERS} are allowed"
        raise CompileError(CompileKind.LIMIT, message, CHARACTERS, hint="put parts of it into variables")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CompileError(CompileKind.SYNTAX, "this is half a character", error.start) from None


def check_nesting(tokens: Sequence[Token]) -> None:
    """Refuse brackets that are nested too deeply."""
    depth = 0
    for token in tokens:
        if token.kind != "operator":
            continue
        if token.text in _OPENING:
            depth += 1
            if depth > NESTING:
                raise too_deep(f"more than {NESTING} brackets within each other", token.start)
        elif token.text in _OPENING.values():
            depth -= 1


def too_deep(what: str, offset: int) -> CompileError:
    """The refusal of a part that is nested too deeply."""
    return CompileError(CompileKind.LIMIT, f"the expression has {what}", offset, hint="put parts of it into variables")


def check_tree(node: Node) -> None:
    """Refuse trees with too many nodes."""
    count = 0
    waiting = [node]
    while waiting:
        each = waiting.pop()
        count += 1
        if count > NODES:
            message = f"the expression has more than {NODES} parts"
            raise CompileError(CompileKind.LIMIT, message, each.span.start, hint="put parts of it into variables")
        waiting += reversed(children(each))
