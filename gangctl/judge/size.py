"""How large a review is, as far as the cost of judging it depends on that."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from gangctl.policy.review import Review

MOST_VALUES: Final = 20_000
"""No more are counted: what is larger is large."""


class Size(NamedTuple):
    """Counts over all objects of a review.

    ``values`` are scalars, lists and maps; ``elements`` is the length of the longest list or
    map, ``text`` that of the longest string.
    """

    values: int
    elements: int
    text: int


def size_of(review: Review) -> Size:
    """Measure it in one walk."""
    values = elements = text = 0
    computed = (review.gang, review.fit)
    parts: tuple[Any, ...] = (review.object, review.old_object, review.namespace, review.request, *computed)
    left: list[Any] = [*parts, *(found for each in review.params.values() for found in each)]
    while left and values < MOST_VALUES:
        value = left.pop()
        values += 1
        # Nearly all are of these three classes exactly, which is found out fastest.
        kind = value.__class__
        if kind is str:
            length = len(value)
            text = max(text, length)
        elif kind is dict or isinstance(value, dict):
            elements = max(elements, len(value))
            left.extend(value.values())
        elif kind is list or isinstance(value, list | tuple):
            elements = max(elements, len(value))
            left.extend(value)
        elif isinstance(value, str):
            text = max(text, len(value))
    # What was not counted may hold lists of any length.
    return Size(values, elements, text) if not left else Size(MOST_VALUES, MOST_VALUES, max(text, MOST_VALUES))
