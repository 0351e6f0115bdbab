"""Rules whose hours pass in minutes: for tests that let them fire on a live cluster.

Every time span of a rule is divided by one factor: ``for``, ranges, offsets, and the thresholds of ``PATIENCE``. Other
numbers stay, those that are seconds too (``> 0.25``): how fast gangctl answers does not depend on how long one is ready
to wait.

    python -m tests.monitoring.scaled 60 DIRECTORY
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tests.monitoring.rulefiles import groups, paths, rules

PATIENCE: Final[Mapping[str, tuple[int, ...]]] = {
    "GangPartiallyPlaced": (900, 900),
    "GangMutualDeadlock": (900,),
    "GangStuckPending": (1800,),
    "GangNeverFits": (120,),
    "GangUnschedulable": (3600,),
    "GangSchedulerFailing": (600,),
    "GangGroupMissing": (300,),
    "GangCreationRefused": (300,),
    "GangNodeLost": (300,),
    "GangImagePullFailing": (600,),
    "GangContainersFailing": (900,),
    "GangDegraded": (600,),
    "QueueBlocked": (1800,),
    "QueueWorkloadStuck": (900,),
    "GangReadySlow": (640,),
    "GangPolicyScanStale": (3600,),
    "GangctlInformerStale": (300,),
    "GangctlCertificateExpiring": (1209600,),
}
"""Thresholds in seconds that are time spans, by alert: Prometheus 2 takes no ``> 30m``."""

_UNITS: Final = {"y": 365 * 86400, "w": 7 * 86400, "d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 0.001}
_PART: Final = re.compile(r"(\d+)(ms|[smhdwy])")
_TOKEN: Final = re.compile(
    r"""(?P<comment>\#[^\n]*)|(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)|(?P<name>[A-Za-z_][\w:]*)"""
    r"""|(?P<span>(?:\d+(?:ms|[smhdwy]))+)(?!\w)|(?P<number>[\d.][\w.]*)|(?P<other>.)""",
    re.DOTALL | re.VERBOSE,
)


def seconds(span: str) -> float:
    """What ``1h30m`` comes to."""
    parts = _PART.findall(span)
    if "".join(number + unit for number, unit in parts) != span or not parts:
        raise ValueError(f"{span!r} is no time span: write it as 90s or 1h30m")
    return float(sum(int(number) * _UNITS[unit] for number, unit in parts))


def span(value: float) -> str:
    """Seconds as a time span, to the millisecond; never less than one, unless it is nothing at all."""
    whole = max(round(value * 1000), 1 if value else 0)
    full, rest = divmod(whole, 1000)
    return "".join([f"{full}s" if full or not rest else "", f"{rest}ms" if rest else ""])


def scaled_expression(expression: str, factor: float) -> str:
    """An expression with every time span divided by ``factor``."""

    def shorter(found: re.Match[str]) -> str:
        return span(seconds(found["span"]) / factor) if found["span"] else found[0]

    return _TOKEN.sub(shorter, expression)


def scaled_rule(rule: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """A rule with its expression and its ``for`` divided; texts stay as they are."""
    expression = scaled_expression(rule["expr"], factor)
    thresholds = Counter(PATIENCE.get(rule.get("alert", ""), ()))
    for threshold, times in thresholds.items():
        expression, found = re.subn(rf"([<>] ){threshold}\b", rf"\g<1>{threshold / factor:g}", expression)
        if found != times:
            raise ValueError(f"{rule['alert']} has no threshold {threshold}")
    shorter = {"expr": expression}
    if "for" in rule:
        shorter["for"] = span(seconds(rule["for"]) / factor)
    return {**rule, **shorter}


def scaled_groups(
    path: Path, factor: float, *, factors: Mapping[str, float] | None = None, interval: str = "1s"
) -> list[dict[str, Any]]:
    """The groups of a rule file, evaluated every ``interval``; rules that ``factors`` names have one of their own.

    GangctlInformerStale needs one below 3: a quiet watch may be silent for 90 of its 300 seconds. GangPolicyScanStale
    waits for six times ``--policy-scan-period``, which is to be divided, too.
    """
    own = factors or {}
    if wrong := [each for each in (factor, *own.values()) if each < 1]:
        raise ValueError(f"factor {wrong[0]:g}: rules are made faster, by 1 or more")

    def one(rule: Mapping[str, Any]) -> dict[str, Any]:
        return scaled_rule(rule, own.get(rule.get("alert") or rule["record"], factor))

    return [{**group, "interval": interval, "rules": [one(rule) for rule in group["rules"]]} for group in groups(path)]


def write_scaled(
    directory: Path, factor: float, *, factors: Mapping[str, float] | None = None, interval: str = "1s"
) -> list[Path]:
    """Write every rule file, scaled by :func:`scaled_groups`, into ``directory``; returns their paths."""
    if unknown := set(factors or ()) - {rule.name for rule in rules()}:
        raise ValueError(f"there are no rules {', '.join(sorted(unknown))}")
    written = []
    for path in paths():
        target = directory / path.name
        body = {"groups": scaled_groups(path, factor, factors=factors, interval=interval)}
        target.write_text(yaml.safe_dump(body, sort_keys=False), encoding="utf-8")
        written.append(target)
    return written


if __name__ == "__main__":
    for each in write_scaled(Path(sys.argv[2]), float(sys.argv[1])):
        sys.stdout.write(f"{each}\n")
