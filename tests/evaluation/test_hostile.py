"""Hostile policies and requests: refused when they are loaded, or answered in time, and so are the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final

import pytest
import pytest_asyncio

from gangctl.evaluation.evaluator import PolicyEvaluator
from gangctl.evaluation.options import EvaluatorOptions
from gangctl.evaluation.pool import TOO_MANY
from gangctl.policy.loaded import PolicyError, PolicySet
from gangctl.policy.review import Review
from tests.controlplane.wait import wait_for
from tests.evaluation.evaluators import document, evaluator_of, jobset_review
from tests.rows import each

FINE: Final = document("fine", "object.spec.replicatedJobs.all(j, j.replicas >= 0)")
OPTIONS: Final = EvaluatorOptions(request_seconds=600, load_seconds=300, policy_seconds=2.0, memory_bytes=400 << 20)
"""What is hostile ends with its CPU time, which no pause of the machine uses up, and not with its review."""


def nested_binds(operation: str, depth: int) -> str:
    """``depth`` values, each made of the one before twice."""
    text = f"size(v{depth}) > 0"
    for level in range(depth, 0, -1):
        text = f"cel.bind(v{level}, v{level - 1} {operation} v{level - 1}, {text})"
    return f"cel.bind(v0, object.spec.text, {text})"


def loops(depth: int, body: str) -> str:
    text = body
    for level in reversed(range(depth)):
        text = f"object.spec.numbers.all(n{level}, {text})"
    return text


HOSTILE: Final = {
    "loops": {
        "two loops": loops(2, "n0 + n1 >= 0"),
        "three loops": loops(3, "n0 + n1 + n2 >= 0"),
        "four loops": loops(4, "n0 + n1 + n2 + n3 >= 0"),
        "loops that make lists": "size(object.spec.numbers.map(a, object.spec.numbers.map(b, object.spec.text))) > 0",
        "loops that make text": "object.spec.numbers.map(a, object.spec.text).join(',').size() > 0",
        "text in loops": "object.spec.numbers.all(a, (object.spec.text + string(a)).size() > 0)",
    },
    "patterns": {
        "pattern with repeated groups": "object.spec.text.matches('^(a+)+$')",
        "pattern with alternatives": "object.spec.text.matches('^((a|aa)+)+b$')",
        "pattern of counts": "object.spec.text.matches('((a{0,100}){0,100}){0,100}b')",
        "pattern from the request": "object.spec.text.matches(object.spec.pattern)",
        "patterns in loops": "object.spec.numbers.all(n, !object.spec.text.matches('(x+x+)+y' + string(n)))",
        "find in loops": "object.spec.numbers.all(n, object.spec.text.findAll('a*').size() >= 0)",
    },
    "nesting": {
        "parentheses": "(" * 300 + "true" + ")" * 300,
        "lists in lists": "size(" + "[" * 100 + "]" * 100 + ") > 0",
        "not not not": "!" * 1000 + "true",
        "and and and": " && ".join(["1<2"] * 550),
        "plus plus plus": " + ".join(["1"] * 900) + " > 0",
        "choices in choices": "true ? true : " * 250 + "true",
        "a long text": "'" + "x" * 100_000 + "' != ''",
    },
    "growth": {
        "text doubled and doubled": nested_binds("+", 27),
        "text doubled a little": nested_binds("+", 5),
        "lists doubled and doubled": nested_binds("+", 27).replace("object.spec.text", "object.spec.numbers"),
        "text doubled in lists of one": "[object.spec.text]" + ".map(v, v + v)" * 20 + ".size() > 0",
        "text replaced by itself": "object.spec.text.replace('a', object.spec.text).size() > 0",
        "text split to letters": "object.spec.text.split('').size() > 0",
        "text split in loops": "object.spec.numbers.all(n, object.spec.text.split('').size() > 0)",
        "format": "'%s%s%s%s%s%s%s%s'.format([" + ", ".join(["object.spec.text"] * 8) + "]).size() > 0",
    },
    "values": {
        "durations": "duration(object.spec.duration) > duration('0s')",
        "quantities": "isQuantity(object.spec.number)",
        "numbers": "int(object.spec.number) > 0",
        "deep objects": "string(object.spec.deep) != '' || object.spec.deep == object.spec.deep",
        "the same thing compared": "object.spec.numbers.all(n, object == oldObject || object != oldObject)",
        "distinct": "object.spec.numbers.distinct().size() > 0",
        "sets": "sets.equivalent(object.spec.numbers, object.spec.numbers)",
        "sorted": "object.spec.numbers.isSorted()",
    },
}


def deep(levels: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for _ in range(levels):
        made = {"d": made}
    return made


def bait() -> Review:
    """A request whose values are as bad as its policies."""
    review = jobset_review()
    spec = {
        **(review.object or {})["spec"],
        "text": "a" * 100_000,
        "numbers": list(range(1000)),
        "pattern": "(" * 100 + "a" + "{0,50})" * 100,
        "duration": "ms" * 5000 + "!",
        "number": "9" * 100_000,
        "deep": deep(150),
    }
    obj = {**(review.object or {}), "spec": spec}
    return replace(review, object=obj, old_object=obj)


def doubled_variables(count: int) -> list[dict[str, str]]:
    """Each made of the one before twice."""
    first = {"name": "v0", "expression": "object.spec.text"}
    return [
        first,
        *({"name": f"v{n}", "expression": f"variables.v{n - 1} + variables.v{n - 1}"} for n in range(1, count)),
    ]


POLICIES: Final = {
    **{topic: {name: document("hostile", text) for name, text in texts.items()} for topic, texts in HOSTILE.items()},
    "parts of a policy": {
        "variables doubled": document("hostile", "variables.v26 != ''", variables=doubled_variables(27)),
        "variables doubled a little": document("hostile", "variables.v4 != ''", variables=doubled_variables(5)),
        "many rules": document("hostile", *[loops(2, f"n0 + n1 + {n} > 0") for n in range(60)]),
        "a condition": document(
            "hostile", "true", matchConditions=[{"name": "loops", "expression": loops(3, "n0 + n1 + n2 >= 0")}]
        ),
        "a message": document("hostile")
        | {
            "spec": {
                "validations": [
                    {"expression": "false", "messageExpression": "object.spec.text.replace('a', object.spec.text)"}
                ]
            }
        },
    },
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def evaluator() -> AsyncIterator[PolicyEvaluator]:
    """One evaluator for all of them: what one has done to it the next has to live with, as in a cluster."""
    async with evaluator_of(OPTIONS, FINE) as made:
        yield made


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("topic", POLICIES)
async def test_a_hostile_policy_is_refused_or_answered_in_time(topic: str, evaluator: PolicyEvaluator) -> None:
    @each("name", POLICIES[topic])
    async def all_of_them(name: str) -> None:
        await harmless(evaluator, POLICIES[topic][name])

    await all_of_them()


async def harmless(evaluator: PolicyEvaluator, hostile_policy: dict[str, Any]) -> None:
    fine = next(each for each in evaluator.policies.policies if each.name == "fine")
    try:
        policy = await evaluator.load(hostile_policy)
    except PolicyError as error:
        assert error.problems  # noqa: PT017 - refused when it is loaded, which is as good
        return
    await evaluator.install(PolicySet(evaluator.policies.generation + 1, (fine, policy)))

    async def warm() -> bool:
        return not any(outcome.violations for outcome in await evaluator.evaluate(bait(), {"fine"}))

    await wait_for(warm, what="a worker")
    for _ in range(2):
        hostile = asyncio.create_task(evaluator.evaluate(bait()))
        await asyncio.sleep(0)
        [other] = await evaluator.evaluate(jobset_review(), {"fine"})
        assert not other.violations
        companion, ended = await hostile
        assert not companion.violations, "the policy beside it in the same review"
        assert not any(TOO_MANY in each.message for each in ended.violations), "it was not even begun"
