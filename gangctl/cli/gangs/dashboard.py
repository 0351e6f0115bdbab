"""``gangctl top`` on a terminal: the summary, redrawn on changes and periodically."""

from __future__ import annotations

from contextlib import aclosing
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from gangctl.api.objects import Key
from gangctl.cli.gangs.asking import Asking, live
from gangctl.cli.gangs.cluster import ScopeReader
from gangctl.cli.gangs.summary import SummedGang, seen, summarise, summary_sections
from gangctl.cli.gangs.watching import GangWatch
from gangctl.cli.output import text_of, without_colour

_TICK_SECONDS: Final = 1.0
"""Interval of redraws without a change, because ages grow."""


def show(asking: Asking, console: Console | None = None) -> None:
    """Show it until Ctrl-C, the normal end."""
    # None leaves it to rich, which follows NO_COLOR.
    screen = console or Console(highlight=False, no_color=without_colour() or None)

    async def follow(reader: ScopeReader, _keys: list[Key]) -> None:
        watch = GangWatch(reader)
        known: dict[Key, SummedGang] = {}
        with Live(console=screen, screen=True, auto_refresh=False) as picture:
            async with aclosing(watch.turns(_TICK_SECONDS)) as turns:
                async for changes in turns:
                    for key, _, gang in changes:
                        if gang is None:
                            known.pop(key, None)
                        else:
                            known[key] = seen(reader.state, gang)
                    now = reader.state.now()
                    sections = summary_sections(summarise(known.values()), now)
                    text = Text.from_ansi(text_of(sections, screen.width), no_wrap=True, overflow="crop")
                    picture.update(text, refresh=True)

    try:
        live(asking, follow, watching=True)
    except KeyboardInterrupt:
        return
