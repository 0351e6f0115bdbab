"""The checker accepts and refuses what kube-apiserver does: asked once and recorded, and asked again."""

from __future__ import annotations

import pytest

from gangctl.cel.check import check
from gangctl.cel.declarations import FUNCTIONS
from gangctl.cel.environments import Environment, admission
from gangctl.cel.faults import CompileError, CompileKind
from gangctl.cel.tokens import tokens
from gangctl.cel.types import BOOL, NULL, STRING, Type
from tests.cel.calls import doubtful, fitting, mixed
from tests.cel.oracle import Kind, recorded, refused
from tests.controlplane.minors import MINORS
from tests.controlplane.plane import ControlPlane
from tests.rows import each

CASES = recorded()
NARROWER = {
    "type(1) == net.IP": CompileKind.UNSUPPORTED,
    "type(1) == net.CIDR": CompileKind.UNSUPPORTED,
    "type(ip('1')) == net.IP": CompileKind.UNSUPPORTED,
    "net.IP": CompileKind.UNSUPPORTED,
    "type(1) == optional_type": CompileKind.UNSUPPORTED,
    "variables": CompileKind.UNSUPPORTED,
    "authorizer": CompileKind.UNSUPPORTED,
    "google.protobuf.Timestamp{}": CompileKind.UNSUPPORTED,
    ".object": CompileKind.UNSUPPORTED,
    ".size([1])": CompileKind.UNSUPPORTED,
    "has(has(object.a))": CompileKind.SYNTAX,
    "'%.200f'.format([1.0])": CompileKind.LIMIT,
    "{null: 'a'}": CompileKind.UNSUPPORTED,
    "{[1]: 'a'}": CompileKind.UNSUPPORTED,
}
"""What kube-apiserver takes and gangctl does not: refused rather than answered wrongly."""

NATIVE = {CompileKind.SYNTAX, CompileKind.UNDECLARED, CompileKind.TYPE}
"""Refusals that are kube-apiserver's own."""

RESULTS = (
    "true",
    "object.x",
    "dyn(true)",
    "1",
    "'a'",
    "null",
    "[true]",
    "string(object.x)",
    "optional.of('a')",
    "type(1)",
)


def fault(expression: str, environment: Environment, *returns: Type) -> CompileError | None:
    try:
        check(expression, environment, returns=returns)
    except CompileError as error:
        return error
    return None


@each("minor", sorted(MINORS))
def test_the_checker_gives_the_recorded_answers(minor: str) -> None:
    environment = admission(minor=minor)
    ours = {each for each in CASES if fault(each, environment) is None}
    theirs = {each for each, minors in CASES.items() if minor in minors}
    assert ours == theirs - NARROWER.keys()


@each(("expression", "kind"), NARROWER.items())
def test_unsupported_expressions_are_refused_with_a_reason(expression: str, kind: CompileKind) -> None:
    found = fault(expression, admission())
    assert found is not None
    assert found.kind == kind


def test_every_function_is_called_once_and_accepted() -> None:
    environment = admission()
    calls = sorted(set(fitting()))
    wrong = {"duration(string(1))", "timestamp(string(1))"}  # constants that are none
    found = {each: fault(each, environment) for each in calls}
    assert {each for each, error in found.items() if error is not None} - NARROWER.keys() == wrong
    called = {
        name for each in calls if each not in NARROWER.keys() | wrong for name in check(each, environment).functions
    }
    authorizer = {"allowed", "check", "error", "errored", "fieldSelector", "group", "labelSelector", "name"}
    authorizer |= {"namespace", "path", "reason", "resource", "serviceAccount", "subresource"}
    indexes = {"_[_]", "_[?_]", "_&&_", "_||_"}
    assert called == FUNCTIONS.keys() - authorizer - indexes


def test_every_offset_is_inside_of_the_expression() -> None:
    environment = admission()
    for expression in (*CASES, *doubtful()):
        error = fault(expression, environment)
        if error is not None:
            assert 0 <= error.offset <= len(expression), expression
            assert error.offset + error.length <= max(len(expression), error.offset + 1), expression
            assert "\n" not in error.message
            assert error.message[-1] != ".", expression


@pytest.mark.controlplane
async def test_a_real_server_gives_the_recorded_answers(plane: ControlPlane) -> None:
    theirs = await refused(plane.api, list(CASES))
    assert theirs == {each for each, minors in CASES.items() if plane.minor.name not in minors}


@pytest.mark.controlplane
async def test_calls_of_every_overload_are_accepted_as_by_the_server(plane: ControlPlane) -> None:
    environment = admission(minor=plane.minor.name)
    calls = [each for each in (*fitting(), *doubtful()) if each not in NARROWER and not each.startswith("duration(2)")]
    theirs = await refused(plane.api, calls)
    assert len(calls) > 4000
    assert {each for each in calls if fault(each, environment) is not None} == theirs


@pytest.mark.full("a search; calls of every overload are in the first tier")
@pytest.mark.controlplane
async def test_calls_with_mixed_types_are_accepted_as_by_the_server(plane: ControlPlane) -> None:
    environment = admission(minor=plane.minor.name)
    parts = [each for each in (*CASES, *fitting()) if parts_well(each)]
    found = {each: fault(each, environment) for each in mixed(parts, 1500, seed=37)}
    asked = [each for each, error in found.items() if each.strip() and (error is None or error.kind in NATIVE)]
    theirs = await refused(plane.api, asked)
    assert len(asked) > 2000
    assert {each for each in asked if found[each] is not None} == theirs


def parts_well(expression: str) -> bool:
    """Whether it may be a part of others: it has words, and nothing that is known to be taken natively alone."""
    try:
        return bool(list(tokens(expression))) and expression not in NARROWER and "//" not in expression
    except CompileError:
        return False


@pytest.mark.controlplane
@each(("kind", "returns"), [("validations", (BOOL,)), ("messages", (STRING,)), ("annotations", (STRING, NULL))])
async def test_results_have_the_types_of_the_server(
    plane_1_37: ControlPlane, kind: Kind, returns: tuple[Type, ...]
) -> None:
    theirs = await refused(plane_1_37.api, RESULTS, kind)
    assert {each for each in RESULTS if fault(each, admission(), *returns) is not None} == theirs
