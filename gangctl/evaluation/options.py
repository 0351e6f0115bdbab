"""Limits of a policy evaluator, and the interface for its metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from gangctl.cel.meter import POLICY_SECONDS, REQUEST_SECONDS
from gangctl.runtime.workers import WorkersObserver

Size = Literal["small", "large"]
"""Small reviews are tried on the event loop first."""
Queue = Literal["local", "small", "large", "penalized"]
"""Where a policy is evaluated: on the event loop, or in a worker from one of three classes of the queue."""
POOLED: Final[tuple[Queue, ...]] = ("small", "large", "penalized")
"""The three classes."""


@dataclass(frozen=True, slots=True)
class EvaluatorOptions:
    """Limits in seconds, counts, characters and bytes.

    ``minor`` is the Kubernetes minor whose CEL libraries native policies get.
    A review with at most ``local_values`` values and no text longer than ``local_text`` is small: it gets
    ``slice_seconds`` of CPU time on the event loop. The rest of its policies, and all policies of a large review, are
    evaluated together in one worker. A policy that takes ``slow_seconds`` of CPU time there gets a penalty: for
    ``penalty_seconds`` it is evaluated by itself for reviews of that size, for at most ``policy_seconds`` each. What
    takes longer than its limit is killed. All of a review takes ``request_seconds`` of wall-clock time at most.

    ``workers`` processes evaluate: the first serves small reviews only, the last one serves all. ``spares`` more are
    ready to replace them. With ``ahead`` they are started at once and load policies before these are in force, for at
    most ``ahead_seconds``; otherwise they are started when they are needed. A worker may take ``load_seconds`` of CPU
    time to load one policy. At most ``waiting`` reviews of a namespace wait in each class of the queue.
    """

    minor: str = "1.37"
    local_text: int = 16 << 10
    local_values: int = 20_000
    slice_seconds: float = 0.004
    slow_seconds: float = 0.1
    policy_seconds: float = POLICY_SECONDS
    request_seconds: float = REQUEST_SECONDS
    load_seconds: float = 5.0
    ahead_seconds: float = 60.0
    workers: int = 3
    spares: int = 1
    ahead: bool = True
    waiting: int = 64
    memory_bytes: int = 384 << 20
    penalty_seconds: float = 60.0


class EvaluatorObserver(WorkersObserver):
    """Receives measurements; the default ignores them."""

    def evaluated(self, policy: str, queue: Queue, seconds: float) -> None:
        """Record the evaluation of one policy for one review, without the time it waited."""

    def killed(self, policy: str, why: str) -> None:
        """Record that one policy ended its worker: time, memory or crash."""

    def unanswered(self, queue: Queue, why: str) -> None:
        """Record that one policy was not evaluated: full (too many waited), late, or broken (no worker works)."""

    def waiting(self, queue: Queue, count: int) -> None:
        """Record how many tasks wait."""
