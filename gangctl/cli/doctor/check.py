"""A check: its question, how it is answered, and its outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from gangctl.cli.doctor.cluster import Cluster, UnseenError
from gangctl.errors import one_line

GATES: Final = "GenericWorkload (on 1.35 and 1.36 GangScheduling, too)"
"""Feature gates, in the words of remedies."""
_CHARACTERS: Final = 600
_MOST_EVIDENCE: Final = 8


class Area(StrEnum):
    """Headings of the report, in its order."""

    KUBERNETES = "Kubernetes"
    JOBSET = "JobSet"
    GANGCTL = "gangctl"
    GANGS = "Gangs of this cluster"
    KUEUE = "Kueue"
    RIGHTS = "Your rights"
    CANARY = "Canary"


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


Evaluate: TypeAlias = Callable[[Cluster], Awaitable[Outcome]]


@dataclass(frozen=True, slots=True)
class Check:
    """``id`` is the name for ``--only``, ``tried`` how the question is answered."""

    id: str
    area: Area
    question: str
    tried: str
    evaluate: Evaluate

    async def outcome(self, cluster: Cluster) -> Outcome:
        """Run it; every text is a single bounded line."""
        try:
            found = await self.evaluate(cluster)
        except UnseenError as error:
            found = unknown(error.why)
            if error.right:
                remedy = f"ask your administrator, or get the right to {error.right}"
                found = unknown(f"you may not {error.right}", remedy=remedy)
        evidence = tuple(one_line(line, _CHARACTERS) for line in dict.fromkeys(found.evidence) if line)
        texts = (one_line(text, _CHARACTERS) for text in (found.remedy, found.command))
        return Outcome(found.verdict, one_line(found.message, _CHARACTERS), evidence[:_MOST_EVIDENCE], *texts)


REGISTERED: Final[list[Check]] = []
"""Every check of the modules that are imported: :data:`gangctl.cli.doctor.checks.CHECKS` has all, in order."""


def check(id: str, area: Area, question: str, tried: str) -> Callable[[Evaluate], Evaluate]:  # noqa: A002 -- the field
    """Decorate the function that evaluates the facts of a check."""

    def register(evaluate: Evaluate) -> Evaluate:
        REGISTERED.append(Check(id, area, question, tried, evaluate))
        return evaluate

    return register


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """The worst verdict; unknown only if there is no other."""
    order = (Verdict.FAILED, Verdict.WARNING, Verdict.OK)
    given = set(verdicts)
    return next((verdict for verdict in order if verdict in given), Verdict.UNKNOWN)
