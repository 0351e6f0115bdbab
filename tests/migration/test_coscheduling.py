"""coscheduling: what differs from other named groups is the scheduler, whose name is the cluster's choice."""

from __future__ import annotations

import pytest

from gangctl.api.meta import GANGS
from gangctl.migration.draft import System
from tests.jobsets import jobset, rj
from tests.migration.inputs import COSCHEDULING_GROUP, converted, notes, pod_group, problems, scheduled_by
from tests.rows import each

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


OLD = ("pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.x-k8s.io")


@pytest.mark.parametrize("scheduler", ["scheduler-plugins-scheduler", ""])
@each("key", [*OLD, *(f"{key}/name" for key in OLD)])
def test_an_old_label_is_read_as_it_is_meant(key: str, scheduler: str) -> None:
    raw = jobset("js", scheduled_by(COSCHEDULING, rj("a", 1, 4, 4), scheduler=scheduler, labels={key: "g"}))
    old = pod_group(COSCHEDULING, "g", 4)
    old["apiVersion"] = "scheduling.sigs.k8s.io/v1alpha1"
    assert converted(COSCHEDULING, raw, old) == [jobset("js", rj("a", 1, 4, 4), mode="Gang")]
    assert any(f"not {key}; taken as it is meant" in text for _, _, text in notes(COSCHEDULING, raw, old))


@each(("available", "expected"), [("4", {"gangctl.dev/gang-mode": "Gang"}), ("3", None)])
def test_the_first_labels_need_no_pod_group(available: str, expected: dict[str, str] | None) -> None:
    labels = {f"{OLD[0]}/name": "g", f"{OLD[0]}/min-available": available}
    raw = jobset("js", scheduled_by(COSCHEDULING, rj("a", 1, 4, 4), labels=labels))
    (value,) = converted(COSCHEDULING, raw)
    few = {GANGS: '[{"name":"a","replicatedJobs":["a"],"minCount":3}]'}
    assert value == jobset("js", rj("a", 1, 4, 4), annotations=expected or few)
    assert converted(COSCHEDULING, value) == [value]


def test_a_label_outside_of_the_pod_template_is_refused() -> None:
    raw = jobset("js", rj("a"))
    raw["metadata"]["labels"] = {COSCHEDULING_GROUP: "g"}
    ((_, message),) = problems(COSCHEDULING, raw, pod_group(COSCHEDULING, "g", 1))
    assert message.startswith("spec.replicatedJobs: no pod template has the label")
