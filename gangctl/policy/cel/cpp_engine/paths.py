"""Expressions that are nothing but a path: ``object.spec.replicatedJobs`` is looked up at once.

What C++ gives is copied into Python, which takes long for the lists that variables hold; what is
looked up is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.policy.cel.ast import Index, Literal, Name, Node, Select
from gangctl.policy.cel.checked import Checked
from gangctl.policy.cel.types import DYN

MISSING: Final = object()
Path = tuple[str | int, ...]


def path_of(checked: Checked) -> Path | None:
    """The names and positions of a path into JSON; None for any other expression."""
    return _path(checked.node) if checked.type.name == DYN.name else None


def _path(node: Node) -> Path | None:
    if isinstance(node, Name):
        return (node.name,) if node.name != "variables" else None
    step: object = None
    if isinstance(node, Select) and not node.optional and not node.test:
        step = node.field
    elif isinstance(node, Index) and not node.optional and isinstance(node.index, Literal):
        step = node.index.value
    if not isinstance(node, Select | Index) or isinstance(step, bool) or not isinstance(step, str | int):
        return None
    before = _path(node.operand)
    return None if before is None else (*before, step)


def at(values: Mapping[str, Any], path: Path) -> Any:
    """What is at a path, or :data:`MISSING`: what kind of error that is, the engine says."""
    found: Any = values
    for step in path:
        cls = type(found)
        if cls is dict and type(step) is str:
            found = found.get(step, MISSING)
        elif cls is list and type(step) is int and 0 <= step < len(found):
            found = found[step]
        else:
            return MISSING
        if found is MISSING:
            return MISSING
    return found
