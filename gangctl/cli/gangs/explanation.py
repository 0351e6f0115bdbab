"""Why a gang is not running, as a person reads it."""

from __future__ import annotations

from gangctl.cli.gangs.gangviews import ago, cause_lines, plural, sentence
from gangctl.cli.output import Section
from gangctl.errors import one_line
from gangctl.readiness.phases import GangPhase
from gangctl.readiness.result import Readiness


def is_no(gang: Readiness) -> bool:
    """Whether the answer to "does it run?" is no, and will be."""
    return gang.phase is GangPhase.FAILED or gang.blocked_by is not None


def headline(gang: Readiness, now: float) -> str:
    """Name, phase and how many pods are ready."""
    since = f" for {ago(gang.since, now)}" if gang.since else ""
    counts = f"{gang.counts.ready} of {plural(gang.counts.wanted, 'pod')} ready"
    return f"Gang {gang.namespace}/{gang.name}: {gang.phase.value}{since}" + ("" if gang.phase.over else f", {counts}")


def explanation(gang: Readiness, outcome: str, now: float) -> list[Section]:
    """All causes, the most likely first; of a settled gang, that it is."""
    lines = [gang.phase.sentence]
    if outcome:
        lines.append(one_line(sentence(outcome)))
    if not gang.causes and not gang.phase.settled:
        lines.append("Nothing is known to be in its way.")
    if gang.phase is GangPhase.READY:
        lines.append(
            "There is nothing to explain." if gang.lost is None else "Ready, but without the all-or-nothing guarantee."
        )
    sections = [Section(headline(gang, now), tuple(lines))]
    return [*sections, *_luck(gang, now), *cause_sections(gang, now)]


def _luck(gang: Readiness, now: float) -> list[Section]:
    """What broke the promise that it starts whole, of a gang that is ready all the same."""
    if gang.phase is not GangPhase.READY or gang.lost is None:
        return []
    return [Section("Why it is no gang", tuple(cause_lines(gang.lost, now)))]


def cause_sections(gang: Readiness, now: float) -> list[Section]:
    """The most likely cause, and the others."""
    if not gang.causes:
        return []
    first, *others = gang.causes
    sections = [Section("Most likely", tuple(cause_lines(first, now)))]
    if others:
        lines = [line for cause in others for line in cause_lines(cause, now)]
        sections.append(Section("Also", tuple(lines)))
    return sections
