"""The dashboards as files, and whether they are what the code makes of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from grafana.generate import costs, gang, health, overview, policies, queues, scheduler

DIRECTORY: Final = Path(__file__).parents[1] / "dashboards"


def dashboards() -> Mapping[str, str]:
    """Name of the file and what is in it, in the order in which people should look at them."""
    boards = (overview, gang, queues, costs, scheduler, health, policies)
    found = {}
    for module in boards:
        board = module.board()
        text = json.dumps(board.build(), cls=JSONEncoder, indent=2, sort_keys=True, allow_nan=False)
        found[f"{board.uid}.json"] = f"{text}\n"
    return found


def write() -> None:
    """Write every file, and remove what no dashboard belongs to."""
    for path in stale():
        path.unlink(missing_ok=True)
    for name, text in dashboards().items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")


def stale() -> list[Path]:
    """Files that differ, are missing, or are of no dashboard."""
    wanted = dashboards()
    there = {path.name: path.read_text(encoding="utf-8") for path in DIRECTORY.glob("*.json")}
    return [DIRECTORY / name for name in sorted(wanted.keys() | there.keys()) if wanted.get(name) != there.get(name)]
