"""What each release makes of the conformance cases, frozen when it is released.

A cluster is full of stamps, names and objects that an earlier release made. A later one must read those stamps as
they were meant and come to the same names and objects, byte for byte, or it would make every gang anew.

    python -m tests.gang.frozen        # once per release: writes tests/gang/releases/VERSION, never over what is there
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from gangctl import __version__
from gangctl.api.scheduling import Generation
from gangctl.api.scheduling_versions import ADAPTERS
from gangctl.gang.config import read_config
from gangctl.gang.plan import build_objects, make_plan, stored_stamps
from tests.cases import CASES
from tests.gang.pipeline import read, resolved, stored
from tests.jobsets import FIXTURE_UID, jobset, rj

FROZEN: Final = Path(__file__).with_name("releases")

Raw = dict[str, Any]

_OPTIONS: Final = '{"topologyKey": "rack", "disruption": "all"}'
INPUTS: Final[dict[str, Raw]] = {case.id: case.jobset for case in CASES} | {
    "options": jobset("js", rj("w", 2, 4, 4), mode="Gang", options=_OPTIONS),
    "priority": jobset("js", rj("w", 1, 2, 2, mode="Gang", pod={"priorityClassName": "high"})),
}


def accepted(generation: Generation) -> Iterator[tuple[str, Raw]]:
    """Every input that becomes a JobSet on this generation, as the API server stores it."""
    for name, raw in INPUTS.items():
        whole = {**raw, "metadata": {**raw["metadata"], "uid": FIXTURE_UID}}
        if not resolved(whole, generation).errors:
            yield name, stored(whole, generation)


def outcome(raw: Raw, generation: Generation) -> Raw:
    """Objects and references that a stored JobSet becomes, by its stamps alone."""
    found = read(raw)
    stamps, malformed = stored_stamps(found)
    assert malformed == ()
    config, _ = read_config(found)
    plan = make_plan(found, stamps, config)
    if plan is None:
        return {"objects": [], "references": {}}
    reference = ADAPTERS[generation].reference
    references = {job.name: reference(job.reference) if job.reference else None for job in plan.jobs()}
    return {"objects": build_objects(plan, generation), "references": references}


def line(name: str, raw: Raw, generation: Generation) -> str:
    """One case as it is frozen; the order of keys counts."""
    return json.dumps({"case": name, "jobset": raw, **outcome(raw, generation)}, separators=(",", ":"))


def main() -> None:
    """Freeze what this version makes."""
    directory = FROZEN / __version__
    directory.mkdir(parents=True)
    for generation in Generation:
        lines = [line(name, raw, generation) for name, raw in accepted(generation)]
        (directory / f"{generation}.jsonl").write_text("".join(f"{each}\n" for each in lines))


if __name__ == "__main__":
    main()
