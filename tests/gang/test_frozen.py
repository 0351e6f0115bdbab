"""Upgrading gangctl keeps names and objects: what earlier releases made is made again, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gangctl import __version__
from gangctl.api.scheduling import Generation
from tests.cases import CASES
from tests.gang.frozen import FROZEN, accepted, line
from tests.gang.pipeline import stored
from tests.jobsets import REF
from tests.rows import each

FILES = sorted(FROZEN.glob("*/*.jsonl"))


def unstamped(raw: dict[str, Any]) -> dict[str, Any]:
    """The JobSet as somebody sent it."""
    sent: dict[str, Any] = json.loads(json.dumps(raw))
    for entry in sent["spec"]["replicatedJobs"]:
        meta = entry["template"].get("metadata", {})
        if meta.get("annotations", {}).pop(REF, None) and not meta["annotations"]:
            del entry["template"]["metadata"]
    return sent


@each("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_stored_jobsets_become_the_same_objects(file: Path) -> None:
    for frozen in file.read_text().splitlines():
        case = json.loads(frozen)
        assert line(case["case"], case["jobset"], Generation(file.stem)) == frozen


@each("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_the_same_jobsets_get_the_same_stamps(file: Path) -> None:
    for frozen in file.read_text().splitlines():
        raw = json.loads(frozen)["jobset"]
        assert stored(unstamped(raw), Generation(file.stem)) == raw


@each("generation", Generation)
def test_this_release_is_frozen_with_every_case(generation: Generation) -> None:
    frozen = (FROZEN / __version__ / f"{generation}.jsonl").read_text().splitlines()
    names = [json.loads(each)["case"] for each in frozen]
    assert names == [name for name, _ in accepted(generation)]
    assert {case.id for case in CASES if not case.rejected} <= {*names}
