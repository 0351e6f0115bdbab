"""Panels: each function takes what is shown and returns the panel without its place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from grafana_foundation_sdk.builders import common as build_common
from grafana_foundation_sdk.builders import dashboard as build_dashboard
from grafana_foundation_sdk.builders import (
    heatmap as build_heatmap,
)
from grafana_foundation_sdk.builders import (
    prometheus,
    stat,
    statetimeline,
    table,
    text,
    timeseries,
)
from grafana_foundation_sdk.models import common, dashboard, heatmap
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from grafana_foundation_sdk.models.text import TextMode

DATASOURCE: Final = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")

Steps = Sequence[tuple[float, str]]
"""Thresholds: from this value on, this colour. What is below the first is green, if nothing else is said."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query; ``every`` is the shortest step, for what happens rarely (``5m``)."""

    expr: str
    legend: str = ""
    every: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: the label, or ``Value #A`` for the value of query A."""

    field: str
    title: str
    unit: str = ""
    steps: Steps = ()
    link: str = ""
    width: int = 0
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """What a number of a timeline or of a stat means."""

    value: int
    text: str
    color: str


def graph(
    title: str,
    description: str,
    queries: Sequence[Query],
    *,
    unit: str,
    width: int = 12,
    height: int = 8,
    stacked: bool = False,
    bars: bool = False,
    steps: Steps = (),
    colors: Mapping[str, str] | None = None,
    most: float | None = None,
    links: Sequence[dashboard.DashboardLink] = (),
) -> dashboard.Panel:
    """Lines over time; ``bars`` for what is counted in each step, ``steps`` draws lines at limits.

    What happens rarely has gaps, so its points are drawn. What is counted is counted in steps of 5 minutes: the range
    of an increase is a little longer than the step, and in short steps much would be counted twice.
    """
    if bars:
        queries = [replace(query, every=query.every or "5m") for query in queries]
    rare = any(query.every for query in queries) and not bars
    builder = (
        timeseries.Panel()
        .min(0)
        .draw_style(common.GraphDrawStyle.BARS if bars else common.GraphDrawStyle.LINE)
        .fill_opacity(60 if bars else 25 if stacked else 5)
        .line_width(1)
        .show_points(common.VisibilityMode.ALWAYS if rare else common.VisibilityMode.NEVER)
        .legend(_legend())
        .tooltip(
            build_common.VizTooltipOptions()
            .mode(common.TooltipDisplayMode.MULTI)
            .sort(common.SortOrder.DESCENDING)
        )
    )  # fmt: skip
    if stacked:
        builder.stacking(build_common.StackingConfig().mode(common.StackingMode.NORMAL))
    if steps:
        builder.thresholds(_thresholds(steps)).thresholds_style(
            build_common.GraphThresholdsStyleConfig().mode(common.GraphTresholdsStyleMode.DASHED)
        )
    if most is not None:
        builder.max(most)
    for name, color in (colors or {}).items():
        value = {"mode": "fixed", "fixedColor": color}
        builder.override_by_name(name, [dashboard.DynamicConfigValue(id_val="color", value=value)])
    panel = builder.build()
    panel.targets = [_range(query, index).build() for index, query in enumerate(queries)]
    return _finished(panel, title, description, unit=unit, size=(width, height), links=links)


def number(
    title: str,
    description: str,
    expr: str,
    *,
    unit: str,
    width: int = 3,
    height: int = 4,
    steps: Steps = (),
    below: str = "green",
    states: Sequence[State] = (),
    label: str = "",
    nothing: str = "no data",
    links: Sequence[dashboard.DashboardLink] = (),
) -> dashboard.Panel:
    """One number as it is now; with ``label`` the value of that label instead of the number."""
    builder = (
        stat.Panel()
        .color_mode(common.BigValueColorMode.BACKGROUND if steps or states else common.BigValueColorMode.NONE)
        .graph_mode(common.BigValueGraphMode.NONE)
        .reduce_options(build_common.ReduceDataOptions().calcs(["lastNotNull"]))
        .text_mode(common.BigValueTextMode.NAME if label else common.BigValueTextMode.VALUE)
        .thresholds(_thresholds(steps, below))
        .no_value(nothing)
    )
    if states:
        builder.mappings([_mapping(states)])
    panel = builder.build()
    query = Query(expr, f"{{{{{label}}}}}" if label else title)
    panel.targets = [_query(query, 0).instant().build()]
    return _finished(panel, title, description, unit=unit, size=(width, height), links=links)


def rows(
    title: str,
    description: str,
    queries: Sequence[str],
    columns: Sequence[Column],
    *,
    sort: str,
    width: int = 24,
    height: int = 8,
    nothing: str = "nothing",
    links: Sequence[dashboard.DashboardLink] = (),
) -> dashboard.Panel:
    """A table of what is now: the queries joined by labels they share, ``sort`` is the title of a column, falling."""
    builder = (
        table.Panel()
        .cell_height(common.TableCellHeight.SM)
        .sort_by([build_common.TableSortByFieldState().display_name(sort).desc(True)])
        .no_value(nothing)
        .with_transformation(dashboard.DataTransformerConfig(id_val="merge", options={}))
        .with_transformation(_organized(columns))
    )
    for column in columns:
        if properties := _properties(column):
            builder.override_by_name(column.title, properties)
    panel = builder.build()
    panel.targets = [
        _query(Query(expr), index).format(PromQueryFormat.TABLE).instant().build() for index, expr in enumerate(queries)
    ]
    return _finished(panel, title, description, unit="short", size=(width, height), links=links)


def heat(title: str, description: str, buckets: str, *, unit: str, width: int = 12, height: int = 8) -> dashboard.Panel:
    """How a histogram's observations were spread, over time; ``buckets`` is by ``le``."""
    panel = (
        build_heatmap.Panel()
        .calculate(False)
        .color(
            build_heatmap.HeatmapColorOptions()
            .mode(heatmap.HeatmapColorMode.SCHEME)
            .scheme("Oranges")
            .fill("dark-orange")
            .scale(heatmap.HeatmapColorScale.EXPONENTIAL)
            .exponent(0.5)
            .steps(64)
        )
        .filter_values(build_heatmap.FilterValueRange().le(1e-9))
        .y_axis(build_heatmap.YAxisConfig().unit(unit))
        .show_legend()
        .show_tooltip()
        .cell_gap(1)
        .build()
    )
    panel.field_config.defaults.custom = heatmap.FieldConfig()
    query = _range(Query(buckets, "{{le}}", "5m"), 0).format(PromQueryFormat.HEATMAP)
    panel.targets = [query.build()]
    return _finished(panel, title, description, unit=unit, size=(width, height))


def timeline(
    title: str,
    description: str,
    queries: Sequence[Query],
    states: Sequence[State],
    *,
    width: int = 24,
    height: int = 4,
) -> dashboard.Panel:
    """What held when; each query gives numbers that ``states`` name."""
    panel = (
        statetimeline.Panel()
        .merge_values(True)
        .show_value(common.VisibilityMode.AUTO)
        .row_height(0.8)
        .line_width(0)
        .fill_opacity(70)
        .mappings([_mapping(states)])
        .legend(_legend())
        .tooltip(build_common.VizTooltipOptions().mode(common.TooltipDisplayMode.SINGLE))
        .build()
    )
    panel.targets = [_range(query, index).build() for index, query in enumerate(queries)]
    return _finished(panel, title, description, unit="none", size=(width, height))


def note(title: str, description: str, markdown: str, *, width: int = 24, height: int = 4) -> dashboard.Panel:
    """Text; it may use variables."""
    panel = text.Panel().mode(TextMode.MARKDOWN).content(markdown).build()
    panel.title, panel.description = title, description
    panel.grid_pos = dashboard.GridPos(w=width, h=height)
    return panel


def _finished(
    panel: dashboard.Panel,
    title: str,
    description: str,
    *,
    unit: str,
    size: tuple[int, int],
    links: Sequence[dashboard.DashboardLink] = (),
) -> dashboard.Panel:
    panel.title, panel.description, panel.datasource = title, description, DATASOURCE
    panel.grid_pos = dashboard.GridPos(w=size[0], h=size[1])
    panel.field_config.defaults.unit = unit
    if links:
        panel.links = list(links)
    return panel


def _query(query: Query, index: int) -> prometheus.Dataquery:
    builder = prometheus.Dataquery().expr(query.expr).ref_id(chr(ord("A") + index)).datasource(DATASOURCE)
    if query.legend:
        builder.legend_format(query.legend)
    if query.every:
        builder.interval(query.every)
    return builder


def _range(query: Query, index: int) -> prometheus.Dataquery:
    return _query(query, index).range()


def _legend() -> build_common.VizLegendOptions:
    return (
        build_common.VizLegendOptions()
        .display_mode(common.LegendDisplayMode.LIST)
        .placement(common.LegendPlacement.BOTTOM)
        .show_legend(True)
        .calcs([])
    )


def _threshold_steps(steps: Steps, below: str = "green") -> list[dashboard.Threshold]:
    lowest = dashboard.Threshold(value=None, color=below)
    return [lowest, *(dashboard.Threshold(value=value, color=color) for value, color in steps)]


def _thresholds(steps: Steps, below: str = "green") -> build_dashboard.ThresholdsConfig:
    mode = dashboard.ThresholdsMode.ABSOLUTE
    return build_dashboard.ThresholdsConfig().mode(mode).steps(_threshold_steps(steps, below))


def _mapping(states: Sequence[State]) -> dashboard.ValueMap:
    results = {
        str(state.value): dashboard.ValueMappingResult(text=state.text, color=state.color, index=index)
        for index, state in enumerate(states)
    }
    return dashboard.ValueMap(options=results)


def _organized(columns: Sequence[Column]) -> dashboard.DataTransformerConfig:
    options = {
        "excludeByName": {"Time": True, **{column.field: True for column in columns if column.hidden}},
        "indexByName": {column.field: index for index, column in enumerate(columns)},
        "renameByName": {column.field: column.title for column in columns if not column.hidden},
    }
    return dashboard.DataTransformerConfig(id_val="organize", options=options)


def _properties(column: Column) -> list[dashboard.DynamicConfigValue]:
    found: list[dashboard.DynamicConfigValue] = []
    if column.unit:
        found.append(dashboard.DynamicConfigValue(id_val="unit", value=column.unit))
    if column.width:
        found.append(dashboard.DynamicConfigValue(id_val="custom.width", value=column.width))
    if column.steps:
        thresholds = {"mode": "absolute", "steps": _threshold_steps(column.steps)}
        found.append(dashboard.DynamicConfigValue(id_val="thresholds", value=thresholds))
        found.append(dashboard.DynamicConfigValue(id_val="custom.cellOptions", value={"type": "color-text"}))
    if column.link:
        links = [{"title": f"Open {column.title}", "url": column.link}]
        found.append(dashboard.DynamicConfigValue(id_val="links", value=links))
    return found
