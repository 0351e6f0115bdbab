"""What panels write: numbers with units, names of series, states, and the rows of tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.grafana.images.loaded import Answer

Cell = tuple[str, str]
"""A text and its color, which may be empty."""

_COLORS: Final = {
    "blue": "#3274d9", "light-blue": "#8ab8ff", "green": "#56a64b", "light-green": "#96d98d",
    "semi-dark-green": "#37872d", "dark-green": "#19730e", "orange": "#ff780a", "dark-orange": "#fa6400",
    "semi-dark-orange": "#e55400", "purple": "#a352cc", "light-purple": "#ca95e5", "red": "#e02f44",
    "dark-red": "#ad0317", "yellow": "#f2cc0c", "light-yellow": "#ffee52",
}  # fmt: skip
"""Of Grafana's, those that the dashboards name."""


@dataclass(frozen=True)
class Table:
    """Titles of the columns, and the cells of each row."""

    columns: list[str]
    rows: list[list[Cell]]


def text_of(value: float, unit: str) -> str:
    """A number as short as Grafana writes it."""
    if unit == "s":
        for length, name in ((86400, "d"), (3600, "h"), (60, "min")):
            if value >= length:
                return f"{value / length:.3g} {name}"
        return f"{value:.3g} s"
    if unit == "percentunit":
        return f"{value:.3g}" if value > 10 else f"{value:.0%}"
    return f"{value:.3g}" if value < 1000 else f"{value / 1000:.3g} k"


def shown(legend: str, labels: Mapping[str, str]) -> str:
    """The name of a series."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), legend).strip()


def color_of(defaults: Mapping[str, Any], value: float) -> str:
    """The color of a value by its thresholds."""
    steps = defaults["thresholds"]["steps"]
    name = [step["color"] for step in steps if step["value"] is None or value >= step["value"]][-1]
    return _COLORS[name]


def state(defaults: Mapping[str, Any], value: float) -> tuple[str, str] | None:
    """What a number means, and its color."""
    for mapping in defaults.get("mappings", ()):
        if found := mapping["options"].get(f"{value:g}"):
            return found["text"], _COLORS[found["color"]]
    return None


def joined(panel: Mapping[str, Any], answers: Sequence[Answer]) -> Table:
    """The rows of a table: those of its queries that agree in the labels that they share."""
    (organize,) = (each["options"] for each in panel["transformations"] if each["id"] == "organize")
    rows: list[dict[str, Any]] = []
    for answer in sorted(answers, key=lambda answer: -max((len(each.labels) for each in answer.series), default=0)):
        field = "Value" if len(answers) == 1 else f"Value #{answer.ref}"
        for series in answer.series:
            same = [row for row in rows if all(row[label] == each for label, each in series.labels.items())]
            if not same:
                rows.append(dict(series.labels))
                same = rows[-1:]
            for row in same:
                row[field] = series.value
    fields = sorted(organize["renameByName"], key=organize["indexByName"].__getitem__)
    fields = [field for field in fields if any(field in row for row in rows)]
    titles = [organize["renameByName"][field] for field in fields]
    looks = {
        override["matcher"]["options"]: {each["id"]: each["value"] for each in override["properties"]}
        for override in panel["fieldConfig"]["overrides"]
    }
    (sort,) = panel["options"]["sortBy"]
    by = fields[titles.index(sort["displayName"])] if sort["displayName"] in titles else ""
    rows.sort(key=lambda row: (by in row, row.get(by, 0)), reverse=True)
    pairs = list(zip(fields, titles, strict=True))
    return Table(titles, [[_cell(row.get(field, ""), looks.get(title, {})) for field, title in pairs] for row in rows])


def _cell(value: Any, look: Mapping[str, Any]) -> Cell:
    if isinstance(value, str):
        return value, ""
    color = color_of(look, value) if "thresholds" in look else ""
    return text_of(value, look.get("unit", "short")), color
