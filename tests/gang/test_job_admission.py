"""The Job webhook: the reference from the Job's own metadata, and only for Jobs that JobSet made."""

from __future__ import annotations

import copy
from typing import Any

from gangctl.api.meta import (
    GANG_REF,
    JOB_INDEX,
    JOB_RESTART_ATTEMPT,
    JOBSET_NAME,
    JOBSET_UID,
    RESTART_ATTEMPT,
)
from gangctl.api.scheduling import Generation, Reference
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.errors import ErrorKind, FieldError
from gangctl.gang.admission import inject_patch, reference_of_job, repair_patch
from tests.gang.json_patch import apply
from tests.gang.pipeline import GENERATIONS, child_job, some_plan, stored
from tests.jobsets import FIXTURE_UID, jobset, rj
from tests.rows import each

Raw = dict[str, Any]
GANG = jobset("js", rj("w", 2, 4, 4, mode="ReplicatedGang"), uid=FIXTURE_UID)
JOB = child_job(stored(GANG), 0, 1)


def pod_spec(job: Raw) -> Raw:
    spec: Raw = job["spec"]["template"]["spec"]
    return spec


def changed(part: str, key: str, value: Any) -> Raw:
    """The Job with one label, annotation or owner field set, or removed with None."""
    job = copy.deepcopy(JOB)
    holder = job["metadata"]["ownerReferences"][0] if part == "owner" else job["metadata"][part]
    holder[key] = value
    if value is None:
        del holder[key]
    return job


@each("generation", GENERATIONS)
def test_the_reference_is_injected_in_the_served_form(generation: Generation) -> None:
    reference = reference_of_job(JOB)
    assert isinstance(reference, Reference)
    assert reference == list(some_plan(GANG, generation).jobs())[1].reference
    after = pod_spec(apply(JOB, inject_patch(reference, ADAPTERS[generation])))
    if generation is Generation.V1ALPHA1:
        assert after["workloadRef"] == {"name": "js-0f5a6f3e-7c21", "podGroup": "w", "podGroupReplicaKey": "1-0"}
        assert "schedulingGroup" not in after
    else:
        assert after["schedulingGroup"] == {"podGroupName": reference.group}
        assert "workloadRef" not in after
    assert {key: value for key, value in after.items() if key in pod_spec(JOB)} == pod_spec(JOB)


@each("field", ["schedulingGroup", "workloadRef"])
def test_a_group_that_the_user_chose_stays(field: str) -> None:
    job = copy.deepcopy(JOB)
    pod_spec(job)[field] = {"name": "mine"}
    assert reference_of_job(job) is None
    pod_spec(job)[field] = None
    assert isinstance(reference_of_job(job), Reference)


def test_a_job_without_a_stamp_is_not_changed() -> None:
    assert reference_of_job(changed("annotations", GANG_REF, None)) is None
    assert reference_of_job({"metadata": {"name": "x"}}) is None
    assert reference_of_job({}) is None


@each(
    "forged",
    [
        changed("labels", JOBSET_NAME, "other"),
        changed("labels", JOBSET_UID, "other"),
        changed("labels", JOBSET_NAME, None),
        changed("labels", JOBSET_UID, None),
        changed("owner", "controller", False),
        changed("owner", "controller", None),
        changed("owner", "kind", "Job"),
        changed("owner", "apiVersion", "batch/v1"),
        changed("owner", "uid", None),
        changed("owner", "name", None),
        {**JOB, "metadata": {**JOB["metadata"], "ownerReferences": []}},
        {**JOB, "metadata": {**JOB["metadata"], "labels": {}, "ownerReferences": None}},
    ],
)
def test_a_stamp_on_a_job_that_jobset_did_not_make_is_refused(forged: Raw) -> None:
    error = reference_of_job(forged)
    assert isinstance(error, FieldError)
    assert (error.path, error.kind) == (f"metadata.annotations[{GANG_REF}]", ErrorKind.FORBIDDEN)
    assert "remove the annotation" in error.detail


def test_another_version_of_the_jobset_api_is_still_jobset() -> None:
    assert isinstance(reference_of_job(changed("owner", "apiVersion", "jobset.x-k8s.io/v1")), Reference)


@each(
    ("key", "value"),
    [
        *((JOB_INDEX, value) for value in (None, "", "-1", "1.0", "one", "٣", "1" * 11, "1\n")),
        (RESTART_ATTEMPT, "one"),
        (JOB_RESTART_ATTEMPT, "-1"),
    ],
)
def test_labels_that_jobset_always_writes(key: str, value: str | None) -> None:
    error = reference_of_job(changed("labels", key, value))
    assert isinstance(error, FieldError)
    assert (error.path, error.kind) == ("metadata.labels", ErrorKind.INVALID)


@each(
    ("labels", "group", "key"),
    [
        ({}, "js-w-0f5a6f3e-7c21-1-0", "1-0"),
        ({RESTART_ATTEMPT: "3"}, "js-w-0f5a6f3e-7c21-1-3", "1-3"),
        ({RESTART_ATTEMPT: "3", JOB_RESTART_ATTEMPT: "0"}, "js-w-0f5a6f3e-7c21-1-3", "1-3"),
        ({RESTART_ATTEMPT: "3", JOB_RESTART_ATTEMPT: "2"}, "js-w-0f5a6f3e-7c21-1-3.2", "1-3-2"),
    ],
)
def test_every_attempt_names_a_group_of_its_own(labels: dict[str, str], group: str, key: str) -> None:
    job = copy.deepcopy(JOB)
    job["metadata"]["labels"] |= labels
    reference = reference_of_job(job)
    assert isinstance(reference, Reference)
    assert (reference.group, reference.replica_key) == (group, key)


@each(
    "text",
    [
        "",
        "w",
        "[]",
        '{"v":1}',
        '{"v":2,"scope":"rj","template":"w"}',
        '{"v":true,"scope":"rj","template":"w"}',
        "RJ/w/js-w",
        '{"v":1,"scope":"rj","template":""}',
        '{"v":1,"scope":"rj","template":"../w"}',
        '{"v":1,"scope":"rj","template":["w"]}',
        '{"scope":"rj","template":"w"}',
    ],
)
def test_a_malformed_stamp_is_refused(text: str) -> None:
    error = reference_of_job(changed("annotations", GANG_REF, text))
    assert isinstance(error, FieldError)
    assert (error.path, error.kind) == (f"metadata.annotations[{GANG_REF}]", ErrorKind.INVALID)
    assert "gangctl writes it" in error.detail


@each("field", ["schedulingGroup", "workloadRef"])
def test_an_update_that_lost_the_reference_gets_it_back(field: str) -> None:
    before = copy.deepcopy(JOB)
    pod_spec(before)[field] = {"some": "group"}
    for lost in (JOB, apply(JOB, [{"op": "add", "path": f"/spec/template/spec/{field}", "value": None}])):
        assert apply(lost, repair_patch(before, lost)) == before
    assert repair_patch(before, before) == []
    assert repair_patch(JOB, JOB) == []


def test_a_reference_that_was_changed_is_left_to_the_api_server() -> None:
    before, after = copy.deepcopy(JOB), copy.deepcopy(JOB)
    pod_spec(before)["schedulingGroup"] = {"podGroupName": "a"}
    pod_spec(after)["schedulingGroup"] = {"podGroupName": "b"}
    assert repair_patch(before, after) == []
