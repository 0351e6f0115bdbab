"""What is applied to a cluster, as a release has it: the manifests in one file, and the package of the chart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from release.archive import pack

CHART: Final = Path("charts/gangctl")


def install_yaml(tree: Path, path: Path) -> None:
    """Write what ``gangctl install`` of this tree prints. Raises ``subprocess.CalledProcessError``."""
    command = [sys.executable, "-m", "gangctl", "install"]
    # What an environment has installed is another gangctl.
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    path.write_bytes(subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, check=True).stdout)


def chart_package(tree: Path, path: Path, time: int) -> None:
    """Write the chart as ``helm package`` does, with the same bytes each time; every file inside gets ``time``."""
    chart = tree / CHART
    # Chart.yaml first, where Helm writes it.
    files = sorted((each for each in chart.rglob("*") if each.is_file()), key=lambda each: _place(chart, each))
    pack(path, {f"{CHART.name}/{file.relative_to(chart).as_posix()}": (file, 0o644) for file in files}, time)


def _place(chart: Path, file: Path) -> tuple[bool, str]:
    name = file.relative_to(chart).as_posix()
    return name != "Chart.yaml", name
