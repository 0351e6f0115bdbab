"""The checks, one module for each area of the report or a part of it, and the facts of a cluster that they evaluate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gangctl.cli.doctor.check import REGISTERED, Area, Check
from gangctl.cli.doctor.checks import canary, gangctl, gangs, jobset, kubernetes, kueue, webhooks  # noqa: F401

CHECKS: Final[Sequence[Check]] = sorted(REGISTERED, key=lambda check: list(Area).index(check.area))
"""In the order of the report: an area is in one module, or imports what comes before."""
