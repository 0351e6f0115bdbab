"""Where panels lead: runbooks, and dashboards with something chosen."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import dashboard

_RUNBOOKS: Final = "${runbooks:raw}"
"""Where the pages of docs/runbooks can be read; raw, or Grafana would escape its slashes."""
_SCRAPED: Final = "${job:queryparam}&${__url_time_range}"
_HERE: Final = f"${{datasource:queryparam}}&${{cluster:queryparam}}&{_SCRAPED}"
_OF_ROW: Final = f"${{datasource:queryparam}}&var-cluster=${{__data.fields.Cluster}}&{_SCRAPED}"
"""In another cluster the same names mean something else. Without the label it is empty, as in the series."""

GANG: Final = (
    "/d/gangctl-gang?var-namespace=${__data.fields.Namespace}&var-jobset=${__data.fields.JobSet}"
    f"&{_OF_ROW}"
)  # fmt: skip
"""Of a row of a table with the columns Cluster, Namespace and JobSet."""
QUEUE: Final = "/d/gangctl-queues?var-cluster_queue=${__data.fields.ClusterQueue}" f"&{_OF_ROW}"  # fmt: skip
"""Of a row of a table with the columns Cluster and ClusterQueue."""


ALERT: Final = f"{_RUNBOOKS}/${{__data.fields.Alert}}.md"
"""The runbook of a row of a table with the column Alert."""


def runbook(alert: str) -> dashboard.DashboardLink:
    """The page of the alert that a panel explains."""
    return _link(f"Runbook: {alert}", f"{_RUNBOOKS}/{alert}.md", "doc", blank=True)


def to(uid: str, title: str) -> dashboard.DashboardLink:
    """Another dashboard, with what is chosen here."""
    return _link(title, f"/d/{uid}?{_HERE}", "dashboard", blank=False)


def _link(title: str, url: str, icon: str, *, blank: bool) -> dashboard.DashboardLink:
    return (
        build.DashboardLink(title)
        .type(dashboard.DashboardLinkType.LINK)
        .icon(icon)
        .tooltip("")
        .url(url)
        .tags([])
        .as_dropdown(False)
        .include_vars(False)
        .keep_time(False)
        .target_blank(blank)
        .build()
    )
