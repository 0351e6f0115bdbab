"""What JobSet's webhook refuses with a feature gate that the recorded answers are without."""

from __future__ import annotations

from typing import Any, Final

from gangctl.apiserver.create import create
from gangctl.errors import FieldError
from tests.jobsets import jobset, rj
from tests.rows import each

COMPLETE: Final = {"backoffLimit": 2**31 - 1, "podReplacementPolicy": "Failed", "completions": 2, "parallelism": 2}
BACKOFF: Final = ("backoffLimit", "must be set to 2147483647 (MaxInt32)")
REPLACEMENT: Final = ("podReplacementPolicy", "must be set to Failed")
COUNTS: Final = ("completions", "completions and parallelism must be set and equal to each other")


def _errors(job: dict[str, Any], strategy: str = "InPlaceRestart") -> tuple[FieldError, ...]:
    policy = {"maxRestarts": 3, "restartStrategy": strategy}
    complete = rj("a", 1, job=COMPLETE)
    return create(
        jobset("js", complete, rj("b", 1, job={"completionMode": "NonIndexed", **job}), failurePolicy=policy)
    ).errors


@each(
    ("changed", "errors"),
    [
        ({}, []),
        ({"backoffLimit": 0}, [BACKOFF]),
        ({"backoffLimit": None, "podReplacementPolicy": None}, [BACKOFF, REPLACEMENT]),
        ({"podReplacementPolicy": "TerminatingOrFailed"}, [REPLACEMENT]),
        ({"completions": None}, [COUNTS]),
        ({"parallelism": None}, [COUNTS]),
        ({"completions": None, "parallelism": None}, [COUNTS]),
        ({"completions": 3}, [COUNTS]),
    ],
)
def test_restarts_in_place_are_refused_without_what_they_need(
    changed: dict[str, Any], errors: list[tuple[str, str]]
) -> None:
    refused = _errors({**COMPLETE, **changed})
    for error, (field, detail) in zip(refused, errors, strict=True):
        assert error.path == f"spec.replicatedJobs[1].template.spec.{field}"
        assert error.detail.endswith(f"replicatedJob b: {detail} when in-place restart is enabled")
    assert _errors({**COMPLETE, **changed}, "BlockingRecreate") == ()
