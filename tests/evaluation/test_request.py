"""A request takes the first outcome of each policy; without one, failurePolicy and exceptions decide."""

from __future__ import annotations

import asyncio

from gangctl.cel.faults import EvalKind
from gangctl.evaluation.pool import EvaluationRequest
from gangctl.policy.loaded import PolicySet, load_exception, snapshot_of
from gangctl.policy.verdict import Outcome, Result, ValidationAction
from tests.evaluation.scripted import NOW, policy, review, snapshot_with


async def test_a_request_takes_the_first_outcome_of_each_policy() -> None:
    found = snapshot_with("a", "b")
    request = EvaluationRequest(review(), found, found.entries, deadline=0)
    a, b = found.entries
    request.settle(a, Outcome("a", matched=False))
    request.settle(a, Outcome("a", matched=True))
    waiting = asyncio.create_task(request.wait())
    await asyncio.sleep(0)
    assert not waiting.done()
    request.fail(b, EvalKind.DEADLINE_EXCEEDED, "too slow")
    await waiting
    assert not request.outcomes[a.key].matched
    [finding] = request.outcomes[b.key].violations
    assert (finding.policy, finding.result, finding.message) == ("b", Result.ERROR, "too slow")
    assert finding.error == "DeadlineExceeded"
    assert request.outcomes[b.key].actions == {ValidationAction.DENY}


async def test_a_closed_request_takes_no_outcome() -> None:
    found = snapshot_with("a")
    request = EvaluationRequest(review(), found, found.entries, deadline=0)
    request.close()
    request.settle(found.entries[0], Outcome("a", matched=True))
    assert request.over
    assert not request.outcomes


def test_failure_policy_and_exceptions_decide_without_an_outcome() -> None:
    exception = load_exception(
        {
            "apiVersion": "gangctl.dev/v1alpha1",
            "kind": "GangPolicyException",
            "metadata": {"name": "until-easter"},
            "spec": {
                "policies": [{"name": "excused"}],
                "owner": "team",
                "reason": "tried",
                "expiresAt": NOW.replace(year=2027).isoformat(),
            },
        }
    )
    policies = (policy("open", failurePolicy="Ignore"), policy("excused"))
    found = snapshot_of(PolicySet(1, policies, exceptions=(exception,)))
    request = EvaluationRequest(review(), found, found.entries, deadline=0)
    for entry in found.entries:
        request.fail(entry, EvalKind.OTHER, "no process can evaluate it")
    assert [request.outcomes[entry.key].violations for entry in found.entries] == [(), ()]
    [excused] = request.outcomes[found.entries[1].key].findings
    assert (excused.result, excused.exception) == (Result.EXEMPT, "until-easter")
