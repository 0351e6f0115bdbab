"""What is cel-cpp's own: what it refuses, its limits, and values that hide."""

from __future__ import annotations

import concurrent.futures
from typing import Any

import pytest

pytest.importorskip("cel_expr_python")

from gangctl.policy.cel.check import check
from gangctl.policy.cel.cpp_engine.engine import CppEngine
from gangctl.policy.cel.cpp_engine.render import render
from gangctl.policy.cel.cpp_engine.shapes import types_of
from gangctl.policy.cel.environments import admission
from gangctl.policy.cel.faults import CompileError, CompileKind, EvalError, EvalKind
from gangctl.policy.cel.library.ip import Ip
from gangctl.policy.cel.library.values import Optional
from tests.policy.cel.answers import said, unlimited

ENGINE = CppEngine()


def value(text: str, obj: Any = None) -> Any:
    return ENGINE.compile(check(text, admission())).evaluate(ENGINE.bind({"object": obj}), {}, unlimited())


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("dyn(quantity('1')) == object", "quantity('1')"),
        ("1 == 1 && dyn(object.?a) == object", "object.?a"),
        ("type(quantity('1')) == type(ip('::1'))", "type(quantity('1'))"),
        ("[object.?a].indexOf(object.?b) == 0", "indexOf"),
        ("[timestamp('2020-01-01T00:00:00Z')].sort()[0] == timestamp('2020-01-01T00:00:00Z')", "sort"),
        ("timestamp(object.a) in [timestamp(object.b)].distinct()", "distinct"),
        ("{1: 2, 3: 4}.transformMap(k, v, duration('1s'))[1] == duration('1s')", "transformMap"),
        ("[duration('1s')]", "duration"),
        ("'%s'.format([{'a': object[?'b']}]) == ''", "object[?'b']"),
        ("[object[?'b'].c].indexOf(object) == 0", "object[?'b'].c"),
        ("optional.of(object[?'b']).orValue(1) == 1", "object[?'b']"),
        ("object.?a.optMap(x, x[?'b']).orValue(1) == 1", "x[?'b']"),
        ("object.?a.orValue(object[?'b']) == 1", "object[?'b']"),
        ("{1.5: 1} == {1.5: 1}", "1.5"),
        ("object.?a.optFlatMap(x, x.b).hasValue()", "x.b"),
    ],
)
def test_what_it_would_answer_wrongly_is_refused_where_it_stands(text: str, refused: str) -> None:
    with pytest.raises(CompileError) as caught:
        ENGINE.compile(check(text, admission()))
    error = caught.value
    assert error.kind is CompileKind.UNSUPPORTED
    assert refused in text[error.offset : error.offset + error.length]
    assert "cel-python" in error.hint


def test_what_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(CompileError) as caught:
        ENGINE.compile(check("1" + " + 1" * 60 + " == 61", admission()))
    assert caught.value.kind is CompileKind.UNSUPPORTED
    assert "variables" in caught.value.hint


@pytest.mark.parametrize("text", ["object.all(x, x >= 0)", "object.all(x, x >= 0) || true", "!object.exists(x, x < 0)"])
def test_it_visits_9999_elements_at_most(text: str) -> None:
    assert value(text, [1] * 9_999) is True
    with pytest.raises(EvalError) as caught:
        value(text, [1] * 10_000)
    assert caught.value.kind is EvalKind.BUDGET_EXCEEDED


def test_objects_cannot_pass_for_values_of_kubernetes() -> None:
    forged = {"-7305020": 0, "k": [{"-7305020": 0}]}
    assert said(ENGINE, "quantity('1') == object", forged) == "NoSuchOverload"
    assert said(ENGINE, "object == quantity('1')", forged) is False
    assert said(ENGINE, "object.k.indexOf(object) == -1 && quantity('1') in [quantity('1')]", forged) is True


def test_values_of_kubernetes_leave_as_they_are() -> None:
    found = value("[ip('::1')]")
    assert isinstance(found[0], Ip)
    assert ENGINE.plain(value("object.?a", {"a": 1})) == 1
    assert value("optional.of(ip('::1'))").value.address.is_loopback
    assert value("object.?a", {}) == Optional(present=False)


def test_a_path_is_not_copied() -> None:
    obj = {"spec": {"jobs": [{"a": 1}]}}
    assert value("object.spec.jobs", obj) is obj["spec"]["jobs"]
    assert value("object.spec.jobs[0]", obj) is obj["spec"]["jobs"][0]


@pytest.mark.parametrize(
    "text", ["object.spec.nope", "object.spec.jobs[1]", "object.nope.x", "object.spec.jobs[0].a.b"]
)
def test_a_path_that_leads_nowhere_is_the_same_error_as_elsewhere(text: str) -> None:
    obj = {"spec": {"jobs": [{"a": 1}]}}
    assert said(ENGINE, text, obj) == said(ENGINE, f"size([{text}]) == 1", obj)


def test_the_exact_way_is_written_only_for_what_may_have_no_fields() -> None:
    checked = check("has(object.a.b) && object.?c.d.orValue(1) == 1", admission())
    types = types_of(checked)
    assert render(checked.node, types, exact=False) == "has(object.a.b) && object.?c.?d.orValue(1) == 1"
    assert "type(" in render(checked.node, types, exact=True)


def test_threads_share_an_engine() -> None:
    text = "object.l.map(x, quantity(x)).exists(q, q == quantity(object.n)) && variables.n == object.n"
    checked = check(text, admission({"n": check("object.n", admission()).type}))
    program = ENGINE.compile(checked)

    def judge(number: int) -> bool:
        obj = {"n": str(number), "l": [str(number + step) for step in range(20)]}
        return all(
            program.evaluate(ENGINE.bind({"object": obj}), {"n": str(number)}, unlimited()) is True for _ in range(50)
        )

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(judge, range(16)))
