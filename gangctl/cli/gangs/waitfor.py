"""Wait for gangs: the end of the wait, and progress messages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import click

from gangctl.api.objects import Key
from gangctl.cli.gangs.asking import Asking, live
from gangctl.cli.gangs.cluster import Reader
from gangctl.cli.gangs.state import GangState
from gangctl.cli.gangs.views import sentence
from gangctl.cli.gangs.watching import Changes, Watch
from gangctl.cli.messages import plural, printable
from gangctl.cli.output import Section, print_answer
from gangctl.errors import GangctlError
from gangctl.gang.reasons import Reason
from gangctl.kueue.amounts import span
from gangctl.readiness.report import gang_object
from gangctl.readiness.result import GangPhase, Readiness

ENDLESS: Final = frozenset(
    {
        Reason.NEVER_FITS,
        Reason.NOT_GANGED,
        Reason.INVALID_GANG_CONFIG,
        Reason.SCHEDULING_GATE_OFF,
        Reason.FIELD_DROPPED,
        Reason.UNSUPPORTED_SCHEDULER,
        Reason.PRIORITY_MISMATCH,
        Reason.MIN_COUNT_UNREACHABLE,
        Reason.GANG_TAIL_BLOCKED,
        Reason.EXCLUSIVE_TOPOLOGY_DEADLOCK,
        Reason.TOPOLOGY_TOO_SMALL,
        Reason.FAILED_TO_START,
        Reason.DEACTIVATED,
        Reason.TOO_MANY_PODSETS,
        Reason.PRIORITY_CLASS_MISSING,
        Reason.FRAMEWORK_NOT_ENABLED,
        Reason.NAMESPACE_NOT_MANAGED,
    }
)
"""Causes that stay until the user changes something: ``--fail-fast`` ends the wait."""
_GOALS: Final[Mapping[str, tuple[GangPhase, ...]]] = {
    "scheduled": (GangPhase.STARTING, GangPhase.PARTIALLY_READY, GangPhase.READY, GangPhase.SUCCEEDED),
    "ready": (GangPhase.READY, GangPhase.SUCCEEDED),
    "finished": (GangPhase.SUCCEEDED,),
}


class NotReachedError(GangctlError):
    """The wait ended, and a gang did not reach the goal: exit code 1."""

    code = "NotReached"


@dataclass(slots=True)
class _Wait:
    """State of the wait; ``timeout`` in seconds."""

    goal: str
    timeout: float
    fail_fast: bool
    state: GangState
    keys: Sequence[Key]
    there: dict[Key, Readiness] = field(default_factory=dict)
    last: dict[Key, Readiness] = field(default_factory=dict)
    printed: dict[Key, str] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether all reached the goal: one that reached it counts, even if it changes later."""
        return len(self.there) == len(self.keys)

    def learn(self, changes: Changes) -> None:
        """Print changes; NotReachedError if one will never reach the goal."""
        for key, _, gang in changes:
            if key not in self.keys:
                continue
            if gang is None:
                raise NotReachedError(f"JobSet {_name(key)} was deleted, or asks for no gang any more")
            self.last[key] = gang
            self._print_progress(key, gang)
            if gang.phase in _GOALS[self.goal]:
                self.there[key] = gang
            elif key not in self.there and self._is_hopeless(gang):
                raise self._error(key, gang, f"will not be {self.goal}")

    def too_late(self) -> NotReachedError:
        """The error with the gangs that did not reach the goal."""
        missing = [key for key in self.keys if key not in self.there]
        first = missing[0]
        others = f" (nor {', '.join(_name(key) for key in missing[1:])})" if missing[1:] else ""
        waited = span(timedelta(seconds=self.timeout))
        return self._error(first, self.last.get(first), f"is not {self.goal} after {waited}{others}")

    def _is_hopeless(self, gang: Readiness) -> bool:
        """Whether it will not reach the goal without a change."""
        if gang.phase is GangPhase.FAILED:
            return True
        return self.fail_fast and any(cause.blocking and cause.reason in ENDLESS for cause in gang.causes)

    def _error(self, key: Key, gang: Readiness | None, what: str) -> NotReachedError:
        if gang is None:
            return NotReachedError(f"gang {_name(key)} {what}")
        first = next((cause for cause in gang.causes if cause.reason in ENDLESS), None) or next(iter(gang.causes), None)
        why = first.message if first is not None else self.state.outcome(key) or gang.phase.sentence.rstrip(".")
        remedy = first.remedy if first is not None else ""
        look = f"gangctl why {key[1]} -n {key[0]}"
        hint = f"{remedy}; {look} says more" if remedy else f"{look} says more"
        return NotReachedError(f"gang {_name(key)} {what}: {gang.phase.value}: {why}", hint=hint)

    def _print_progress(self, key: Key, gang: Readiness) -> None:
        line = f"{_name(key)}: {progress(gang)}"
        if self.printed.get(key) != line:
            self.printed[key] = line
            click.echo(printable(line), err=True)


def _name(key: Key) -> str:
    return f"{key[0]}/{key[1]}"


def progress(gang: Readiness) -> str:
    """Phase, counts and the first cause, on one line."""
    counts = f"{gang.counts.ready} of {plural(gang.counts.wanted, 'pod')} ready"
    why = f": {sentence(gang.causes[0].message)}" if gang.causes else ""
    return gang.phase.value if gang.phase.over else f"{gang.phase.value}, {counts}{why}"


def wait_for_gangs(asking: Asking, form: str, *, goal: str, timeout: float, fail_fast: bool) -> None:
    """Wait, and print the final state of the gangs; NotReachedError if not all reached the goal."""

    async def wait(reader: Reader, keys: list[Key]) -> tuple[_Wait, NotReachedError | None]:
        waiting = _Wait(goal, timeout, fail_fast, reader.state, keys)
        try:
            await _until_over(waiting, reader)
        except NotReachedError as error:
            return waiting, error
        return waiting, None

    waiting, error = live(asking, wait, watching=True)
    _print(waiting, form)
    if error is not None:
        raise error


async def _until_over(waiting: _Wait, reader: Reader) -> None:
    watch = Watch(reader)
    async with aclosing(watch.turns()) as turns:
        waiting.learn(await anext(turns))
        deadline = asyncio.timeout(waiting.timeout)
        try:
            async with deadline:
                while not waiting.over:
                    waiting.learn(await anext(turns))
        except TimeoutError:
            raise waiting.too_late() from None


def _print(waiting: _Wait, form: str) -> None:
    gangs = [waiting.last[key] for key in waiting.keys if key in waiting.last]
    print_answer(
        form,
        [gang_object(each) for each in gangs],
        lambda: [Section(lines=tuple(f"{_name(each.key)}: {progress(each)}" for each in gangs))],
        map(gang_object, waiting.there.values()),
    )
