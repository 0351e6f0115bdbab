"""What a field of a report is beyond its type: annotations of its TypedDict, for readers and for its JSON Schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Minimum:
    """Annotation of a number, beside its description: the minimum, where that is not 0."""

    least: int


class Quantity:
    """Annotation of an amount, or of amounts by resource: integers to policies, quantities in output."""


QUANTITY: Final = Quantity()

SIGNED: Final = Minimum(-(2**31))
"""Minimum of a signed 32-bit number, such as a priority."""
