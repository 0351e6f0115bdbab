"""How long the command line takes from its start to its end, beside Python that does nothing."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from benchmarks.chart import Axis, Chart, distribution
from benchmarks.result import Figure, Findings, Observed
from benchmarks.table import Table

ROUNDS, RUNS = 5, 20
QUICK_ROUNDS, QUICK_RUNS = 1, 2
_FILE: Final = Path(__file__).parent.parent / "examples" / "01-pytorch.yaml"
COMMANDS: Final = {
    "nothing": ("-c", "pass"),
    "help": ("-m", "gangctl", "--help"),
    "plan": ("-m", "gangctl", "plan", "-f", str(_FILE)),
}
SHOWN: Final = {"nothing": "python -c pass", "help": "gangctl --help", "plan": "gangctl plan of one file"}


def once(arguments: tuple[str, ...]) -> float:
    """Milliseconds of one run; one that fails is no measurement."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - began) * 1000


def main(quick: bool = False) -> Findings:
    """Take turns, so that whatever disturbs the machine disturbs all of them."""
    rounds, runs = (QUICK_ROUNDS, QUICK_RUNS) if quick else (ROUNDS, RUNS)
    for arguments in COMMANDS.values():
        once(arguments)
    took: dict[str, list[list[float]]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        turns: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for _ in range(runs):
            for name, arguments in COMMANDS.items():
                turns[name].append(once(arguments))
        for name, times in turns.items():
            took[name].append(times)
    table = Table("start", ["command", "median", "p99", "of Python"])
    chart = Chart("start", "Start to end of commands", Axis("ms"), Axis("% of runs"))
    findings = Findings(table, charts=[chart])
    bare = tuple(statistics.median(times) for times in took["nothing"])
    for name, each in took.items():
        every = [value for times in each for value in times]
        medians = tuple(statistics.median(times) for times in each)
        observed = Observed.of(every)
        ratio = statistics.median(medians) / statistics.median(bare)
        table.add(SHOWN[name], f"{observed.median:.0f} ms", f"{observed.p99:.0f} ms", f"{ratio:.1f}x")
        chart.lines.append(distribution(SHOWN[name], every))
        if name != "nothing":
            findings.figures.append(Figure(f"start-{name}", medians, bare, observed))
    table.remarks.append(f"{rounds} rounds of {runs} runs each, in turns; the first run of each is not counted.")
    return findings
