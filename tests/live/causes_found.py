"""Which situation of which cause is found by which test, and on what ground: the table in docs/causes.md.

``python -m tests.live.causes_found`` writes it anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from gangctl.gang.reasons import Reason
from tests.docpages import ROOT
from tests.live.broken_situations import OLDER
from tests.live.queue_situations import SITUATIONS

BEGIN: Final = "<!-- causes found: python -m tests.live.causes_found -->"
END: Final = "<!-- end of causes found -->"
PAGE: Final = ROOT / "docs" / "causes.md"
SANDBOX, PURE = "sandbox", "pure"


@dataclass(frozen=True)
class Row:
    """One way to a cause."""

    reason: Reason
    how: str
    ground: str
    test: str
    """``path::name`` or ``path::name[id]``."""
    first: bool = True
    """Whether the test asks that it is named before all others."""

    @property
    def real(self) -> bool:
        """Whether it was produced on a real control plane."""
        return self.ground not in {SANDBOX, PURE}


LIVE: Final = "tests/live/test_readiness_causes_live.py"
QUEUES: Final = "tests/readiness/causes/test_queue_causes.py"
_TROUBLES: Final = f"{QUEUES}::test_rare_problems_of_kueue_rank_first"
_BUG: Final = "a defect of Kueue, which cannot be produced at will"
_NEVER: Final = "snapshot; not with a real Kueue: "

ELSEWHERE: Final = (
    Row(
        Reason.FIELD_DROPPED,
        "Kubernetes upgraded from 1.35 to 1.36 under a JobSet that waits",
        "1.36",
        "tests/live/test_upgrade_live.py::test_gangs_survive_an_upgrade_from_1_35_to_1_36_to_1_37",
    ),
    Row(
        Reason.API_UNAVAILABLE,
        "kube-apiserver with the API group, and without the feature gate GenericWorkload",
        "1.37",
        "tests/live/test_unavailable_live.py::test_gangs_are_refused_where_the_reference_is_dropped",
    ),
    Row(
        Reason.UNSCHEDULABLE,
        "another gang holds what it needs, on each of the three minors",
        "1.37, 1.36, 1.35",
        "tests/live/test_gangs_cli_live.py::test_running_and_waiting_gangs_are_shown",
    ),
)
"""On real control planes, too, by tests of something else."""


NOT_REAL: Final = (
    Row(
        Reason.WORKLOAD_MISSING,
        f"{_NEVER}JobSets cannot be created while it is down",
        PURE,
        f"{_TROUBLES}[WorkloadMissing]",
    ),
    Row(
        Reason.FRAMEWORK_NOT_ENABLED,
        f"{_NEVER}the tests register Kueue's webhooks for JobSets, and it would not serve them",
        PURE,
        f"{_TROUBLES}[FrameworkNotEnabled]",
    ),
    Row(
        Reason.FAILED_CHECK_WITHOUT_QUOTA,
        f"{_NEVER}{_BUG}",
        PURE,
        f"{_TROUBLES}[FailedCheckWithoutQuota]",
    ),
    Row(Reason.EVICTED_HOLDS_QUOTA, f"{_NEVER}{_BUG}", PURE, f"{_TROUBLES}[EvictedHoldsQuota]"),
    Row(Reason.FINISHED_HOLDS_QUOTA, f"{_NEVER}{_BUG}", PURE, f"{_TROUBLES}[FinishedHoldsQuota]"),
    Row(
        Reason.PODS_NOT_READY,
        "snapshot; by design reported after the cause that keeps pods from being ready, which real clusters have",
        PURE,
        f"{QUEUES}::test_every_problem_of_kueue_has_a_reason",
        first=False,
    ),
    Row(
        Reason.QUEUE_BACKOFF,
        f"{_NEVER}an eviction takes less than a second, and the wait after a late start is EvictedAsNotReady",
        PURE,
        f"{QUEUES}::test_an_evicted_jobset_in_backoff_is_reported",
    ),
)
"""What no real control plane here can produce, why, and where it is shown instead."""


def rows() -> list[Row]:
    """All of them, by the order in which the reasons are defined."""
    found = [
        Row(each.reason, each.how, situations.ground, f"{LIVE}::{name}[{each.id}]")
        for situations, name in (
            (SITUATIONS, "test_the_cause_of_a_situation_is_found_first"),
            (OLDER, "test_the_cause_of_a_situation_is_found_first_on_1_36"),
        )
        for each in situations.known
    ]
    order = list(Reason)
    return sorted([*found, *ELSEWHERE, *NOT_REAL], key=lambda row: (order.index(row.reason), not row.real))


def table() -> str:
    """The section's text between its marks."""
    return "\n".join(_lines(rows()))


def _lines(found: Sequence[Row]) -> Iterator[str]:
    real = [row for row in found if row.real]
    causes = len({row.reason for row in real})
    yield f"{len(real)} situations of {causes} causes were produced on real control planes; in each of them the cause"
    yield f"is named first. {len(found) - len(real)} causes could not be produced there, for the reason in the table."
    yield ""
    yield "| cause | situation | ground | test | found first |"
    yield "|---|---|---|---|---|"
    for reason in dict.fromkeys(row.reason for row in found):
        own = [row for row in found if row.reason is reason]
        cells = f"`{reason.value}`", f"{sum(row.first for row in own)} of {len(own)}"
        for row in own:
            yield f"| {cells[0]} | {row.how} | {row.ground} | {_test(row.test)} | {cells[1]} |"
            cells = "", ""


def _test(name: str) -> str:
    """``[id]`` names the situation; the file of most is named above the table."""
    path, _, test = name.partition("::")
    return f"`{test}`" if path == LIVE else f"`{path}::{test}`"


def main() -> None:
    """Write the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    marked = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    PAGE.write_text(marked.sub(lambda _: f"{BEGIN}\n\n{table()}\n\n{END}", text), encoding="utf-8")


if __name__ == "__main__":
    main()
