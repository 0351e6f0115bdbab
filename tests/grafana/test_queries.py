"""Every query is PromQL, and asks for metrics and labels that there are, in a way that makes sense for their types."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import yaml

from gangctl.gang.reasons import Reason
from gangctl.manager.families import families
from gangctl.readiness.phases import GangPhase
from gangctl.runtime.families import Family
from tests.grafana import foreign
from tests.grafana.queries import PanelQuery, VariableQuery, dashboards, panel_queries, panels, variable_queries
from tests.grafana.selectors import Selector, named

QUERIES: Final = panel_queries()
SINGLE: Final = {"namespace": "team-a", "jobset": "train"}
GROWTH: Final = {"rate", "increase"}
RANGES: Final = {"rate": {"$__rate_interval"}, "increase": {"$__rate_interval", "$__range", "1h"}}
CLOSED: Final = {"phase": {phase.label for phase in GangPhase}, "reason": {reason.value for reason in Reason}}
WITHOUT_JOB: Final = {
    "ALERTS": "rules keep no job",
    "apiserver_": "how the API servers' job is called is not ours to say",
}
every = pytest.mark.parametrize("query", QUERIES, ids=lambda query: query.name.replace(" ", "_"))


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
    exprs = {query.name: query.runnable(SINGLE) for query in QUERIES}
    exprs |= {f"{each.dashboard}/{each.variable}": each.runnable(SINGLE) for each in variable_queries()}
    rules = [
        {"record": f"dashboard:query:{number}", "expr": expr, "labels": {"query": name}}
        for number, (name, expr) in enumerate(exprs.items())
    ]
    path = tmp_path_factory.mktemp("queries") / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    return path


def check(promtool: Path, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([promtool, "check", "rules", path], capture_output=True, text=True, timeout=60, check=False)


def test_promtool_parses_every_query(promtool: Path, rule_file: Path) -> None:
    done = check(promtool, rule_file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(QUERIES) + len(variable_queries())} rules found" in done.stdout


def test_promtool_would_notice(promtool: Path, rule_file: Path, tmp_path: Path) -> None:
    broken = tmp_path / "rules.yaml"
    broken.write_text(rule_file.read_text().replace("sum by (", "sum by (,", 1))
    assert check(promtool, broken).returncode != 0


@every
def test_metrics_and_labels_are_there(query: PanelQuery) -> None:
    found = named(query.expr)
    assert found.selectors
    possible: set[str] = set()
    for selector in found.selectors:
        assert selector.metric in known(), selector.metric
        assert selector.labels <= labels_of(selector.metric), selector.metric
        possible |= labels_of(selector.metric)
    assert found.grouped <= possible


@pytest.mark.parametrize("query", variable_queries(), ids=lambda query: f"{query.dashboard}/{query.variable}")
def test_variables_offer_labels_that_are_there(query: VariableQuery) -> None:
    (selector,) = named(query.selector).selectors
    assert selector.labels | {query.label} <= labels_of(selector.metric)


@every
def test_what_grows_is_asked_for_its_growth(query: PanelQuery) -> None:
    for selector in named(query.expr).selectors:
        function = selector.inside[0] if selector.inside else ""
        if grows(selector):
            assert function in GROWTH, selector.metric
            assert selector.range in RANGES[function], selector.metric
        else:
            assert function not in GROWTH, selector.metric
            assert not selector.range, selector.metric


@every
def test_buckets_keep_le_until_a_quantile_or_a_heatmap_is_made_of_them(query: PanelQuery) -> None:
    found = named(query.expr)
    if any(selector.metric.endswith("_bucket") for selector in found.selectors):
        assert "le" in found.grouped
        assert "histogram_quantile" in query.expr or query.kind == "heatmap"


@every
def test_every_selector_is_of_the_targets_that_are_chosen(query: PanelQuery) -> None:
    for selector in named(query.expr).selectors:
        matchers = set(selector.matchers)
        assert ("cluster", "=~", "$cluster") in matchers
        if any(selector.metric.startswith(name) for name in WITHOUT_JOB):
            continue
        of_kueue = selector.metric.startswith("kueue_")
        assert ("job", "=~", "$kueue_job" if of_kueue else "$job") in matchers
        assert of_kueue or ("instance", "=~", "$instance") in matchers


@every
def test_values_of_closed_lists_are_in_them(query: PanelQuery) -> None:
    for selector in named(query.expr).selectors:
        for label, _, value in selector.matchers:
            if selector.metric.startswith("gangctl_gang") and label in CLOSED and value:
                assert set(value.split("|")) <= CLOSED[label]


@every
def test_legends_name_labels_that_the_query_keeps(query: PanelQuery) -> None:
    assert set(re.findall(r"\{\{(\w+)\}\}", query.legend)) <= named(query.expr).grouped


def test_columns_of_tables_are_what_the_queries_keep() -> None:
    for uid, dashboard in dashboards().items():
        for panel in panels(dashboard):
            if panel["type"] != "table":
                continue
            of_panel = [query for query in QUERIES if (query.dashboard, query.panel) == (uid, panel["title"])]
            kept = set().union(*(named(query.expr).grouped for query in of_panel))
            single = len(of_panel) == 1
            kept |= {"Value"} if single else {f"Value #{query.ref}" for query in of_panel}
            (organize,) = (each["options"] for each in panel["transformations"] if each["id"] == "organize")
            assert set(organize["indexByName"]) <= kept, panel["title"]
            hidden = {name for name, away in organize["excludeByName"].items() if away} - {"Time"}
            assert hidden <= kept, panel["title"]


def test_the_reader_of_names() -> None:
    found = named('sum by (a, le) (rate(m_total{x=~"y|z", q!="}"}[5m])) / on (b) group_left (c) (n > 0) or time() - up')
    assert [(each.metric, each.range, each.inside) for each in found.selectors] == [
        ("m_total", "5m", ("rate", "sum")),
        ("n", "", ()),
        ("up", "", ()),
    ]
    assert found.selectors[0].matchers == (("x", "=~", "y|z"), ("q", "!=", "}"))
    assert found.grouped == {"a", "le", "b", "c"}
