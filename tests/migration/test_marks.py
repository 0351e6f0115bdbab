"""No label or annotation of another scheduler is lost without a word."""

from __future__ import annotations

import pytest

from gangctl.migration.draft import System
from gangctl.migration.migrate import Migration, migrate
from tests.jobsets import jobset, rj
from tests.migration.inputs import (
    KAI_MIN,
    KAI_QUEUE,
    KAI_REQUIRED,
    KAI_TOPOLOGY,
    VOLCANO_GROUP,
    VOLCANO_MIN,
    VOLCANO_QUEUE,
    marked,
    pod_group,
    scheduled_by,
)

RACK = "example.com/rack"
OLD = "pod-group.scheduling.sigs.k8s.io"
BASES = {
    System.VOLCANO: jobset("js", scheduled_by(System.VOLCANO, rj("a", 2, 4, 4)), scheduled_by(System.VOLCANO, rj("b"))),
    System.KAI: jobset("js", scheduled_by(System.KAI, rj("a", 2, 4, 4)), scheduled_by(System.KAI, rj("b"))),
    System.COSCHEDULING: jobset(
        "js",
        scheduled_by(System.COSCHEDULING, rj("a", 1, 4, 4), labels={f"{OLD}/name": "g", f"{OLD}/min-available": "4"}),
    ),
}
MARKS: dict[System, list[dict[str, str]]] = {
    System.VOLCANO: [
        {VOLCANO_MIN: "2"},
        {VOLCANO_QUEUE: "q"},
        {VOLCANO_GROUP: "g"},
        {"volcano.sh/network-topology-mode": "hard"},
        {"volcano.sh/network-topology-highest-tier": "1"},
        {"volcano.sh/preemptable": "true"},
    ],
    System.KAI: [
        {KAI_MIN: "1"},
        {KAI_QUEUE: "q"},
        {KAI_REQUIRED: RACK},
        {KAI_REQUIRED: RACK, KAI_TOPOLOGY: "dc"},
        {"kai.scheduler/topology-preferred-placement": RACK},
        {"kai.scheduler/preemptibility": "preemptible"},
        {"pod-group-name": "g"},
    ],
    System.COSCHEDULING: [
        {f"{OLD}/min-available": "3"},
        {"scheduling.x-k8s.io/other": "x"},
    ],
}


def heard(migration: Migration, key: str, value: str) -> bool:
    """Whether a note or a problem is about the mark."""
    reports = [(note.path, note.text) for note in migration.notes]
    reports += [(problem.error.path, problem.error.detail) for problem in migration.problems]
    return any(key in path or key in text or f'"{value}"' in text for path, text in reports)


@pytest.mark.parametrize("field", ["labels", "annotations"])
@pytest.mark.parametrize("level", ["JobSet", "Job", "pod"])
@pytest.mark.parametrize("system", System)
def test_every_mark_is_in_the_result_or_in_a_note_or_in_a_problem(system: System, level: str, field: str) -> None:
    base = migrate([BASES[system]], system).values
    for marks in MARKS[system]:
        group = [pod_group(system, "g", 4)] if VOLCANO_GROUP in marks else []
        migration = migrate([marked(BASES[system], level, field, marks), *group], system)
        key, value = next(iter(marks.items()))
        assert heard(migration, key, value) or migration.values[:1] != base, marks
