"""A command and admission give the same verdict for what is costly: the limits of a policy are the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from gangctl.cli.policy.session import evaluator_of as evaluator_for
from gangctl.evaluation.options import EvaluatorOptions
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import PolicySet
from gangctl.policy.review import Review
from gangctl.policy.verdict import Outcome
from tests.evaluation.evaluators import document, evaluator_of, jobset_review
from tests.rows import each

pytestmark = pytest.mark.usefixtures("nobody_is_left")

OPTIONS: Final = EvaluatorOptions(request_seconds=600, load_seconds=300)
"""Only the time of the whole review is another one: it is wall-clock time."""
LETTERS: Final = "ab" * 300_000
CONTAINERS: Final = [{"name": f"c{n}", "args": ["x" * 700, f"y{n}"]} for n in range(2000)]
NESTED: Final = [[str(n), "x" * 700] for n in range(2000)]

COSTLY: Final[dict[str, tuple[str, Any, bool]]] = {
    "lists compared with each other": ("object.spec.v.map(c, c.args).distinct().size() > 0", CONTAINERS, False),
    "lists in lists": ("sets.contains(object.spec.v, object.spec.v.reverse())", NESTED, False),
    "a pattern without an end": ("object.spec.v.findAll('a.*z|a').size() > 0", LETTERS, False),
    "the last of a text": ("object.spec.v.lastIndexOf('ba') > 0", LETTERS, True),
    "a text that begins late": ("object.spec.v.lastIndexOf('b' + object.spec.v.substring(5)) < 0", LETTERS, True),
}
"""Expression, what it is about, and whether it ends within its steps and time; all of them are true natively."""


def about(value: Any) -> Review:
    review = jobset_review()
    obj = {**(review.object or {})}
    return replace(review, object={**obj, "spec": {**obj["spec"], "v": value}})


@each("name", COSTLY)
async def test_admission_and_command_agree(name: str) -> None:
    rule, value, ends = COSTLY[name]
    review, policy = about(value), document("costly", rule)
    async with evaluator_of(OPTIONS, policy) as evaluator:
        (admission,) = await evaluator.evaluate(review)
    for outcome in (admission, await by_command(policy, review)):
        # Steps or time, whichever this machine uses up first.
        assert [each.error.endswith("Exceeded") for each in outcome.findings] == [not ends]
        assert bool(outcome.violations) is not ends


async def by_command(policy: dict[str, Any], review: Review) -> Outcome:
    async with evaluator_for("1.37") as evaluator:
        await evaluator.install(PolicySet(1, policies=(load_policy(policy),)))
        (outcome,) = await evaluator.evaluate(review)
        return outcome
