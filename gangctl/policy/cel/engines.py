"""The engines that can be had, and the choice of one."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

from gangctl.errors import ConfigError
from gangctl.policy.cel.engine import Engine

PYTHON: Final = "cel-python"
CPP: Final = "cel-cpp"
AUTO: Final = "auto"
NAMES: Final = (AUTO, CPP, PYTHON)


def available() -> tuple[str, ...]:
    """Names of the engines that are installed, the fastest first."""
    return (CPP, PYTHON) if find_spec("cel_expr_python") is not None else (PYTHON,)


def make_engine(name: str = AUTO) -> Engine:
    """The engine of that name, with ``auto`` the fastest that is installed; ConfigError when it cannot be had."""
    if name not in NAMES:
        raise ConfigError(f"there is no CEL engine '{name}'", hint=f"use one of: {', '.join(NAMES)}")
    installed = available()
    chosen = installed[0] if name == AUTO else name
    if chosen not in installed:
        raise ConfigError(
            f"the CEL engine '{chosen}' is not installed",
            hint=f"pip install 'gangctl[{chosen}]', or use --engine {PYTHON}",
        )
    # Either takes its time to load, so only the one that is chosen is.
    if chosen == CPP:
        return _cpp()
    from gangctl.policy.cel.python_engine.engine import PythonEngine  # noqa: PLC0415

    return PythonEngine()


def _cpp() -> Engine:
    from gangctl.policy.cel.cpp_engine.engine import CppEngine  # noqa: PLC0415

    try:
        return CppEngine()
    except ImportError as error:
        raise ConfigError(
            f"the CEL engine '{CPP}' cannot be loaded",
            hint=f"reinstall cel-expr-python, or use --engine {PYTHON}",
        ) from error
