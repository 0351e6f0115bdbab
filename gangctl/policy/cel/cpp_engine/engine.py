"""The engine that is fast: cel-expr-python, where it is installed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from gangctl.policy.cel.checked import Checked
from gangctl.policy.cel.cpp_engine.convert import SAME, reveal
from gangctl.policy.cel.cpp_engine.failures import failure
from gangctl.policy.cel.cpp_engine.functions import CELL, declarations
from gangctl.policy.cel.cpp_engine.paths import MISSING, at, path_of
from gangctl.policy.cel.cpp_engine.render import render
from gangctl.policy.cel.cpp_engine.running import Cells, Evaluation, Running
from gangctl.policy.cel.cpp_engine.shapes import OPTIONAL, types_of
from gangctl.policy.cel.cpp_engine.support import check_support
from gangctl.policy.cel.engine import Bindings, Meter, Program, Value
from gangctl.policy.cel.faults import CompileError, CompileKind, EvalError, EvalKind
from gangctl.policy.cel.library.values import NONE, Optional
from gangctl.policy.cel.meter import EXHAUSTED
from gangctl.policy.cel.python_engine.plain import plain


class CppEngine:
    """CEL by Google's C++ engine.

    It holds the interpreter's lock while it runs, and what it must know of an evaluation is
    kept per thread, so any number of threads may share it, its programs and bindings.
    """

    name: Final = "cel-cpp"

    def __init__(self) -> None:
        """ImportError without the package cel-expr-python."""
        from cel_expr_python import cel  # noqa: PLC0415  an extra
        from cel_expr_python.ext import ext_bindings, ext_optional  # noqa: PLC0415  an extra

        self._running = Running()
        self._environment = cel.NewEnv(
            extensions=[ext_bindings.ExtBindings(), ext_optional.ExtOptional()],
            functions=declarations(cel, self._running),
        )

    def compile(self, checked: Checked) -> Program:
        """A program; CompileError of kind UNSUPPORTED for what cannot be said in its words."""
        types = types_of(checked)
        check_support(checked, types)
        short, exact = (render(checked.node, types, exact=exact) for exact in (False, True))
        program = self._compiled(short)
        second = program if short == exact else self._compiled(exact)
        is_optional = types.get(id(checked.node), checked.type).name == OPTIONAL
        return CppProgram(self._running, checked, program, second, is_optional=is_optional)

    def _compiled(self, text: str) -> Any:
        try:
            # Types were checked; here they would only be guessed.
            return self._environment.compile(text, disable_check=True)
        except RuntimeError as error:
            deep = "recursion" in str(error)
            message = "cel-cpp cannot nest an expression so deeply" if deep else "cel-cpp cannot read the expression"
            hint = "put parts of it into variables" if deep else ""
            raise CompileError(CompileKind.UNSUPPORTED, message, 0, hint=hint) from None

    def bind(self, values: Mapping[str, Any]) -> Bindings:
        """Nothing is converted until an expression looks at it."""
        return CppBindings(self._environment, dict(values))

    def rebind(self, bindings: Bindings, values: Mapping[str, Any]) -> Bindings:
        """The same with some values replaced."""
        return self.bind({**bindings.values, **values})

    def plain(self, value: Value) -> Any:
        """A value as JSON."""
        return plain(value)


class CppBindings:
    """The variables of a request, and C++'s view of them.

    C++ copies a list when it first looks at it, and keeps the copy as long as the view, so views are kept: one
    without and one with the variables below ``variables`` of the policy at hand. For one thread at a time.
    """

    __slots__ = ("_cells", "_environment", "_plain", "_variables", "_view", "values")

    def __init__(self, environment: Any, values: dict[str, Any]) -> None:
        """Values by name, kept for other bindings made of these."""
        self.values = values
        self._environment = environment
        self._plain = environment.Activation(values)
        self._variables: Mapping[str, Value] | None = None
        self._cells: Cells = {}
        self._view: Any = None

    def view(self, variables: Mapping[str, Value], names: Collection[str]) -> tuple[Any, Cells]:
        """What an expression that reads these names below ``variables`` sees, and where their values are put."""
        if not names:
            return self._plain, {}
        if self._variables is not variables:
            self._cells = {}
        if self._variables is not variables or not self._cells.keys() >= set(names):
            self._variables = variables
            self._cells = {name: self._cells.get(name) or {} for name in {*names, *variables}}
            cells = {f"{CELL}{name}": cell for name, cell in self._cells.items()}
            self._view = self._environment.Activation({**self.values, **cells})
        return self._view, self._cells


class CppProgram:
    """A compiled expression in two forms: see :mod:`gangctl.policy.cel.cpp_engine.render`."""

    __slots__ = ("_exact", "_is_optional", "_path", "_running", "_short", "_steps", "_variables")

    def __init__(self, running: Running, checked: Checked, short: Any, exact: Any, *, is_optional: bool) -> None:
        self._running = running
        self._short = short
        self._exact = exact
        self._steps = checked.profile.nodes
        self._variables = tuple(checked.variables)
        self._path = path_of(checked)
        self._is_optional = is_optional

    def evaluate(self, bindings: Bindings, variables: Mapping[str, Value], meter: Meter) -> Value:
        """The expression's value, or EvalError. Steps inside of C++ are not counted: it has a limit of its own."""
        meter.step(self._steps)
        if self._path is not None and (found := at(bindings.values, self._path)) is not MISSING:
            return found
        try:
            return self._evaluated(self._short, bindings, variables, meter)
        except EvalError as error:
            if self._exact is self._short or error.kind in EXHAUSTED:
                raise
        return self._evaluated(self._exact, bindings, variables, meter)

    def _evaluated(self, program: Any, bindings: Bindings, variables: Mapping[str, Value], meter: Meter) -> Value:
        evaluations = self._running.evaluations
        view, cells = bindings.view(variables, self._variables)
        evaluation = Evaluation(variables, meter, cells)
        evaluations.append(evaluation)
        message = ""
        try:
            result = program.eval(activation=view)
            value = result.plain_value()
            # The value of an error is its text.
            if type(value) is str and result.type().name() == "ERROR":
                message = value
        except RuntimeError as error:
            message = str(error)
        except (MemoryError, TypeError):
            raise EvalError(EvalKind.OTHER, "cel-cpp failed") from None
        finally:
            evaluations.pop()
        evaluation.settle()
        if evaluation.faults and (exhausted := evaluation.exhausted()) is not None:
            raise exhausted
        if message:
            raise evaluation.fault_in(message) or failure(message)
        return self._revealed(value, evaluation)

    def _revealed(self, value: Any, evaluation: Evaluation) -> Value:
        if self._is_optional:
            return Optional(True, reveal(value[0], evaluation)) if value else NONE
        return value if type(value) in SAME else reveal(value, evaluation)
