"""Result of a check, and how it is run. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gangctl.cli.doctor.facts import Facts, Unseen, UnseenError
from gangctl.errors import one_line

_CHARACTERS: Final = 600
_MOST_EVIDENCE: Final = 8


class Verdict(StrEnum):
    """From the best to the worst; unknown is outside of this order."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict with a sentence, evidence, a remedy, and the next command."""

    verdict: Verdict
    message: str
    evidence: tuple[str, ...] = ()
    remedy: str = ""
    command: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """``facts`` are the fields of :class:`Facts` that ``evaluate`` uses: only these are read for it."""

    facts: tuple[str, ...]
    evaluate: Callable[[Facts], Outcome]


def ok(message: str, *evidence: str) -> Outcome:
    """The check passed."""
    return Outcome(Verdict.OK, message, evidence)


def warning(message: str, evidence: Iterable[str] = (), *, remedy: str, command: str = "") -> Outcome:
    """Gangs run, but the user should check something."""
    return Outcome(Verdict.WARNING, message, tuple(evidence), remedy, command)


def failed(message: str, evidence: Iterable[str] = (), *, remedy: str, command: str = "") -> Outcome:
    """Gangs do not work."""
    return Outcome(Verdict.FAILED, message, tuple(evidence), remedy, command)


def unknown(message: str, evidence: Iterable[str] = (), *, remedy: str = "", command: str = "") -> Outcome:
    """The facts prove nothing."""
    return Outcome(Verdict.UNKNOWN, message, tuple(evidence), remedy, command)


def of_unseen(fact: Unseen) -> Outcome:
    """A fact that could not be read, with the missing right."""
    if fact.right:
        message = f"you may not {fact.right}"
        return unknown(message, remedy=f"ask your administrator, or get the right to {fact.right}")
    return unknown(fact.why)


def examine(check: Check, facts: Facts) -> Outcome:
    """Run a check; every text is a single bounded line."""
    try:
        found = check.evaluate(facts)
    except UnseenError as error:
        found = of_unseen(error.unseen)
    evidence = tuple(one_line(line, _CHARACTERS) for line in dict.fromkeys(found.evidence) if line)
    texts = (one_line(text, _CHARACTERS) for text in (found.remedy, found.command))
    return Outcome(found.verdict, one_line(found.message, _CHARACTERS), evidence[:_MOST_EVIDENCE], *texts)


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst verdict; unknown only if there is no other."""
    found = set(verdicts)
    order = (Verdict.FAILED, Verdict.WARNING, Verdict.OK)
    return next((each for each in order if each in found), Verdict.UNKNOWN)
