"""Which alerts a Prometheus raises of a week's series, and when: by ``promtool test rules``, with the shipped rules."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.monitoring.promtool import file_for_2
from tests.monitoring.weeks.cluster import Cluster
from tests.monitoring.weeks.series import Recorder
from tests.monitoring.weeks.watched import run

_FIRING: Final = 'ALERTS{alertstate="firing"}'
_GOT: Final = re.compile(r"^ *got:(?P<samples>.*)", re.MULTILINE)
_SAMPLE: Final = re.compile(r"\{(?P<labels>[^{}]*)\} (?P<value>[0-9.E+e]+)")
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True)
class Firing:
    """An alert with all its labels: the minutes of a week in which it fired first and last, and how many it did."""

    name: str
    labels: tuple[tuple[str, str], ...]
    first: int
    last: int
    minutes: int


def seen(promtool: Path, directory: Path, plays: Callable[[], Cluster], minutes: int) -> list[Firing]:
    """The alerts of a cluster's first minutes."""

    async def watch() -> Recorder:
        cluster = plays()
        recorder = Recorder(cluster)
        await recorder.scrape(minutes)
        await cluster.watched.stop()
        return recorder

    return firing(promtool, directory, run(watch()).series(), minutes)


def firing(promtool: Path, directory: Path, series: Mapping[str, str], minutes: int) -> list[Firing]:
    """Evaluate the rules once a minute over these series."""
    whole = f"[{minutes}m:1m]"
    looks = {
        "first": f"min_over_time(timestamp({_FIRING}){whole})",
        "last": f"max_over_time(timestamp({_FIRING}){whole})",
        "minutes": f"sum_over_time({_FIRING}{whole})",
    }
    found: dict[str, dict[str, int]] = {}
    # promtool prints what it did not expect: nothing is expected.
    tests = [{"expr": expr, "eval_time": f"{minutes - 1}m", "exp_samples": []} for expr in looks.values()]
    given: dict[str, Any] = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": tests,
    }
    path = directory / "week.yaml"
    path.write_text(yaml.dump(file_for_2([given]), Dumper=yaml.CSafeDumper, sort_keys=False), encoding="utf-8")
    done = subprocess.run([promtool, "test", "rules", path], capture_output=True, text=True, check=False, cwd=directory)
    output = done.stdout + done.stderr
    got = _GOT.findall(output)
    if done.returncode == 0:
        return []
    assert len(got) == len(looks), output[:4000]
    for look, samples in zip(looks, got, strict=True):
        for match in _SAMPLE.finditer(samples):
            found.setdefault(match["labels"], {})[look] = int(float(match["value"]))
    return [_firing(labels, values) for labels, values in sorted(found.items())]


def _firing(text: str, values: Mapping[str, int]) -> Firing:
    labels = dict(_LABEL.findall(text))
    name = labels.pop("alertname")
    labels.pop("alertstate", None)
    return Firing(name, tuple(sorted(labels.items())), values["first"] // 60, values["last"] // 60, values["minutes"])
