"""Displays of the demo: lines of text, a live table in a terminal, and several at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gangctl.demo.scenario import PODS
from gangctl.demo.sight import JobSetSight, Sight, State
from gangctl.errors import escaped


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
        self._said = 0

    def say(self, text: str) -> None:
        self._write(text)

    def begin(self, title: str) -> None:
        self._shown, self._said = "", 0
        self._write("")
        self._write(title)

    def show(self, sight: Sight, seconds: float) -> None:
        for event in sight.said[self._said :]:
            self._write(f"  {seconds:5.1f} s   gangctl: {event}")
        self._said = len(sight.said)
        cells = _cells(sight)
        if cells != self._shown:
            self._write(f"  {seconds:5.1f} s   {cells}")
        self._shown = cells

    def end(self, verdict: str) -> None:
        self._write(f"  {verdict}.")


def _cells(sight: Sight) -> str:
    cells = [
        f"{each.name}: {'finished' if each.finished else f'{each.bound}/{PODS} bound':<10}" for each in sight.jobsets
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
    for each in sight.jobsets:
        table.add_row(each.name, _bar(each), str(each.bound), str(each.waiting), _state(each))
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
