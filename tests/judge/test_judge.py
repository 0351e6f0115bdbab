"""The judge says what policies say when they are simply asked, wherever it asks them, and always in time."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from gangctl.judge.judge import TOO_MANY, Judge
from gangctl.judge.options import JudgeOptions
from gangctl.judge.policyset import PolicySet
from gangctl.policy.exemptions import load_exception
from gangctl.policy.loaded import PolicyError
from gangctl.policy.native import load_native
from gangctl.policy.verdict import Outcome, Result
from tests.controlplane.wait import wait_for
from tests.judge.scripted import NOW
from tests.judge.world import (
    FAST,
    FINE,
    INLINE,
    POLICIES,
    SLOW,
    Seen,
    directly,
    document,
    jobset_review,
    judge_of,
    loaded,
    until_warm,
)
from tests.rows import each
from tests.runtime.test_workers import children, until_gone

pytestmark = pytest.mark.usefixtures("nobody_is_left")


@each("options", [INLINE, FAST, SLOW], ids=["inline", "fast", "slow"])
async def test_judging_equals_asking(options: JudgeOptions) -> None:
    seen = Seen()
    lane = "inline" if options is INLINE else "fast" if options is FAST else "slow"
    async with judge_of(options, *POLICIES, observer=seen) as judge:
        for about in (jobset_review(), jobset_review(0), jobset_review(40)):
            expected = directly(list(loaded(*POLICIES)), about)
            assert list(await judge.judge(about)) == expected
    assert {where for _, where in seen.lanes} == {lane}
    assert {policy for policy, _ in seen.lanes} == {each["metadata"]["name"] for each in POLICIES} - {"others"}
    assert len({outcome.policy for outcome in expected if outcome.violations}) == 3


async def test_only_named_policies_are_asked() -> None:
    async with judge_of(FAST, *POLICIES) as judge:
        outcomes = await judge.judge(jobset_review(), {"named", "all", "unknown"})
    assert [outcome.policy for outcome in outcomes] == ["all", "named"]


async def test_without_policies_nothing_is_said() -> None:
    async with Judge(JudgeOptions(ahead=False)) as judge:
        assert await judge.judge(jobset_review()) == ()


async def test_a_policy_that_cannot_be_loaded_speaks_by_its_failure_policy() -> None:
    broken = document("broken", "object.metadata.name ==")
    async with judge_of(FAST) as judge:
        with pytest.raises(PolicyError) as caught:
            await judge.load(broken)
        fine = await judge.load(FINE)
        await judge.install(PolicySet(2, (fine,), broken=(caught.value.broken,)))
        said, refused = await judge.judge(jobset_review())
    assert not said.violations
    assert refused.policy == "broken"
    assert refused.violations[0].result is Result.ERROR


async def test_native_policies_are_judged_in_workers_too() -> None:
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
    async with judge_of(FAST) as judge:
        policies = await judge.load_native([policy, *bindings])
        await judge.install(PolicySet(1, tuple(policies)))
        about = jobset_review()
        outcomes = await judge.judge(about)
        assert list(outcomes) == directly(policies, about)
    assert [outcome.policy for outcome in outcomes] == ["native/one", "native/two"]
    assert policies == load_native([policy, *bindings]) or len(policies) == 2


@each("options", [INLINE, FAST], ids=["inline", "fast"])
async def test_exceptions_are_honoured(options: JudgeOptions) -> None:
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
    async with Judge(options) as judge:
        policy = await judge.load(document("no", "false"))
        await judge.install(PolicySet(1, (policy,)))
        about = jobset_review()
        [denied] = await judge.judge(about)
        await judge.install(PolicySet(2, (policy,), (exception,)))
        [allowed] = await judge.judge(about)
        [expired] = await judge.judge(replace(about, now=NOW.replace(year=2028)))
    assert (len(denied.violations), len(allowed.violations), len(expired.violations)) == (1, 0, 1)
    assert allowed.findings[0].exception == "until-easter"


async def test_each_review_is_judged_wholly_by_one_set() -> None:
    async with Judge(FAST) as judge:
        sets = []
        for generation in range(4):
            texts = [document(f"p{n}", f"object.metadata.name != 'js' || {generation} < 0") for n in range(5)]
            for text in texts:
                text["spec"]["validations"][0]["message"] = f"set {generation}"
            sets.append(PolicySet(generation, tuple([await judge.load(text) for text in texts])))
        await judge.install(sets[0])
        running: list[asyncio.Task[tuple[Outcome, ...]]] = []
        for turn in range(40):
            running.append(asyncio.create_task(judge.judge(jobset_review())))
            await asyncio.sleep(0)
            await judge.install(sets[turn % 4])
            await asyncio.sleep(0)
        said = [{outcome.violations[0].message for outcome in outcomes} for outcomes in await asyncio.gather(*running)]
    assert all(len(messages) == 1 for messages in said)
    assert len(set().union(*said)) == 4


async def test_a_large_request_goes_to_a_worker_and_a_small_one_does_not() -> None:
    seen = Seen()
    async with judge_of(JudgeOptions(request_seconds=600), FINE, observer=seen) as judge:
        judge._pace = judge._pace._replace(step=1e-6, value=1e-6)
        await judge.judge(jobset_review(3))
        await judge.judge(jobset_review(2000))
        await judge.judge(jobset_review(3, note="x" * 100_000))
        judge._pace = judge._pace._replace(step=1e-3)
        await judge.judge(jobset_review(500))
    assert seen.lanes == [("fine", "inline"), ("fine", "fast"), ("fine", "fast"), ("fine", "slow")]


async def test_lists_that_are_made_of_text_count_as_long_as_the_text() -> None:
    seen = Seen()
    splitting = document("splitting", "object.metadata.annotations.note.split('').all(a, a != '!')")
    async with judge_of(JudgeOptions(request_seconds=600, policy_seconds=30), splitting, FINE, observer=seen) as judge:
        judge._pace = judge._pace._replace(step=1e-6, value=1e-8)
        await judge.judge(jobset_review(3, note="x"))
        await judge.judge(jobset_review(3, note="x" * 10_000))
    assert sorted(seen.lanes[:2]) == [("fine", "inline"), ("splitting", "inline")]
    # What might take long is begun all the same, and goes to a worker when its turn is over.
    assert sorted(seen.lanes[2:]) == [("fine", "inline"), ("splitting", "fast")]


async def test_what_took_the_event_loop_too_long_begins_in_a_worker_from_then_on() -> None:
    seen = Seen()
    # A hundred pairs of long texts: much at once where steps are few, and 20 us are over soon.
    costly = document(
        "costly", "object.spec.replicatedJobs.all(a, object.spec.replicatedJobs.all(b, a != b || a == b))"
    )
    options = JudgeOptions(request_seconds=600, inline_seconds=20e-6, quarantine_seconds=3600)
    async with judge_of(options, costly, observer=seen) as judge:
        for _ in range(3):
            [outcome] = await judge.judge(jobset_review(60))
            assert not outcome.violations
        assert judge._too_long.holds(judge._docket.entries[0].key, judge._clock.now())
    assert seen.lanes[1:] == [("costly", "fast")] * 2


async def test_a_request_that_comes_before_any_worker_is_up_waits() -> None:
    async with judge_of(replace(FAST, ahead=False), FINE) as judge:
        assert not children()
        [outcome] = await judge.judge(jobset_review())
        assert outcome.findings[0].result is Result.PASS


async def test_what_cannot_be_judged_in_time_is_an_error_of_failure_policy() -> None:
    options = replace(FAST, ahead=False, request_seconds=0.01)
    async with judge_of(options, FINE, document("open", "true", failurePolicy="Ignore")) as judge:
        closed, opened = await judge.judge(jobset_review())
    assert closed.violations[0].error == "DeadlineExceeded"
    assert opened.findings[0].error == "DeadlineExceeded"
    assert not opened.violations


async def test_no_more_reviews_wait_than_may() -> None:
    seen = Seen()
    async with judge_of(replace(FAST, ahead=False, waiting=2), FINE, observer=seen) as judge:
        many = await asyncio.gather(*(judge.judge(jobset_review()) for _ in range(20)))
    errors = [outcome.findings[0].message for [outcome] in many if outcome.violations]
    assert 17 <= len(errors) <= 18, "one may be at it, two wait"
    assert set(errors) == {TOO_MANY}
    assert set(seen.refusals) == {("fast", "full")}


HOSTILE_OPTIONS = JudgeOptions(
    inline_seconds=0, patience_seconds=0.15, request_seconds=600, lesson_seconds=300, policy_seconds=1.0
)
"""What hangs ends with its CPU time: that of a review would pass while the machine stands still."""


@pytest.fixture
def _hostile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gangctl.judge.school.SERVICE", "tests.judge.hostile:Service")


async def until_heard(seen: Seen) -> None:
    """Until "fine" of a review is judged, and what comes after it has begun."""
    before = len(seen.lanes)

    async def heard() -> bool:
        return len(seen.lanes) > before

    await wait_for(heard, what="the first policy of a review", interval=0.001)


@pytest.mark.usefixtures("_hostile")
@each(
    ("name", "kind", "why"),
    [("hang", "DeadlineExceeded", "time"), ("bomb", "BudgetExceeded", "memory"), ("crash", "Other", "crash")],
)
async def test_a_hostile_policy_answers_for_itself_and_is_kept_apart(name: str, kind: str, why: str) -> None:
    seen = Seen()
    async with judge_of(HOSTILE_OPTIONS, FINE, document(name, "true"), document("too", "true"), observer=seen) as judge:
        await until_warm(judge)
        outcomes = await judge.judge(jobset_review())
        assert [outcome.findings[0].error for outcome in outcomes] == ["", kind, ""]
        assert outcomes[1].violations
        assert seen.kills[0] == (name, "fast", why)
        seen.lanes.clear()
        again = await judge.judge(jobset_review())
        assert [outcome.findings[0].error for outcome in again] == ["", kind, ""]
        assert seen.kills[-1] == (name, "slow", why)
        assert {("fine", "fast"), ("too", "fast")} <= set(seen.lanes)


@pytest.mark.usefixtures("_hostile")
async def test_a_slow_policy_is_heard_out_apart_from_others() -> None:
    seen = Seen()
    async with judge_of(HOSTILE_OPTIONS, FINE, document("slow", "true"), observer=seen) as judge:
        await until_warm(judge)
        for _ in range(2):
            outcomes = await judge.judge(jobset_review())
            assert [outcome.findings[0].result for outcome in outcomes] == [Result.PASS, Result.PASS]
    assert [kill for kill in seen.kills if kill[0] == "slow"] == [("slow", "fast", "time")]
    assert seen.lanes.count(("slow", "slow")) == 2


async def test_what_one_user_makes_large_delays_no_small_review_of_another() -> None:
    """A policy that took too long for a text of 400,000 letters is tried on the event loop with a small one."""
    rule = "object.metadata.annotations.all(k, object.metadata.annotations[k].findAll('a.*z|a').size() < 9)"
    seen, large = Seen(), jobset_review(a="a" * 400_000)
    options = JudgeOptions(inline_seconds=30.0, waiting_each=1, ahead=False)
    async with judge_of(options, document("searching", rule), observer=seen) as judge:
        (entry,) = judge._docket.entries
        judge._strike(entry, "fast", "time")
        flood = [asyncio.create_task(judge.judge(large)) for _ in range(6)]
        await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)
        assert ("slow", "full") in seen.refusals
        (outcome,) = await judge.judge(jobset_review(a="small"))
        assert (seen.lanes[-1], outcome.violations) == (("searching", "inline"), ())
        assert judge._is_apart(entry)
        await asyncio.gather(*flood)


async def test_what_ended_a_worker_is_not_tried_on_the_event_loop() -> None:
    seen = Seen()
    async with judge_of(replace(INLINE, request_seconds=600, lesson_seconds=300), FINE, observer=seen) as judge:
        (entry,) = judge._docket.entries
        for lane, why in (("slow", "time"), ("fast", "memory"), ("fast", "crash")):
            await judge.judge(jobset_review())
            assert seen.lanes[-1] == ("fine", "inline")
            judge._strike(entry, lane, why)  # type: ignore[arg-type] # of the table
            await judge.judge(jobset_review())
            assert seen.lanes[-1] == ("fine", "slow")
            judge._too_long.retain(())
            judge._quarantine.retain(())


@pytest.mark.usefixtures("_hostile")
async def test_others_are_answered_while_a_hostile_policy_hangs() -> None:
    async with judge_of(replace(HOSTILE_OPTIONS, policy_seconds=600), FINE, document("hang", "true")) as judge:
        await until_warm(judge)
        for _ in range(2):
            hanging = asyncio.create_task(judge.judge(jobset_review()))
            await asyncio.sleep(0)
            for _ in range(5):
                [other] = await judge.judge(jobset_review(), {"fine"})
                assert not other.violations
            assert not hanging.done()
            hanging.cancel()
            with pytest.raises(asyncio.CancelledError):
                await hanging


@pytest.mark.usefixtures("_hostile")
async def test_one_that_hangs_cannot_fill_the_line_of_another() -> None:
    # Five of those that hang are heard, one after the other.
    options = replace(HOSTILE_OPTIONS, policy_seconds=0.6)
    async with judge_of(options, FINE, document("hang", "true"), document("slow", "true")) as judge:
        await until_warm(judge)
        await judge.judge(jobset_review())
        hanging = [asyncio.create_task(judge.judge(jobset_review(), {"hang"})) for _ in range(12)]
        await asyncio.sleep(0)
        refused = await asyncio.gather(*hanging)
        assert {outcome.violations[0].error for [outcome] in refused} == {"DeadlineExceeded"}
        assert TOO_MANY in {outcome.violations[0].message for [outcome] in refused}


@pytest.mark.usefixtures("_hostile")
async def test_cancelling_a_review_leaves_the_judge_as_it_was() -> None:
    seen = Seen()
    async with judge_of(HOSTILE_OPTIONS, FINE, document("hang", "true"), observer=seen) as judge:
        await until_warm(judge)
        for _ in range(3):
            leaving = asyncio.create_task(judge.judge(jobset_review()))
            await until_heard(seen)
            leaving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await leaving
        [outcome] = await judge.judge(jobset_review(), {"fine"})
        assert not outcome.violations


@pytest.mark.usefixtures("_hostile")
async def test_closing_a_judge_ends_what_hangs() -> None:
    seen = Seen()
    # When the judge is closed, the end of the review is all that is left to wait for.
    options = replace(HOSTILE_OPTIONS, request_seconds=5)
    async with judge_of(options, FINE, document("hang", "true"), observer=seen) as judge:
        await until_warm(judge)
        hanging = asyncio.create_task(judge.judge(jobset_review()))
        await until_heard(seen)
    outcomes = await hanging
    assert outcomes[1].violations[0].error == "DeadlineExceeded"


ORPHANS = """
    import asyncio, os
    from tests.judge.world import FAST, FINE, jobset_review, judge_of
    from tests.runtime.test_workers import children

    async def main():
        async with judge_of(FAST, FINE) as judge:
            await judge.judge(jobset_review())
            while not all(workers.idle for workers in judge._workers.values()):
                await asyncio.sleep(0.01)
            print(*children(), flush=True)
            await asyncio.sleep(60)

    asyncio.run(main())
"""


async def test_no_worker_outlives_a_judge_that_is_killed() -> None:
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
