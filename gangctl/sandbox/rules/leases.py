"""Leases."""

from __future__ import annotations

from gangctl.sandbox.objects import Object
from gangctl.sandbox.rules import names
from gangctl.sandbox.rules.causes import Causes
from gangctl.sandbox.rules.metadata import validate_metadata


def default(lease: Object) -> None:
    """A spec is always written."""
    lease.setdefault("spec", {})


def validate(new: Object, old: Object | None) -> Causes:
    """What is wrong with a Lease."""
    causes = validate_metadata(new, old)
    spec = new["spec"]
    if spec.get("leaseDurationSeconds", 1) <= 0:
        causes.invalid("spec.leaseDurationSeconds", spec["leaseDurationSeconds"], "must be greater than 0")
    if spec.get("leaseTransitions", 0) < 0:
        causes.invalid("spec.leaseTransitions", spec["leaseTransitions"], "must be greater than or equal to 0")
    strategy = spec.get("strategy")
    if strategy is not None:
        causes.invalid_each("spec.strategy", strategy, names.qualified_name(strategy))
    return causes
