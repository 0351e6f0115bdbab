"""Writes gangctl/cli/install/manifests.json from manifests/.

python -m tests.manifests.installation
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from gangctl.cli.install.components import NAMES
from tests.manifests.files import ROOT
from tests.manifests.kustomizations import read_component, read_root

PATH = ROOT / "gangctl" / "cli" / "install" / "manifests.json"
ROOTS = ("base", "out-of-cluster")


def render() -> str:
    """One line for each object and each patch, so that a change shows where it is."""
    parts = [f"{_text(name)}: {_lines(read_root(name))}" for name in ROOTS]
    components = []
    for name in NAMES:
        read = read_component(name)
        patches = [asdict(patch) for patch in read.patches]
        components.append(f'{_text(name)}: {{"objects": {_lines(read.objects)}, "patches": {_lines(patches)}}}')
    parts.append('"components": {\n' + ",\n".join(components) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines(values: list[Any]) -> str:
    return "[\n" + ",\n".join(map(_text, values)) + "\n]" if values else "[]"


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
