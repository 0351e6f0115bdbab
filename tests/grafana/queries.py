"""The dashboards as they are committed, and what their panels and variables ask Prometheus.

    for query in panel_queries():
        await prometheus.query(query.runnable({"namespace": "team-a", "jobset": "train"}))

Variables that are not given stand for everything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.manifests.files import ROOT

DASHBOARDS: Final = ROOT / "grafana" / "dashboards"
EMPTY: Final = Path(__file__).with_name("empty.yaml")

EVERYTHING: Final[Mapping[str, str]] = {
    "cluster": ".*",
    "cluster_queue": ".*",
    "instance": ".+",
    "job": ".+",
    "kueue_job": ".+",
    "resource": ".*",
    "local_queue": ".*",
    "namespace": ".*",
}
"""What Grafana puts in for All."""
_VARIABLE: Final = re.compile(r"\$(?:(\w+)|\{(\w+)(?::\w+)?\})")
_LABEL_VALUES: Final = re.compile(r"label_values\((.*), (\w+)\)")


@dataclass(frozen=True)
class PanelQuery:
    """One query of one panel."""

    dashboard: str
    """Its uid."""
    panel: str
    """Its title."""
    kind: str
    """Its type: timeseries, stat, table, heatmap, state-timeline."""
    ref: str
    expr: str
    legend: str
    instant: bool

    @property
    def name(self) -> str:
        """For pytest, and for people."""
        return f"{self.dashboard}/{self.panel}/{self.ref}"

    def runnable(self, values: Mapping[str, str], *, rate_interval: str = "5m", shown: str = "1h") -> str:
        """The expression as Grafana would send it."""
        return substituted(self.expr, values, rate_interval=rate_interval, shown=shown)


@dataclass(frozen=True)
class VariableQuery:
    """What a variable offers: the values of a label of some series."""

    dashboard: str
    variable: str
    selector: str
    label: str

    def runnable(self, values: Mapping[str, str]) -> str:
        """An expression whose answer has one series for each value."""
        return f"group by ({self.label}) ({substituted(self.selector, values)})"


def substituted(text: str, values: Mapping[str, str], *, rate_interval: str = "5m", shown: str = "1h") -> str:
    """With every variable replaced; KeyError for one that has no value."""
    known = {**EVERYTHING, **values, "__rate_interval": rate_interval, "__range": shown}
    return _VARIABLE.sub(lambda found: known[found[1] or found[2]], text)


def dashboards() -> dict[str, dict[str, Any]]:
    """Every dashboard by its uid."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(DASHBOARDS.glob("*.json"))]
    return {each["uid"]: each for each in found}


def panels(dashboard: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Its panels, without the headers of rows."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def panel_queries() -> list[PanelQuery]:
    """Every query of every panel."""
    return list(_panel_queries())


def variable_queries() -> list[VariableQuery]:
    """Every query of every variable."""
    return list(_variable_queries())


def may_be_empty() -> dict[tuple[str, str], str]:
    """Panels that may have nothing to show on a cluster where all is well, by uid and title, and why."""
    given: dict[str, dict[str, str]] = yaml.safe_load(EMPTY.read_text(encoding="utf-8"))
    return {(uid, title): why for uid, titles in given.items() for title, why in titles.items()}


def _panel_queries() -> Iterator[PanelQuery]:
    for uid, dashboard in dashboards().items():
        for panel in panels(dashboard):
            for target in panel.get("targets", ()):
                yield PanelQuery(
                    uid,
                    panel["title"],
                    panel["type"],
                    target["refId"],
                    target["expr"],
                    target.get("legendFormat", ""),
                    target.get("instant", False),
                )


def _variable_queries() -> Iterator[VariableQuery]:
    for uid, dashboard in dashboards().items():
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                found = _LABEL_VALUES.fullmatch(variable["query"]["query"])
                if found is None:
                    raise ValueError(f"{uid}: variable {variable['name']} asks {variable['query']['query']!r}")
                yield VariableQuery(uid, variable["name"], found[1], found[2])
