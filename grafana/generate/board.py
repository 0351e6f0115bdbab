"""Dashboards: variables, rows of panels with their places, and links between dashboards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard

from grafana.generate.panels import DATASOURCE
from release.homepage import DOCS

COLUMNS: Final = 24
"""Width of Grafana's grid."""
TAG: Final = "gangctl"
_EVERYTHING: Final = "$__all"


@dataclass(frozen=True, slots=True)
class Row:
    """Panels from left to right; the title is the question they answer."""

    title: str
    panels: Sequence[dashboard.Panel]


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard."""

    uid: str
    title: str
    description: str
    rows: Sequence[Row]
    variables: Sequence[dashboard.VariableModel]
    tags: Sequence[str] = ()
    since: str = "now-6h"
    links: Sequence[dashboard.DashboardLink] = field(default_factory=tuple)

    def build(self) -> dashboard.Dashboard:
        """As Grafana reads it; panels are numbered in the order in which they stand."""
        found = (
            build.Dashboard(self.title)
            .uid(self.uid)
            .description(self.description)
            .tags([TAG, *self.tags])
            .readonly()
            .refresh("1m")
            .time(self.since, "now")
            .timezone("browser")
            .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
            .build()
        )
        found.templating.list_val = [_datasource(), *self.variables, _runbooks()]
        found.links = [_siblings(), *self.links]
        found.panels = _placed(self.rows)
        return found


def _placed(rows: Sequence[Row]) -> list[dashboard.Panel | dashboard.RowPanel]:
    placed: list[dashboard.Panel | dashboard.RowPanel] = []
    y = 0
    for row in rows:
        header = build.Row(row.title).id(len(placed) + 1).collapsed(False)
        placed.append(header.grid_pos(dashboard.GridPos(h=1, w=COLUMNS, x=0, y=y)).build())
        x, y, tallest = 0, y + 1, 0
        for panel in row.panels:
            place = panel.grid_pos
            if place is None:
                raise ValueError(f"panel {panel.title!r} has no size")
            if x + place.w > COLUMNS:
                x, y, tallest = 0, y + tallest, 0
            place.x, place.y = x, y
            x, tallest = x + place.w, max(tallest, place.h)
            panel.id_val = len(placed) + 1
            placed.append(panel)
        y += tallest
    return placed


def _datasource() -> dashboard.VariableModel:
    return (
        build.DatasourceVariable("datasource")
        .label("Data source")
        .type("prometheus")
        .current(dashboard.VariableOption(selected=False, text="default", value="default"))
        .build()
    )


def _runbooks() -> dashboard.VariableModel:
    """The address that alerts name, too; who serves the pages elsewhere sets it."""
    return build.TextBoxVariable("runbooks").label("Runbooks at").default_value(f"{DOCS}/runbooks").build()


def choice(name: str, label: str, query: str, *, everything: str = ".*") -> dashboard.VariableModel:
    """A variable of several values, all of them at first; ``everything`` is the pattern that stands for all."""
    return (
        _query(name, label, query)
        .multi(True)
        .include_all(True)
        .all_value(everything)
        .current(dashboard.VariableOption(selected=True, text=["All"], value=[_EVERYTHING]))
        .build()
    )


def single(name: str, label: str, query: str) -> dashboard.VariableModel:
    """A variable of exactly one value."""
    return _query(name, label, query).multi(False).include_all(False).build()


def _query(name: str, label: str, query: str) -> build.QueryVariable:
    return (
        build.QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query({"query": query, "refId": f"variable-{name}"})
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC)
    )


def targets(metric: str) -> list[dashboard.VariableModel]:
    """Cluster, job and instance of whatever exports a metric. Cluster is for those who keep several in one place."""
    return [
        choice("cluster", "Cluster", f"label_values({metric}, cluster)"),
        choice("job", "Job", f'label_values({metric}{{cluster=~"$cluster"}}, job)', everything=".+"),
        choice(
            "instance",
            "Instance",
            f'label_values({metric}{{cluster=~"$cluster", job=~"$job"}}, instance)',
            everything=".+",
        ),
    ]


def tenants(*names: str) -> list[dashboard.VariableModel]:
    """Namespace and queues, of gangs that exist, each by those before it."""
    labels = {"namespace": "Namespace", "local_queue": "LocalQueue", "cluster_queue": "ClusterQueue"}
    chosen = names or tuple(labels)
    matchers = ['cluster=~"$cluster"', 'job=~"$job"']
    found = []
    for name in chosen:
        found.append(choice(name, labels[name], f"label_values(gangctl_gangs{{{', '.join(matchers)}}}, {name})"))
        matchers.append(f'{name}=~"${name}"')
    return found


def _siblings() -> dashboard.DashboardLink:
    return (
        build.DashboardLink("gangctl")
        .type(dashboard.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .icon("external link")
        .tooltip("The other dashboards of gangctl, with what is chosen here")
        .as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
        .target_blank(False)
        .url("")
        .build()
    )
