"""The requests to the server, in order: one record for each request over HTTP."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

KEPT: Final = 100_000
WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True, slots=True)
class Record:
    """One request: user, verb, object, and the HTTP status of the response (0: none was sent)."""

    user: str
    verb: str
    resource: str
    subresource: str
    namespace: str
    name: str
    dry_run: bool
    code: int
    user_agent: str = ""

    @property
    def is_write(self) -> bool:
        """Whether it is a write."""
        return self.verb in WRITES and not self.dry_run


class Audit:
    """The last requests; ``total`` counts all of them."""

    def __init__(self, kept: int = KEPT) -> None:
        """Keep ``kept`` records."""
        self._records: deque[Record] = deque(maxlen=kept)
        self.total = 0

    def __iter__(self) -> Iterator[Record]:
        return iter(tuple(self._records))

    def __len__(self) -> int:
        return len(self._records)

    def add(self, record: Record) -> None:
        """Record a request."""
        self.total += 1
        self._records.append(record)

    def since(self, total: int) -> list[Record]:
        """The requests after the first ``total``, as far as they are kept."""
        new = min(self.total - total, len(self._records))
        return list(self._records)[len(self._records) - new :] if new > 0 else []

    def by(self, user: str) -> list[Record]:
        """The requests of one user."""
        return [record for record in self._records if record.user == user]

    def writes_by(self, user: str) -> list[Record]:
        """The writes of one user, without dry runs."""
        return [record for record in self._records if record.user == user and record.is_write]
