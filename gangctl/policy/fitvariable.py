"""The variable ``fit``: whether a JobSet can ever be admitted, as policies see it, and its CEL type.

It equals ``gangctl fit -o json`` of that JobSet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from gangctl.api.jobset import read_jobset
from gangctl.fit.report import API_VERSION, KIND, FitReport
from gangctl.policy.gangvariable import GANG_TYPE
from gangctl.policy.reporttypes import type_of

FIT_TYPE: Final = type_of(FitReport)
"""Type of ``fit``, an object with declared fields, from the published types of the report."""

COMPUTED: Final = {"gang": GANG_TYPE, "fit": FIT_TYPE}
"""Variables that only GangPolicies have, by name."""


class Fit(Protocol):
    """Answers from the state of queues."""

    def __call__(self, raw: Mapping[str, Any], namespace: str, *, new: bool = True) -> FitReport:
        """Whether a JobSet (of this namespace, where it names none) can be admitted; ``new`` if it is being created."""


def unknown_fit(raw: Mapping[str, Any], namespace: str, why: Sequence[str]) -> FitReport:
    """The answer without the state of queues: verdict ``unknown``, which a rule that forbids does not admit."""
    jobset, _ = read_jobset(raw)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": jobset.name or jobset.generate_name, "namespace": jobset.namespace or namespace},
        "verdict": "unknown",
        "reason": "Unknown",
        "message": f"It is not known whether this JobSet can be admitted: {'; '.join(why)}.",
        "queue": jobset.queue,
        "clusterQueue": "",
        "blocked": "",
        "blocking": False,
        "reorder": False,
        "podSets": [],
        "limits": [],
        "domains": [],
        "holders": [],
        "preempts": [],
        "starts": None,
        "unknown": [*why],
    }
