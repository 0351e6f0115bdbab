"""Asks real API servers again: ``python -m tests.cel`` rewrites ``compile_cases.json``."""

from __future__ import annotations

import asyncio
import json

from tests.cel.oracle import PLACE, recorded, refused
from tests.controlplane.minors import MINORS
from tests.controlplane.plane import ControlPlane


async def main() -> None:
    cases: dict[str, list[str]] = {each: [] for each in recorded()}
    for minor in sorted(MINORS):
        async with ControlPlane.start(minor, ()) as plane:
            wrong = await refused(plane.api, list(cases))
        for expression, accepting in cases.items():
            if expression not in wrong:
                accepting.append(minor)
    lines = [f"{json.dumps(each, ensure_ascii=False)}: {json.dumps(minors)}" for each, minors in cases.items()]
    PLACE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    asyncio.run(main())
