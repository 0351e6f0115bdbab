from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from gangctl.cel.faults import CompileError, EvalError, EvalKind
from gangctl.cel.library.values import LARGEST, Optional
from gangctl.cel.meter import EXPRESSION_STEPS, STEPS_PER_CLOCK_CHECK, STEPS_PER_PAYMENT, StepMeter
from tests.cel.evaluation.evaluating import error, evaluate, program
from tests.rows import each

TOO_MUCH = EvalKind.BUDGET_EXCEEDED
LOOP = "object.all(a, object.all(b, object.all(c, a + b + c >= 0)))"


def limited() -> StepMeter:
    return StepMeter(EXPRESSION_STEPS, 1.0, lambda: 0.0)


class Ticking:
    """A clock on which a step takes a microsecond: it sees what the meter has counted."""

    def __init__(self) -> None:
        self.meter: StepMeter | None = None
        self.looked_at: list[int] = []

    def __call__(self) -> float:
        spent = self.meter.spent if self.meter else 0
        self.looked_at.append(spent)
        return spent / 1e6


def test_a_million_iterations_end_at_the_deadline() -> None:
    clock = Ticking()
    clock.meter = StepMeter(10**9, 0.1, clock)
    assert error(LOOP, object=list(range(100)), meter=clock.meter).kind is EvalKind.DEADLINE_EXCEEDED
    late = clock.meter.spent - 100_000
    assert 0 <= late <= STEPS_PER_CLOCK_CHECK + STEPS_PER_PAYMENT


def test_a_million_iterations_end_with_their_steps() -> None:
    meter = limited()
    assert error(LOOP, object=list(range(100)), meter=meter).kind is TOO_MUCH
    assert meter.spent <= EXPRESSION_STEPS + STEPS_PER_PAYMENT


@each("text", ["ms" * 24 + "!", "m" * 28 + "!", "1h" * 1000, "1" * 10**6 + "s", "s" * 10**6])
def test_hostile_durations_are_refused_at_once(text: str) -> None:
    assert error("duration(object)", object=text, meter=limited()).kind is EvalKind.INVALID_ARGUMENT


@each("text", ["1" * 10**6, "0" * 10**6 + "x", "1" * 10**6 + ".0x", "0x" + "1" * 10**6])
@each("function", ["timestamp", "int", "uint", "double", "bool"])
def test_long_texts_are_refused_at_once(function: str, text: str) -> None:
    assert error(f"{function}(object)", object=text, meter=limited()).kind is EvalKind.INVALID_ARGUMENT


def doubling(times: int, start: str, end: str) -> str:
    text = end.replace("V", f"v{times}")
    for number in range(times, 0, -1):
        text = f"[v{number - 1} + v{number - 1}].map(v{number}, {text})[0]"
    return f"[{start}].map(v0, {text})[0]"


@each("start", ["'aaaaaaaa'", "b'aaaaaaaa'", "[1, 2, 3, 4, 5, 6, 7, 8]"])
def test_doubling_ends_at_the_largest_value(start: str) -> None:
    assert evaluate(doubling(17, start, "size(V)")) == LARGEST
    assert error(doubling(18, start, "size(V)")).kind is TOO_MUCH


@each(
    "text",
    [
        "object.replace('', object).size() > 0",
        "object.replace('a', object).size() > 0",
        "[object, object].join(object).size() > 0",
        "'%s%s'.format([object, object]).size() > 0",
        "lists.range(100000).map(x, object).join('').size() > 0",
    ],
)
def test_functions_return_no_value_above_the_limit(text: str) -> None:
    assert error(text, object="a" * (LARGEST - 1), meter=limited()).kind is TOO_MUCH


def test_copies_cost_steps() -> None:
    text = "lists.range(1000).map(x, object + string(x)).size() == 1000"
    assert error(text, object="a" * (LARGEST // 2), meter=limited()).kind is TOO_MUCH


@each(
    "text",
    [
        "lists.range(1000).all(i, object.unwrapOpt().size() > 0)",
        "lists.range(1000).all(i, optional.unwrap(object).size() > 0)",
        "lists.range(1000).all(i, other.ids.size() > 0)",
        "lists.range(1000).all(i, other['ids'].size() > 0)",
        "lists.range(1000).all(i, other.?ids.hasValue())",
        "lists.range(1000).all(i, other.all(key, ids, ids.size() > 0))",
    ],
)
def test_reading_a_long_list_again_and_again_costs_steps(text: str) -> None:
    optionals = [Optional(present=True, value=number) for number in range(1000)]
    numbers = {"ids": list(range(10_000))}
    assert error(text, object=optionals, other=numbers, meter=limited()).kind is TOO_MUCH


def test_comparing_and_searching_cost_steps() -> None:
    numbers = [[number] for number in range(100_000)]
    meter = limited()
    assert error("object.exists(x, [-1] in object)", object=numbers, meter=meter).kind is TOO_MUCH
    assert error("object == other", object=numbers * 3, other=[*numbers] * 3, meter=limited()).kind is TOO_MUCH
    assert error("sets.contains(object, object)", object=numbers[:1000], meter=limited()).kind is TOO_MUCH
    assert evaluate("sets.contains(object, object)", object=list(range(1000)), meter=limited()) is True


@each(
    ("text", "value"),
    [
        ("size(object.map(c, c.args).distinct()) > 0", [{"args": ["x" * 1000, str(n)]} for n in range(1000)]),
        ("sets.contains(object.a, object.b)", {"a": [[n] for n in range(1000)], "b": [[n] for n in range(999, 0, -1)]}),
        ("object.indexOf([object[0][0], 'z']) == 0", [["x" * 60_000, "y"]] * 20),
        ("size(object.findAll('a.*z|a')) > 0", "a" * 20_000),
    ],
)
def test_a_deadline_holds_within_a_call(text: str, value: object) -> None:
    """The clock goes on by a second at each look: the second one is too late."""
    ticks = iter(range(100))
    meter = StepMeter(10**9, 2.0, lambda: float(next(ticks)))
    assert error(text, object=value, meter=meter).kind is EvalKind.DEADLINE_EXCEEDED
    assert next(ticks) == 3


@each("pattern", ["(.*a.{50}b.{50}){3}c", "(a|b)*a(a|b){100}c"])
@each("function", ["matches", "find", "findAll"])
def test_slow_patterns_on_a_long_text_are_refused(pattern: str, function: str) -> None:
    text = "ab" * 100_000
    expression = f"size([object.{function}('{pattern}')]) == 1"
    assert error(expression, object=text, meter=limited()).kind is TOO_MUCH
    assert evaluate(expression, object=text[:100], meter=limited()) is True


def test_common_patterns_match_long_texts() -> None:
    text = "a" * 250_000
    for pattern in ("^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "(a+)+$x", "registry[.]example[.]com/"):
        evaluate(f"object.matches('{pattern}')", object=text, meter=limited())


def test_searching_often_costs_steps() -> None:
    assert error(
        "object.all(x, object[0].matches('(a|b)*a(a|b){20}c|' + x) || true)",
        object=["ab" * 5000] * 1000,
        meter=limited(),
    ).kind is (TOO_MUCH)


def test_deeply_nested_values_are_an_error() -> None:
    one: list[object] = []
    other: list[object] = []
    for _ in range(5000):
        one, other = [one], [other]
    assert error("object == other || true", object=one, other=other).kind is TOO_MUCH


def test_deeply_nested_expressions_are_an_error() -> None:
    for text in (" + ".join(["1"] * 1500), "object" + ".a" * 1500):
        try:
            evaluate(text)
        except (CompileError, EvalError):
            continue
        pytest.fail(f"{text[:20]}... was evaluated")


def test_long_chains_of_conditions_are_evaluated() -> None:
    assert evaluate("!" * 2000 + "true") is True
    assert evaluate(" && ".join(["object.t"] * 300)) is True
    assert evaluate(" || ".join(["!object.t"] * 240)) is False


def test_one_program_serves_threads() -> None:
    """Programs are reentrant: each evaluation has its own evaluator."""
    text = (
        "object.numbers.map(x, x * object.factor).all(y, y % object.factor == 0) ? object.name + 'x' : variables.other"
    )
    shared = program(text)

    def run(number: int) -> str:
        bindings = {"object": {"numbers": list(range(30)), "factor": number + 1, "name": str(number)}}
        return str(shared.evaluate(bindings, {}, limited()))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(400))) == [f"{number}x" for number in range(400)]


def test_a_program_is_used_again_after_an_error() -> None:
    shared = program("object.all(x, x > 0)")
    for _ in range(3):
        with pytest.raises(EvalError):
            shared.evaluate({"object": ["a"]}, {}, limited())
        assert shared.evaluate({"object": [1]}, {}, limited()) is True
