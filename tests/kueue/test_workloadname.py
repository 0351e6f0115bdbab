"""Names of Workloads, as Kueue gives them."""

from __future__ import annotations

from tests.kueue.workloadname import LONGEST, SHORT, workload_name
from tests.rows import each

UID = "11111111-2222-3333-4444-555555555555"
LONG = "abcdefghi-" * 5


@each("limit", [LONGEST, SHORT])
@each(
    ("name", "uid", "workload"),
    [
        ("trainer", UID, "jobset-trainer-d3099"),
        ("trainer", f"{UID[:-1]}6", "jobset-trainer-c56e5"),
        ("a", "", "jobset-a-d5f51"),
    ],
)
def test_a_short_workload_name_is_that_of_kueue(name: str, uid: str, workload: str, limit: int) -> None:
    assert workload_name("JobSet", "jobset.x-k8s.io", name, uid, limit) == workload


@each(("limit", "workload"), [(LONGEST, f"jobset-{LONG}xyz-37026"), (SHORT, f"jobset-{LONG}-37026")])
def test_a_long_workload_name_is_truncated_as_by_kueue(limit: int, workload: str) -> None:
    name = workload_name("JobSet", "jobset.x-k8s.io", f"{LONG}xyz", UID, limit)
    assert name == workload
    assert len(name) <= limit
