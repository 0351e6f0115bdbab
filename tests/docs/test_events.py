"""docs/reference/events.md has every reason once, under the object that it is said of, with its type and its alert."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from gangctl.controllers.readiness.events import RECORDED_ELSEWHERE
from gangctl.gang.reasons import Notice, Reason
from gangctl.readiness.causes.ranking import TIERS, WAITING
from tests.docpages import ROOT
from tests.docs.tables import code, rows
from tests.monitoring.rulefiles import alerts
from tests.rows import each

TEXT: Final = (ROOT / "docs/reference/events.md").read_text(encoding="utf-8")
JOBSET, PATHWAYS = TEXT.partition("\n## On a JobSet\n")[2].split("\n## On a PathwaysJob\n")
CAUSES: Final = {reason for _, tier in TIERS for reason in tier} | set(WAITING)


def told(text: str) -> list[tuple[Reason, list[str]]]:
    names = {str(reason): reason for reason in Reason}
    return [(names[code(row[0])], row) for row in rows(text) if code(row[0]) in names]


ROWS: Final = told(JOBSET) + told(PATHWAYS)


def used(*places: str) -> Iterator[Reason]:
    """Reasons that code below these places gives."""
    for place in places:
        for path in (ROOT / "gangctl" / place).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Reason":
                    yield Reason[node.attr]


def test_every_reason_is_there_once_for_each_object() -> None:
    for text in (JOBSET, PATHWAYS):
        reasons = [reason for reason, _ in told(text)]
        assert sorted(set(reasons)) == sorted(reasons)
    assert {reason for reason, _ in ROWS} == set(Reason)


def test_reasons_stand_under_the_object_that_they_are_said_of() -> None:
    of_pathways = set(used("pathways", "controllers/pathways"))
    assert {reason for reason, _ in told(PATHWAYS)} == of_pathways
    elsewhere = set(used("gang", "kueue", "readiness", "controllers")) - of_pathways
    assert elsewhere <= {reason for reason, _ in told(JOBSET)}


@each(("reason", "row"), ROWS, ids=[str(reason) for reason, _ in ROWS])
def test_the_type_is_that_of_the_event(reason: Reason, row: list[str]) -> None:
    assert row[1] == ("Warning" if Notice(reason, "").is_warning else "Normal")
    assert len(row) == 5
    assert all(row)


def test_causes_are_marked_and_nothing_else() -> None:
    assert {reason for reason, row in told(JOBSET) if "why" in row[2].split(", ")} == CAUSES
    assert not [reason for reason, row in told(PATHWAYS) if "why" in row[2]]


def test_what_others_say_of_a_cause_is_an_event_of_its_own() -> None:
    events = {reason for reason, row in told(JOBSET) if "event" in row[2].split(", ")}
    assert RECORDED_ELSEWHERE - events == {Reason.SUSPENDED}


def test_causes_lead_to_the_runbook_of_their_alert() -> None:
    pages = {reason: set(re.findall(r"runbooks/(\w+)\.md", row[4])) for reason, row in told(JOBSET)}
    blocked = r'gangctl_(?:gangs_blocked|oldest_\w+)\{reason=~?"([^"]+)"\}|guarantee_lost_gangs'
    wanted: dict[str, set[str]] = {}
    for rule in alerts():
        for names in re.findall(blocked, rule.expression):
            for name in names.split("|") if names else ("NotGanged", "FieldDropped", "SchedulingGateOff"):
                wanted.setdefault(name, set()).add(rule.name)
    assert len(wanted) > 30
    assert {
        reason: page for reason, page in pages.items() if reason in CAUSES and page != wanted.get(reason, set())
    } == {}
