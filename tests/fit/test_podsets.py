"""Podsets as Kueue makes them of a JobSet."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gangctl.fit.requests import podsets_of
from tests.jobsets import jobset, rj
from tests.rows import each
from tests.strategies import PROPERTY, hostile_jobsets


@each(
    ("shape", "pods"),
    [
        ((1, None, None), 1),
        ((3, 4, None), 12),
        ((3, 4, 2), 6),
        ((3, 4, 8), 12),
        ((0, 4, None), 0),
        ((2, 0, None), 0),
        ((None, 2, None), 2),
    ],
)
def test_the_pod_count_follows_replicas_parallelism_and_completions(
    shape: tuple[int | None, int | None, int | None], pods: int
) -> None:
    (podset,) = podsets_of(jobset("js", rj("w", *shape)))
    assert podset.pods == pods


def test_a_jobset_has_a_podset_for_each_replicated_job_in_order() -> None:
    podsets = podsets_of(jobset("js", rj("Driver"), rj("workers", 2), rj("none", 0)))
    assert [(podset.index, podset.name, podset.pods) for podset in podsets] == [
        (0, "driver", 1),
        (1, "workers", 2),
        (2, "none", 0),
    ]
    assert podsets[0].pod_spec["containers"][0]["name"] == "main"


@each("spec", [None, [], {}, {"replicatedJobs": 3}])
def test_a_jobset_without_replicated_jobs_has_no_podsets(spec: object) -> None:
    assert podsets_of({"spec": spec}) == ()


@PROPERTY
@given(st.one_of(hostile_jobsets(), st.just({})))
def test_podsets_of_any_jobset_are_valid(raw: dict[str, Any]) -> None:
    for podset in podsets_of(raw):
        assert podset.pods >= 0
        assert podset.name == podset.name.lower()
