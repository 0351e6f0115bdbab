"""Every query is PromQL, and asks for metrics and labels that there are, in a way that makes sense for their types."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import yaml

from gangctl.gang.reasons import Reason
from gangctl.readiness.result import GangPhase
from gangctl.runtime.families import Family
from tests.grafana import foreign
from tests.grafana.queries import PanelQuery, dashboards, panel_queries, panels, variable_queries
from tests.grafana.selectors import Selector, named
from tests.manager.families import families

SINGLE: Final = {"namespace": "team-a", "jobset": "train"}
RANGES: Final = {"rate": {"$__rate_interval"}, "increase": {"$__rate_interval", "$__range", "1h"}}
CLOSED: Final = {"phase": {phase.label for phase in GangPhase}, "reason": {reason.value for reason in Reason}}
WITHOUT_JOB: Final = {
    "ALERTS": "rules keep no job",
    "apiserver_": "how the API servers' job is called is not ours to say",
}


@cache
def queries() -> list[PanelQuery]:
    return panel_queries()


def selectors() -> Iterator[tuple[PanelQuery, Selector]]:
    """Every selector of every query."""
    for query in queries():
        for selector in named(query.expr).selectors:
            yield query, selector


@cache
def known() -> dict[str, Family]:
    """Families by the names of their series."""
    return {series: family for family in (*families(), *foreign.FAMILIES) for series in family.series}


def labels_of(metric: str) -> set[str]:
    return {*known()[metric].labels, *foreign.TARGET, *({"le"} if metric.endswith("_bucket") else ())}


def grows(selector: Selector) -> bool:
    return known()[selector.metric].type in {"counter", "histogram"}


@pytest.fixture(scope="module")
def rule_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every query as a rule: that is what promtool reads."""
    exprs = {query.name: query.runnable(SINGLE) for query in queries()}
    exprs |= {f"{each.dashboard}/{each.variable}": each.runnable(SINGLE) for each in variable_queries()}
    rules = [
        {"record": f"dashboard:query:{number}", "expr": expr, "labels": {"query": name}}
        for number, (name, expr) in enumerate(exprs.items())
    ]
    path = tmp_path_factory.mktemp("queries") / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    return path


def check(promtool: Path, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([promtool, "check", "rules", path], capture_output=True, text=True, timeout=300, check=False)


def test_promtool_parses_every_query(promtool: Path, rule_file: Path) -> None:
    done = check(promtool, rule_file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(queries()) + len(variable_queries())} rules found" in done.stdout


def test_prometheus_2_parses_every_query(promtool_2: Path, rule_file: Path) -> None:
    done = check(promtool_2, rule_file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_refuses_an_invalid_query(promtool: Path, rule_file: Path, tmp_path: Path) -> None:
    broken = tmp_path / "rules.yaml"
    broken.write_text(rule_file.read_text().replace("sum by (", "sum by (,", 1))
    assert check(promtool, broken).returncode != 0


def test_queried_metrics_and_labels_exist() -> None:
    wrong: list[str] = []
    for query in queries():
        found = named(query.expr)
        unknown = {selector.metric for selector in found.selectors} - set(known())
        if unknown or not found.selectors:
            wrong.append(f"{query.name}: {sorted(unknown) or 'nothing'} is asked for")
            continue
        wrong += [
            f"{query.name}: {selector.metric} has no {sorted(lost)}"
            for selector in found.selectors
            if (lost := selector.labels - labels_of(selector.metric))
        ]
        possible = set().union(*(labels_of(selector.metric) for selector in found.selectors))
        if lost := found.grouped - possible:
            wrong.append(f"{query.name}: no metric has {sorted(lost)}")
    assert wrong == []


def test_variables_use_existing_labels() -> None:
    wrong: list[str] = []
    for query in variable_queries():
        (selector,) = named(query.selector).selectors
        if lost := (selector.labels | {query.label}) - labels_of(selector.metric):
            wrong.append(f"{query.dashboard}/{query.variable}: {selector.metric} has no {sorted(lost)}")
    assert wrong == []
    assert variable_queries()


def test_counters_are_queried_by_rate_or_increase() -> None:
    wrong: list[str] = []
    seen = Counter[bool]()
    for query, selector in selectors():
        function = selector.inside[0] if selector.inside else ""
        growing = grows(selector)
        seen[growing] += 1
        if growing and selector.range not in RANGES.get(function, ()):
            wrong.append(f"{query.name}: {function}({selector.metric}[{selector.range}])")
        if not growing and (function in RANGES or selector.range):
            wrong.append(f"{query.name}: {function}({selector.metric}[{selector.range}]) of what does not grow")
    assert wrong == []
    assert seen[True]
    assert seen[False]


def test_buckets_keep_le_until_a_quantile_or_a_heatmap_is_made_of_them() -> None:
    of_buckets = {query for query, selector in selectors() if selector.metric.endswith("_bucket")}
    assert of_buckets
    assert [query.name for query in of_buckets if "le" not in named(query.expr).grouped] == []
    assert [
        query.name for query in of_buckets if "histogram_quantile" not in query.expr and query.kind != "heatmap"
    ] == []


def test_every_selector_has_the_chosen_targets() -> None:
    wrong: list[str] = []
    for query, selector in selectors():
        wanted = {("cluster", "=~", "$cluster")}
        if selector.metric.startswith("kueue_"):
            wanted.add(("job", "=~", "$kueue_job"))
        elif not selector.metric.startswith(tuple(WITHOUT_JOB)):
            wanted |= {("job", "=~", "$job"), ("instance", "=~", "$instance")}
        if lost := wanted - set(selector.matchers):
            wrong.append(f"{query.name}: {selector.metric} without {sorted(lost)}")
    assert wrong == []


def test_values_of_closed_lists_are_in_them() -> None:
    asked = [
        (query.name, label, value)
        for query, selector in selectors()
        for label, _, values in selector.matchers
        if selector.metric.startswith("gangctl_gang") and label in CLOSED and values
        for value in values.split("|")
    ]
    # No query asks for one reason as yet.
    assert "phase" in {label for _, label, _ in asked}
    assert [(name, label, value) for name, label, value in asked if value not in CLOSED[label]] == []


def test_legends_name_labels_that_the_query_keeps() -> None:
    legends = {query: set(re.findall(r"\{\{\s*(\w+)\s*\}\}", query.legend)) for query in queries()}
    naming = {query: labels for query, labels in legends.items() if labels}
    assert naming
    assert [query.name for query, labels in naming.items() if not labels <= named(query.expr).grouped] == []
    # Braces that are no label would be shown as they are.
    assert [query.name for query, labels in legends.items() if "{{" in query.legend and not labels] == []


def test_columns_of_tables_are_what_the_queries_keep() -> None:
    for uid, dashboard in dashboards().items():
        for panel in panels(dashboard):
            if panel["type"] != "table":
                continue
            of_panel = [query for query in queries() if (query.dashboard, query.panel) == (uid, panel["title"])]
            kept = set().union(*(named(query.expr).grouped for query in of_panel))
            single = len(of_panel) == 1
            kept |= {"Value"} if single else {f"Value #{query.ref}" for query in of_panel}
            (organize,) = (each["options"] for each in panel["transformations"] if each["id"] == "organize")
            assert set(organize["indexByName"]) <= kept, panel["title"]
            hidden = {name for name, away in organize["excludeByName"].items() if away} - {"Time"}
            assert hidden <= kept, panel["title"]


def test_names_are_read_from_a_query() -> None:
    found = named('sum by (a, le) (rate(m_total{x=~"y|z", q!="}"}[5m])) / on (b) group_left (c) (n > 0) or time() - up')
    assert [(each.metric, each.range, each.inside) for each in found.selectors] == [
        ("m_total", "5m", ("rate", "sum")),
        ("n", "", ()),
        ("up", "", ()),
    ]
    assert found.selectors[0].matchers == (("x", "=~", "y|z"), ("q", "!=", "}"))
    assert found.grouped == {"a", "le", "b", "c"}
