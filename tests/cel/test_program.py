"""A compiled expression has the value, or the error, that it has in the API server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from gangctl.cel.check import check
from gangctl.cel.environments import admission
from gangctl.cel.evaluation.conversions import plain
from gangctl.cel.faults import EvalError
from gangctl.cel.program import Bindings, compile_expression
from gangctl.cel.types import Type
from tests.cel.answers import recorded, said, unlimited
from tests.rows import each

ANSWERS = recorded()


def test_expressions_true_for_the_api_server_are_true() -> None:
    wrong = {text: answer for text in ANSWERS.holds if (answer := said(text, ANSWERS.object)) is not True}
    assert not wrong


def test_expressions_that_fail_in_the_api_server_have_the_same_error() -> None:
    answers = {text: said(text, ANSWERS.object) for text in ANSWERS.fails}
    assert answers == ANSWERS.fails


class Variables(Mapping[str, Any]):
    """Variables as a policy has them: computed when they are read."""

    def __init__(self, bindings: Bindings, texts: Mapping[str, str]) -> None:
        self.types: dict[str, Type] = {}
        self.read: list[str] = []
        self._bindings = bindings
        self._texts = texts
        self._programs = {}
        for name, text in texts.items():
            checked = check(text, admission(self.types))
            self._programs[name] = compile_expression(checked)
            self.types[name] = checked.type

    def __getitem__(self, name: str) -> Any:
        self.read.append(name)
        return self._programs[name].evaluate(self._bindings, self, unlimited())

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def evaluated(text: str, texts: Mapping[str, str], obj: object = None) -> tuple[object, list[str]]:
    """The value or the kind of the error, and the variables in the order in which they were read."""
    bindings = {"object": obj, "params": None}
    variables = Variables(bindings, texts)
    program = compile_expression(check(text, admission(variables.types)))
    try:
        answer = plain(program.evaluate(bindings, variables, unlimited()))
    except EvalError as error:
        answer = str(error.kind)
    return answer, variables.read


VARIABLES = {
    "jobs": "object.jobs",
    "few": "variables.jobs.filter(j, j.replicas < 3)",
    "total": "variables.jobs.map(j, int(j.replicas)).sum()",
    "memory": "quantity('1.5Gi')",
    "address": "[ip('10.0.0.1'), ip('::1')]",
    "when": "timestamp('2020-01-01T00:00:00Z')",
    "span": "duration('90m')",
    "unsigned": "7u",
    "bytes": "b'x'",
    "absent": "object.?zzz",
    "there": "object.?name",
    "fails": "object.zzz.yyy",
    "zero": "1 / 0",
    "labels": "{'a': dyn(1), 'b': dyn([1, 2])}",
    "version": "semver('1.2.3')",
}
OBJECT = {"name": "x", "jobs": [{"name": "a", "replicas": 2}, {"name": "b", "replicas": 4}]}


@each(
    ("text", "expected"),
    [
        ("variables.jobs.all(j, j.replicas > 1)", True),
        ("variables.few[0].name == 'a' && size(variables.few) == 1", True),
        ("variables.total == 6", True),
        ("variables.memory.isGreaterThan(quantity('1Gi'))", True),
        ("variables.memory == quantity('1536Mi')", True),
        ("!variables.memory.isInteger()", True),
        ("variables.address.exists(a, a.family() == 6)", True),
        ("ip('0:0::1') in variables.address", True),
        ("variables.when.getFullYear() == 2020 && type(variables.when) == google.protobuf.Timestamp", True),
        ("variables.when + variables.span == timestamp('2020-01-01T01:30:00Z')", True),
        ("variables.unsigned + 1u == 8u && type(variables.unsigned) == uint", True),
        ("variables.bytes == b'x'", True),
        ("!variables.absent.hasValue() && variables.absent.orValue('d') == 'd'", True),
        ("variables.there.orValue('d') == 'x'", True),
        ("variables.there.optMap(n, n + '!').value() == 'x!'", True),
        ("variables.labels.b[1] == 2 && has(variables.labels.a)", True),
        ("variables.version.isLessThan(semver('1.10.0'))", True),
        ("has(variables.jobs)", True),
        ("[1, 2].exists(i, variables.total == i * 3)", True),
        ("variables.fails == 1", "NoSuchKey"),
        ("has(variables.fails)", "NoSuchKey"),
        ("variables.fails == 1 || true", True),
        ("variables.zero == 1", "DivideByZero"),
        ("size(variables.few.map(j, j.replicas > variables.zero)) == 1", "DivideByZero"),
    ],
)
def test_variables_of_any_type_are_bound(text: str, expected: object) -> None:
    assert evaluated(text, VARIABLES, OBJECT)[0] == expected


@each(
    ("text", "read"),
    [
        ("false && variables.fails == 1", []),
        ("true || variables.fails == 1", []),
        ("true ? 1 == 1 : variables.fails == 1", []),
        ("[].all(x, variables.fails == x)", []),
        ("variables.jobs.all(j, j.replicas > 0)", ["jobs"]),
    ],
)
def test_variables_are_evaluated_only_when_they_are_read(text: str, read: list[str]) -> None:
    assert evaluated(text, VARIABLES, OBJECT) == (text != "false && variables.fails == 1", read)


def test_variables_of_policies_are_separate() -> None:
    bindings = {"object": OBJECT}
    one = Variables(bindings, {"x": "[1]"})
    other = Variables(bindings, {"x": "[1, 2]"})
    program = compile_expression(check("size(variables.x) == 1", admission(one.types)))
    answers = [program.evaluate(bindings, each, unlimited()) for each in (one, other, one, other)]
    assert answers == [True, False, True, False]


def test_a_program_is_evaluated_with_changed_bindings() -> None:
    program = compile_expression(check("object.name == 'x' && params.limit == 2", admission()))
    bindings = {"object": OBJECT, "params": {"limit": 1}}
    assert program.evaluate(bindings, {}, unlimited()) is False
    assert program.evaluate({**bindings, "params": {"limit": 2}}, {}, unlimited()) is True


def test_bound_values_are_not_changed() -> None:
    obj: dict[str, Any] = {"l": [3, 1, 2], "m": {"a": 1}}
    assert said("object.l.sort() == [1, 2, 3] && object.m.transformMap(k, v, v + 1).a == 2", obj) is True
    assert obj == {"l": [3, 1, 2], "m": {"a": 1}}


def test_errors_do_not_contain_values_of_the_object() -> None:
    obj = {"secret": "hunter2", "bad": "[hunter2", "l": ["hunter2"]}
    for text in (
        "int(object.secret) == 1",
        "object.hunter2 == 1",
        "quantity(object.secret) == quantity('1')",
        "object.l.sum() == 1.0",
        "object.secret.find(object.bad) == ''",
        "object.secret + 1 == 2",
    ):
        program = compile_expression(check(text, admission()))
        with pytest.raises(EvalError) as caught:
            program.evaluate({"object": obj}, {}, unlimited())
        assert "hunter2" not in caught.value.message.replace("no such key: hunter2", "")
