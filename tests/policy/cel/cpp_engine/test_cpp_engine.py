"""Which expressions C++ evaluates, and that nobody notices which it does not; test_engines.py has the answers."""

from __future__ import annotations

import concurrent.futures
import gc
import sys
import time
from typing import Any

import pytest

pytest.importorskip("cel_expr_python")

from gangctl.policy.cel.check import check
from gangctl.policy.cel.checked import Checked
from gangctl.policy.cel.cpp_engine.engine import CppEngine, CppProgram
from gangctl.policy.cel.cpp_engine.render import Unfit, render
from gangctl.policy.cel.environments import admission
from gangctl.policy.cel.faults import EvalError, EvalKind
from gangctl.policy.cel.meter import StepMeter
from gangctl.policy.cel.types import DYN
from tests.policy.cel.answers import recorded, said, unlimited
from tests.rows import each

ENGINE = CppEngine()


def checked(text: str) -> Checked:
    return check(text, admission({"x": DYN}))


@each(
    "text",
    [
        "object.spec.replicatedJobs.all(r, r.replicas * r.template.spec.parallelism <= 512)",
        "has(object.metadata.labels) && 'team' in object.metadata.labels",
        "object.metadata.?annotations['a/b'].orValue('none') in ['all', 'none']",
        "!(object.a == 1 || object.b != 2u) ? object.c[0] > 1.5 : size(object.d) + 2 - 1 == 3 * 4 / 2 % 5",
        "object.l.filter(x, x > 1).map(x, x > 2, x * 2).exists_one(x, x == 4)",
        "timestamp('2019-12-31T23:30:00Z') + duration('1h') > timestamp('2020-01-01T00:00:00Z')",
        "object.name.startsWith('a' + string(1)) && object.name.size() < 40",
        "[?object.?b] == [] && {?'c': object.?c} == {} && object[?'d'].hasValue()",
        "object.?a.optMap(x, x + 1).orValue(0) == 2 && type(object.b) == string && b'\\x00' != b'a'",
        "has(object.?a.b) && object.`namespace` == 'x\\n\\u00e9' && object.`a-b` == null",
        "object.name + 'x'",
        "request.userInfo.groups.exists(g, g == 'system:masters')",
    ],
)
def test_what_is_plain_cel_is_for_cpp(text: str) -> None:
    assert isinstance(ENGINE.compile(checked(text)), CppProgram)


@each(
    ("text", "why"),
    [
        ("quantity(object.a) == quantity('1')", "a function and a type of Kubernetes"),
        ("object.a.matches('a')", "C++ compiles the pattern each time"),
        ("object.l.all(i, v, v == i)", "a macro that C++ does not have"),
        ("variables.x == 1", "nobody says what it stands for"),
        ("object.l.map(x, x)", "lists are copied"),
        ("object.l", "of unknown type"),
        ("string(object.a) == '1'", "C++ writes infinity otherwise"),
        ("duration('1.5s').getMilliseconds() == 1500", "C++ says 500"),
        ("double(object.a) < 1.0", "NaN is an error"),
        ("object.m[?object.k].hasValue()", "a key may be of a type that is none"),
        ("dyn(object[?'a']).b == 1", "an optional that nobody can see"),
        ("optional.of(object[?'b']).orValue(1) == 1", "another"),
        ("object.?a.optMap(x, x[?'b']).orValue(1) == 1", "another"),
        ("object.?a.orValue(object[?'b']) == 1", "another"),
        ("object.?a.optFlatMap(x, x.b).hasValue()", "optFlatMap of what may be none"),
        ("timestamp(object.t) > timestamp('2020-01-01T00:00:00Z')", "C++ reads other texts, and other digits of them"),
        ("duration(object.d) > duration('1h')", "as above"),
        ("timestamp('2020-01-01T00:00:00.0000000001Z') == timestamp('2020-01-01T00:00:00Z')", "as above"),
        ("{object.a: 1}.size() == 1", "1 and 1u are two keys"),
        ("namespaceObject.metadata.creationTimestamp < timestamp('2020-01-01T00:00:00Z')", "bound as text"),
    ],
)
def test_what_is_not_or_would_be_answered_otherwise_is_not(text: str, why: str) -> None:
    assert why
    with pytest.raises(Unfit):
        render(checked(text), {})
    assert not isinstance(ENGINE.compile(checked(text)), CppProgram)


def defined(**texts: str) -> dict[str, Checked]:
    """Variables, each of which may read those before it."""
    found: dict[str, Checked] = {}
    for name, text in texts.items():
        found[name] = check(text, admission(dict.fromkeys(found, DYN)))
    return found


@each(
    ("text", "expected"),
    [
        ("variables.big.size() == 2 && variables.names == ['b', 'c']", True),
        ("variables.most * 2 == 4 && object.l.all(x, x.n <= variables.most + 1)", True),
        ("variables.bad == 1 || true", True),
        ("(has(variables.first.name) ? variables.first.name : 'none') == 'a'", True),
    ],
)
def test_a_variable_is_the_expression_that_it_stands_for(text: str, expected: object) -> None:
    variables = defined(
        most="2",
        big="object.l.filter(x, x.n >= variables.most)",
        names="variables.big.map(x, x.name)",
        first="object.l[0]",
        bad="object.nothing.here",
    )
    program = ENGINE.compile(check(text, admission(dict.fromkeys(variables, DYN))), variables)
    assert isinstance(program, CppProgram)
    bindings = ENGINE.bind({"object": {"l": [{"n": n, "name": "abc"[n - 1]} for n in (1, 2, 3)]}})
    # Nobody is asked for a value.
    assert program.evaluate(bindings, {}, StepMeter.request(time.monotonic)) == expected


@each(
    ("variable", "text", "why"),
    [
        ("object.l.filter(x, x > 0)", "object.l.all(y, y in variables.v)", "it would be made anew for every element"),
        ("object.n", "object.l.all(object, object == variables.v)", "its object is another one"),
        ("object.?n", "variables.v.hasValue()", "an optional that is stored as a value of any type"),
        ("quantity('1')", "variables.v == quantity('1')", "not for C++ by itself"),
    ],
)
def test_a_variable_that_would_mean_or_cost_something_else_is_read(variable: str, text: str, why: str) -> None:
    assert why
    variables = defined(v=variable)
    assert not isinstance(ENGINE.compile(check(text, admission({"v": DYN})), variables), CppProgram)


def test_variables_that_double_again_and_again_are_read() -> None:
    texts = {"v0": "object.n + 1"} | {f"v{n}": f"variables.v{n - 1} + variables.v{n - 1}" for n in range(1, 40)}
    variables = defined(**texts)
    doubled = check("variables.v39 > 0", admission(dict.fromkeys(variables, DYN)))
    assert not isinstance(ENGINE.compile(doubled, variables), CppProgram)
    fits = check("variables.v3 == 16", admission(dict.fromkeys(variables, DYN)))
    assert isinstance(ENGINE.compile(fits, variables), CppProgram)


def test_what_is_nested_too_deeply_for_cpp_is_evaluated_all_the_same() -> None:
    text = "1" + " + 1" * 60 + " == 61"
    assert render(check(text, admission()), {}).text == text
    assert not isinstance(ENGINE.compile(check(text, admission())), CppProgram)
    assert said(ENGINE, text, {}) is True


def test_cpp_evaluates_many_of_the_recorded_expressions() -> None:
    """So that their answers are C++'s."""
    answers = recorded()
    texts = [*answers.holds, *answers.fails]
    assert sum(isinstance(ENGINE.compile(check(text, admission())), CppProgram) for text in texts) > 180


@each(
    ("text", "expected"),
    [
        ("has(object.s.x)", False),
        ("has(object.n.x) || object.s == 's'", True),
        ("object.?s.?x.orValue(1) == 1", True),
        ("object.n[?0].hasValue()", False),
        ("object.l['x'] == 1", "NoSuchOverload"),
        ("optional.none() == [][1]", "IndexOutOfBounds"),
        ("optional.none() == {'a': optional.none()}.a", True),
        ("object.s.x == 1", "NoSuchKey"),
        ("object.l[7] == 1", "IndexOutOfBounds"),
        ("object.s + 1 == 1", "NoSuchOverload"),
        ("object.l[0] / 0 == 1", "DivideByZero"),
        ("timestamp(object.s) == timestamp(object.s)", "InvalidArgument"),
        ("duration('1\u00b5s') == duration('1us')", True),
        ("object.s", "s"),
        ("object.s + string(1)", "s1"),
        ("'NOT_FOUND: ' + object.s", "NOT_FOUND: s"),
    ],
)
def test_what_cpp_cannot_say_exactly_is_said_exactly(text: str, expected: object) -> None:
    assert said(ENGINE, text, {"s": "s", "n": None, "l": [1, 2]}) == expected


def test_more_elements_than_cpp_visits_are_visited() -> None:
    assert said(ENGINE, "object.l.all(x, x > 0)", {"l": [1] * 20_000}) is True


def test_but_not_more_than_there_are_steps_for() -> None:
    program = ENGINE.compile(checked("object.l.all(x, x > 0) || true"))
    with pytest.raises(EvalError) as caught:
        program.evaluate(ENGINE.bind({"object": {"l": [1] * 20_000}}), {}, StepMeter(1_000, 1.0, lambda: 0.0))
    assert caught.value.kind is EvalKind.BUDGET_EXCEEDED


def test_nothing_stays_of_an_evaluation() -> None:
    programs = [
        ENGINE.compile(checked(text))
        for text in (
            "object.l.all(x, x.a == 1)",
            "object.zzz == 1",
            "has(object.s.x)",
            "quantity(object.s) == quantity('1')",
        )
    ]

    def judge() -> None:
        bindings = ENGINE.bind({"object": {"s": "1", "l": [{"a": 1}] * 10}})
        for program in programs:
            try:
                program.evaluate(bindings, {}, unlimited())
            except EvalError:
                continue

    def blocks(rounds: int) -> int:
        for _ in range(rounds):
            judge()
        gc.collect()
        return sys.getallocatedblocks()

    before = blocks(200)
    assert blocks(500) - before < 250


def test_threads_share_an_engine() -> None:
    programs = [
        ENGINE.compile(checked(text)) for text in ("object.l.exists(x, x == object.n)", "object.l.sum() > object.n")
    ]

    def judge(number: int) -> bool:
        obj: dict[str, Any] = {"n": number, "l": [number + step for step in range(20)]}
        return all(
            program.evaluate(ENGINE.bind({"object": obj}), {}, unlimited()) is True
            for _ in range(50)
            for program in programs
        )

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(judge, range(16)))
