"""Cases of rules as promtool takes them: the series, when an alert fires, and its labels."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml

from tests.monitoring.rulefiles import RECORDING_GROUP, Rule, groups, paths

Value = TypeVar("Value")

HEALTHY: Final[Mapping[str, str]] = {'gangctl_leader_election_master_status{job="gangctl",instance="a"}': "1x2000"}
LOOK_BACK: Final = 90
"""Minutes before an alert fires in each of which it must be silent."""


@dataclass(frozen=True)
class Case:
    """One alert and what is scraped once a minute.

    ``series`` is in promtool's notation (``0x5 3x30``: six times 0, then 31 times 3). The alert fires at minute
    ``fires`` and at no minute before that; without it, not until minute ``silent``. No other fires then, but ``also``.
    """

    alert: str
    about: str
    series: Mapping[str, str]
    fires: int | None = None
    says: str = ""
    """The description."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Without the severity."""
    silent: int = 0
    later: int = 0
    """Minutes by which it fires later in Prometheus 2, where a range has both its ends."""
    also: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """For pytest."""
        return f"{self.alert}-{self.about}".replace(" ", "_")

    def scraped(self) -> dict[str, str]:
        """The series, and those of a gangctl; without them an alert about its absence fires in every case."""
        return {**HEALTHY, **self.series}


@dataclass(frozen=True)
class Recorded:
    """What a recording rule comes to at one minute: value, to a thousandth, by labels."""

    name: str
    series: Mapping[str, str]
    minute: int
    values: Mapping[str, float]


def run(promtool: Path, directory: Path, file: Mapping[str, Any]) -> None:
    """Run the tests of a file; AssertionError with the output of promtool, which names those that fail."""
    path = directory / "test.yaml"
    path.write_text(yaml.safe_dump(file, sort_keys=False), encoding="utf-8")
    done = subprocess.run(
        [promtool, "test", "rules", path], capture_output=True, text=True, timeout=300, check=False, cwd=directory
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{path}"


def file_of(tests: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """A promtool test file of the rules; floats may differ in their last bits."""
    return {**file_for_2(tests), "fuzzy_compare": True}


def file_for_2(tests: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """As promtool of Prometheus 2 reads it."""
    names = [group["name"] for path in paths() for group in groups(path)]
    return {
        "rule_files": [str(path) for path in paths()],
        "evaluation_interval": "1m",
        # Alerts about what is recorded come after it. All are listed: one that is not may come before the first.
        "group_eval_order": sorted(names, key=lambda name: (name != RECORDING_GROUP, name)),
        "tests": list(tests),
    }


def alert_test(rule: Rule, case: Case) -> dict[str, Any]:
    """What promtool is to test for one case."""
    end = case.silent if case.fires is None else case.fires
    quiet = range(max(0, end - LOOK_BACK), end + (case.fires is None))
    looks: list[dict[str, Any]] = [_look(rule, minute, []) for minute in quiet]
    others: list[dict[str, Any]] = [{"labels": _series({"alertname": name}), "value": 1} for name in sorted(case.also)]
    if case.fires is not None:
        annotations = {**rule.annotations, "description": case.says}
        looks.append(_look(rule, end, [{"exp_labels": {**rule.labels, **case.labels}, "exp_annotations": annotations}]))
        others.append({"labels": _series({"alertname": rule.name}), "value": 1})
    return _test(
        case.name,
        case.scraped(),
        {
            "alert_rule_test": looks,
            "promql_expr_test": [
                {
                    "expr": 'group by (alertname) (ALERTS{alertstate="firing"})',
                    "eval_time": f"{end}m",
                    "exp_samples": others,
                }
            ],
        },
    )


def recording_test(case: Recorded) -> dict[str, Any]:
    """What promtool is to test for a recording rule: the values of two clusters and of none, each on its own."""
    scraped = {**HEALTHY, **case.series}
    series = {**scraped, **in_cluster("east", scraped), **in_cluster("west", scraped)}
    values = {**case.values, **in_cluster("east", case.values), **in_cluster("west", case.values)}
    samples = [{"labels": labels, "value": value} for labels, value in values.items()]
    look = {"expr": f"round({case.name}, 0.001)", "eval_time": f"{case.minute}m", "exp_samples": samples}
    return _test(f"{case.name}@{case.minute}", series, {"promql_expr_test": [look]})


def clusters_test(rule: Rule, case: Case, other: Case) -> dict[str, Any]:
    """Two clusters in one store: in east the alert fires as in a case, in west it is silent as in another."""
    assert case.fires is not None
    series = {**in_cluster("east", case.scraped()), **in_cluster("west", other.scraped())}
    annotations = {**rule.annotations, "description": case.says}
    if case.alert == "GangctlDown":
        annotations["description"] = case.says.replace("no gangctl", "no gangctl of cluster east")
    fired = {"exp_labels": {**rule.labels, **case.labels, "cluster": "east"}, "exp_annotations": annotations}
    looks = [_look(rule, case.fires - 1, []), _look(rule, case.fires, [fired])]
    return _test(f"{case.name}-beside-{other.about}".replace(" ", "_"), series, {"alert_rule_test": looks})


def in_cluster(name: str, series: Mapping[str, Value]) -> dict[str, Value]:
    """The same series with the label of one cluster."""
    label = f'cluster="{name}"'
    return {
        each.replace("{", f"{{{label},", 1) if "{" in each else f"{each}{{{label}}}": values
        for each, values in series.items()
    }


def _look(rule: Rule, minute: int, expected: list[dict[str, Any]]) -> dict[str, Any]:
    return {"eval_time": f"{minute}m", "alertname": rule.name, "exp_alerts": expected}


def _test(name: str, series: Mapping[str, str], test: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "interval": "1m",
        "input_series": [{"series": each, "values": values} for each, values in series.items() if values],
        **test,
    }


def _series(labels: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'{name}="{value}"' for name, value in labels.items()) + "}"
