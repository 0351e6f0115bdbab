"""The pictures in docs/dashboards.md: there, small, and of queries that have an answer in the story behind them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.grafana.images.loaded import IMAGES, Answer, asked, load
from tests.grafana.images.values import color_of, joined, shown, state
from tests.grafana.queries import dashboards, panels
from tests.manifests.files import ROOT

NOTHING: Final = {
    "Most likely cause",
    "Ask gangctl",
    "Unadmitted workloads, by Kueue's reason",
    "Evictions, by reason",
    "Preemptions, by who preempts",
}
"""Panels that are empty in the pictures, or have no queries."""
MOST_BYTES: Final = 200_000


def test_the_page_shows_each_small_picture() -> None:
    text = (ROOT / "docs" / "dashboards.md").read_text(encoding="utf-8")
    assert {IMAGES / name for name in re.findall(r"\(images/(\S+)\)", text)} == set(IMAGES.glob("*.png"))
    for path in IMAGES.glob("*.png"):
        content = path.read_bytes()
        assert content.startswith(b"\x89PNG"), path
        assert len(content) < MOST_BYTES, path


@pytest.mark.usefixtures("prometheus_binary", "promtool")
async def test_drawn_queries_have_results(tmp_path: Path) -> None:
    """Without the drawing, for which matplotlib is not installed here."""
    answers = await asked(tmp_path, load(tmp_path))
    empty = set()
    for uid, of_panels in answers.items():
        for panel in panels(dashboards()[uid]):
            found = of_panels[panel["id"]]
            if not any(answer.series for answer in found):
                empty.add(panel["title"])
            elif panel["type"] == "table":
                assert joined(panel, found).rows, panel["title"]
    assert empty == NOTHING
    held_back = _titled("gangctl-overview", "Held back, by queue and cause", answers)
    assert [[text for text, _ in row[1:6]] for row in held_back] == [
        ["team-b", "batch", "gpus", "NeverFits", "1"],
        ["team-a", "research", "gpus", "Unschedulable", "1"],
        ["team-c", "eval", "cpus", "ImagePull", "1"],
    ]


def _titled(uid: str, title: str, answers: dict[str, dict[int, list[Answer]]]) -> list[list[tuple[str, str]]]:
    (panel,) = (panel for panel in panels(dashboards()[uid]) if panel["title"] == title)
    return joined(panel, answers[uid][panel["id"]]).rows


def test_names_states_and_colors_are_those_of_the_panel() -> None:
    assert shown("{{cluster_queue}} p95", {"cluster_queue": "gpus"}) == "gpus p95"
    (phase,) = (panel for panel in panels(dashboards()["gangctl-gang"]) if panel["title"] == "Phase")
    assert [(state(phase["fieldConfig"]["defaults"], value) or ("",))[0] for value in (1, 11, 99)] == [
        "Suspended",
        "Ready",
        "",
    ]
    steps = {"steps": [{"value": None, "color": "green"}, {"value": 1, "color": "red"}]}
    assert color_of({"thresholds": steps}, 0) != color_of({"thresholds": steps}, 1)
