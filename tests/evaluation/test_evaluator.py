"""A policy evaluator gives the same outcomes wherever it evaluates policies, and always in time."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
import structlog

from gangctl.evaluation.evaluator import PolicyEvaluator
from gangctl.evaluation.options import EvaluatorOptions, Queue
from gangctl.evaluation.pool import TOO_MANY
from gangctl.policy.evaluate import Evaluation
from gangctl.policy.loaded import PolicyError, PolicySet, load_exception
from gangctl.policy.native import load_native
from gangctl.policy.verdict import Outcome, Result
from tests.client.clock import ahead
from tests.controlplane.wait import wait_for
from tests.evaluation.evaluators import (
    FINE,
    LOCAL,
    PATIENT,
    POLICIES,
    Seen,
    directly,
    document,
    evaluator_of,
    jobset_review,
    loaded,
    until_warm,
)
from tests.evaluation.scripted import NOW
from tests.rows import each
from tests.runtime.workerprocesses import children, until_gone

pytestmark = pytest.mark.usefixtures("nobody_is_left")


SLOW = replace(PATIENT, slow_seconds=0)
"""Each policy gets a penalty the first time it is evaluated."""

UNBOUNDED = EvaluatorOptions(slow_seconds=600, policy_seconds=600, request_seconds=600, load_seconds=300)
"""Only the time slice bounds a policy; what a review is, and where it goes, are as in gangctl."""


@each(("options", "queue"), [(LOCAL, "local"), (PATIENT, "small"), (SLOW, "penalized")])
async def test_outcomes_are_the_same_everywhere(options: EvaluatorOptions, queue: Queue) -> None:
    seen = Seen()
    async with evaluator_of(options, *POLICIES, observer=seen) as evaluator:
        await evaluator.evaluate(jobset_review())
        seen.queues.clear()
        for about in (jobset_review(), jobset_review(0), jobset_review(40)):
            expected = directly(list(loaded(*POLICIES)), about)
            assert list(await evaluator.evaluate(about)) == expected
    assert {where for _, where in seen.queues} == {queue}
    assert {policy for policy, _ in seen.queues} == {each["metadata"]["name"] for each in POLICIES} - {"others"}
    assert len({outcome.policy for outcome in expected if outcome.violations}) == 3


async def test_only_named_policies_are_evaluated() -> None:
    async with evaluator_of(PATIENT, *POLICIES) as evaluator:
        outcomes = await evaluator.evaluate(jobset_review(), {"named", "all", "unknown"})
    assert [outcome.policy for outcome in outcomes] == ["all", "named"]


async def test_without_policies_there_are_no_outcomes() -> None:
    async with PolicyEvaluator(EvaluatorOptions(ahead=False)) as evaluator:
        assert await evaluator.evaluate(jobset_review()) == ()


async def test_the_failure_policy_applies_to_a_policy_that_cannot_be_loaded() -> None:
    broken = document("broken", "object.metadata.name ==", failurePolicy="Fail")
    async with evaluator_of(PATIENT) as evaluator:
        with pytest.raises(PolicyError) as caught:
            await evaluator.load(broken)
        fine = await evaluator.load(FINE)
        await evaluator.install(PolicySet(2, (fine,), broken=(caught.value.broken,)))
        said, refused = await evaluator.evaluate(jobset_review())
    assert not said.violations
    assert refused.policy == "broken"
    assert refused.violations[0].result is Result.ERROR


async def test_native_policies_are_evaluated_in_workers_too() -> None:
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "native"},
        "spec": {
            "matchConstraints": {
                "resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]
            },
            "validations": [{"expression": "object.metadata.name != 'js'"}],
        },
    }
    bindings = [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": "native", "validationActions": [action]},
        }
        for name, action in (("one", "Deny"), ("two", "Warn"))
    ]
    async with evaluator_of(PATIENT) as evaluator:
        policies = load_native([policy, *bindings])
        await evaluator.install(PolicySet(1, tuple(policies)))
        about = jobset_review()
        outcomes = await evaluator.evaluate(about)
        assert list(outcomes) == directly(policies, about)
    assert [outcome.policy for outcome in outcomes] == ["native/one", "native/two"]


@each("options", [LOCAL, PATIENT], ids=["inline", "fast"])
async def test_exceptions_are_honoured(options: EvaluatorOptions) -> None:
    exception = load_exception(
        {
            "apiVersion": "gangctl.dev/v1alpha1",
            "kind": "GangPolicyException",
            "metadata": {"name": "until-easter"},
            "spec": {
                "policies": [{"name": "no"}],
                "owner": "team",
                "reason": "tried",
                "expiresAt": NOW.replace(year=2027).isoformat(),
            },
        }
    )
    async with PolicyEvaluator(options) as evaluator:
        policy = await evaluator.load(document("no", "false"))
        await evaluator.install(PolicySet(1, (policy,)))
        about = jobset_review()
        [denied] = await evaluator.evaluate(about)
        await evaluator.install(PolicySet(2, (policy,), (exception,)))
        [allowed] = await evaluator.evaluate(about)
        [expired] = await evaluator.evaluate(replace(about, now=NOW.replace(year=2028)))
    assert (len(denied.violations), len(allowed.violations), len(expired.violations)) == (1, 0, 1)
    assert allowed.findings[0].exception == "until-easter"


async def test_each_review_is_evaluated_by_one_set() -> None:
    async with PolicyEvaluator(PATIENT) as evaluator:
        sets = []
        for generation in range(4):
            texts = [document(f"p{n}", f"object.metadata.name != 'js' || {generation} < 0") for n in range(5)]
            for text in texts:
                text["spec"]["validations"][0]["message"] = f"set {generation}"
            sets.append(PolicySet(generation, tuple([await evaluator.load(text) for text in texts])))
        await evaluator.install(sets[0])
        running: list[asyncio.Task[tuple[Outcome, ...]]] = []
        for turn in range(40):
            running.append(asyncio.create_task(evaluator.evaluate(jobset_review())))
            await asyncio.sleep(0)
            await evaluator.install(sets[turn % 4])
            await asyncio.sleep(0)
        said = [{outcome.violations[0].message for outcome in outcomes} for outcomes in await asyncio.gather(*running)]
    assert all(len(messages) == 1 for messages in said)
    assert len(set().union(*said)) == 4


async def test_a_large_review_goes_to_a_worker_and_a_small_one_does_not() -> None:
    seen = Seen()
    options = replace(UNBOUNDED, slice_seconds=60)
    async with evaluator_of(options, FINE, observer=seen) as evaluator:
        await evaluator.evaluate(jobset_review(3))
        await evaluator.evaluate(jobset_review(3000))
        await evaluator.evaluate(jobset_review(3, note="x" * 100_000))
    assert seen.queues == [("fine", "local"), ("fine", "large"), ("fine", "large")]


async def test_a_review_beyond_the_time_slice_goes_to_a_worker() -> None:
    seen = Seen()
    costly = document(
        "costly", "object.spec.replicatedJobs.all(a, object.spec.replicatedJobs.all(b, a != b || a == b))"
    )
    # Some tenths of a millisecond for the one, a hundred for the other.
    options = replace(UNBOUNDED, slice_seconds=0.02)
    async with evaluator_of(options, costly, FINE, observer=seen) as evaluator:
        for _ in range(2):
            await evaluator.evaluate(jobset_review(150))
    # The first time the costly one leaves nothing of the slice, from then on the other one is first.
    assert seen.queues[-2:] == [("fine", "local"), ("costly", "small")]


async def test_a_policy_that_was_slow_on_the_event_loop_starts_in_a_worker_later() -> None:
    seen = Seen()
    # A hundred pairs of long texts: much at once where steps are few, and 20 us are over soon.
    costly = document(
        "costly", "object.spec.replicatedJobs.all(a, object.spec.replicatedJobs.all(b, a != b || a == b))"
    )
    options = replace(UNBOUNDED, slice_seconds=20e-6, penalty_seconds=3600)
    async with evaluator_of(options, costly, observer=seen) as evaluator:
        for _ in range(3):
            [outcome] = await evaluator.evaluate(jobset_review(60))
            assert not outcome.violations
        assert evaluator._snapshot.entries[0].key in evaluator.pool.harmful
    assert seen.queues[1:] == [("costly", "small")] * 2


async def test_an_error_on_the_event_loop_is_logged_without_its_message_and_retried_in_a_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise LookupError("a whole object")

    seen = Seen()
    options = replace(LOCAL, request_seconds=600, load_seconds=300, workers=1)
    async with evaluator_of(options, FINE, observer=seen) as evaluator:
        with monkeypatch.context() as patched, structlog.testing.capture_logs() as logs:
            patched.setattr(Evaluation, "evaluate", broken)
            [outcome] = await evaluator.evaluate(jobset_review())
    assert not outcome.violations
    assert seen.queues == [("fine", "small")]
    assert [(each["event"], each["error"]) for each in logs if each["log_level"] == "error"] == [
        ("policy failed on the event loop", "LookupError")
    ]
    assert "a whole object" not in str(logs)


async def test_a_request_waits_for_the_first_worker() -> None:
    async with evaluator_of(replace(PATIENT, ahead=False), FINE) as evaluator:
        assert not children()
        [outcome] = await evaluator.evaluate(jobset_review())
        assert outcome.findings[0].result is Result.PASS


async def test_a_policy_that_times_out_is_broken_whatever_its_failure_policy() -> None:
    options = replace(PATIENT, ahead=False, request_seconds=0.01)
    async with evaluator_of(options, FINE, document("open", "true", failurePolicy="Ignore")) as evaluator:
        outcomes = await evaluator.evaluate(jobset_review())
    assert [each.violations[0].error for each in outcomes] == ["DeadlineExceeded", "DeadlineExceeded"]


async def test_the_number_of_waiting_reviews_is_limited() -> None:
    seen = Seen()
    async with evaluator_of(replace(PATIENT, ahead=False, waiting=2, workers=1), FINE, observer=seen) as evaluator:
        many = await asyncio.gather(*(evaluator.evaluate(jobset_review()) for _ in range(20)))
    errors = [outcome.findings[0].message for [outcome] in many if outcome.violations]
    assert 17 <= len(errors) <= 18, "one may be at it, two wait"
    assert set(errors) == {TOO_MANY}
    assert set(seen.missing) == {("small", "full")}


HOSTILE_OPTIONS = EvaluatorOptions(slice_seconds=0, request_seconds=600, load_seconds=300, policy_seconds=1.0)
"""What hangs ends with its CPU time: that of a review would pass while the machine stands still."""


@pytest.fixture
def _hostile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangctl.evaluation.loader.SERVICE", "tests.evaluation.hostile:Service")


async def until_evaluated(seen: Seen) -> None:
    """Until "fine" of a review is evaluated, and the policy after it has begun."""
    before = len(seen.queues)

    async def evaluated() -> bool:
        return len(seen.queues) > before

    await wait_for(evaluated, what="the first policy of a review", interval=0.001)


@pytest.mark.usefixtures("_hostile")
@each(
    ("name", "kind", "why"),
    [("hang", "DeadlineExceeded", "time"), ("bomb", "BudgetExceeded", "memory"), ("crash", "Other", "crash")],
)
async def test_a_hostile_policy_is_evaluated_by_itself_from_then_on(name: str, kind: str, why: str) -> None:
    seen = Seen()
    policies = (FINE, document(name, "true"), document("too", "true"))
    async with evaluator_of(HOSTILE_OPTIONS, *policies, observer=seen) as evaluator:
        await until_warm(evaluator)
        outcomes = await evaluator.evaluate(jobset_review())
        assert [outcome.findings[0].error for outcome in outcomes] == ["", kind, ""]
        assert outcomes[1].violations
        assert set(seen.kills) == {(name, why)}
        seen.queues.clear()
        again = await evaluator.evaluate(jobset_review())
        assert [outcome.findings[0].error for outcome in again] == ["", kind, ""]
        assert {("fine", "small"), ("too", "small")} <= set(seen.queues)


async def test_large_reviews_of_a_user_do_not_delay_small_ones_of_another() -> None:
    """A policy that took too long for a text of 400,000 letters is not penalized for small ones."""
    rule = "object.metadata.annotations.all(k, object.metadata.annotations[k].findAll('a.*z|a').size() < 9)"
    seen, large = Seen(), jobset_review(a="a" * 400_000)
    options = EvaluatorOptions(slice_seconds=30.0, waiting=1, workers=1, ahead=False)
    async with evaluator_of(options, document("searching", rule), observer=seen) as evaluator:
        flood = [asyncio.create_task(evaluator.evaluate(large)) for _ in range(6)]
        await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)
        assert ("large", "full") in seen.missing
        (outcome,) = await evaluator.evaluate(jobset_review(a="small"))
        assert (seen.queues[-1], outcome.violations) == (("searching", "local"), ())
        await asyncio.gather(*flood)


@pytest.mark.usefixtures("_hostile")
@each("name", ["hang", "bomb", "crash"])
async def test_a_policy_that_ended_a_worker_is_not_evaluated_on_the_event_loop(name: str) -> None:
    async with evaluator_of(HOSTILE_OPTIONS, document(name, "true")) as evaluator:
        await evaluator.evaluate(jobset_review())
        assert evaluator._snapshot.entries[0].key in evaluator.pool.harmful


@pytest.mark.usefixtures("_hostile")
async def test_other_policies_are_evaluated_while_a_hostile_one_hangs() -> None:
    async with evaluator_of(replace(HOSTILE_OPTIONS, policy_seconds=600), FINE, document("hang", "true")) as evaluator:
        await until_warm(evaluator)
        for _ in range(2):
            hanging = asyncio.create_task(evaluator.evaluate(jobset_review()))
            await asyncio.sleep(0)
            for _ in range(5):
                [other] = await evaluator.evaluate(jobset_review(), {"fine"})
                assert not other.violations
            assert not hanging.done()
            hanging.cancel()
            with pytest.raises(asyncio.CancelledError):
                await hanging


@pytest.mark.usefixtures("_hostile")
async def test_reviews_that_hang_do_not_fill_the_queue_of_another_policy() -> None:
    options = replace(HOSTILE_OPTIONS, policy_seconds=0.6, waiting=2)
    async with evaluator_of(options, FINE, document("hang", "true"), document("slow", "true")) as evaluator:
        await until_warm(evaluator)
        await evaluator.evaluate(jobset_review())
        hanging = [asyncio.create_task(evaluator.evaluate(jobset_review(), {"hang"})) for _ in range(12)]
        await asyncio.sleep(0)
        [slow] = await evaluator.evaluate(jobset_review(), {"slow"})
        assert TOO_MANY not in {finding.message for finding in slow.violations}
        outcomes = await asyncio.gather(*hanging)
        assert {outcome.violations[0].error for [outcome] in outcomes} == {"DeadlineExceeded"}
        assert TOO_MANY in {outcome.violations[0].message for [outcome] in outcomes}


@pytest.mark.usefixtures("_hostile")
async def test_cancelling_a_review_leaves_the_evaluator_as_it_was() -> None:
    seen = Seen()
    async with evaluator_of(HOSTILE_OPTIONS, FINE, document("hang", "true"), observer=seen) as evaluator:
        await until_warm(evaluator)
        for _ in range(3):
            leaving = asyncio.create_task(evaluator.evaluate(jobset_review()))
            await until_evaluated(seen)
            leaving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leaving
        [outcome] = await evaluator.evaluate(jobset_review(), {"fine"})
        assert not outcome.violations


@pytest.mark.usefixtures("_hostile")
async def test_closing_an_evaluator_ends_hanging_reviews() -> None:
    seen = Seen()
    async with evaluator_of(HOSTILE_OPTIONS, FINE, document("hang", "true"), observer=seen) as evaluator:
        await until_warm(evaluator)
        hanging = asyncio.create_task(evaluator.evaluate(jobset_review()))
        await until_evaluated(seen)
    # The end of the review is all that is left to wait for.
    with ahead(2 * HOSTILE_OPTIONS.request_seconds):
        outcomes = await hanging
    assert outcomes[1].violations[0].error == "DeadlineExceeded"


ORPHANS = """
    import asyncio, os
    from tests.evaluation.evaluators import PATIENT, FINE, jobset_review, evaluator_of
    from tests.runtime.workerprocesses import children

    async def main():
        async with evaluator_of(PATIENT, FINE) as evaluator:
            await evaluator.evaluate(jobset_review())
            while evaluator.pool.workers.idle < 3:
                await asyncio.sleep(0.01)
            print(*children(), flush=True)
            await asyncio.sleep(60)

    asyncio.run(main())
"""


async def test_no_worker_outlives_an_evaluator_that_is_killed() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(ORPHANS), stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert process.stdout
    pids = [int(word) for word in (await process.stdout.readline()).split()]
    assert len(pids) == 3
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    for pid in pids:
        await until_gone(pid)
