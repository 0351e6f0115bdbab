"""Where the demo is shown: as lines of text, to several at once; :mod:`gangctl.demo.live` is the terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gangctl.demo.scenario import PODS
from gangctl.demo.sight import Sight


class Display:
    """Told what happens; this one shows nothing."""

    def say(self, text: str) -> None:
        """A line of explanation."""

    def begin(self, title: str) -> None:
        """An act begins."""

    def show(self, sight: Sight, seconds: float) -> None:
        """How things are, ``seconds`` into the act; called when something changed, and now and then."""

    def end(self, verdict: str) -> None:
        """The act is over."""


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
