"""An expression that was accepted: its tree, its type, what it reads, and what it may cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gangctl.policy.cel.ast import Node
from gangctl.policy.cel.extent import Extent, symbolic
from gangctl.policy.cel.types import Type


@dataclass(frozen=True, slots=True)
class Profile:
    """What an expression may cost at most, for objects of any size.

    ``nodes`` is the size of the tree. Each entry of ``work`` is the number of nodes that are
    evaluated once per element of so many nested lists: ``work[0]`` once, ``work[1]`` per
    element, ``work[2]`` per pair, ... ``scans`` counts calls whose time grows with a string
    or list (``matches``, ``contains``, ``in``), in the same form.
    """

    nodes: int
    work: tuple[int, ...]
    scans: tuple[int, ...]

    def bound(self, elements: int) -> int:
        """Steps for objects whose longest list or map has so many elements."""
        steps = 0
        for depth, (work, scans) in enumerate(zip(self.work, self.scans, strict=True)):
            steps += (work + 8 * scans) * max(1, elements) ** depth
        return steps


@dataclass(frozen=True, slots=True)
class Environment:
    """What an expression may name.

    ``roots`` are the variables and their types (``object`` is dyn, as natively);
    ``variables`` those below ``variables.``, which come before the expression.
    ``minor`` is the Kubernetes minor whose libraries count, such as ``"1.37"``.
    """

    roots: Mapping[str, Type]
    variables: Mapping[str, Type] = field(default_factory=dict)
    minor: str = "1.37"
    extents: Mapping[str, Extent] = field(default_factory=dict)
    """How large the values of ``variables`` can be (:attr:`Checked.extent`); without an entry, as an input."""


@dataclass(frozen=True, slots=True)
class Checked:
    """``text`` as it was written; ``reads`` and ``variables`` are the names it uses, ``functions`` those it calls."""

    text: str
    node: Node
    type: Type
    reads: frozenset[str]
    variables: frozenset[str]
    functions: frozenset[str]
    profile: Profile
    types: Mapping[int, Type] = field(default_factory=dict, repr=False, compare=False)
    """What every part of ``node`` is, by its ``id``."""
    extent: Extent = field(default_factory=symbolic)
    """How large its value can be."""
