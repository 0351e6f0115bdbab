"""Limits of an expression before it runs: its size, checked before any costly step, and its possible cost.

The cost, how many of its parts run once, per element, per pair of elements, ..., is an estimate for authors of
policies; the actual cost is counted at run time (``meter.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gangctl.cel.ast import Call, Comprehension, Literal, Node, children
from gangctl.cel.declarations import FUNCTIONS
from gangctl.cel.environments import CheckedExpression
from gangctl.cel.faults import CompileError, CompileKind
from gangctl.cel.macros import LOOPS
from gangctl.cel.tokens import Token
from gangctl.cel.types import Type

CHARACTERS: Final = 65_536
"""Length of an expression's text. kube-apiserver has no lower limit; what costs is bounded by the limits below."""
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
        part = waiting.pop()
        count += 1
        if count > NODES:
            message = f"the expression has more than {NODES} parts"
            raise CompileError(CompileKind.LIMIT, message, part.span.start, hint="put parts of it into variables")
        waiting += reversed(children(part))


_BY_TYPE: Final = frozenset({"_==_", "_!=_", "_+_"})
"""Operators that are slow only for long operands."""
_SHORT: Final = frozenset(
    {"bool", "int", "uint", "double", "null_type", "google.protobuf.Timestamp", "google.protobuf.Duration"}
)
_SCANNING: Final = frozenset(
    name for name, overloads in FUNCTIONS.items() if any(overload.scans for overload in overloads)
)
_PER_ELEMENT: Final = frozenset({"distinct", "sets.contains", "sets.equivalent", "sets.intersects"})
"""Functions that compare each element with others: one more level."""


@dataclass(frozen=True, slots=True)
class CostProfile:
    """The greatest cost of an expression, for objects of any size.

    ``nodes`` is the size of the tree. Each entry of ``work`` is the number of nodes that are evaluated once per element
    of so many nested lists: ``work[0]`` once, ``work[1]`` per element, ``work[2]`` per pair, ... ``scans`` counts calls
    whose time grows with a string or list (``matches``, ``contains``, ``in``), in the same form.
    """

    nodes: int
    work: tuple[int, ...]
    scans: tuple[int, ...]

    def bound(self, elements: int) -> int:
        """Steps for objects whose longest list or map has ``elements`` entries."""
        steps = 0
        for depth, (work, scans) in enumerate(zip(self.work, self.scans, strict=True)):
            steps += (work + 8 * scans) * max(1, elements) ** depth
        return steps


def profile_of(checked: CheckedExpression) -> CostProfile:
    """The profile of an expression."""
    node, types = checked.node, checked.types
    work: dict[int, int] = {}
    scans: dict[int, int] = {}
    waiting = [(node, 0)]
    while waiting:
        part, depth = waiting.pop()
        work[depth] = work.get(depth, 0) + 1
        if isinstance(part, Call) and part.function in _SCANNING and _takes_long(part, types):
            level = depth + (part.function in _PER_ELEMENT)
            scans[level] = scans.get(level, 0) + 1
        if isinstance(part, Comprehension) and part.macro in LOOPS:
            waiting.append((part.target, depth))
            waiting += [(argument, depth + 1) for argument in part.arguments]
        else:
            waiting += [(child, depth) for child in children(part)]
    levels = range(max(*work, *scans, 0) + 1)
    return CostProfile(
        nodes=sum(work.values()),
        work=tuple(work.get(level, 0) for level in levels),
        scans=tuple(scans.get(level, 0) for level in levels),
    )


def _takes_long(call: Call, types: Mapping[int, Type]) -> bool:
    if call.function not in _BY_TYPE:
        return True
    return not any(isinstance(argument, Literal) or types[id(argument)].name in _SHORT for argument in call.arguments)
