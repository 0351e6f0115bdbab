"""Errors of an expression: before it runs (:class:`CompileError`) and while it does (:class:`EvalError`).

Neither ever quotes a message of Python: those may hold whole objects.
"""

from __future__ import annotations

from enum import StrEnum

from gangctl.errors import one_line


class CompileKind(StrEnum):
    """Why an expression is refused when its policy is loaded."""

    SYNTAX = "Syntax"
    UNDECLARED = "Undeclared"
    """A name or function that does not exist."""
    TYPE = "Type"
    LIMIT = "Limit"
    """Too long, too deep or possibly too costly."""
    UNSUPPORTED = "Unsupported"
    """Kubernetes supports it, gangctl does not."""


class EvalKind(StrEnum):
    """Classes of run-time errors."""

    NO_SUCH_KEY = "NoSuchKey"
    NO_SUCH_OVERLOAD = "NoSuchOverload"
    INDEX_OUT_OF_BOUNDS = "IndexOutOfBounds"
    DIVIDE_BY_ZERO = "DivideByZero"
    OVERFLOW = "Overflow"
    INVALID_ARGUMENT = "InvalidArgument"
    """A value that a function does not accept: ``quantity('x')``, ``timestamp('now')``, ``int('a')``."""
    BUDGET_EXCEEDED = "BudgetExceeded"
    """The limit of steps, or of the size of a value."""
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    OTHER = "Other"


class CompileError(Exception):
    """An expression that cannot be used.

    ``offset`` counts code points from the expression's beginning, ``length`` the wrong ones (at least 1); ``hint`` is
    the remedy.
    """

    def __init__(self, kind: CompileKind, message: str, offset: int, length: int = 1, *, hint: str = "") -> None:
        """Keep the parts; the message becomes one line."""
        self.kind = kind
        self.message = one_line(message)
        self.offset = offset
        self.length = max(1, length)
        self.hint = hint
        super().__init__(self.message)


class EvalError(Exception):
    """An expression that has no value for this request; ``offset`` is -1 where that is not known."""

    def __init__(self, kind: EvalKind, message: str, offset: int = -1) -> None:
        """Keep the parts; the message becomes one line."""
        self.kind = kind
        self.message = one_line(message, 256)
        self.offset = offset
        super().__init__(self.message)
