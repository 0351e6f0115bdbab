"""Writes manifests/monitoring/prometheusrule.yaml from the rule files: one object per file, for Prometheus' operator.

python -m tests.monitoring.prometheusrule
"""

from __future__ import annotations

from typing import Any, Final

import yaml

from tests.monitoring.rulefiles import MONITORING, groups, paths

PLACE: Final = MONITORING / "prometheusrule.yaml"

_HEADER: Final = "# Written by `python -m tests.monitoring.prometheusrule` from rules/; a test compares the two.\n"


def render() -> str:
    """The text of the file."""
    objects: list[dict[str, Any]] = [
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": {
                "name": f"gangctl-{path.stem}",
                "namespace": "gangctl-system",
                "labels": {"app.kubernetes.io/name": "gangctl", "app.kubernetes.io/component": "monitoring"},
            },
            "spec": {"groups": groups(path)},
        }
        for path in paths()
    ]
    return _HEADER + yaml.dump_all(objects, Dumper=_Dumper, sort_keys=False, width=116, explicit_start=False)


class _Dumper(yaml.SafeDumper):
    """With expressions of several lines as they are written."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


if __name__ == "__main__":
    PLACE.write_text(render(), encoding="utf-8")
