"""Reading a JobSet: defaults for what is absent, a field error for what has the wrong type, never an exception."""

from __future__ import annotations

from typing import Any

import pytest

from gangctl.api.jobset import read_jobset
from gangctl.errors import ErrorKind
from tests.gang.pipeline import read
from tests.jobsets import jobset, rj
from tests.rows import each

Raw = dict[str, Any]
JOB = "spec.replicatedJobs[0].template.spec"


def errors(raw: Raw) -> list[tuple[str, ErrorKind]]:
    return [(error.path, error.kind) for error in read_jobset(raw)[1]]


def test_an_empty_object() -> None:
    empty = read({})
    assert (empty.name, empty.replicated_jobs, empty.suspend, empty.finished, empty.restarts) == (
        "",
        (),
        False,
        False,
        0,
    )
    assert not empty.managed_elsewhere


def test_absent_and_null_numbers_differ_from_zero() -> None:
    raw = jobset("js", {"name": "w", "template": {"spec": {"parallelism": None}}}, rj("z", 0, 0, 0))
    absent, zero = read(raw).replicated_jobs
    assert (absent.replicas, absent.parallelism, absent.completions) == (1, None, None)
    assert (zero.replicas, zero.parallelism, zero.completions) == (0, 0, 0)


@each("value", ["4", 4.0, True, [], {}])
def test_a_count_of_the_wrong_type(value: Any) -> None:
    assert errors(jobset("js", rj("w", 1, value))) == [(f"{JOB}.parallelism", ErrorKind.TYPE_INVALID)]


@each("value", [-1, 2**31, pytest.param(1 << 40_000, id="too-long-to-print")])
def test_a_count_out_of_range(value: int) -> None:
    raw = jobset("js", rj("w", value, 1, value))
    assert errors(raw) == [
        ("spec.replicatedJobs[0].replicas", ErrorKind.INVALID),
        (f"{JOB}.completions", ErrorKind.INVALID),
    ]
    assert all(len(error.detail) < 120 for error in read_jobset(raw)[1])


def test_a_number_too_long_to_print_where_text_belongs() -> None:
    (error,) = read_jobset({"metadata": {"name": -(1 << 40_000)}})[1]
    assert error.path == "metadata.name"
    assert "40001 bits" in error.detail


@each(
    ("raw", "path"),
    [
        ({"metadata": []}, "metadata"),
        ({"spec": "x"}, "spec"),
        ({"spec": {"replicatedJobs": {}}}, "spec.replicatedJobs"),
        ({"spec": {"replicatedJobs": [None]}}, "spec.replicatedJobs[0]"),
        ({"spec": {"replicatedJobs": [{"dependsOn": [1]}]}}, "spec.replicatedJobs[0].dependsOn[0]"),
        ({"spec": {"replicatedJobs": [{"template": {"spec": {"template": 1}}}]}}, f"{JOB}.template"),
        ({"spec": {"suspend": "true"}}, "spec.suspend"),
        ({"spec": {"managedBy": 1}}, "spec.managedBy"),
        ({"spec": {"startupPolicy": "InOrder"}}, "spec.startupPolicy"),
        ({"metadata": {"annotations": {"a": "b", "c": None}}}, "metadata.annotations[c]"),
    ],
)
def test_wrong_types_carry_their_path(raw: Raw, path: str) -> None:
    assert errors(raw) == [(path, ErrorKind.TYPE_INVALID)]
    seen, _ = read_jobset(raw)
    assert (seen.suspend, seen.in_order, seen.managed_elsewhere) == (False, False, False)


def test_an_entry_that_is_no_object_keeps_its_place() -> None:
    seen, _ = read_jobset({"spec": {"replicatedJobs": [None, {"name": "w"}]}})
    assert [(entry.path, entry.name) for entry in seen.replicated_jobs] == [
        ("spec.replicatedJobs[0]", ""),
        ("spec.replicatedJobs[1]", "w"),
    ]


@each(
    "status",
    [
        None,
        "done",
        {"conditions": "x"},
        {"conditions": [None, {"type": ["Completed"], "status": "True"}, {"type": {}}]},
        {"conditions": [{"type": "Failed", "status": True}]},
        {"terminalState": ""},
        {"restarts": "3"},
    ],
)
def test_an_unknown_status_does_not_mean_finished(status: Any) -> None:
    seen = read({"status": status})
    assert (seen.finished, seen.restarts) == (False, 0)


def test_only_annotations_that_matter_are_kept() -> None:
    raw = jobset("js", rj("w", mode="Gang", annotations={"other": "x" * 9999}), mode="Off", annotations={"a": "b"})
    seen = read(raw)
    assert list(seen.annotations) == list(seen.replicated_jobs[0].annotations) == ["gangctl.dev/gang-mode"]


@each(
    ("condition", "status", "field"),
    [
        ("Suspended", "True", "suspended_at"),
        ("Suspended", "False", "resumed_at"),
        ("StartupPolicyInProgress", "True", "stages_begun_at"),
        ("StartupPolicyInProgress", "False", "stages_begun_at"),
        ("RestartingJobSet", "True", "restarting_at"),
        ("RestartingJobSet", "False", None),
    ],
)
def test_when_it_was_suspended_resumed_and_restarted(condition: str, status: str, field: str | None) -> None:
    at = "2026-03-01T12:00:00Z"
    entry = {"type": condition, "status": status, "lastTransitionTime": at}
    seen = read({**jobset("js", rj("w")), "status": {"conditions": [entry]}})
    told = {name: getattr(seen, name) for name in ("suspended_at", "resumed_at", "stages_begun_at", "restarting_at")}
    assert told == {name: at if name == field else "" for name in told}
    assert not seen.finished
