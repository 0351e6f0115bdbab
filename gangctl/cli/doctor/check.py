"""A check: its question, how it is answered, and its outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from gangctl.api.scheduling import GATES
from gangctl.cli.doctor.cluster import Cluster, UnseenError
from gangctl.errors import one_line

SWITCH_ON: Final = f"start kube-scheduler with the feature gate {GATES}, the same as kube-apiserver"
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


class CheckVerdict(StrEnum):
    """From the best to the worst; unknown is outside of this order."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """A verdict with a sentence, evidence, a remedy, and the next command."""

    verdict: CheckVerdict
    message: str
    evidence: tuple[str, ...] = ()
    remedy: str = ""
    command: str = ""


def ok(message: str, *evidence: str) -> CheckOutcome:
    """The check passed."""
    return CheckOutcome(CheckVerdict.OK, message, evidence)


def warning(message: str, evidence: Iterable[str] = (), *, remedy: str, command: str = "") -> CheckOutcome:
    """Gangs run, but the user should check something."""
    return CheckOutcome(CheckVerdict.WARNING, message, tuple(evidence), remedy, command)


def failed(message: str, evidence: Iterable[str] = (), *, remedy: str, command: str = "") -> CheckOutcome:
    """Gangs do not work."""
    return CheckOutcome(CheckVerdict.FAILED, message, tuple(evidence), remedy, command)


def unknown(message: str, evidence: Iterable[str] = (), *, remedy: str = "", command: str = "") -> CheckOutcome:
    """The facts prove nothing."""
    return CheckOutcome(CheckVerdict.UNKNOWN, message, tuple(evidence), remedy, command)


Evaluate: TypeAlias = Callable[[Cluster], Awaitable[CheckOutcome]]


@dataclass(frozen=True, slots=True)
class Check:
    """``id`` is the name for ``--only``, ``tried`` how the question is answered."""

    id: str
    area: Area
    question: str
    tried: str
    evaluate: Evaluate

    async def outcome(self, cluster: Cluster) -> CheckOutcome:
        """Run it; every text is a single bounded line."""
        try:
            outcome = await self.evaluate(cluster)
        except UnseenError as error:
            outcome = unknown(error.why)
            if error.right:
                remedy = f"ask your administrator, or get the right to {error.right}"
                outcome = unknown(f"you may not {error.right}", remedy=remedy)
        evidence = tuple(one_line(line, _CHARACTERS) for line in dict.fromkeys(outcome.evidence) if line)
        texts = (one_line(text, _CHARACTERS) for text in (outcome.remedy, outcome.command))
        return CheckOutcome(outcome.verdict, one_line(outcome.message, _CHARACTERS), evidence[:_MOST_EVIDENCE], *texts)


REGISTERED: Final[list[Check]] = []
"""Every check of the modules that are imported: :data:`gangctl.cli.doctor.checks.CHECKS` has all, in order."""


def check(id: str, area: Area, question: str, tried: str) -> Callable[[Evaluate], Evaluate]:  # noqa: A002 -- the field
    """Decorate the function that evaluates the facts of a check."""

    def register(evaluate: Evaluate) -> Evaluate:
        REGISTERED.append(Check(id, area, question, tried, evaluate))
        return evaluate

    return register


def overall(verdicts: Iterable[CheckVerdict]) -> CheckVerdict:
    """The worst verdict; unknown only if there is no other."""
    order = (CheckVerdict.FAILED, CheckVerdict.WARNING, CheckVerdict.OK)
    given = set(verdicts)
    return next((verdict for verdict in order if verdict in given), CheckVerdict.UNKNOWN)
