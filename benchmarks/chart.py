"""Charts as SVG: lines through points on linear or logarithmic axes; the same points give the same bytes."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 24, 48, 96
_COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's: told apart by everybody."""
_FONT: Final = 'font-family="sans-serif" font-size="12"'
_MARKED: Final = 30
"""Lines of more points have no marks on them."""
_LEGEND_COLUMN: Final = 300
_NARROW_COLUMN: Final = 210
_LEGEND_ROWS: Final = 3
_TICKS: Final = 5


@dataclass(frozen=True, slots=True)
class Axis:
    """What it shows, and its unit; a logarithmic one has a tick at each power of ten."""

    label: str
    logarithmic: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """Points from left to right; none below 0, where linear axes begin."""

    label: str
    points: tuple[tuple[float, float], ...]


@dataclass
class Chart:
    """One drawing; ``name`` is that of its file."""

    name: str
    title: str
    x: Axis
    y: Axis
    lines: list[Line] = field(default_factory=list)

    def svg(self) -> str:
        """The drawing."""
        xs = _Scale(self.x, [x for line in self.lines for x, _ in line.points], _LEFT, WIDTH - _RIGHT)
        ys = _Scale(self.y, [y for line in self.lines for _, y in line.points], HEIGHT - _BOTTOM, _TOP)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" {_FONT} role="img">',
            f"<title>{escape(self.title)}</title>",
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            _text(WIDTH / 2, 24, self.title, "middle", ' font-size="15"'),
        ]
        for value in xs.ticks:
            parts += [_rule(xs(value), _TOP, xs(value), HEIGHT - _BOTTOM)]
            parts += [_text(xs(value), HEIGHT - _BOTTOM + 18, number(value), "middle")]
        for value in ys.ticks:
            parts += [_rule(_LEFT, ys(value), WIDTH - _RIGHT, ys(value))]
            parts += [_text(_LEFT - 8, ys(value) + 4, number(value), "end")]
        middle = (_TOP + HEIGHT - _BOTTOM) / 2
        parts.append(_text((_LEFT + WIDTH - _RIGHT) / 2, HEIGHT - _BOTTOM + 38, self.x.label, "middle"))
        parts.append(_text(18, middle, self.y.label, "middle", f' transform="rotate(-90 18 {_n(middle)})"'))
        for index, line in enumerate(self.lines):
            parts += _drawn(line, _COLOURS[index % len(_COLOURS)], xs, ys)
            parts += _legend(line.label, _COLOURS[index % len(_COLOURS)], index, len(self.lines))
        return "\n".join([*parts, "</svg>", ""])


def distribution(label: str, values: Sequence[float], steps: int = 100) -> Line:
    """Shares of values (in percent) by how much they do not exceed; at most ``steps`` points."""
    ordered = sorted(values)
    count = len(ordered)
    ranks = sorted({max(1, math.ceil(count * step / steps)) for step in range(1, steps + 1)}) if count else []
    return Line(label, tuple((ordered[rank - 1], 100 * rank / count) for rank in ranks))


class _Scale:
    """From values to places on the drawing."""

    def __init__(self, axis: Axis, values: Sequence[float], start: float, end: float) -> None:
        self._start, self._end = start, end
        self._map: Callable[[float], float] = math.log10 if axis.logarithmic else float
        if axis.logarithmic:
            if any(value <= 0 for value in values):
                raise ValueError(f"{axis.label}: a logarithmic axis has no place for 0 and less")
            low = math.floor(math.log10(min(values, default=1)))
            high = max(math.ceil(math.log10(max(values, default=10))), low + 1)
            self.ticks = [10.0**power for power in range(low, high + 1)]
        else:
            self.ticks = _linear_ticks(max([0.0, *values]))
        self._low, self._high = self._map(self.ticks[0]), self._map(self.ticks[-1])

    def __call__(self, value: float) -> float:
        share = (self._map(value) - self._low) / (self._high - self._low)
        return self._start + share * (self._end - self._start)


def _linear_ticks(highest: float) -> list[float]:
    """From 0 in steps of 1, 2 or 5 to what is not below the highest value."""
    if highest / _TICKS < sys.float_info.min:
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(highest / _TICKS))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor * _TICKS >= highest)
    return [step * count for count in range(math.ceil(round(highest / step, 9)) + 1)]


def number(value: float) -> str:
    """With as many digits as a reader makes use of."""
    if not math.isfinite(value):
        return "no end"
    size = abs(value)
    if size >= 100 or value == round(value):
        return f"{value:,.0f}"
    digits = 1 if size >= 10 else 2 if size >= 0.1 else 4
    return f"{value:,.{digits}f}".rstrip("0").rstrip(".")


def _drawn(line: Line, colour: str, xs: _Scale, ys: _Scale) -> list[str]:
    places = [(_n(xs(x)), _n(ys(y))) for x, y in line.points]
    path = " ".join(f"{x},{y}" for x, y in places)
    parts = [f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>']
    if len(places) <= _MARKED:
        for (x, y), (value, height) in zip(places, line.points, strict=True):
            told = escape(f"{line.label}: {number(value)}, {number(height)}")
            parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{colour}"><title>{told}</title></circle>')
    return parts


def _legend(label: str, colour: str, index: int, lines: int) -> list[str]:
    """Two columns, or three narrow ones for more lines than two have rows for."""
    columns, width = (2, _LEGEND_COLUMN) if lines <= 2 * _LEGEND_ROWS else (3, _NARROW_COLUMN)
    x = _LEFT + width * (index % columns)
    y = HEIGHT - 40 + 15 * (index // columns)
    return [f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{colour}"/>', _text(x + 16, y, label, "start")]


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{_n(x1)}" y1="{_n(y1)}" x2="{_n(x2)}" y2="{_n(y2)}" stroke="#dddddd"/>'


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{_n(x)}" y="{_n(y)}" text-anchor="{anchor}"{more}>{escape(text)}</text>'


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
