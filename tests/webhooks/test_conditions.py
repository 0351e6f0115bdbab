"""The matchConditions have a result for every stored object: one with an error would refuse the object."""

from __future__ import annotations

from itertools import product
from typing import Any

from gangctl.pathways.reading.pathwaysjob import read_pathways_job
from gangctl.pathways.rendering.jobset import render
from gangctl.pathways.result import Profile, Setting
from gangctl.sandbox.admission.hooks import Conditions
from gangctl.webhooks.configurations import JOBSET_CONDITION, LOST_CONDITION, STAMPED_CONDITION
from tests.jobsets import MODE, REF, jobset, rj
from tests.pathways.samples import pathways_job
from tests.rows import each

Object = dict[str, Any]
JOB = read_pathways_job(pathways_job()).job
assert JOB is not None

ABOUT = {
    "by the JobSet": (jobset("a", rj("w"), mode="Gang"), True),
    "by its options alone": (jobset("a", rj("w"), options="{}"), True),
    "by a ReplicatedJob": (jobset("a", rj("o"), rj("w", mode="Gang")), True),
    "by a stamp": (jobset("a", rj("w", annotations={REF: "{}"})), True),
    "by gangConfig": (jobset("a", rj("w"), gangConfig={"gangMode": "Gang"}), True),
    "by a ReplicatedJob's gangConfig": (jobset("a", {**rj("w"), "gangConfig": {}}), True),
    "by a misspelt key": (jobset("a", rj("w"), annotations={"gangctl.dev/gang-modes": "Gang"}), True),
    "by a misspelt key of a ReplicatedJob": (jobset("a", rj("w", annotations={"gangctl.dev/mode": "Gang"})), True),
    "by a label": ({"metadata": {"name": "a", "labels": {MODE: "Gang"}}, "spec": {}}, True),
    "not at all": (jobset("a", rj("w")), False),
    "rendered from a PathwaysJob for xpk": (dict(render(JOB, Setting(Profile.XPK)).jobset), False),
    "by an annotation of PathwaysJobs": (jobset("a", rj("w"), annotations={"gangctl.dev/pathways-digest": "0"}), False),
    "with other annotations": (jobset("a", rj("w", annotations={"a": "b"}), annotations={"c": "d"}), False),
    "without ReplicatedJobs": (jobset("a"), False),
    "with an empty spec": ({"metadata": {"name": "a"}, "spec": {}}, False),
    "without a spec": ({"metadata": {"name": "a"}}, False),
    "with nothing but a mode": ({"metadata": {"name": "a", "annotations": {MODE: "Gang"}}}, True),
    "with an empty ReplicatedJob": (jobset("a", {}), False),
}


def holds(condition: dict[str, str], obj: Object, old: Object | None = None) -> bool:
    operation = "CREATE" if old is None else "UPDATE"
    return Conditions([condition]).hold({"object": obj, "oldObject": old, "request": {"operation": operation}})


@each("name", ABOUT)
def test_a_jobset_is_sent_if_it_has_a_gang_setting(name: str) -> None:
    obj, sent = ABOUT[name]
    assert holds(JOBSET_CONDITION, obj) is sent


@each(("new", "old"), list(product(ABOUT, ABOUT)))
def test_an_update_is_sent_if_the_old_or_new_jobset_has_a_gang_setting(new: str, old: str) -> None:
    assert holds(JOBSET_CONDITION, ABOUT[new][0], ABOUT[old][0]) is (ABOUT[new][1] or ABOUT[old][1])


@each("reference", ["schedulingGroup", "workloadRef"])
def test_a_job_that_lost_its_reference_is_sent(reference: str) -> None:
    pods: Object = {"spec": {"template": {"spec": {reference: {"name": "x"}}}}}
    without: Object = {"spec": {"template": {"spec": {}}}}
    assert holds(LOST_CONDITION, without, pods)
    assert not holds(LOST_CONDITION, pods, pods)
    assert not holds(LOST_CONDITION, without, without)


def test_a_job_is_sent_if_it_is_stamped() -> None:
    assert holds(STAMPED_CONDITION, {"metadata": {"annotations": {REF: "{}"}}})
    assert not holds(STAMPED_CONDITION, {"metadata": {"annotations": {"a": "b"}}})
    assert not holds(STAMPED_CONDITION, {"metadata": {}})
