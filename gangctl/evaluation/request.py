"""One review while its policies are evaluated: the outcomes so far, and the deadline of the others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from gangctl.cel.faults import EvalKind
from gangctl.evaluation.options import Queue, Size
from gangctl.policy.evaluate import unanswered
from gangctl.policy.review import Review
from gangctl.policy.snapshot import Entry, Snapshot
from gangctl.policy.verdict import Outcome


class EvaluationRequest:
    """``deadline`` is a time of the event loop's clock. The snapshot stays the same when another one is installed."""

    def __init__(self, review: Review, snapshot: Snapshot, entries: Iterable[Entry], deadline: float) -> None:
        """Expect an outcome of each entry."""
        self.review = review
        self.snapshot = snapshot
        self.deadline = deadline
        self.size: Size = "large"
        self.outcomes: dict[str, Outcome] = {}
        self.queues: dict[str, Queue] = {}
        """The last queue of each policy."""
        self.pending: dict[str, Entry] = {entry.key: entry for entry in entries}
        self._done = asyncio.Event()
        self._closed = False

    @property
    def namespace(self) -> str:
        """Namespace of the object."""
        return str(self.review.request.get("namespace") or "")

    @property
    def over(self) -> bool:
        """Whether no more outcomes are needed."""
        return self._closed or not self.pending

    def settle(self, entry: Entry, outcome: Outcome) -> None:
        """Take the outcome of a policy; only the first one counts."""
        if not self._closed and self.pending.pop(entry.key, None) is not None:
            self.outcomes[entry.key] = outcome
        if self.over:
            self._done.set()

    def fail(self, entry: Entry, kind: EvalKind, message: str) -> None:
        """Settle a policy without an outcome, by its failurePolicy."""
        exceptions = self.snapshot.policies.exceptions
        self.settle(entry, unanswered(entry.policy, self.review, kind, message, exceptions))

    def close(self) -> None:
        """Take no more outcomes."""
        self._closed = True
        self._done.set()

    async def wait(self) -> None:
        """Wait until all policies are settled."""
        if not self.over:
            await self._done.wait()
