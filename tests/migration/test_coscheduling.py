"""coscheduling: what differs from other named groups is the scheduler, whose name is the cluster's choice."""

from __future__ import annotations

from gangctl.migration.draft import System
from tests.jobsets import jobset, rj
from tests.migration.inputs import COSCHEDULING_GROUP, converted, notes, pod_group, problems, scheduled_by

COSCHEDULING = System.COSCHEDULING
SCHEDULER = "spec.replicatedJobs[1].template.spec.template.spec.schedulerName"


def test_a_scheduler_profile_of_any_name_is_removed_with_a_note() -> None:
    raw = jobset(
        "js", scheduled_by(COSCHEDULING, rj("a"), "g", scheduler="batch"), rj("d", pod={"schedulerName": "mine"})
    )
    (value,) = converted(COSCHEDULING, raw, pod_group(COSCHEDULING, "g", 1))
    assert value == jobset("js", rj("a", mode="Gang"), rj("d", pod={"schedulerName": "mine"}))
    assert 'removed schedulerName "batch"' in notes(COSCHEDULING, raw, pod_group(COSCHEDULING, "g", 1))[0][2]


def test_the_default_scheduler_may_have_the_plugin() -> None:
    raw = jobset("js", scheduled_by(COSCHEDULING, rj("a"), "g", scheduler=""))
    assert converted(COSCHEDULING, raw, pod_group(COSCHEDULING, "g", 1)) == [jobset("js", rj("a"), mode="Gang")]


def test_two_schedulers_in_one_group_are_refused() -> None:
    raw = jobset(
        "js", scheduled_by(COSCHEDULING, rj("a"), "g"), scheduled_by(COSCHEDULING, rj("b"), "g", scheduler="other")
    )
    ((_, message),) = problems(COSCHEDULING, raw, pod_group(COSCHEDULING, "g", 2))
    assert message.startswith(f'{SCHEDULER}: is "other" and "scheduler-plugins-scheduler" for replicated job "a"')


def test_a_label_outside_of_the_pod_template_is_refused() -> None:
    raw = jobset("js", rj("a"))
    raw["metadata"]["labels"] = {COSCHEDULING_GROUP: "g"}
    ((_, message),) = problems(COSCHEDULING, raw, pod_group(COSCHEDULING, "g", 1))
    assert message.startswith("spec.replicatedJobs: no pod template has the label")
