"""The matchConditions have a result for every stored object: one with an error would refuse the object."""

from __future__ import annotations

from itertools import product
from typing import Any

from gangctl.apiserver.expressions import MatchConditions
from gangctl.pathways.reading import read_pathways_job
from gangctl.pathways.rendering.jobset import render
from gangctl.pathways.result import Profile, RenderingInputs
from gangctl.webhooks.configurations import JOB_CONDITIONS, JOBSET_CONDITION
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
    "rendered from a PathwaysJob for xpk": (dict(render(JOB, RenderingInputs(Profile.XPK)).jobset), False),
    "by an annotation of PathwaysJobs": (jobset("a", rj("w"), annotations={"gangctl.dev/pathways-digest": "0"}), False),
    "with other annotations": (jobset("a", rj("w", annotations={"a": "b"}), annotations={"c": "d"}), False),
    "without ReplicatedJobs": (jobset("a"), False),
    "with an empty spec": ({"metadata": {"name": "a"}, "spec": {}}, False),
    "without a spec": ({"metadata": {"name": "a"}}, False),
    "with nothing but a mode": ({"metadata": {"name": "a", "annotations": {MODE: "Gang"}}}, True),
    "with an empty ReplicatedJob": (jobset("a", {}), False),
}


def holds(obj: Object, old: Object | None = None, *conditions: dict[str, str]) -> bool:
    operation = "CREATE" if old is None else "UPDATE"
    variables = {"object": obj, "oldObject": old, "request": {"operation": operation}}
    return MatchConditions(conditions or (JOBSET_CONDITION,)).hold(variables)


@each("name", ABOUT)
def test_a_jobset_is_sent_if_it_has_a_gang_setting(name: str) -> None:
    obj, sent = ABOUT[name]
    assert holds(obj) is sent


@each(("new", "old"), list(product(ABOUT, ABOUT)))
def test_an_update_is_sent_if_the_old_or_new_jobset_has_a_gang_setting(new: str, old: str) -> None:
    assert holds(ABOUT[new][0], ABOUT[old][0]) is (ABOUT[new][1] or ABOUT[old][1])


def child(*, stamped: bool = True, **pod: Object) -> Object:
    return {"metadata": {"annotations": {REF: "{}"} if stamped else {"a": "b"}}, "spec": {"template": {"spec": pod}}}


JOBS = {
    "new": (child(), None, True),
    "new without a stamp": (child(stamped=False), None, False),
    "new without annotations": ({**child(), "metadata": {}}, None, False),
    "new with its group": (child(schedulingGroup={"podGroupName": "x"}), None, False),
    "new with its group on 1.35": (child(workloadRef={"name": "x"}), None, False),
    "that lost its group": (child(), child(schedulingGroup={"podGroupName": "x"}), True),
    "that lost its group on 1.35": (child(), child(workloadRef={"name": "x"}), True),
    "that keeps its group": (child(schedulingGroup={}), child(schedulingGroup={}), False),
    "that gets another group": (child(schedulingGroup={"podGroupName": "y"}), child(schedulingGroup={}), False),
    "that never had a group": (child(), child(), False),
}


@each("name", JOBS)
def test_a_job_of_a_gang_that_names_no_group_is_sent(name: str) -> None:
    job, old, sent = JOBS[name]
    assert holds(job, old, *JOB_CONDITIONS) is sent
