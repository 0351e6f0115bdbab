"""What a scrape says, read line by line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Exposed:
    """The samples of one exposition in Prometheus' plain format."""

    def __init__(self, text: str) -> None:
        """Read nothing yet."""
        self._lines = [line for line in text.splitlines() if line and not line.startswith("#")]

    @property
    def series(self) -> int:
        """How many there are."""
        return len(self._lines)

    @cached_property
    def values(self) -> Mapping[str, float]:
        """Value by name and labels as they are written."""
        parts = (line.rpartition(" ") for line in self._lines)
        return {series: float(value) for series, _, value in parts}

    def rows(self, name: str) -> Iterator[tuple[dict[str, str], float]]:
        """Labels and value of each series of this name."""
        for series, value in self.values.items():
            found, _, labels = series.partition("{")
            if found == name:
                yield dict(_LABEL.findall(labels)), value

    def sum(self, name: str) -> float:
        """Of all series of this name."""
        return sum(value for series, value in self.values.items() if series.partition("{")[0] == name)


def since(before: Exposed, after: Exposed) -> Exposed:
    """What counters have gained."""
    gained = Exposed("")
    gained.values = {series: value - before.values.get(series, 0.0) for series, value in after.values.items()}
    return gained
