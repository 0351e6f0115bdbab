"""The engine that is fast where it can be: cel-expr-python, where it is installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.policy.cel.checked import Checked
from gangctl.policy.cel.cpp_engine.render import Unfit, render
from gangctl.policy.cel.engine import NO_VARIABLES, Bindings, Meter, Program, Value
from gangctl.policy.cel.python_engine import PythonEngine
from gangctl.policy.cel.python_engine.plain import plain

_CLASSES: Final = {"bool": bool, "int": int, "double": float, "string": str}
_ERROR: Final = "ERROR"


class CppEngine:
    """CEL by Google's C++ engine, and by cel-python where that is exact and C++ is not.

    It keeps nothing of an evaluation, and C++ holds the interpreter's lock while it runs:
    any number of threads may share it and its programs. Bindings are for one thread at a time.
    """

    name: Final = "cel-cpp"

    def __init__(self) -> None:
        """ImportError without the package cel-expr-python."""
        from cel_expr_python import cel  # noqa: PLC0415  an extra
        from cel_expr_python.ext import ext_bindings, ext_optional  # noqa: PLC0415  an extra

        self._exact = PythonEngine()
        self._environment = cel.NewEnv(extensions=[ext_bindings.ExtBindings(), ext_optional.ExtOptional()])

    def compile(self, checked: Checked, variables: Mapping[str, Checked] = NO_VARIABLES) -> Program:
        """A program; CompileError as cel-python's engine raises it."""
        exact = self._exact.compile(checked)
        try:
            # Types were checked; here they would only be guessed.
            rendered = render(checked, variables)
            program = self._environment.compile(rendered.text, disable_check=True)
        except (Unfit, RuntimeError):
            # RuntimeError: nested more deeply than C++ reads.
            return ExactProgram(exact)
        return CppProgram(program, exact, checked, rendered.nodes)

    def bind(self, values: Mapping[str, Any]) -> Bindings:
        """Nothing is converted until an expression of C++ looks at it."""
        return CppBindings(self._environment, dict(values))

    def rebind(self, bindings: Bindings, values: Mapping[str, Any]) -> Bindings:
        """The same with some values replaced."""
        return CppBindings(self._environment, {**bindings.values, **values})

    def plain(self, value: Value) -> Any:
        """A value as JSON."""
        return plain(value)


class CppBindings:
    """The variables of a request, and C++'s view of them.

    C++ copies a list when it first looks at it, and keeps the copy as long as the view: there is one, made when it is
    first needed.
    """

    __slots__ = ("_environment", "_view", "values")

    def __init__(self, environment: Any, values: dict[str, Any]) -> None:
        """Values by name: cel-python's bindings are these."""
        self.values = values
        self._environment = environment
        self._view: Any = None

    @property
    def view(self) -> Any:
        """What C++ sees."""
        if self._view is None:
            self._view = self._environment.Activation(self.values)
        return self._view


class ExactProgram:
    """An expression that C++ does not evaluate."""

    __slots__ = ("_program",)

    def __init__(self, program: Program) -> None:
        self._program = program

    def evaluate(self, bindings: Bindings, variables: Mapping[str, Value], meter: Meter) -> Value:
        """The expression's value, or EvalError."""
        return self._program.evaluate(bindings.values, variables, meter)


class CppProgram:
    """An expression compiled twice: for C++, and for when that ends with an error."""

    __slots__ = ("_class", "_exact", "_program", "_steps")

    def __init__(self, program: Any, exact: Program, checked: Checked, steps: int) -> None:
        self._program = program
        self._exact = exact
        self._steps = steps
        self._class = _CLASSES[checked.type.name]

    def evaluate(self, bindings: Bindings, variables: Mapping[str, Value], meter: Meter) -> Value:
        """The expression's value, or EvalError.

        Steps inside of C++ are not counted: it visits 9,999 elements at most, and then cel-python begins anew.
        """
        meter.step(self._steps)
        value = self._answer(bindings.view)
        return self._exact.evaluate(bindings.values, variables, meter) if value is None else value

    def _answer(self, view: Any) -> Value | None:
        """What C++ says, None where that is an error: cel-python words it."""
        try:
            result = self._program.eval(activation=view)
            value = result.plain_value()
        except (RuntimeError, TypeError):  # what C++ raises in place of giving an error
            return None
        # The value of an error is its text.
        is_value = type(value) is self._class and (self._class is not str or result.type().name() != _ERROR)
        return value if is_value else None
