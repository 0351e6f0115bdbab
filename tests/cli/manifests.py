"""Manifests for the command line's tests, as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gangctl.api.emit import to_json, to_yaml
from tests.jobsets import jobset, rj

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))

CONFIG_MAP: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
PLACEHOLDER = "note: 00000000-0000 in names is a placeholder for the first digits of the JobSet's UID\n"
"""The note of plan on stderr where its output is for programs."""
SERVICE: dict[str, Any] = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}


def gang(name: str = "js", **fields: Any) -> dict[str, Any]:
    """A JobSet-wide gang of three pods."""
    return jobset(name, rj("a"), rj("b", 1, 2, 2), mode="Gang", **fields)


def write(file: Path, *objects: dict[str, Any]) -> str:
    """A file with these objects, JSON or YAML by its name."""
    file.write_text(to_json(objects) if file.suffix == ".json" else to_yaml(objects))
    return str(file)
