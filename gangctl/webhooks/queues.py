"""What the webhooks ask about Kueue's queues, and what is answered where nobody looks at them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from gangctl.errors import FieldError
from gangctl.kueue.consistency import KueueFacts


class QueueView(Protocol):
    """Kueue as this process sees it; answered from memory."""

    @property
    def present(self) -> bool:
        """Whether the cluster has Kueue, as far as is known."""
        ...

    @property
    def facts(self) -> KueueFacts:
        """What is known of its version and configuration."""
        ...

    def check(self, raw: Mapping[str, Any], namespace: str) -> tuple[tuple[FieldError, ...], tuple[str, ...]]:
        """Errors that refuse a new JobSet, and warnings; of a queue that does not exist there is one of the two.

        ``raw`` is the final object, which has a queue; the namespace is that of the request.
        """
        ...


class UnseenQueues:
    """Knows nothing, and has nothing to say."""

    @property
    def present(self) -> bool:
        """Not as far as is known."""
        return False

    @property
    def facts(self) -> KueueFacts:
        """None."""
        return KueueFacts()

    def check(self, raw: Mapping[str, Any], namespace: str) -> tuple[tuple[FieldError, ...], tuple[str, ...]]:
        """Nothing."""
        del raw, namespace
        return (), ()
