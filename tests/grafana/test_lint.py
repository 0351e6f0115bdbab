"""What an operator may rely on in every dashboard; after the rules of grafana/dashboard-linter, and more of our own."""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations
from typing import Any, Final

from tests.grafana.queries import PanelQuery, dashboards, may_be_empty, panel_queries, panels
from tests.monitoring.rulefiles import Rule, alerts
from tests.rows import each

UIDS: Final = sorted(dashboards())
EXPECTED: Final = {"overview", "gang", "queues", "costs", "scheduler", "health", "policies"}
COLUMNS: Final = 24
_TEXT: Final = "text"


def variables(uid: str) -> dict[str, dict[str, Any]]:
    return {variable["name"]: variable for variable in dashboards()[uid]["templating"]["list"]}


def queries(uid: str) -> list[PanelQuery]:
    return [query for query in panel_queries() if query.dashboard == uid]


def links(uid: str) -> list[str]:
    """Every address that a dashboard leads to."""
    dashboard = dashboards()[uid]
    found = [link["url"] for link in dashboard["links"]]
    for panel in panels(dashboard):
        found += [link["url"] for link in panel.get("links") or ()]
        for override in panel["fieldConfig"]["overrides"]:
            found += [link["url"] for each in override["properties"] if each["id"] == "links" for link in each["value"]]
    return [url for url in found if url]


def runbooks(uid: str) -> set[str]:
    """The alerts to whose pages a dashboard leads."""
    return set(re.findall(r"\$\{runbooks:raw\}/(\w+)\.md", " ".join(links(uid))))


def test_there_are_seven_dashboards_with_stable_uids() -> None:
    assert set(UIDS) == {f"gangctl-{name}" for name in EXPECTED}


@each("uid", UIDS)
def test_a_dashboard_is_complete_and_cannot_be_edited(uid: str) -> None:
    dashboard = dashboards()[uid]
    assert dashboard["editable"] is False
    assert dashboard["title"].startswith("gangctl / ")
    assert dashboard["description"].endswith(".")
    assert dashboard["refresh"] == "1m"
    assert "gangctl" in dashboard["tags"]
    assert re.fullmatch(r"now-\d+h", dashboard["time"]["from"])
    assert 8 <= len(uid) <= 40


@each("uid", UIDS)
def test_the_data_source_can_be_chosen(uid: str) -> None:
    found = variables(uid)
    assert next(iter(found)) == "datasource"
    assert found["datasource"]["type"] == "datasource"
    assert found["datasource"]["query"] == "prometheus"
    for name, label, everything in (("job", "Job", ".+"), ("instance", "Instance", ".+"), ("cluster", "Cluster", ".*")):
        assert found[name]["label"] == label
        assert found[name]["multi"] is True
        assert found[name]["includeAll"] is True
        assert found[name]["allValue"] == everything


@each("uid", UIDS)
def test_variables_follow_the_time_shown_and_the_data_source(uid: str) -> None:
    for variable in variables(uid).values():
        assert variable["label"]
        if variable["type"] == "query":
            assert variable["refresh"] == 2
            assert variable["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


@each("uid", UIDS)
def test_a_variable_uses_only_those_before_it_and_is_used(uid: str) -> None:
    names = list(variables(uid))
    dashboard = dashboards()[uid]
    for place, (name, variable) in enumerate(variables(uid).items()):
        before = set(re.findall(r"\$(\w+)", str(variable.get("query", ""))))
        assert before <= set(names[:place]), name
        used = str(dashboard["panels"]) + str(dashboard["links"])
        assert f"${name}" in used or f"${{{name}" in used, f"{name} is of no use"


@each("uid", UIDS)
def test_every_panel_has_a_description_and_a_remedy(uid: str) -> None:
    for panel in panels(dashboards()[uid]):
        assert panel["title"], panel
        assert len(panel["description"]) >= 15, panel["title"]
        assert panel["description"].endswith("."), panel["title"]


@each("uid", UIDS)
def test_rows_are_questions(uid: str) -> None:
    rows = [panel for panel in dashboards()[uid]["panels"] if panel["type"] == "row"]
    assert dashboards()[uid]["panels"][0] in rows
    assert all(row["title"].endswith("?") for row in rows)
    assert not any(row["collapsed"] for row in rows)


@each("uid", UIDS)
def test_every_panel_with_data_has_its_source_a_unit_and_queries(uid: str) -> None:
    for panel in panels(dashboards()[uid]):
        if panel["type"] == _TEXT:
            continue
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["targets"], panel["title"]
        assert [target["refId"] for target in panel["targets"]] == [chr(65 + i) for i in range(len(panel["targets"]))]
        assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])


@each("uid", UIDS)
def test_stats_and_tables_have_a_text_without_data(uid: str) -> None:
    for panel in panels(dashboards()[uid]):
        if panel["type"] in {"stat", "table"}:
            assert panel["fieldConfig"]["defaults"].get("noValue"), panel["title"]


@each("uid", UIDS)
def test_bar_charts_use_steps_of_the_range(uid: str) -> None:
    for panel in panels(dashboards()[uid]):
        if panel["fieldConfig"]["defaults"].get("custom", {}).get("drawStyle") == "bars":
            assert {target["interval"] for target in panel["targets"]} == {"5m"}, panel["title"]
            assert all("increase(" in target["expr"] for target in panel["targets"]), panel["title"]


@each("uid", UIDS)
def test_single_points_of_rare_series_are_shown(uid: str) -> None:
    for panel in panels(dashboards()[uid]):
        custom = panel["fieldConfig"]["defaults"].get("custom", {})
        if panel["type"] == "timeseries" and custom["drawStyle"] == "line":
            rare = any("interval" in target for target in panel["targets"])
            assert custom["showPoints"] == ("always" if rare else "never"), panel["title"]


@each("uid", UIDS)
def test_numbers_and_titles_are_used_once(uid: str) -> None:
    dashboard = dashboards()[uid]
    ids = Counter(panel["id"] for panel in dashboard["panels"])
    assert [number for number, times in ids.items() if times > 1] == []
    titles = Counter(panel["title"] for panel in panels(dashboard))
    assert [title for title, times in titles.items() if times > 1] == []


@each("uid", UIDS)
def test_panels_do_not_overlap_and_stay_in_the_grid(uid: str) -> None:
    places = [(panel["title"], panel["gridPos"]) for panel in dashboards()[uid]["panels"]]
    for title, place in places:
        assert place["x"] + place["w"] <= COLUMNS, title
    for (one, a), (other, b) in combinations(places, 2):
        apart = (
            a["x"] + a["w"] <= b["x"]
            or b["x"] + b["w"] <= a["x"]
            or a["y"] + a["h"] <= b["y"]
            or b["y"] + b["h"] <= a["y"]
        )
        assert apart, f"{one} and {other}"


@each("uid", UIDS)
def test_rows_have_the_full_width(uid: str) -> None:
    """No holes: every line of panels fills the grid."""
    filled: Counter[int] = Counter()
    for panel in dashboards()[uid]["panels"]:
        place = panel["gridPos"]
        for y in range(place["y"], place["y"] + place["h"]):
            filled[y] += place["w"]
    assert {y: width for y, width in filled.items() if width != COLUMNS} == {}
    assert set(filled) == set(range(max(filled) + 1))


def test_blocked_gangs_are_on_the_first_screen() -> None:
    """Some 24 lines fit on a screen."""
    first = [panel["title"] for panel in panels(dashboards()["gangctl-overview"]) if panel["gridPos"]["y"] < 20]
    assert {"Gangs held back", "Held back for", "Held back, by queue and cause", "Gangs that are not ready"} <= set(
        first
    )


@each("uid", UIDS)
def test_links_to_dashboards_exist(uid: str) -> None:
    for url in links(uid):
        if url.startswith("/d/"):
            target, _, arguments = url.removeprefix("/d/").partition("?")
            assert target in UIDS
            for name in re.findall(r"var-(\w+)=", arguments):
                assert name in variables(target)
            for name in re.findall(r"\$\{(\w+):queryparam\}", arguments):
                assert name in variables(uid)


@each("uid", UIDS)
def test_links_of_a_row_use_columns_of_its_table(uid: str) -> None:
    for panel in panels(dashboards()[uid]):
        if panel["type"] != "table":
            continue
        (columns,) = (each["options"]["renameByName"] for each in panel["transformations"] if each["id"] == "organize")
        used = set(re.findall(r"__data\.fields\.(\w+)", str(panel["fieldConfig"])))
        assert used <= set(columns.values()), panel["title"]
        overridden = {override["matcher"]["options"] for override in panel["fieldConfig"]["overrides"]}
        assert overridden <= set(columns.values()), panel["title"]
        assert panel["options"]["sortBy"][0]["displayName"] in columns.values()


def test_links_of_rows_open_the_cluster_of_the_row() -> None:
    """Another cluster may have the same namespaces, JobSets and queues."""
    links = [
        link["url"]
        for dashboard in dashboards().values()
        for panel in panels(dashboard)
        for override in panel.get("fieldConfig", {}).get("overrides", [])
        for setting in override["properties"]
        if setting["id"] == "links"
        for link in setting["value"]
    ]
    of_rows = [url for url in links if url.startswith("/d/")]
    assert of_rows
    assert [url for url in of_rows if "var-cluster=${__data.fields.Cluster}&" not in url] == []
    assert [url for url in of_rows if "${cluster:" in url] == []


@each("uid", UIDS)
def test_runbooks_are_those_of_alerts(uid: str) -> None:
    assert runbooks(uid) <= {rule.name for rule in alerts()}


def test_a_panel_links_to_the_runbook_of_every_alert() -> None:
    assert set().union(*map(runbooks, UIDS)) == {rule.name for rule in alerts()}


@each("rule", alerts(), ids=lambda rule: rule.name)
def test_an_alert_links_to_a_dashboard_that_explains_it(rule: Rule) -> None:
    uid = rule.annotations["dashboard_url"].removeprefix("/d/")
    assert rule.name in runbooks(uid), "it shows nothing about the alert: no panel has its runbook"


def test_the_table_of_alerts_links_to_the_runbook_of_each() -> None:
    (table,) = (panel for panel in panels(dashboards()["gangctl-overview"]) if panel["title"] == "Alerts of gangctl")
    assert "${runbooks:raw}/${__data.fields.Alert}.md" in str(table["fieldConfig"]["overrides"])
    (target,) = table["targets"]
    (pattern,) = re.findall(r'alertname=~"([^"]+)"', target["expr"])
    assert all(re.fullmatch(pattern, rule.name) for rule in alerts())


def test_panels_that_may_be_empty_exist_and_have_a_reason() -> None:
    known = {(query.dashboard, query.panel) for query in panel_queries()}
    given = may_be_empty()
    assert set(given) <= known
    assert all(len(why) > 20 and why.endswith(".") for why in given.values())
