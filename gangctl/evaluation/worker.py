"""The service of the pool's worker processes: it loads policies, and evaluates reviews by them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, ClassVar

from gangctl.cel.meter import REQUEST_STEPS, StepMeter
from gangctl.evaluation.messages import LATE, MEMORY, READ, Evaluate, Evaluated, Load, plain_evaluated, read_request
from gangctl.policy.evaluate import Evaluation
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import LoadedException, LoadedPolicy, PolicyData, load_exception
from gangctl.policy.native import load_native
from gangctl.policy.verdict import Outcome


def load_source(source: PolicyData, name: str, minor: str) -> LoadedPolicy:
    """Load one policy again, as it was loaded from the same document before."""
    if not source.native:
        return load_policy(source.document)
    return next(policy for policy in load_native([source.document], minor) if policy.name == name)


class Service:
    """Answers :class:`~gangctl.evaluation.messages.Load` and :class:`~gangctl.evaluation.messages.Evaluate`."""

    evaluation: ClassVar[type[Evaluation]] = Evaluation

    def __init__(self) -> None:
        """Start with nothing loaded."""
        self._policies: dict[str, LoadedPolicy] = {}
        self._exceptions: dict[str, tuple[LoadedException, ...]] = {}

    def __call__(self, request: Any) -> Iterator[Any]:
        """The answers to one request: plain values, both."""
        message = read_request(request)
        return self._load(message) if isinstance(message, Load) else self._evaluate(message)

    def _load(self, message: Load) -> Iterator[str]:
        for key in message.forget:
            self._policies.pop(key, None)
            self._exceptions.pop(key, None)
        for key, documents in message.exceptions.items():
            self._exceptions[key] = tuple(map(load_exception, documents))
        for key, (name, source) in message.policies.items():
            self._policies[key] = load_source(source, name, message.minor)
            yield key

    def _evaluate(self, message: Evaluate) -> Iterator[Any]:
        end = time.monotonic() + message.seconds
        exceptions = self._exceptions[message.exceptions]
        evaluation = self.evaluation(message.review)
        yield READ
        for key in message.policies:
            began = time.thread_time()
            left = end - time.monotonic()
            meter = meter_of(message.policy_seconds, left)
            outcome = LATE if left <= 0 else _outcome(evaluation, self._policies[key], exceptions, meter)
            yield plain_evaluated(Evaluated(outcome, time.thread_time() - began))


def meter_of(policy_seconds: float, seconds: float) -> StepMeter:
    """A meter for one policy: steps of one policy are never short because of another.

    ``policy_seconds`` are CPU time of this thread, so that no verdict depends on what else runs on the machine;
    ``seconds`` until the end of the review are wall-clock time.
    """
    review = StepMeter.request(time.monotonic, seconds=seconds)
    return StepMeter(REQUEST_STEPS, time.thread_time() + policy_seconds, time.thread_time, review)


def _outcome(
    evaluation: Evaluation, policy: LoadedPolicy, exceptions: tuple[LoadedException, ...], meter: StepMeter
) -> Outcome | str:
    try:
        return evaluation.evaluate(policy, meter, exceptions)
    except MemoryError:
        return MEMORY
