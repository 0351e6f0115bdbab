from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gangctl.cel.faults import EvalError, EvalKind
from gangctl.cel.meter import StepMeter
from tests.cel.evaluation.evaluating import check, error, evaluate
from tests.rows import each

MISFIT = EvalKind.NO_SUCH_OVERLOAD
MISSING = EvalKind.NO_SUCH_KEY


@each(
    ("text", "expected"),
    [
        ("!object.t ? object.zz : 2", 2),
        ("true ? (false ? 1 : 2) : 3", 2),
    ],
)
def test_logical_operators_evaluate(text: str, expected: object) -> None:
    check(text, expected)


Logic = tuple[str, bool | None]
"""An expression and what it is; None is an error."""

LEAVES: st.SearchStrategy[Logic] = st.sampled_from(
    [("true", True), ("false", False), ("object.zz", None), ("1 / 0 > 0", None), ("!object.s", None)]
)


def both(left: Logic, right: Logic) -> Logic:
    values = {left[1], right[1]}
    return f"({left[0]} && {right[0]})", False if False in values else None if None in values else True


def either(left: Logic, right: Logic) -> Logic:
    values = {left[1], right[1]}
    return f"({left[0]} || {right[0]})", True if True in values else None if None in values else False


TREES = st.recursive(
    LEAVES, lambda inner: st.builds(both, inner, inner) | st.builds(either, inner, inner), max_leaves=8
)


def outcome(text: str) -> bool | None:
    try:
        answer = evaluate(text)
    except EvalError:
        return None
    assert type(answer) is bool
    return answer


@given(TREES)
def test_errors_are_absorbed_on_either_side(tree: Logic) -> None:
    text, expected = tree
    assert outcome(text) is expected


@given(TREES, TREES)
def test_macros_absorb_errors_as_the_operators_do(left: Logic, right: Logic) -> None:
    body = f"x == 1 ? {left[0]} : {right[0]}"
    assert outcome(f"[1, 2].exists(x, {body})") is either(left, right)[1]
    assert outcome(f"[1, 2].all(x, {body})") is both(left, right)[1]
    assert outcome(f"[1, 2].exists(i, x, {body})") is either(left, right)[1]
    assert outcome(f"[1, 2].all(i, x, {body})") is both(left, right)[1]


def test_operators_short_circuit() -> None:
    for text in (
        "false && [1, 2, 3].all(x, x > 0)",
        "true || [1, 2, 3].all(x, x > 0)",
        "true ? true : [1].all(x, true)",
    ):
        meter = StepMeter(10**6, 1.0, lambda: 0.0)
        evaluate(text, meter=meter)
        assert meter.spent <= 3


@each(
    "text",
    [
        "LOOP || true",
        "true && LOOP || true",
        "!(LOOP) && false",
        "[1, 2].exists(x, x == 1 ? LOOP : true)",
        "[1, 2].all(x, x == 1 ? LOOP : false)",
    ],
)
def test_an_exhausted_budget_is_not_absorbed(text: str) -> None:
    text = text.replace("LOOP", "object.all(a, object.all(b, a + b >= 0))")
    numbers = list(range(100))
    short = StepMeter(1000, 1.0, lambda: 0.0)
    assert error(text, object=numbers, meter=short).kind is EvalKind.BUDGET_EXCEEDED
    late = StepMeter(10**9, 1.0, lambda: 2.0)
    assert error(text, object=numbers, meter=late).kind is EvalKind.DEADLINE_EXCEEDED
