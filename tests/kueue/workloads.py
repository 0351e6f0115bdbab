"""Builders of Kueue's Workloads: ``queued("a", QuotaReserved=no("Pending"))``, and the reasons of stuck ones."""

from __future__ import annotations

import inspect
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from gangctl.gang.reasons import Reason
from gangctl.kueue import blocked, queues
from gangctl.kueue.objects import Condition, QueuedWorkload

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
STUCK = frozenset(
    Reason[name] for module in (blocked, queues) for name in re.findall(r"Reason\.([A-Z_]+)", inspect.getsource(module))
)
"""Every reason of ``Stuck``."""
WITHOUT_WORKLOAD = frozenset(
    Reason[name] for name in re.findall(r"Reason\.([A-Z_]+)", inspect.getsource(blocked.without_workload))
)
"""Those of a JobSet that has no Workload."""


def ago(**span: float) -> str:
    """A time before NOW as Kueue writes it: ``ago(minutes=5)``."""
    return (NOW - timedelta(**span)).strftime("%Y-%m-%dT%H:%M:%SZ")


def yes(reason: str = "", message: str = "", since: str = "") -> Condition:
    return Condition(True, reason, message, since or ago(minutes=1))


def no(reason: str = "", message: str = "", since: str = "") -> Condition:
    return Condition(False, reason, message, since or ago(minutes=1))


def queued(name: str = "a", /, **given: Any) -> QueuedWorkload:
    """A Workload of LocalQueue ``main``, an hour old; what is spelled like a condition is one, the rest are fields."""
    fields: dict[str, Any] = {
        "namespace": "t",
        "uid": f"uid-{name}",
        "queue": "main",
        "created": ago(hours=1),
        "owner_kind": "JobSet",
        "owner_name": name,
        "pods": {"w": 4},
    }
    fields |= {key: value for key, value in given.items() if key[0].islower()}
    return QueuedWorkload(
        name=name, conditions={key: value for key, value in given.items() if key[0].isupper()}, **fields
    )
