"""``python -m benchmarks.path``: the files of gangctl that one JobSet passes, from its CREATE to its PodGroup.

The sandbox and gangctl share a process in virtual time; a profiler notes each file of which a function is called
between the request and the moment at which the PodGroup exists. Files of the sandbox, and of CEL, which evaluates
matchConditions for it, do not count: they stand in for Kubernetes. Webhooks, informers, the reconcile, the write and
the readiness that follows from it do.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import gangctl
from tests.controlplane.minors import NEWEST
from tests.faults.virtual_time import run
from tests.faults.world import world
from tests.jobsets import jobset, rj

PACKAGE: Final = Path(gangctl.__file__).parent
KUBERNETES: Final = ("sandbox/", "cel/")


@contextmanager
def calls() -> Iterator[Counter[str]]:
    """Calls of functions by file below the package, in all threads that begin meanwhile and in this one."""
    found: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            found[frame.f_code.co_filename] += 1

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        inside = {name: count for name, count in found.items() if Path(name).is_relative_to(PACKAGE)}
        found.clear()
        found.update({str(Path(name).relative_to(PACKAGE)): count for name, count in inside.items()})


async def one_create(directory: Path, minor: str = NEWEST) -> Counter[str]:
    """Calls by file while a JobSet is created and gets its group."""
    async with world(minor, directory) as here:
        await here.start_gangctl()
        await here.create(jobset("first", rj("w", 1, 2, 2, mode="Gang")))
        await here.rest()
        before = await here.gangs()
        with calls() as found:
            await here.create(jobset("second", rj("w", 1, 2, 2, mode="Gang")))
            while len(await here.gangs()) < 2 * len(before):
                await here.rest(0.01)
    return Counter({name: count for name, count in found.items() if not name.startswith(KUBERNETES)})


def main() -> None:
    """Print every file with its calls, most first, and the sums."""
    with tempfile.TemporaryDirectory() as directory:
        found = run(one_create(Path(directory)))
    for name, count in found.most_common():
        print(f"{count:6} {name}")
    print(f"{len(found)} files, {found.total()} calls")


if __name__ == "__main__":
    main()
