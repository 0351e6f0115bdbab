"""How fast a core is while something is measured: a virtual machine's neighbours take from it what no counter shows.

``python -m benchmarks.pace`` prints a sample a second until it is ended; :class:`Sampler` runs it beside a benchmark.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import orjson

from tests.jobsets import FIXTURE_UID, jobset, rj

JOBSET: Final[dict[str, Any]] = jobset(
    "js", rj("a", 1, 1, 1), rj("b", 4, 8, 8), rj("c", 2, 4, 4), mode="Gang", uid=FIXTURE_UID
)
REFERENCE: Final = 300_000
"""Round trips of :data:`JOBSET` as JSON in a second of CPU, on the machine for which the budgets were set."""
_SAMPLE_SECONDS: Final = 0.01
_PERIOD_SECONDS: Final = 1.0
_BATCH: Final = 20
_ROOT: Final = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Pace:
    """JSON round trips in a second of CPU: the lowest, the median and the highest sample."""

    low: float
    median: float
    high: float

    @property
    def share(self) -> float:
        """Of the reference."""
        return self.median / REFERENCE


def sample() -> float:
    """Round trips in a second of this thread's CPU.

    CPU, not time: what waits for a core is not slower. And round trips, not turns of an empty loop: neighbours who take
    the cache slow down what uses memory three times as much.
    """
    began, times, spent = time.thread_time(), 0, 0.0
    while spent < _SAMPLE_SECONDS:
        for _ in range(_BATCH):
            orjson.loads(orjson.dumps(JOBSET))
        times += _BATCH
        spent = time.thread_time() - began
    return times / spent


class Sampler:
    """Samples in a process of its own, as long as the block lasts; there is at least one."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str]
        self._first = ""
        self._pace: Pace | None = None

    def __enter__(self) -> Self:
        # In a session of its own: an interrupt at the keyboard is for the benchmark, whose end ends this one.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.pace"],
            stdout=subprocess.PIPE,
            cwd=_ROOT,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self._first = self._process.stdout.readline()
        return self

    def __exit__(self, *_: object) -> None:
        # Samples wait in the pipe meanwhile: its 64 KB hold those of two hours.
        self._process.terminate()
        lines = self._first + self._process.communicate()[0]
        found = [float(line) for line in lines.split("\n")[:-1]]
        self._pace = Pace(min(found), round(statistics.median(found)), max(found))

    @property
    def pace(self) -> Pace:
        """Of the block, when it is over."""
        assert self._pace is not None
        return self._pace


def main() -> None:
    """A sample a second, for as long as somebody reads."""
    try:
        while True:
            print(round(sample()), flush=True)
            time.sleep(_PERIOD_SECONDS)
    except BrokenPipeError:
        sys.stderr.close()


if __name__ == "__main__":
    main()
