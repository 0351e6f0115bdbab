"""What is applied to a cluster, as a release has it: the manifests in one file, and the package of the chart."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Final

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
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        # Chart.yaml first, where Helm writes it.
        for file in sorted((each for each in chart.rglob("*") if each.is_file()), key=lambda each: _place(chart, each)):
            info = tarfile.TarInfo(f"{CHART.name}/{file.relative_to(chart).as_posix()}")
            info.size, info.mtime, info.mode = file.stat().st_size, time, 0o644
            archive.addfile(info, io.BytesIO(file.read_bytes()))
    path.write_bytes(gzip.compress(packed.getvalue(), mtime=time))


def _place(chart: Path, file: Path) -> tuple[bool, str]:
    name = file.relative_to(chart).as_posix()
    return name != "Chart.yaml", name
