"""Workers that are broken, each in one way: every policy gets an outcome with the reason, and the log one line."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
import structlog

from gangctl.policy.verdict import merge
from tests.evaluation.evaluators import PATIENT, Seen, document, evaluator_of, jobset_review

CLOSED = document("closed", "object.spec.replicatedJobs.all(j, j.replicas >= 0)")
OPEN = document("open", "object.spec.replicatedJobs.all(j, j.replicas >= 0)", failurePolicy="Ignore")
OPTIONS = replace(PATIENT, workers=1, spares=0, ahead_seconds=600, request_seconds=600)

pytestmark = pytest.mark.usefixtures("nobody_is_left")


class Problems(Seen):
    def __init__(self) -> None:
        super().__init__()
        self.problems: list[str] = []

    def troubled(self, problem: str) -> None:
        self.problems.append(problem)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        ("does not start", "the worker does not start: [Errno 2] No such file or directory"),
        ("dies_at_once", "the worker does not start: exited with 1: ModuleNotFoundError in dies_at_once"),
        ("says_nothing", "the worker does not start: the worker did not accept requests within 0.3 s"),
        ("Nonsense", "the worker answered nonsense: another text than was expected"),
        ("NonsenseOutcome", "the worker answered nonsense: no outcome of the policy that is evaluated"),
        ("Silent", "the worker did not answer within"),
    ],
    ids=str.split("does-not-start dies-at-once says-nothing nonsense nonsense-outcome never-answers"),
)
async def test_a_broken_worker_is_a_reason_that_a_person_sees(
    broken: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gangctl.evaluation.loader.SERVICE", f"tests.evaluation.brokenservices:{broken}")
    options = replace(OPTIONS, request_seconds=1.0, slow_seconds=0.1) if broken == "Silent" else OPTIONS
    if broken == "does not start":
        monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    if broken == "says_nothing":
        monkeypatch.setattr("gangctl.evaluation.loader.START_SECONDS", 0.3)
    seen = Problems()
    with structlog.testing.capture_logs() as logs:
        async with evaluator_of(options, CLOSED, OPEN, observer=seen) as evaluator:
            verdict = merge(await evaluator.evaluate(jobset_review()))
            # A worker that reads no review is killed at the end of that one, and three in a row are no accident.
            while broken == "Silent" and not evaluator.problem:
                verdict = merge(await evaluator.evaluate(jobset_review()))
            assert not verdict.allowed
            assert [each.policy for each in verdict.denials] == ["closed"]
            [warning] = verdict.warnings
            assert warning.startswith("GangPolicy 'open' was left out: ")
            if broken != "Silent":
                assert why in verdict.denials[0].message
                assert why in warning
                assert {each for _, each in seen.missing} == {"broken"}
            assert why in evaluator.problem
            assert seen.problems == [evaluator.problem]
    errors = [each for each in logs if each["log_level"] in {"warning", "error"}]
    assert [each["event"] for each in errors] == ["workers do not work"]
    assert why in errors[0]["problem"]


async def test_a_policy_whose_worker_is_killed_is_an_error_and_the_next_is_evaluated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gangctl.evaluation.loader.SERVICE", "tests.evaluation.brokenservices:Killed")
    seen = Problems()
    async with evaluator_of(OPTIONS, CLOSED, OPEN, observer=seen) as evaluator:
        verdict = merge(await evaluator.evaluate(jobset_review()))
        assert [(each.policy, each.message) for each in verdict.denials] == [
            ("closed", "it used more memory than it may"),
            ("open", "it used more memory than it may"),
        ]
        assert seen.kills == [("closed", "memory"), ("open", "memory")]
        assert not evaluator.problem, "a worker that is killed while it evaluates is replaced"
