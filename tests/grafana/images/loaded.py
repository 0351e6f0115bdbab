"""The story in a real Prometheus, and what it answers to the queries of a dashboard."""

from __future__ import annotations

import contextlib
import math
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gangctl.readiness.result import GangPhase
from tests.controlplane.build import ensure_binary
from tests.controlplane.components.prometheus import Prometheus, Series
from tests.controlplane.minors import NEWEST
from tests.grafana.images.series import Cluster
from tests.grafana.images.story import HOURS, gangs
from tests.grafana.queries import dashboards, panels, substituted
from tests.manifests.files import ROOT

IMAGES: Final = ROOT / "docs" / "images"
SHOWN: Final = ("gangctl-overview", "gangctl-gang", "gangctl-queues", "gangctl-costs")
"""Those that are drawn."""

SECONDS: Final = HOURS * 3600
STEP: Final = 60
_LOOKBACK: Final = "59s"
"""Nothing marks the end of a series that is loaded: a sample counts until the next."""
_SECONDS_OF: Final = {"": STEP, "5m": 300}


@dataclass(frozen=True)
class Answer:
    """The series of one query of a panel; times are seconds of the time shown."""

    ref: str
    legend: str
    series: tuple[Series, ...]


@dataclass
class Loaded:
    """The Prometheus, and the Unix time that is now in it."""

    prometheus: Prometheus
    now: int

    async def answers(self, panel: Mapping[str, Any], variables: Mapping[str, str]) -> list[Answer]:
        """As Grafana would have them for six hours."""
        found = []
        for target in panel.get("targets", ()):
            expression = substituted(target["expr"], variables, shown=f"{HOURS}h")
            if target.get("instant"):
                series = await self.prometheus.query(expression, at=self.now, lookback=_LOOKBACK)
            else:
                step = _SECONDS_OF[target.get("interval", "")]
                begin = self.now - SECONDS
                series = await self.prometheus.query_range(expression, begin, self.now, step, lookback=_LOOKBACK)
                series = [
                    Series(each.labels, tuple((moment - begin, value) for moment, value in each.points))
                    for each in series
                ]
            found.append(Answer(target["refId"], target.get("legendFormat", ""), tuple(map(_finite, series))))
        return found


def load(directory: Path) -> int:
    """Write the storage of a Prometheus with the story in it, and return the Unix time of its end: now."""
    now = int(time.time()) // STEP * STEP
    text = directory / "metrics.txt"
    text.write_text("\n".join([*_lines(now), "# EOF", ""]), encoding="utf-8")
    promtool = ensure_binary("promtool", NEWEST)
    blocks = directory / "prometheus-data"
    subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", text, blocks], check=True, capture_output=True
    )
    return now


@contextlib.asynccontextmanager
async def loaded(directory: Path, now: int) -> AsyncIterator[Loaded]:
    """A Prometheus with what was loaded."""
    async with Prometheus(directory, {}) as prometheus:
        yield Loaded(prometheus, now)


def _lines(now: int) -> Iterator[str]:
    for moment, samples in Cluster(now).scrapes():
        for name, labels, value in samples:
            text = ",".join(f'{label}="{each}"' for label, each in labels.items() if each)
            yield f"{name}{{{text}}} {value} {moment}"


def _finite(series: Series) -> Series:
    return Series(series.labels, tuple(point for point in series.points if math.isfinite(point[1])))


def chosen(uid: str) -> dict[str, str]:
    """Variables: the gang that lost a node, on the dashboard of one gang; the other dashboards show all."""
    if uid != "gangctl-gang":
        return {}
    (lost,) = (gang for gang in gangs() if any(step.phase is GangPhase.PARTIALLY_PLACED for step in gang.steps))
    return {"namespace": lost.tenant.namespace, "jobset": lost.name}


async def asked(directory: Path, now: int) -> dict[str, dict[int, list[Answer]]]:
    """Answers by dashboard and number of the panel."""
    async with loaded(directory, now) as prometheus:
        return {
            uid: {panel["id"]: await prometheus.answers(panel, chosen(uid)) for panel in panels(dashboards()[uid])}
            for uid in SHOWN
        }
