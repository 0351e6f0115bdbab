"""The name that Kueue gives the Workload of a job: for display only, never to look one up.

Workloads made beforehand, slices, variants and a feature gate have other names; who wants the Workload of a JobSet
follows the controller's ownerReference.
"""

from __future__ import annotations

import hashlib
from typing import Final

LONGEST: Final = 253
SHORT: Final = 63
"""With the feature gate ``ShortWorkloadNames``."""

_HASH: Final = 5


def workload_name(kind: str, group: str, name: str, uid: str, limit: int = LONGEST) -> str:
    """Name of the Workload of an object; ``limit`` is how long names may be."""
    digest = hashlib.sha1(f"{kind}\n{group}\n{name}\n{uid}".encode(errors="replace"), usedforsecurity=False).hexdigest()
    prefix = f"{kind.lower()}-{name}"[: limit - 1 - _HASH]
    return f"{prefix}-{digest[:_HASH]}"
