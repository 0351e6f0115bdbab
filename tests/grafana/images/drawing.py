"""Dashboards drawn with matplotlib: the panels at their places, as plain as Grafana's light theme."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MultipleLocator
from PIL import Image

from tests.grafana.images.loaded import SECONDS, Answer
from tests.grafana.images.values import Table, color_of, joined, shown, state, text_of
from tests.grafana.queries import substituted

_WIDTH: Final = 14.0
"""Inches; 24 columns."""
_UNIT: Final = 0.32
"""Inches that one line of the grid is high."""
_TITLE: Final = 0.3
"""Inches above what a panel shows."""
_DPI: Final = 90
_COLORS: Final = 256
"""In the file: it is for reading on a page."""
_INK, _PALE, _FRAME, _GROUND = "#24292e", "#6b7177", "#dcdee0", "#f4f5f5"
_PALETTE: Final = ("#7eb26d", "#e0a526", "#3f9fb5", "#ef843c", "#e24d42", "#1f78c1", "#ba43a9", "#705da0", "#508642")
_MOST_NAMES: Final = 12
_TIMES: Final = (1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400)
"""Between the marks of an axis in seconds."""

mpl.rcParams.update({"font.family": "DejaVu Sans", "font.size": 7, "text.color": _INK, "axes.edgecolor": _FRAME})


def draw(
    dashboard: Mapping[str, Any], variables: Mapping[str, str], answers: Mapping[int, Sequence[Answer]], path: Path
) -> None:
    """Write a dashboard as PNG; ``answers`` is by the number of the panel."""
    lines = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"]) + 1
    figure = Figure(figsize=(_WIDTH, lines * _UNIT), facecolor=_GROUND)
    _write(figure, 0.004, 1 - 0.62 / lines, dashboard["title"], size=12, weight="bold")
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        box = (place["x"] / 24, 1 - (place["y"] + 1 + place["h"]) / lines, place["w"] / 24, place["h"] / lines)
        if panel["type"] == "row":
            _write(figure, 0.004, box[1] + box[3] * 0.3, panel["title"], size=9.5, weight="bold")
        else:
            axes, inches = _framed(figure, box, lines, panel["title"])
            if panel["type"] == "text":
                body = substituted(panel["options"]["content"], variables).strip().strip("`").strip()
                axes.text(0.01, 0.9, body, family="monospace", va="top", size=8, parse_math=False)
            else:
                _panel(figure, axes, inches, panel, answers[panel["id"]])
    figure.savefig(path, dpi=_DPI)
    with Image.open(path) as image:
        image.convert("RGB").quantize(_COLORS).save(path, optimize=True)


def _framed(
    figure: Figure, box: tuple[float, float, float, float], lines: int, title: str
) -> tuple[Axes, tuple[float, float]]:
    """The place below the title of a panel, and its size in inches."""
    left, bottom, width, height = box
    gap = 0.05 / _WIDTH, 0.05 / (lines * _UNIT)
    left, bottom, width, height = left + gap[0], bottom + gap[1], width - 2 * gap[0], height - 2 * gap[1]
    frame = Rectangle((left, bottom), width, height, facecolor="white", edgecolor=_FRAME, linewidth=0.8, zorder=-1)
    figure.add_artist(frame)
    top = _TITLE / (lines * _UNIT)
    _write(figure, left + 0.006, bottom + height - top * 0.75, title, size=7.5, weight="bold")
    axes = figure.add_axes((left, bottom, width, height - top))
    axes.set_axis_off()
    return axes, (width * _WIDTH, (height - top) * lines * _UNIT)


def _panel(
    figure: Figure, axes: Axes, inches: tuple[float, float], panel: Mapping[str, Any], answers: Sequence[Answer]
) -> None:
    if panel["type"] == "table":
        _table(axes, inches, panel, answers)
    elif not any(each.series for each in answers):
        axes.text(0.5, 0.55, panel["fieldConfig"]["defaults"].get("noValue", "no data"), ha="center", color=_PALE)
    elif panel["type"] == "stat":
        _stat(axes, panel, answers, (inches[1] + _TITLE) / inches[1])
    else:
        _over_time(figure, axes, inches, panel, answers)


def _write(figure: Figure, x: float, y: float, text: str, **look: Any) -> None:
    figure.text(x, y, text, **look)


def _stat(axes: Axes, panel: Mapping[str, Any], answers: Sequence[Answer], height: float) -> None:
    (series,) = answers[0].series
    options, defaults = panel["options"], panel["fieldConfig"]["defaults"]
    named = state(defaults, series.value)
    text = named[0] if named else text_of(series.value, defaults["unit"])
    if options["textMode"] == "name":
        text = shown(answers[0].legend, series.labels)
    color = None
    if options["colorMode"] == "background":
        color = named[1] if named else color_of(defaults, series.value)
        axes.add_patch(Rectangle((0, 0), 1, height, facecolor=color, transform=axes.transAxes, clip_on=False))
    axes.text(0.5, 0.5, text, ha="center", va="center", size=15 if len(text) < 10 else 11, weight="bold",
              color="white" if color else _INK)  # fmt: skip


def _table(axes: Axes, inches: tuple[float, float], panel: Mapping[str, Any], answers: Sequence[Answer]) -> None:
    table = joined(panel, answers)
    if not table.rows:
        axes.text(0.5, 0.5, panel["fieldConfig"]["defaults"]["noValue"], ha="center", color=_PALE)
        return
    line = 0.2 / inches[1]
    places = _columns(table)
    fits = int(1 / line) - 1
    for column, x in zip(table.columns, places, strict=True):
        axes.text(x, 1 - line * 0.6, column, weight="bold", va="center", color=_PALE)
    for number, row in enumerate(table.rows[:fits], 1):
        y = 1 - line * (number + 0.6)
        axes.plot((0.005, 0.995), (y + line / 2, y + line / 2), color=_FRAME, linewidth=0.5)
        for (text, color), x in zip(row, places, strict=True):
            axes.text(x, y, text, va="center", color=color or _INK, weight="bold" if color else "normal")
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)


def _columns(table: Table) -> list[float]:
    """Where each column begins, by the length of what is in it."""
    widths = [
        max(len(title), *(len(row[number][0]) for row in table.rows)) + 3 for number, title in enumerate(table.columns)
    ]
    return [0.008 + sum(widths[:number]) / sum(widths) for number in range(len(widths))]


def _over_time(
    figure: Figure, axes: Axes, inches: tuple[float, float], panel: Mapping[str, Any], answers: Sequence[Answer]
) -> None:
    place = axes.get_position()
    below = 0.5 if panel["type"] != "heatmap" else 0.25
    beside = 1.0 if panel["type"] == "state-timeline" else 0.5
    x, y = beside / inches[0] * place.width, below / inches[1] * place.height
    right = 0.15 / inches[0] * place.width
    inner = figure.add_axes((place.x0 + x, place.y0 + y, place.width - x - right, place.height - 1.1 * y))
    inner.tick_params(length=0, labelsize=6.5, labelcolor=_PALE)
    inner.spines[["top", "right", "left"]].set_visible(False)
    inner.set_xlim(0, SECONDS)
    hours = range(0, SECONDS + 1, 3600)
    inner.set_xticks(hours, [f"-{(SECONDS - each) // 3600} h" if each < SECONDS else "now" for each in hours])
    draws = {"timeseries": _graph, "state-timeline": _timeline, "heatmap": _heatmap}
    names = draws[panel["type"]](inner, panel, answers)
    if names:
        columns = max(1, int(inches[0] / 1.25))
        handles = [Rectangle((0, 0), 1, 1, facecolor=color) for _, color in names[:_MOST_NAMES]]
        labels = [name for name, _ in names[:_MOST_NAMES]]
        axes.legend(handles, labels, loc="lower left", ncols=min(columns, 8), frameon=False, fontsize=6,
                    handlelength=0.9, handleheight=0.5, columnspacing=1, borderpad=0.1, labelspacing=0.15)  # fmt: skip


def _graph(axes: Axes, panel: Mapping[str, Any], answers: Sequence[Answer]) -> list[tuple[str, str]]:
    defaults = panel["fieldConfig"]["defaults"]
    custom = defaults["custom"]
    bars, stacked = custom["drawStyle"] == "bars", custom.get("stacking", {}).get("mode") == "normal"
    fixed = {
        override["matcher"]["options"]: each["value"]["fixedColor"]
        for override in panel["fieldConfig"]["overrides"]
        for each in override["properties"]
        if each["id"] == "color"
    }
    found: list[tuple[str, str]] = []
    base: dict[float, float] = {}
    for answer in answers:
        for series in sorted(answer.series, key=lambda each: shown(answer.legend, each.labels)):
            name = shown(answer.legend, series.labels)
            color = color_named(fixed.get(name)) or _PALETTE[len(found) % len(_PALETTE)]
            moments = [moment for moment, _ in series.points]
            values = [value for _, value in series.points]
            under = [base.get(moment, 0.0) for moment in moments] if stacked else [0.0] * len(moments)
            tops = [low + value for low, value in zip(under, values, strict=True)]
            if bars:
                axes.bar(moments, values, width=270, bottom=under, color=color, alpha=0.8)
            else:
                for piece in _pieces(moments):
                    axes.plot(moments[piece], tops[piece], color=color, linewidth=1,
                              marker="." if custom["showPoints"] == "always" else None, markersize=3)  # fmt: skip
                    axes.fill_between(moments[piece], under[piece], tops[piece], color=color, linewidth=0,
                                      alpha=0.3 if stacked else 0.05)  # fmt: skip
            if stacked:
                base.update(zip(moments, tops, strict=True))
            found.append((name, color))
    for step in defaults.get("thresholds", {}).get("steps", [])[1:]:
        if custom.get("thresholdsStyle", {}).get("mode") == "dashed" and step["value"] < axes.get_ylim()[1] * 1.3:
            axes.axhline(step["value"], color=color_named(step["color"]), linestyle="--", linewidth=0.8)
    axes.set_ylim(bottom=0, top=defaults.get("max"))
    axes.grid(axis="y", color=_FRAME, linewidth=0.5)
    if defaults["unit"] == "s":
        step = next((each for each in _TIMES if axes.get_ylim()[1] / each <= 5), 86400)
        axes.yaxis.set_major_locator(MultipleLocator(step))
    else:
        axes.locator_params(axis="y", nbins=5, integer=defaults["unit"] == "short" and axes.get_ylim()[1] > 3)
    axes.yaxis.set_major_formatter(lambda value, _: text_of(value, defaults["unit"]))
    return found


def _pieces(moments: Sequence[float]) -> Iterable[slice]:
    """Lines are not drawn over times without a value."""
    begin = 0
    for number in range(1, len(moments) + 1):
        if number == len(moments) or moments[number] - moments[number - 1] > 310:
            yield slice(begin, number)
            begin = number


def _timeline(axes: Axes, panel: Mapping[str, Any], answers: Sequence[Answer]) -> list[tuple[str, str]]:
    series = [(shown(answer.legend, each.labels), each) for answer in answers for each in answer.series]
    seen: dict[str, str] = {}
    for number, (_, each) in enumerate(series):
        for moment, value in each.points:
            named = state(panel["fieldConfig"]["defaults"], value)
            if named:
                axes.barh(number, 61, left=moment, height=0.8, color=named[1])
                seen[named[0]] = named[1]
    axes.set_yticks(range(len(series)), [name for name, _ in series])
    axes.set_ylim(len(series) - 0.5, -0.5)
    return list(seen.items())


def _heatmap(axes: Axes, panel: Mapping[str, Any], answers: Sequence[Answer]) -> list[tuple[str, str]]:
    series = sorted(answers[0].series, key=lambda each: float(each.labels["le"]))
    bounds = [float(each.labels["le"]) for each in series]
    moments = sorted({moment for each in series for moment, _ in each.points})
    counts = [dict(each.points) for each in series]
    cells = [
        [max(row.get(moment, 0) - (counts[number - 1].get(moment, 0) if number else 0), 0) for moment in moments]
        for number, row in enumerate(counts)
    ]
    most = max((cell for row in cells for cell in row), default=1) or 1
    filled = [[cell if cell > 0.01 else float("nan") for cell in row] for row in cells]
    edges = [*(moment - 150 for moment in moments), moments[-1] + 150]
    axes.pcolormesh(edges, range(len(bounds) + 1), filled, cmap="Oranges", norm=LogNorm(0.3, most + 1))
    unit = panel["fieldConfig"]["defaults"]["unit"]
    ticks = range(1, len(bounds), 3)
    axes.set_yticks(ticks, [text_of(bounds[each - 1], unit) for each in ticks])
    axes.set_xlim(0, SECONDS)
    return []


def color_named(name: str | None) -> str | None:
    """As Grafana names it."""
    return None if name is None else color_of({"thresholds": {"steps": [{"value": None, "color": name}]}}, 0)
