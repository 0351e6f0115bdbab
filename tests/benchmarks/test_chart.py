"""Charts: XML with a title, and with every point at its place."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.chart import HEIGHT, WIDTH, Axis, Chart, Line, distribution, number
from benchmarks.growth import Cost
from benchmarks.growth import chart as growth_chart
from tests.rows import each

SVG = "{http://www.w3.org/2000/svg}"


def texts(drawing: ET.Element) -> list[str]:
    return [element.text or "" for element in drawing.iter(f"{SVG}text")]


def points(drawing: ET.Element) -> list[list[tuple[float, float]]]:
    lines = [element.attrib["points"].split() for element in drawing.iter(f"{SVG}polyline")]
    return [[(float(x), float(y)) for x, y in (pair.split(",") for pair in line)] for line in lines]


def test_growth_is_drawn_on_a_logarithmic_axis() -> None:
    costs = [
        Cost(crowd, 0.1, 90, cpu=[cpu, cpu, 99], reconcile=[4.0])
        for crowd, cpu in ((100, 8.0), (1_000, 8.0), (10_000, 16.0))
    ]
    drawing = ET.fromstring(growth_chart(costs).svg())
    assert {"100", "1,000", "10,000", "JobSets that are there", "ms", "CPU of gangctl", "a reconcile"} <= {
        *texts(drawing)
    }
    cpu, reconcile = points(drawing)
    assert [x for x, _ in cpu] == [x for x, _ in reconcile]
    first, second, third = cpu
    assert second[0] - first[0] == pytest.approx(third[0] - second[0], abs=0.02)
    assert first[1] == second[1] > third[1], "higher is more"
    assert len(list(drawing.iter(f"{SVG}circle"))) == 6


def test_text_is_escaped() -> None:
    chart = Chart("c", "<b> & co", Axis("x < y"), Axis("&"), [Line('"<script>"', ((0, 1),))])
    drawing = ET.fromstring(chart.svg())
    assert drawing.findtext(f"{SVG}title") == "<b> & co"
    assert {"<b> & co", "x < y", "&", '"<script>"'} <= {*texts(drawing)}


def test_a_chart_without_points_is_drawn() -> None:
    for logarithmic in (False, True):
        axis = Axis("x", logarithmic)
        ET.fromstring(Chart("c", "nothing", axis, axis).svg())
        ET.fromstring(Chart("c", "nothing", axis, axis, [Line("none", ())]).svg())


def test_a_logarithmic_axis_has_no_zero() -> None:
    with pytest.raises(ValueError, match="seconds: a logarithmic axis"):
        Chart("c", "t", Axis("seconds", logarithmic=True), Axis("y"), [Line("l", ((0.0, 1.0),))]).svg()


@example(places=[(1.0, 5e-324)], logarithmic=False)
@given(
    places=st.lists(st.tuples(st.floats(1e-6, 1e9), st.floats(0, 1e9)), min_size=1, max_size=50),
    logarithmic=st.booleans(),
)
def test_every_point_is_inside_and_the_drawing_is_deterministic(
    places: list[tuple[float, float]], logarithmic: bool
) -> None:
    chart = Chart("c", "t", Axis("x", logarithmic), Axis("y"), [Line("l", tuple(places))])
    drawing = ET.fromstring(chart.svg())
    (drawn,) = points(drawing)
    assert len(drawn) == len(places)
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in drawn)
    assert chart.svg() == chart.svg()


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=300))
def test_a_distribution_rises_to_100_percent(values: list[float]) -> None:
    line = distribution("d", values)
    assert len(line.points) <= 100
    assert line.points == tuple(sorted(line.points))
    assert line.points[-1] == (max(values), 100.0)
    assert all(sum(value <= x for value in values) >= share * len(values) / 100 - 1e-6 for x, share in line.points)


def test_an_empty_distribution_has_no_points() -> None:
    assert distribution("d", []).points == ()


@each(
    ("value", "text"),
    [(0, "0"), (0.0123, "0.0123"), (0.5, "0.5"), (12.34, "12.3"), (1234.5, "1,234"), (10000, "10,000")],
)
def test_numbers_are_formatted(value: float, text: str) -> None:
    assert number(value) == text
