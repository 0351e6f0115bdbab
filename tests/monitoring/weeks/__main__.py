"""Writes docs/alerts-graded.md: which alerts were raised in the weeks, and how soon in the incidents.

python -m tests.monitoring.weeks; it takes most of an hour.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.controlplane.promtool2 import ensure_promtool_2
from tests.manifests.files import ROOT
from tests.monitoring.weeks.graded import Firing, seen
from tests.monitoring.weeks.incidents import BEGINS, INCIDENTS
from tests.monitoring.weeks.ordinary import MINUTES, SLICE, WEEKS, Week, slice_of_all

PLACE: Final = ROOT / "docs" / "alerts-graded.md"
_HEADER: Final = """\
# Alerts, graded

Written by `python -m tests.monitoring.weeks`.

A simulated cluster runs in virtual time, gangctl's own readiness controller and collectors watch it, and promtool of
Prometheus 2.42 evaluates the shipped rules over the series, once a minute. Kueue's part, its Workloads and its metrics,
is played. An ordinary week must raise no alert. An incident must raise its own within the promised time, and no other,
except those that the Alertmanager configuration of [monitoring](monitoring.md#route-alerts) leaves out while it fires.
Submissions of the first three weeks are those of three virtual clusters of Microsoft's Philly GPU clusters from 6 to 12
November 2017 (Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", USENIX ATC
2019).
"""


def _weeks(promtool: Path, directory: Path) -> Iterator[str]:
    yield "## Ordinary weeks\n"
    yield "| week | what happens | hours | alerts raised |"
    yield "|---|---|---|---|"
    short = Week("ten hours", "Each normal state in which an alert was wrong once, on purpose.", slice_of_all)
    for week, minutes in ((short, SLICE), *((week, MINUTES) for week in WEEKS)):
        firings = seen(promtool, directory, week.plays, minutes)
        names = ", ".join(sorted({firing.name for firing in firings})) or "none"
        yield f"| {week.name} | {week.about} | {minutes // 60} | {names} |"


def _incidents(promtool: Path, directory: Path) -> Iterator[str]:
    yield "\n## Incidents\n"
    yield "Minutes are from the begin of the incident; the last column is from its end.\n"
    yield "| incident | alert | promised within | seen after | lasted | silent within | others |"
    yield "|---|---|---|---|---|---|---|"
    for incident in INCIDENTS:
        firings = seen(promtool, directory, incident.plays, incident.minutes)
        own = [firing for firing in firings if firing.name == incident.alert]
        others = ", ".join(sorted({firing.name for firing in firings} - {incident.alert})) or "none"
        first, last = _minutes(own)
        cleared = "-" if last is None else str(max(0, last + 1 - incident.ends))
        cells = (incident.about, incident.alert, incident.promised, first or "never", incident.ends, cleared, others)
        yield f"| {' | '.join(str(cell) for cell in cells)} |"


def _minutes(own: list[Firing]) -> tuple[int | None, int | None]:
    if not own:
        return None, None
    return min(firing.first for firing in own) - BEGINS, max(firing.last for firing in own) - BEGINS


def main() -> None:
    """Play and evaluate everything."""
    promtool = ensure_promtool_2()
    with tempfile.TemporaryDirectory() as name:
        lines = [_HEADER, *_weeks(promtool, Path(name)), *_incidents(promtool, Path(name))]
    PLACE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
