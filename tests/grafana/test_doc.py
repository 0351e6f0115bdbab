"""docs/dashboards.md has a section on every dashboard, and in it what each row is for."""

from __future__ import annotations

import json
import re

from tests.grafana.queries import DASHBOARDS, dashboards
from tests.manifests.files import ROOT
from tests.rows import each

TEXT = (ROOT / "docs" / "dashboards.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", TEXT, flags=re.MULTILINE | re.DOTALL))


@each("uid", dashboards())
def test_every_row_of_a_dashboard_is_described(uid: str) -> None:
    dashboard = dashboards()[uid]
    section = SECTIONS[dashboard["title"].removeprefix("gangctl / ")]
    rows = [panel["title"] for panel in dashboard["panels"] if panel["type"] == "row"]
    assert re.findall(r"^- \*\*(.+?)\*\*", section, flags=re.MULTILINE) == rows


def test_links_lead_to_sections_and_pages() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", TEXT):
        page, _, anchor = target.partition("#")
        assert not page or (ROOT / "docs" / page).exists(), target
        if not page:
            assert anchor in {title.lower().replace(" ", "-") for title in SECTIONS}, target


def test_the_address_of_runbooks_can_be_set_as_described() -> None:
    (before, after) = re.findall(r"sed -i 's#(.+?)#(.+?)#'", TEXT)[0]
    for uid in dashboards():
        text = (DASHBOARDS / f"{uid}.json").read_text(encoding="utf-8")
        changed = re.sub(before, after, text)
        (box,) = (each for each in json.loads(changed)["templating"]["list"] if each["name"] == "runbooks")
        assert f'"{box["query"]}"' == after, uid
    assert after.startswith('"https://')
