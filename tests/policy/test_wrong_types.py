"""Anything may stand anywhere in a policy or an exception: there is an error with a place, a status and an answer."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import orjson

from gangctl.cel.meter import StepMeter
from gangctl.controllers.policies import exception_status, policy_status
from gangctl.errors import ValidationError
from gangctl.policy.evaluate import Evaluation, refused_by_broken
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import LoadedException, LoadedPolicy, PolicyError, PolicySet, load_exception, snapshot_of
from gangctl.policy.review import covers
from gangctl.policy.verdict import merge
from gangctl.webhooks.policies import answer, demand_of
from tests.manifests.definitions.policystatus import Condition
from tests.policy.documents import NOW, exception, policy, review_of, rule
from tests.rows import each

Path = tuple[str | int, ...]


def _nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


POLICY = policy(
    matchConstraints={
        "namespaceSelector": {
            "matchLabels": {"a": "b"},
            "matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}],
        },
        "resourceRules": [rule("CREATE", resourceNames=["x"], scope="*")],
        "excludeResourceRules": [rule("DELETE")],
        "matchPolicy": "Equivalent",
    },
    matchConditions=[{"name": "c", "expression": "true"}],
    paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
    paramRef={"name": "n", "namespace": "ns", "parameterNotFoundAction": "Deny"},
    variables=[{"name": "v", "expression": "1"}],
    validations=[
        {
            "name": "r",
            "expression": "variables.v == 1",
            "message": "m",
            "messageExpression": "'a'",
            "reason": "Forbidden",
        }
    ],
    auditAnnotations=[{"key": "k", "valueExpression": "'a'"}],
    validationActions=["Deny"],
    failurePolicy="Fail",
    defaults={"gangMode": "Gang", "options": {}, "queue": "q", "priorityClass": "p"},
    background=True,
)
EXCEPTION = exception(
    {"name": "p", "rules": ["r"]},
    match={
        "namespaces": ["a"],
        "names": ["b*"],
        "namespaceSelector": {"matchLabels": {"a": "b"}},
        "objectSelector": {"matchExpressions": [{"key": "k", "operator": "Exists"}]},
    },
)
for _each in (POLICY, EXCEPTION):
    _each["metadata"] |= {"generation": 1, "uid": "u", "annotations": {"a": "b"}}
ANYTHING: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**63, 10**30, 1.5, float("nan"), float("inf")),
    *("", " ", "x", "\ud800", "\x00", "ü\n\u202e", "'" * 5, "a" * 1_000_000, b"x", datetime(2026, 1, 1, tzinfo=UTC)),
    *([], [None], ["x", "x"], [[]], [{}], _nested(900)),
    *({}, {"x": 1}, {"": None}, {1: 2}, {None: 3}, {"a": {"b": {"c": []}}}),
)


def _places(value: Any, path: Path = ()) -> Iterator[Path]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*path, key)
        yield from _places(item, (*path, key))


def _variants(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in _places(document):
        for value in (*ANYTHING, ...):
            changed: Any = copy.deepcopy(document)
            inner = changed
            for key in path[:-1]:
                inner = inner[key]
            if value is ...:
                del inner[path[-1]]
            else:
                inner[path[-1]] = value
            yield changed


def _check_status(status: dict[str, Any]) -> None:
    """One that the definition takes."""
    assert orjson.loads(orjson.dumps(status)) == status
    for condition in status["conditions"]:
        assert Condition.model_validate({**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}).message


def _check_policy(document: dict[str, Any]) -> bool:
    """Load it, format its status, evaluate it; returns whether it could be loaded."""
    review = review_of({"metadata": {"name": "js", "namespace": "ns"}, "spec": {}})
    held: LoadedPolicy | PolicyError
    try:
        held = load_policy(document)
        in_force = PolicySet(1, (held,))
        outcome = Evaluation(review).evaluate(held, StepMeter.request(lambda: 0.0))
    except PolicyError as error:
        held = error
        in_force = PolicySet(1, broken=(error.broken,))
        outcome = refused_by_broken(error.broken, review)
    if isinstance(held, PolicyError):
        assert held.problems
        assert outcome.violations or not (outcome.matched and held.broken.fail_closed)
    _check_status(policy_status(held, 1))
    assert snapshot_of(in_force).policies is in_force
    assert demand_of(in_force).fail <= {"CREATE", "UPDATE", "DELETE"}
    answer(merge([outcome])).message.encode()
    return isinstance(held, LoadedPolicy)


def _check_exception(document: dict[str, Any]) -> bool:
    held: LoadedException | ValidationError
    try:
        held = load_exception(document)
        assert covers(held, "p", "r", review_of({"metadata": {"name": "b1", "namespace": "a"}})) in {True, False}
        snapshot_of(PolicySet(1, exceptions=(held,)))
    except ValidationError as error:
        held = error
    _check_status(exception_status(held, 1, NOW, {"p": ("r",)}))
    return isinstance(held, LoadedException)


@each(("document", "check"), [(POLICY, _check_policy), (EXCEPTION, _check_exception)])
def test_values_of_wrong_types_have_an_error_with_a_place_and_an_outcome(document: dict[str, Any], check: Any) -> None:
    assert check(document)
    loaded = [check(each) for each in _variants(document)]
    assert 0 < sum(loaded) < len(loaded) / 2
