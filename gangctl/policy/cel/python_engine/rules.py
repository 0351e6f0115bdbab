"""The tree that the evaluator walks: cel-python's rules, without the chains of rules that stand for nothing.

cel-python's parser writes ``1`` as nine nested rules. A checked expression is lowered to the one
that counts, with everything that does not depend on the request found beforehand: constants,
functions, operators.
"""

from __future__ import annotations

from typing import Any

import lark


class Rule(lark.Tree["Rule"]):
    """A rule of cel-python's grammar.

    ``data`` is the rule's name, ``children`` are the rules that it evaluates. ``what`` is what
    it is about: a constant, a name, a field, the Python function that computes it. ``offset``
    is where an error of it is shown.
    """

    children: list[Rule]  # type: ignore[assignment] # lark's are rules or tokens; these are rules

    def __init__(self, data: str, children: list[Rule], offset: int, what: Any = None) -> None:
        super().__init__(data, children)  # type: ignore[arg-type] # as above
        self.offset = offset
        self.what = what
