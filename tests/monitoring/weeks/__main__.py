"""Writes docs/alerts-graded.md: which alerts were raised in the weeks, and how soon in the incidents.

python -m tests.monitoring.weeks; it takes a quarter of an hour of two cores.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

from tests.controlplane.promtool2 import ensure_promtool_2
from tests.manifests.files import ROOT
from tests.monitoring.weeks.graded import Firing, seen
from tests.monitoring.weeks.incidents import BEGINS, INCIDENTS, Incident
from tests.monitoring.weeks.ordinary import MINUTES, SLICE, WEEKS, Week, slice_of_all

PLACE: Final = ROOT / "docs" / "alerts-graded.md"
_HEADER: Final = """\
# Alerts, graded

After this page, you know which alerts a cluster that works raises, and how soon an alert reports an incident. Written
by `python -m tests.monitoring.weeks`.

A simulated cluster runs in virtual time, gangctl's own readiness controller and collectors watch it, and promtool of
Prometheus 2.42 evaluates the shipped rules over the series, once a minute. Kueue's part, its Workloads and its metrics,
is played. An ordinary week must raise no alert. An incident must raise its own within the promised time, and no other.
Submissions of the first three weeks are those of three virtual clusters of Microsoft's Philly GPU clusters from 6 to 12
November 2017 (Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", USENIX ATC
2019).
"""
_ORDINARY: Final = (
    (Week("ten hours", "Each normal state in which an alert was wrong once, on purpose.", slice_of_all), SLICE),
    *((week, MINUTES) for week in WEEKS),
)


def _of_week(number: int) -> list[Firing]:
    week, minutes = _ORDINARY[number]
    with tempfile.TemporaryDirectory() as directory:
        return seen(ensure_promtool_2(), Path(directory), week.plays, minutes)


def _of_incident(number: int) -> list[Firing]:
    incident = INCIDENTS[number]
    with tempfile.TemporaryDirectory() as directory:
        return seen(ensure_promtool_2(), Path(directory), incident.plays, incident.minutes)


def _weeks(raised: Iterator[list[Firing]]) -> Iterator[str]:
    yield "## Ordinary weeks\n"
    yield "| week | what happens | hours | alerts raised |"
    yield "|---|---|---|---|"
    for (week, minutes), firings in zip(_ORDINARY, raised, strict=True):
        names = ", ".join(sorted({firing.name for firing in firings})) or "none"
        yield f"| {week.name} | {week.about} | {minutes // 60} | {names} |"


def _incidents(raised: Iterator[list[Firing]]) -> Iterator[str]:
    yield "\n## Incidents\n"
    yield "Minutes are from the begin of the incident; those of silence are from its end.\n"
    yield "| incident | alert | promised within | seen after | lasted | silent within | others |"
    yield "|---|---|---|---|---|---|---|"
    for incident, firings in zip(INCIDENTS, raised, strict=True):
        yield from _rows(incident, firings)


def _rows(incident: Incident, firings: list[Firing]) -> Iterator[str]:
    """One for each of its alerts."""
    others = ", ".join(sorted({firing.name for firing in firings} - incident.alerts.keys())) or "none"
    for name, promised in incident.alerts.items():
        first, last = _minutes([firing for firing in firings if firing.name == name])
        cleared = "-" if last is None else str(max(0, last + 1 - incident.ends))
        cells = (incident.about, name, promised, first or "never", incident.ends, cleared, others)
        yield f"| {' | '.join(str(cell) for cell in cells)} |"


def _minutes(own: list[Firing]) -> tuple[int | None, int | None]:
    if not own:
        return None, None
    return min(firing.first for firing in own) - BEGINS, max(firing.last for firing in own) - BEGINS


def _printed(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
        yield line


def main() -> None:
    """Play and evaluate everything, as many at once as there are processors."""
    ensure_promtool_2()
    with ProcessPoolExecutor(int(sys.argv[1]) if sys.argv[1:] else os.cpu_count()) as pool:
        # The longest first.
        weeks = pool.map(_of_week, range(len(_ORDINARY)))
        incidents = pool.map(_of_incident, range(len(INCIDENTS)))
        lines = [_HEADER, *_printed(_weeks(weeks)), *_printed(_incidents(incidents))]
    PLACE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
