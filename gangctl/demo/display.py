"""State and outcome of an act, and displays of them: lines of text, a live table in a terminal, and several at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gangctl.api.meta import JOBSET_NAME
from gangctl.api.pods import is_finished
from gangctl.demo.scenario import CPUS, JOBSETS, NAMES, PODS
from gangctl.errors import escaped

State = Literal["waiting", "half-started", "running", "finished"]


@dataclass(frozen=True, slots=True)
class JobSetSight:
    """Pods of one JobSet that have not ended: on a node, and waiting for one."""

    name: str
    bound: int
    waiting: int
    finished: bool

    @property
    def state(self) -> State:
        """What that means."""
        if self.finished:
            return "finished"
        if self.bound >= PODS:
            return "running"
        return "half-started" if self.bound else "waiting"


@dataclass(frozen=True, slots=True)
class Sight:
    """The state at one point in time."""

    jobsets: tuple[JobSetSight, ...]
    nodes: tuple[tuple[str, int, int], ...]
    """Name, pods of the demo, and places."""
    said: tuple[str, ...]

    @property
    def stranded(self) -> int:
        """Pods with a node whose JobSet cannot start."""
        return sum(jobset.bound for jobset in self.jobsets if jobset.state == "half-started")

    @property
    def finished(self) -> int:
        """Finished JobSets."""
        return sum(jobset.finished for jobset in self.jobsets)

    @property
    def arrived(self) -> bool:
        """Whether all pods exist, or have finished."""
        return all(jobset.finished or jobset.bound + jobset.waiting >= PODS for jobset in self.jobsets)


def see(
    pods: Iterable[Mapping[str, Any]], finished: Iterable[str], places: Mapping[str, int], said: Sequence[str]
) -> Sight:
    """Count pods by JobSet and node."""
    bound: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    nodes: Counter[str] = Counter()
    for pod in pods:
        if is_finished(pod):
            continue
        name = (pod["metadata"].get("labels") or {}).get(JOBSET_NAME, "")
        node = pod["spec"].get("nodeName")
        (bound if node else waiting)[name] += 1
        if node:
            nodes[node] += 1
    done = frozenset(finished)
    return Sight(
        tuple(JobSetSight(name, bound[name], waiting[name], name in done) for name in NAMES),
        tuple((name, nodes[name], places[name]) for name in places),
        tuple(said),
    )


@dataclass(frozen=True, slots=True)
class ActResult:
    """Result of an act: the maximum of stranded pods when nothing changed any more, and finished JobSets."""

    gangs: bool
    stranded: int
    finished: int
    seconds: float
    events: Mapping[str, int] = field(default_factory=dict)

    @property
    def as_expected(self) -> bool:
        """Without gangs pods strand; with gangs none do, and all JobSets finish."""
        if self.gangs:
            return self.stranded == 0 and self.finished == JOBSETS
        return self.stranded > 0

    def as_json(self) -> dict[str, Any]:
        """The act in ``gangctl demo -o json``."""
        return {
            "gangs": self.gangs,
            "strandedPods": self.stranded,
            "finishedJobSets": self.finished,
            "seconds": round(self.seconds, 1),
            "events": dict(self.events),
        }

    def __str__(self) -> str:
        """The act in one sentence."""
        pods = "no pod" if not self.stranded else f"{self.stranded} pods" if self.stranded > 1 else "1 pod"
        done = f"all {JOBSETS}" if self.finished == JOBSETS else f"{self.finished or 'none'} of {JOBSETS}"
        return f"{done} JobSets finished, {pods} stranded"


@dataclass(frozen=True, slots=True)
class DemoVerdict:
    """Both acts; ``places`` is the number of pods that fit on all nodes."""

    kubernetes: str
    simulated: bool
    without: ActResult
    with_gangs: ActResult
    places: int = CPUS

    @property
    def passed(self) -> bool:
        """Whether gangs prevented stranded pods."""
        return self.without.as_expected and self.with_gangs.as_expected

    @property
    def lines(self) -> tuple[str, str, str]:
        """The demo in three sentences."""
        return (
            f"Without gangs: {self.without}.",
            f"With gangctl: {self.with_gangs}.",
            "That is what gangs are for." if self.passed else "That is not what gangs are for: something is wrong.",
        )

    def as_json(self) -> dict[str, Any]:
        """The document of ``gangctl demo -o json``."""
        return {
            "kubernetes": self.kubernetes,
            "simulated": self.simulated,
            "scenario": {"jobSets": JOBSETS, "podsPerJobSet": PODS, "places": self.places},
            "acts": [self.without.as_json(), self.with_gangs.as_json()],
            "passed": self.passed,
        }


class Display:
    """Base class, which shows nothing."""

    def say(self, text: str) -> None:
        """A line of explanation."""

    def begin(self, title: str) -> None:
        """An act begins."""

    def show(self, sight: Sight, seconds: float) -> None:
        """The state ``seconds`` into the act; called on changes, and periodically."""

    def end(self, verdict: str) -> None:
        """The act has ended."""


class Lines(Display):
    """Plain lines, one for each change, as for a pipe or a log."""

    def __init__(self, write: Callable[[str], None]) -> None:
        """``write`` takes one line at a time."""
        self._write = write
        self._shown = ""
        self._said: tuple[str, ...] = ()

    def say(self, text: str) -> None:
        self._write(text)

    def begin(self, title: str) -> None:
        self._shown, self._said = "", ()
        self._write("")
        self._write(title)

    def show(self, sight: Sight, seconds: float) -> None:
        # By what they say, not by their number: one that is listed late may be older than those that are shown.
        before = Counter(self._said)
        for event in sight.said:
            if before[event]:
                before[event] -= 1
            else:
                self._write(f"  {seconds:5.1f} s   gangctl: {event}")
        self._said = sight.said
        cells = _cells(sight)
        if cells != self._shown:
            self._write(f"  {seconds:5.1f} s   {cells}")
        self._shown = cells

    def end(self, verdict: str) -> None:
        self._write(f"  {verdict}.")


def _cells(sight: Sight) -> str:
    cells = [
        f"{jobset.name}: {'finished' if jobset.finished else f'{jobset.bound}/{PODS} bound':<10}"
        for jobset in sight.jobsets
    ]
    return "   ".join(cells).rstrip()


class Several(Display):
    """Shows the same to each."""

    def __init__(self, displays: Sequence[Display]) -> None:
        """In this order."""
        self._displays = tuple(displays)

    def say(self, text: str) -> None:
        for display in self._displays:
            display.say(text)

    def begin(self, title: str) -> None:
        for display in self._displays:
            display.begin(title)

    def show(self, sight: Sight, seconds: float) -> None:
        for display in self._displays:
            display.show(sight, seconds)

    def end(self, verdict: str) -> None:
        for display in self._displays:
            display.end(verdict)


_STYLES: Final[Mapping[State, str]] = {
    "waiting": "dim",
    "half-started": "red",
    "running": "green",
    "finished": "bold green",
}
_EVENTS: Final = 4
_PER_SECOND: Final = 8


class LiveTable(Display):
    """One table for each act; its final state stays on the screen."""

    def __init__(self, console: Console) -> None:
        """Draw on ``console``."""
        self._console = console
        self._live: Live | None = None

    def say(self, text: str) -> None:
        self._console.print(Text(escaped(text)))

    def begin(self, title: str) -> None:
        self._console.print()
        self._console.print(Text(escaped(title), style="bold cyan"))
        self._live = Live(console=self._console, refresh_per_second=_PER_SECOND, transient=False)
        self._live.start()

    def show(self, sight: Sight, seconds: float) -> None:
        if self._live is not None:
            self._live.update(picture(sight, seconds))

    def end(self, verdict: str) -> None:
        self.close()
        self._console.print(Text(f"  {escaped(verdict)}.", style="bold"))

    def close(self) -> None:
        """Restore the terminal, also in the middle of an act."""
        live, self._live = self._live, None
        if live is not None:
            live.stop()


def picture(sight: Sight, seconds: float) -> Group:
    """JobSets, nodes and gangctl's last events."""
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for header in ("JOBSET", "PODS", "BOUND", "WAITING", "STATE"):
        table.add_column(header, justify="right" if header in {"BOUND", "WAITING"} else "left", no_wrap=True)
    for jobset in sight.jobsets:
        table.add_row(jobset.name, _bar(jobset), str(jobset.bound), str(jobset.waiting), _state(jobset))
    nodes = "   ".join(
        f"{escaped(name)} {'#' * used}{'.' * max(0, places - used)}" for name, used, places in sight.nodes
    )
    lines = [Text(f"  nodes: {nodes}   {seconds:.1f} s", style="dim")]
    lines += [
        Text(f"  gangctl: {escaped(event)}", style="cyan", overflow="ellipsis", no_wrap=True)
        for event in sight.said[-_EVENTS:]
    ]
    return Group(Padding(table, (0, 0, 0, 2)), *lines)


def _bar(each: JobSetSight) -> Text:
    if each.finished:
        return Text("=" * PODS, style=_STYLES["finished"])
    return Text("#" * min(each.bound, PODS) + "." * max(0, PODS - each.bound), style=_STYLES[each.state])


def _state(each: JobSetSight) -> Text:
    return Text(each.state, style=_STYLES[each.state])
