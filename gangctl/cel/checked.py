"""An expression that was accepted: its tree, its type, and what it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gangctl.cel.ast import Node
from gangctl.cel.types import Type


@dataclass(frozen=True, slots=True)
class Environment:
    """The names available to an expression.

    ``roots`` are the variables and their types (``object`` is dyn, as natively); ``variables`` those below
    ``variables.``, which come before the expression. ``minor`` is the Kubernetes minor whose libraries apply, such as
    ``"1.37"``.
    """

    roots: Mapping[str, Type]
    variables: Mapping[str, Type] = field(default_factory=dict)
    minor: str = "1.37"


@dataclass(frozen=True, slots=True)
class Checked:
    """``text`` as it was written; ``reads`` and ``variables`` are the names it uses, ``functions`` those it calls."""

    text: str
    node: Node
    type: Type
    reads: frozenset[str]
    variables: frozenset[str]
    functions: frozenset[str]
    types: Mapping[int, Type] = field(default_factory=dict, repr=False, compare=False)
    """The type of every part of ``node``, by its ``id``."""
