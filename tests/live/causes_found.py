"""Which situation of which cause is found by which test, on what ground, and what it suggests: docs/causes.md.

``python -m tests.live.causes_found`` writes it anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from string import Formatter
from typing import Final

from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import Command
from tests.cli.gangs.stored_situations import STORED
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
    command: Command | None = None
    """What the cause suggests, if a test runs it in this situation."""

    @property
    def real(self) -> bool:
        """Whether it was produced on a real control plane."""
        return self.ground not in {SANDBOX, PURE}


LIVE: Final = "tests/live/test_readiness_causes_live.py"
STORED_TESTS: Final = "tests/cli/gangs/test_suggestions.py"
_STORED: Final = f"{STORED_TESTS}::test_what_a_cause_suggests_works_on_stored_objects"
_MULTIKUEUE: Final = "tests/live/test_multikueue_live.py"
_QUEUES: Final = "tests/readiness/causes/test_queue_causes.py"

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
        Reason.UNKNOWN,
        "MultiKueue runs it on a worker cluster",
        "1.37",
        f"{_MULTIKUEUE}::test_a_gang_starts_as_a_whole_on_a_worker_cluster",
        command=Command.WHY_WORKER,
    ),
    Row(
        Reason.WAITING_FOR_CHECK,
        "in the queues of worker clusters of MultiKueue that are full",
        "1.37",
        f"{_MULTIKUEUE}::test_the_next_gang_runs_on_the_other_worker_cluster",
        command=Command.FIT_WORKERS,
    ),
    Row(
        Reason.UNSCHEDULABLE,
        "another gang holds what it needs, on each of the three minors",
        "1.37, 1.36, 1.35",
        "tests/live/test_gangs_cli_live.py::test_running_and_waiting_gangs_are_shown",
    ),
)
"""On real control planes, too, by tests of something else."""


NOT_REPORTED: Final = (
    Row(
        Reason.FINISHED_HOLDS_QUOTA,
        "snapshot; `gangctl queue describe` reports it: a JobSet that has finished has no causes",
        PURE,
        f"{_QUEUES}::test_a_finished_jobset_that_holds_quota_has_no_cause",
        first=False,
    ),
)


def rows() -> list[Row]:
    """All of them, by the order in which the reasons are defined."""
    live = [
        Row(each.reason, each.how, situations.ground, f"{LIVE}::{name}[{each.id}]", command=each.command)
        for situations, name in (
            (SITUATIONS, "test_the_cause_of_a_situation_is_found_first"),
            (OLDER, "test_the_cause_of_a_situation_is_found_first_on_1_36"),
        )
        for each in situations.known
    ]
    stored = [Row(each.reason, each.how, SANDBOX, f"{_STORED}[{each.id}]", each.first, each.command) for each in STORED]
    order = list(Reason)
    found = [*live, *ELSEWHERE, *stored, *NOT_REPORTED]
    return sorted(found, key=lambda row: (order.index(row.reason), not row.real))


@cache
def suggested() -> frozenset[tuple[Reason, Command]]:
    """Each command of each cause that a test runs."""
    return frozenset((row.reason, row.command) for row in rows() if row.command is not None)


def table() -> str:
    """The section's text between its marks."""
    return "\n".join(_lines(rows()))


def _lines(found: Sequence[Row]) -> Iterator[str]:
    real = [row for row in found if row.real]
    causes = {row.reason for row in real}
    others = len({row.reason for row in found} - causes)
    yield f"{len(real)} situations of {len(causes)} causes were produced on real control planes; in each of them the"
    yield f"cause is named first. {others} causes could not be produced there, for the reason in the table."
    yield f"The causes suggest {len(suggested())} commands, one that several suggest counted for each. All are run."
    yield ""
    yield "| cause | situation | suggests | ground | test | found first |"
    yield "|---|---|---|---|---|---|"
    for reason in dict.fromkeys(row.reason for row in found):
        own = [row for row in found if row.reason is reason]
        cells = f"`{reason.value}`", f"{sum(row.first for row in own)} of {len(own)}"
        for row in own:
            yield f"| {cells[0]} | {row.how} | {_template(row)} | {row.ground} | {_test(row.test)} | {cells[1]} |"
            cells = "", ""


_EXAMPLE: Final = {"namespace": "team-a", "jobset": "train", "queue": "research", "workers": "--worker WORKER"}


def _template(row: Row) -> str:
    """The command for JobSet ``team-a/train``, other values by their names; a bar would end the cell."""
    if row.command is None:
        return ""
    fields = {field: field.upper() for _, field, _, _ in Formatter().parse(row.command) if field}
    return f"`{row.command.format(**{**fields, **_EXAMPLE})}`".replace("|", "\\|")


def _test(name: str) -> str:
    """``[id]`` names the situation; the files of most are named above the table."""
    path, _, test = name.partition("::")
    return f"`{test}`" if path in {LIVE, STORED_TESTS} else f"`{path}::{test}`"


def main() -> None:
    """Write the table into the page."""
    text = PAGE.read_text(encoding="utf-8")
    marked = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    PAGE.write_text(marked.sub(lambda _: f"{BEGIN}\n\n{table()}\n\n{END}", text), encoding="utf-8")


if __name__ == "__main__":
    main()
