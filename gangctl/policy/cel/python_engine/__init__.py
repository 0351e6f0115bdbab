"""CEL by cel-python: the engine that needs nothing but Python.

Its evaluator walks the tree of the checked expression (:mod:`~gangctl.policy.cel.python_engine.rules`)
with JSON as it is, step by step under a meter. cel-python's CompiledRunner makes Python source of
expressions and runs it in a namespace that threads share: it is never used, and a test sees to that.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gangctl.policy.cel.python_engine.engine import PythonEngine

__all__ = ["PythonEngine"]


def __getattr__(name: str) -> Any:
    """The engine, when it is asked for: loading cel-python takes time, and the other engine needs parts of this."""
    if name != "PythonEngine":
        raise AttributeError(name)
    from gangctl.policy.cel.python_engine.engine import PythonEngine  # noqa: PLC0415

    return PythonEngine
