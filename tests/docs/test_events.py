"""docs/reference/events.md has every reason once, under the object of its event, with its type and its alert."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

from gangctl.controllers.readiness.events import RECORDED_ELSEWHERE
from gangctl.gang.reasons import Notice, Reason
from gangctl.readiness.causes import TIERS, WAITING
from tests.docpages import ROOT
from tests.docs.tables import code, rows
from tests.monitoring.rulefiles import alerts
from tests.rows import each

TEXT: Final = (ROOT / "docs/reference/events.md").read_text(encoding="utf-8")
JOBSET, PATHWAYS = TEXT.partition("\n## On a JobSet\n")[2].split("\n## On a PathwaysJob\n")
CAUSES: Final = {reason for _, tier in TIERS for reason in tier} | set(WAITING)


def reported(text: str) -> list[tuple[Reason, list[str]]]:
    names = {str(reason): reason for reason in Reason}
    return [(names[code(row[0])], row) for row in rows(text) if code(row[0]) in names]


ROWS: Final = reported(JOBSET) + reported(PATHWAYS)


def used(*places: str) -> Iterator[Reason]:
    """Reasons that code below these places gives."""
    for place in places:
        for path in (ROOT / "gangctl" / place).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "Reason":
                    yield Reason[node.attr]


def test_every_reason_has_one_row_per_object() -> None:
    for text in (JOBSET, PATHWAYS):
        reasons = [reason for reason, _ in reported(text)]
        assert sorted(set(reasons)) == sorted(reasons)
    assert {reason for reason, _ in ROWS} == set(Reason)


def test_reasons_are_listed_under_the_object_of_their_event() -> None:
    of_pathways = set(used("pathways", "controllers/pathways"))
    assert {reason for reason, _ in reported(PATHWAYS)} == of_pathways
    elsewhere = set(used("gang", "kueue", "readiness", "controllers")) - of_pathways
    assert elsewhere <= {reason for reason, _ in reported(JOBSET)}


@each(("reason", "row"), ROWS, ids=[str(reason) for reason, _ in ROWS])
def test_the_type_is_that_of_the_event(reason: Reason, row: list[str]) -> None:
    assert row[1] == ("Warning" if Notice(reason, "").is_warning else "Normal")
    assert len(row) == 5
    assert all(row)


def test_only_causes_are_marked_as_such() -> None:
    assert {reason for reason, row in reported(JOBSET) if "why" in row[2].split(", ")} == CAUSES
    assert not [reason for reason, row in reported(PATHWAYS) if "why" in row[2]]


def test_causes_recorded_by_others_have_separate_events() -> None:
    events = {reason for reason, row in reported(JOBSET) if "event" in row[2].split(", ")}
    assert RECORDED_ELSEWHERE - events == {Reason.SUSPENDED}


def test_causes_link_to_the_runbook_of_their_alert() -> None:
    pages = {reason: set(re.findall(r"runbooks/(\w+)\.md", row[4])) for reason, row in reported(JOBSET)}
    blocked = r'gangctl_(?:gangs_blocked|oldest_\w+)\{reason=~?"([^"]+)"[,}]|guarantee_lost_gangs'
    wanted: dict[str, set[str]] = {}
    for rule in alerts():
        for names in re.findall(blocked, rule.own):
            for name in names.split("|") if names else ("NotGanged", "FieldDropped", "SchedulingGateOff"):
                wanted.setdefault(name, set()).add(rule.name)
    assert len(wanted) > 30
    assert {
        reason: page for reason, page in pages.items() if reason in CAUSES and page != wanted.get(reason, set())
    } == {}
