"""What is applied to a cluster, as a release has it: the manifests in one file, and the package of the chart."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

from release.archive import pack

CHART: Final = Path("charts/gangctl")
_IMAGE: Final = re.compile(
    r"(?P<repository>[\w.-]+(:\d+)?(/[\w.-]+)+)(:(?P<tag>[\w.-]+))?(@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_SHIPPED: Final = re.compile(r'(?<="image":)"gangctl:[^"]*"')
_UNSET: Final = "  {}: ''\n"


def image_name(text: str) -> str:
    """An argument that has to be an image with registry, and tag or digest."""
    parts = _IMAGE.fullmatch(text)
    if parts is None or not (parts["tag"] or parts["digest"]):
        raise argparse.ArgumentTypeError(f"{text!r} is not REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST")
    return text


def set_image(tree: Path, image: str) -> None:
    """Write what nodes pull into what ``gangctl install`` prints and the values of the chart.

    Raises ``ValueError`` where the sources have not one place for it.
    """
    parts = _IMAGE.fullmatch(image)
    shipped, values = tree / "gangctl" / "cli" / "install" / "manifests.json", tree / CHART / "values.yaml"
    changed, places = _SHIPPED.subn(json.dumps(image), shipped.read_text(encoding="utf-8"))
    text = values.read_text(encoding="utf-8")
    if parts is None or places != 1 or text.count(_UNSET.format("repository")) != 1:
        raise ValueError(f"{image} has no place in {shipped.name} or {values.name}")
    shipped.write_text(changed, encoding="utf-8")
    for key in ("repository", "tag", "digest"):
        text = text.replace(_UNSET.format(key), f"  {key}: {json.dumps(parts[key] or '')}\n", 1)
    values.write_text(text, encoding="utf-8")


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
