"""Which failed pods fail their Job: its ``backoffLimit`` and its ``podFailurePolicy``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gangctl.api.objects import integer_at, objects_at

DEFAULT_BACKOFF_LIMIT: Final = 6


def evictions_survived(job_spec: Mapping[str, Any]) -> int | None:
    """How many evicted pods a Job replaces before it fails, other failures included; None for any number.

    As ``matchPodFailurePolicy`` of the Job controller, but without the rules about exit codes: with which code an
    evicted container ends is not known.

    >>> evictions_survived({}), evictions_survived({"backoffLimit": 0}), evictions_survived({"backoffLimitPerIndex": 1})
    (6, 0, None)
    """
    policy = job_spec.get("podFailurePolicy")
    for rule in objects_at(policy, "rules") if isinstance(policy, dict) else ():
        if not any(
            pattern.get("type") == "DisruptionTarget" and pattern.get("status", "True") == "True"
            for pattern in objects_at(rule, "onPodConditions")
        ):
            continue
        # The first rule that matches decides.
        if rule.get("action") == "Ignore":
            return None
        if rule.get("action") == "FailJob":
            return 0
        break
    # With a limit per index the other one has no default that can be reached.
    if job_spec.get("backoffLimitPerIndex") is not None and job_spec.get("backoffLimit") is None:
        return None
    return integer_at(job_spec, "backoffLimit", DEFAULT_BACKOFF_LIMIT)
