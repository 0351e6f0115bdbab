"""Changes that were carried out, in words that can be counted."""

from __future__ import annotations

from gangctl.api.scheduling import Observed, Owner, PodGroup, Template, Workload
from gangctl.controllers.reporter import repairs, result_of
from gangctl.gang.diff import Change, Create, Delete, Kind, SetMinCounts
from tests.rows import each

OWNER = Owner("js", "u")
WORKLOAD = Create("Workload", Workload("ns", "w", OWNER, ()))
GROUP = Create("PodGroup", PodGroup("ns", "g", OWNER, "w", Template("t", 2), 2))


def found(name: str) -> Observed:
    return Observed("ns", name, "uid", "1", "u", "js", deleting=False, claims_jobset="", min_counts=(("", 2),))


def resized(kind: Kind) -> SetMinCounts:
    return SetMinCounts(kind, found("g"), ((0, "", 2, 3),))


@each(
    ("changes", "before", "result"),
    [
        ([], True, "unchanged"),
        ([WORKLOAD, GROUP], False, "created"),
        ([GROUP], True, "recreated"),
        ([resized("PodGroup")], True, "patched"),
        ([Delete("PodGroup", found("g")), Delete("Workload", found("w"))], True, "deleted"),
        ([resized("PodGroup"), Delete("PodGroup", found("g"))], True, "patched"),
    ],
)
def test_outcomes_of_a_translation_are_counted(changes: list[Change], before: bool, result: str) -> None:
    assert result_of(changes, before=before, prepared=False) == result


def test_groups_of_the_next_attempt_are_the_result_only_where_nothing_else_changed() -> None:
    assert (result_of([], before=True, prepared=True), result_of([GROUP], before=True, prepared=True)) == (
        "prepared",
        "recreated",
    )


@each(
    ("change", "before", "repaired"),
    [
        (WORKLOAD, False, []),
        (WORKLOAD, True, [("Workload", "existence")]),
        (resized("PodGroup"), True, [("PodGroup", "min_count")]),
        (Delete("Workload", found("w")), True, [("Workload", "templates")]),
        (Delete("PodGroup", found("g")), True, [("PodGroup", "surplus")]),
    ],
)
def test_repairs_are_counted(change: Change, before: bool, repaired: list[tuple[str, str]]) -> None:
    assert list(repairs([change], before=before)) == repaired
