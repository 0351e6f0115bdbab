"""``python -m tests.grafana.images``: write the pictures of docs/dashboards.md; it needs matplotlib and Prometheus."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.grafana.images.drawing import draw
from tests.grafana.images.loaded import IMAGES, asked, chosen, load
from tests.grafana.queries import dashboards
from tests.manifests.files import ROOT


def main() -> int:
    """Write them all."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        answers = asyncio.run(asked(Path(name), load(Path(name))))
    for uid, of_panels in answers.items():
        path = IMAGES / f"{uid}.png"
        draw(dashboards()[uid], chosen(uid), of_panels, path)
        sys.stdout.write(f"{path.relative_to(ROOT)}: {path.stat().st_size // 1024} KB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
