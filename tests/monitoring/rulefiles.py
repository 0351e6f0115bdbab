"""The rule files under manifests/monitoring/rules, read."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from tests.manifests.files import MANIFESTS, ROOT

MONITORING: Final = MANIFESTS / "monitoring"
RULES: Final = MONITORING / "rules"
RUNBOOKS: Final = ROOT / "docs" / "runbooks"
RECORDING_GROUP: Final = "gangctl-recording"


@dataclass(frozen=True)
class Rule:
    """One rule; ``name`` is the alert's, or that of the series it records."""

    name: str
    expression: str
    path: Path
    is_alert: bool
    wait: str = ""
    """``for``: how long the expression must hold."""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def own(self) -> str:
        """What the rule is about, without what other alerts say."""
        return self.expression.partition("unless")[0]


def paths() -> list[Path]:
    """Every rule file, in the order of their names."""
    return sorted(RULES.glob("*.yaml"))


def groups(path: Path) -> list[dict[str, Any]]:
    """The groups of one file, as they are written."""
    return copy.deepcopy(_groups(path))


@cache
def _groups(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
    return found


def rules() -> list[Rule]:
    """Every rule of every file."""
    return list(_rules())


def alerts() -> list[Rule]:
    """Alerting rules."""
    return [rule for rule in _rules() if rule.is_alert]


def recordings() -> list[Rule]:
    """Rules that keep what an expression comes to."""
    return [rule for rule in _rules() if not rule.is_alert]


def _rules() -> Iterator[Rule]:
    for path in paths():
        for group in groups(path):
            for rule in group["rules"]:
                yield Rule(
                    rule.get("alert") or rule["record"],
                    rule["expr"],
                    path,
                    "alert" in rule,
                    rule.get("for", ""),
                    rule.get("labels", {}),
                    rule.get("annotations", {}),
                )
