from __future__ import annotations

from gangctl.cel.check import check, for_jobsets, jobset_type, typed_check
from gangctl.cel.environments import CheckedExpression, admission
from gangctl.cel.faults import CompileError
from tests.cel.jobset_types import PLACE, text
from tests.rows import each

ENVIRONMENT = for_jobsets(admission())


def test_the_committed_table_is_that_of_the_field_table() -> None:
    assert PLACE.read_text() == text()


@each(
    "expression",
    [
        "object.spec.replicatedJobs.all(j, j.replicas > 0)",
        "oldObject.spec.network.?subdomain.orValue('') == ''",
        "object.spec.replicatedJobs.all(j, j.template.spec.template.spec.containers.all(c, has(c.resources.limits)))",
        "object.metadata.creationTimestamp < timestamp('2026-01-01T00:00:00Z')",
        "object.metadata.labels['a'] == 'b'",
        "object.spec.replicatedJobs[0].template.spec.template.spec.containers[0].resources.limits['cpu'] == 1",
    ],
)
def test_fields_of_jobsets_have_types(expression: str) -> None:
    found = typed_check(check(expression, admission()), ENVIRONMENT)
    assert isinstance(found, CheckedExpression)


FIELDS_OF_A_JOB = (
    "activeDeadlineSeconds, backoffLimit, backoffLimitPerIndex, completionMode, completions, managedBy, "
    "manualSelector, maxFailedIndexes, parallelism, podFailurePolicy, podReplacementPolicy, selector, "
    "successPolicy, suspend, template, ttlSecondsAfterFinished"
)


@each(
    ("expression", "message", "hint"),
    [
        (
            "object.spec.replicatedJob.size() > 1",
            "JobSet.spec has no field 'replicatedJob'",
            "did you mean replicatedJobs?",
        ),
        (
            "object.spec.replicatedJobs.all(j, j.template.spec.containers.size() > 0)",
            "JobSet.spec.replicatedJobs.template.spec has no field 'containers'",
            f"its fields are {FIELDS_OF_A_JOB}",
        ),
        ("object.spec.suspend == 'true'", "'==' does not take bool and string", None),
        ("object.spec.replicatedJobs[0].replicas > '1'", "'>' does not take int and string", None),
        ("object.metadata.labels == null", "'==' does not take map(string, string) and null_type", None),
    ],
)
def test_unknown_fields_of_jobsets_are_reported(expression: str, message: str, hint: str | None) -> None:
    found = typed_check(check(expression, admission()), ENVIRONMENT)
    assert isinstance(found, CompileError)
    assert found.message == message
    if hint is not None:
        assert found.hint == hint


def test_shared_types_are_made_once() -> None:
    assert jobset_type() is jobset_type()
    assert "template" in str(jobset_type().fields)
