"""The service of the pool's worker processes, and its messages: it loads policies, and evaluates reviews by them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import ClassVar, Final, NamedTuple

from gangctl.cel.meter import REQUEST_STEPS, StepMeter
from gangctl.policy.evaluate import Evaluation
from gangctl.policy.exemptions import LoadedException
from gangctl.policy.load import load_policy
from gangctl.policy.loaded import LoadedPolicy, Source
from gangctl.policy.native import load_native
from gangctl.policy.review import Review
from gangctl.policy.verdict import Action, Finding, Outcome, Result


class Load(NamedTuple):
    """Policies (name and source) and exceptions to keep, by key, and keys to forget.

    ``minor`` is the Kubernetes minor whose CEL libraries native policies get. Answered by the key of each policy, in
    order, when it is loaded.
    """

    minor: str
    policies: Mapping[str, tuple[str, Source]] = {}
    exceptions: Mapping[str, tuple[LoadedException, ...]] = {}
    forget: frozenset[str] = frozenset()


class Evaluate(NamedTuple):
    """A review, and the keys of the policies and exceptions to evaluate it by.

    Answered by :data:`READ` when the review has been read, then by one :class:`Evaluated` per policy, in order.
    ``policy_seconds`` bounds the CPU time of each policy, ``seconds`` the wall-clock time of all of them, as far as an
    evaluation checks the clock.
    """

    review: Review
    policies: tuple[str, ...]
    exceptions: str
    policy_seconds: float
    seconds: float


READ: Final = "read"
MEMORY: Final = "memory"
"""In place of an outcome: the policy ran out of memory."""
LATE: Final = "late"
"""In place of an outcome: the time of the request was over before the policy began."""


class Evaluated(NamedTuple):
    """The outcome of one policy, and the CPU seconds that it took."""

    outcome: Outcome | str
    seconds: float


CLASSES: Final[frozenset[type]] = frozenset({Action, Finding, Outcome, Result, Evaluated, frozenset})
"""Classes in answers: nothing else is unpickled from a worker."""


def load_source(source: Source, name: str, minor: str) -> LoadedPolicy:
    """Load one policy again, as it was loaded from the same document before."""
    if not source.native:
        return load_policy(source.document)
    return next(policy for policy in load_native([source.document], minor) if policy.name == name)


class Service:
    """Answers :class:`~gangctl.evaluation.worker.Load` and :class:`~gangctl.evaluation.worker.Evaluate`."""

    evaluation: ClassVar[type[Evaluation]] = Evaluation

    def __init__(self) -> None:
        """Start with nothing loaded."""
        self._policies: dict[str, LoadedPolicy] = {}
        self._exceptions: dict[str, tuple[LoadedException, ...]] = {}

    def __call__(self, message: Load | Evaluate) -> Iterator[Evaluated | str]:
        """The answers to one message."""
        return self._load(message) if isinstance(message, Load) else self._evaluate(message)

    def _load(self, message: Load) -> Iterator[str]:
        for key in message.forget:
            self._policies.pop(key, None)
            self._exceptions.pop(key, None)
        self._exceptions |= message.exceptions
        for key, (name, source) in message.policies.items():
            self._policies[key] = load_source(source, name, message.minor)
            yield key

    def _evaluate(self, message: Evaluate) -> Iterator[Evaluated | str]:
        end = time.monotonic() + message.seconds
        exceptions = self._exceptions[message.exceptions]
        evaluation = self.evaluation(message.review)
        yield READ
        for key in message.policies:
            began = time.thread_time()
            left = end - time.monotonic()
            meter = meter_of(message.policy_seconds, left)
            outcome = LATE if left <= 0 else _outcome(evaluation, self._policies[key], exceptions, meter)
            yield Evaluated(outcome, time.thread_time() - began)


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
