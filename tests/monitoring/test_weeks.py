"""Alerts of whole weeks: none in an ordinary one, and in an incident its own within its time, until it is over.

The series are those of gangctl's own collectors; ``python -m tests.monitoring.weeks`` makes a page of what is seen.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.monitoring.weeks import incidents, ordinary
from tests.monitoring.weeks.graded import Firing, seen
from tests.monitoring.weeks.incidents import BEGINS, INCIDENTS, Incident
from tests.monitoring.weeks.ordinary import SLICE, WEEKS, Week

_SLICE = Week("slice", "Each normal state in which an alert was wrong once.", ordinary.slice_of_all)
_FIRST = ("a container crashes, and runs between crashes", "a node is lost")
"""Incidents of the first tier."""


def test_normal_states_raise_no_alert(promtool_2: Path, tmp_path: Path) -> None:
    assert seen(promtool_2, tmp_path, _SLICE.plays, SLICE) == []


@pytest.mark.full("minutes for each week")
@pytest.mark.parametrize("week", WEEKS, ids=lambda week: week.name)
def test_an_ordinary_week_raises_no_alert(week: Week, promtool_2: Path, tmp_path: Path) -> None:
    assert seen(promtool_2, tmp_path, week.plays, ordinary.MINUTES) == []


@pytest.mark.parametrize("about", _FIRST)
def test_an_incident_raises_its_alert_alone(about: str, promtool_2: Path, tmp_path: Path) -> None:
    incident = next(incident for incident in INCIDENTS if incident.about == about)
    _grade(incident, seen(promtool_2, tmp_path, incident.plays, incident.minutes))


@pytest.mark.full("most of a minute for each incident")
@pytest.mark.parametrize(
    "incident", [incident for incident in INCIDENTS if incident.about not in _FIRST], ids=lambda found: found.about
)
def test_every_incident_raises_its_alert_alone(incident: Incident, promtool_2: Path, tmp_path: Path) -> None:
    _grade(incident, seen(promtool_2, tmp_path, incident.plays, incident.minutes))


def _grade(incident: Incident, firings: list[Firing]) -> None:
    assert {firing.name for firing in firings} == incident.alerts.keys()
    for name, promised in incident.alerts.items():
        own = [firing for firing in firings if firing.name == name]
        assert 0 < min(firing.first for firing in own) - BEGINS <= promised
        assert max(firing.last for firing in own) - BEGINS <= incident.ends + incident.clears
    assert incident.minutes < incidents.MINUTES
