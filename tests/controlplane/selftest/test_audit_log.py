"""The audit log is read while it is written: a position and an end may be inside an entry."""

from __future__ import annotations

import json
from pathlib import Path

from tests.controlplane.audit_log import read

ENTRIES = [{"n": 1}, {"n": 2}, {"n": 3}]
LINES = [json.dumps(each).encode() + b"\n" for each in ENTRIES]


def test_entries_after_a_position_wherever_it_is(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_bytes(b"".join(LINES))
    assert read(log) == ENTRIES
    for position in range(1, len(LINES[0]) + 1):
        # Also one that was taken before the first line was whole.
        assert read(log, position) == ENTRIES[1:], position
    assert read(log, len(LINES[0]) + 1) == ENTRIES[2:]
    assert read(log, sum(map(len, LINES))) == []


def test_an_incomplete_entry_is_read_later(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_bytes(LINES[0] + LINES[1][:-4])
    assert read(log) == ENTRIES[:1]
    assert read(log, 3) == []
