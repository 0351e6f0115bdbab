"""One review on its way through the lanes: which policies have spoken, and until when they may."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from gangctl.judge.options import Lane
from gangctl.judge.policyset import Docket, Entry
from gangctl.policy.cel.faults import EvalKind
from gangctl.policy.evaluate import unanswered
from gangctl.policy.review import Review
from gangctl.policy.verdict import Outcome


class Hearing:
    """``deadline`` is a time of the event loop's clock. The docket stays the same, whatever is installed meanwhile."""

    def __init__(self, review: Review, docket: Docket, entries: Iterable[Entry], deadline: float) -> None:
        """Wait for all ``entries``."""
        self.review = review
        self.docket = docket
        self.deadline = deadline
        self.outcomes: dict[str, Outcome] = {}
        self.lanes: dict[str, Lane] = {}
        """Where each was sent last."""
        self.pending: dict[str, Entry] = {entry.key: entry for entry in entries}
        self._over = asyncio.Event()
        self._closed = False

    @property
    def over(self) -> bool:
        """Whether nobody waits for further outcomes."""
        return self._closed or not self.pending

    def settle(self, entry: Entry, outcome: Outcome) -> None:
        """Take a policy's outcome, the first one counts."""
        if not self._closed and self.pending.pop(entry.key, None) is not None:
            self.outcomes[entry.key] = outcome
        if self.over:
            self._over.set()

    def fail(self, entry: Entry, kind: EvalKind, message: str) -> None:
        """Settle a policy that gave no outcome."""
        exceptions = self.docket.policies.exceptions
        self.settle(entry, unanswered(entry.policy, self.review, kind, message, exceptions))

    def close(self) -> None:
        """Take no more outcomes."""
        self._closed = True
        self._over.set()

    async def wait(self) -> None:
        """Wait until all policies are settled."""
        if not self.over:
            await self._over.wait()
