"""The files that one JobSet passes."""

from __future__ import annotations

from pathlib import Path

from benchmarks.path import one_create
from tests.faults.virtual_time import run


def test_the_path_includes_webhook_reconcile_and_write_but_no_simulation(tmp_path: Path) -> None:
    found = run(one_create(tmp_path))
    assert {"webhooks/gangs.py", "gang/resolve.py", "controllers/gangs.py", "controllers/writer.py"} <= found.keys()
    assert not [name for name in found if name.startswith(("sandbox/", "cel/"))]
