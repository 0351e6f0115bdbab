"""Policies that had to be killed are kept apart for a while."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from gangctl.client.pacing import backoff_delay


@dataclass(slots=True)
class _Record:
    strikes: int
    until: float
    forgotten: float


class Quarantine:
    """By key of the policy: another content is another policy, and not suspected.

    The first strike lasts for ``base`` seconds, each further one twice as long up to ``cap``.
    Once free, a policy that stays so for as long again has none any more.
    """

    def __init__(self, base: float, cap: float) -> None:
        """Suspect nobody."""
        self._base = base
        self._cap = cap
        self._records: dict[str, _Record] = {}

    def strike(self, key: str, now: float) -> float:
        """Count one more; returns for how long the policy is kept apart from now on."""
        record = self._records.get(key)
        strikes = record.strikes if record is not None and now < record.forgotten else 0
        length = backoff_delay(strikes, self._base, self._cap)
        self._records[key] = _Record(strikes + 1, now + length, now + 2 * length)
        return length

    def holds(self, key: str, now: float) -> bool:
        """Whether the policy is kept apart."""
        record = self._records.get(key)
        if record is None:
            return False
        if now >= record.forgotten:
            del self._records[key]
        return now < record.until

    def retain(self, keys: Collection[str]) -> None:
        """Forget all policies but these."""
        self._records = {key: record for key, record in self._records.items() if key in keys}
