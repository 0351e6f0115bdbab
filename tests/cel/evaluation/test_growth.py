"""Values that grow: no expression is refused for what it might make, and each ends before it has made too much."""

from __future__ import annotations

import tracemalloc

from gangctl.cel.check import check
from gangctl.cel.environments import admission
from gangctl.cel.faults import EvalKind
from gangctl.cel.meter import EXPRESSION_STEPS, StepMeter
from gangctl.cel.program import compile_expression
from tests.cel.evaluation.evaluating import error
from tests.rows import each

OBJECT = {
    "s": "a,b-" * 4096,
    "a": "a",
    "n": 10**9,
    "l": [{"name": f"n{n}"} for n in range(100)],
    "spec": {"num": 3},
    "labels": {"a": "1", "b": "2"},
}
MOST = 64 << 20
"""Bytes: an expression holds some values of a megabyte at a time, and lists of 200,000 elements."""


def doubled(text: str, times: int, shape: str) -> str:
    for _ in range(times):
        text = shape.format(text)
    return text


def again(text: str, times: int, method: str) -> str:
    return text + times * method


def steps() -> StepMeter:
    return StepMeter(EXPRESSION_STEPS, 1.0, lambda: 0.0)


@each(
    "text",
    [
        doubled("object.s", 15, "optional.of({}).optMap(v, v + v).value()"),
        again("[object.s]", 20, ".map(v, v + v)"),
        again("[object.s]", 20, ".map(v, [v, v].join(''))"),
        again("object.s", 3, ".replace('a', object.s)"),
        again("[object.l]", 20, ".map(l, l + l)"),
        f"'%s'.format({again('[object.l]', 20, '.map(l, [l, l])')})",
        "'%s'.format({})".format(again("[object.l]", 20, ".map(l, {'a': l, 'b': l})")),
        again("[object.l]", 20, ".map(l, [l, l])") + ".flatten(20)",
        again("[object.s]", 20, ".map(v, '%s%s'.format([v, v]))"),
        again("[object.s]", 20, ".map(v, strings.quote(v) + v)"),
        again("'aaaaaaaaaaaaaaaa'", 5, ".replace('a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')"),
        "object.s.split('').map(a, object.s.split('').map(b, object.s))",
        "lists.range(10000).map(x, object.l).flatten()",
        "lists.range(1000).map(x, object.s.split(''))",
        "lists.range(100000).map(x, lists.range(100000))",
        "lists.range(1000).map(x, object.s.replace('a', 'aaaaaaaaaaaaaaaa'))",
        "lists.range(1000).map(x, object.l.map(y, object.s).join(''))",
        "lists.range(object.n)",
        "lists.range(1000 * 1000)",
        again("lists.range(10000)", 20, ".reverse().sort()"),
    ],
)
def test_a_growing_value_ends_at_the_size_limit(text: str) -> None:
    tracemalloc.start()
    try:
        assert error(text, object=OBJECT, meter=steps()).kind is EvalKind.BUDGET_EXCEEDED
        assert tracemalloc.get_traced_memory()[1] < MOST
    finally:
        tracemalloc.stop()


@each(
    "text",
    [
        again("object.a", 7, ".replace('a', 'b')") + " == 'b'",
        "lists.range(object.spec.num) == [0, 1, 2]",
        "lists.range(3000).map(x, 'ab').join().size() == 6000",
        "object.labels.all(a, object.labels.all(b, object.labels.all(c, object.labels.all(d, a + b + c + d != ''))))",
        doubled("object.a", 12, "optional.of({}).optMap(v, v + v).value()") + ".size() == 4096",
        again("[object.l]", 6, ".map(l, [l, l])") + ".size() == 1",
        "object.l.map(x, object.l.map(y, x.name + y.name)).flatten().exists(z, z == 'n1n2')",
        "size(object.s.replace('-', '').replace('_', '--').lowerAscii()) == 12288",
    ],
)
def test_expressions_that_stay_small_are_evaluated(text: str) -> None:
    program = compile_expression(check(text, admission()))
    assert program.evaluate({"object": OBJECT}, {}, steps()) is True
