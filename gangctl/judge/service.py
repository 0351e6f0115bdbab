"""What a judge's worker does: compiles policies from their documents, keeps them, and evaluates them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, ClassVar

from gangctl.judge.messages import BOUND, LATE, MEMORY, Lesson, Question, Setup, Statement
from gangctl.judge.policyset import Source
from gangctl.policy.cel.meter import REQUEST_STEPS, StepMeter
from gangctl.policy.evaluate import Evaluation
from gangctl.policy.exemptions import LoadedException
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import LoadedPolicy
from gangctl.policy.match import matches
from gangctl.policy.native import load_native
from gangctl.policy.verdict import Outcome


def load_source(source: Source, name: str, minor: str) -> LoadedPolicy:
    """Load one policy again, as it was loaded from the same document before."""
    if not source.native:
        return load_policy(source.document)
    return next(policy for policy in load_native([source.document], minor) if policy.name == name)


class Service:
    """Answers :class:`Setup` first, then :class:`Lesson` and :class:`Question` in any order."""

    evaluation: ClassVar[type[Evaluation]] = Evaluation

    def __init__(self) -> None:
        """Know nothing."""
        self._minor = ""
        self._policies: dict[str, LoadedPolicy] = {}
        self._exceptions: dict[str, tuple[LoadedException, ...]] = {}

    def __call__(self, request: Setup | Lesson | Question) -> Iterator[Any]:
        """One request's answers."""
        if isinstance(request, Setup):
            self._minor = request.minor
            return iter(())
        if not self._minor:
            raise RuntimeError("asked before it was set up")
        return self._learn(request) if isinstance(request, Lesson) else self._judge(request)

    def _learn(self, lesson: Lesson) -> Iterator[str]:
        for key in lesson.forget:
            self._policies.pop(key, None)
            self._exceptions.pop(key, None)
        self._exceptions |= lesson.exceptions
        for key, (name, source) in lesson.policies.items():
            self._policies[key] = load_source(source, name, self._minor)
            yield key

    def _judge(self, question: Question) -> Iterator[Statement | str]:
        end = time.monotonic() + question.seconds
        policies = [self._policies[key] for key in question.policies]
        exceptions = self._exceptions[question.exceptions]
        evaluation = self.evaluation(question.review)
        if not all(matches(policy, question.review) for policy in policies):
            # Now, so that its time is not the first policy's.
            _ = evaluation.bindings
        yield BOUND
        for policy in policies:
            began = time.thread_time()
            left = end - time.monotonic()
            meter = fair_meter(question.policy_seconds, left)
            outcome = LATE if left <= 0 else _outcome(evaluation, policy, exceptions, meter)
            yield Statement(outcome, time.thread_time() - began)


def fair_meter(policy_seconds: float, seconds: float) -> StepMeter:
    """A meter for one policy: of its own, so that none is short of steps because of another.

    What it may take is CPU time of this thread, so that no verdict depends on what else the
    machine does; only the review's end is a matter of the clock on the wall.
    """
    review = StepMeter.request(time.monotonic, seconds=seconds)
    return StepMeter(REQUEST_STEPS, time.thread_time() + policy_seconds, time.thread_time, review)


def _outcome(
    evaluation: Evaluation, policy: LoadedPolicy, exceptions: tuple[LoadedException, ...], meter: StepMeter
) -> Outcome | str:
    try:
        return evaluation.judge(policy, meter, exceptions)
    except MemoryError:
        return MEMORY
