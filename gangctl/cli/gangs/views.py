"""Gangs as text: rows, ages, causes, and why one is not running."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Final

from gangctl.cli.messages import plural
from gangctl.cli.output import EMPTY, INDENT, Entry, Section
from gangctl.errors import one_line
from gangctl.kueue.amounts import span
from gangctl.readiness.causes.ranking import WAITING
from gangctl.readiness.report import gang_object
from gangctl.readiness.result import Cause, GangPhase, Readiness

HEADERS: Final = ("NAMESPACE", "NAME", "PHASE", "READY", "REASON", "QUEUE", "SINCE", "AGE")
CLUSTER: Final = ("CLUSTER",)
"""Follows these where a gang is on a worker cluster of MultiKueue."""
WIDE_HEADERS: Final = ("CLUSTERQUEUE", "RESTARTS", "GROUPS", "MESSAGE")
LEGEND: Final = (
    "READY: pods that are ready, of those that should exist now. REASON: the most likely cause of what is not ready."
)


def ago(at: int, now: float) -> str:
    """How long ago a time was; a dash for none."""
    return span(timedelta(seconds=max(0.0, now - at))) if at else EMPTY


def headers_of(gangs: Iterable[Readiness]) -> tuple[str, ...]:
    """The headers of the table of these gangs, without those of ``-o wide``."""
    return (*HEADERS, *CLUSTER) if any(gang.cluster for gang in gangs) else HEADERS


def gang_row(gang: Readiness, now: float, headers: Sequence[str] = HEADERS) -> tuple[str, ...]:
    """One gang under :func:`headers_of` and :data:`WIDE_HEADERS`."""
    return (
        gang.namespace,
        gang.name,
        gang.phase.value,
        f"{gang.counts.ready}/{gang.counts.wanted}",
        gang.reason.value if gang.reason is not None else "",
        gang.local_queue,
        ago(gang.since, now),
        ago(gang.created_at, now),
        *((gang.cluster,) if len(headers) > len(HEADERS) else ()),
        gang.cluster_queue,
        str(gang.attempt),
        str(len(gang.groups)),
        gang.causes[0].message if gang.causes else "",
    )


def gang_entry(gang: Readiness, now: float, headers: Sequence[str]) -> Entry:
    """One gang of a list."""
    return Entry(gang_object(gang), gang_row(gang, now, headers))


def sentence(text: str) -> str:
    """A clause as a sentence of its own."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}" if text else ""


def cause_lines(cause: Cause, now: float) -> Iterator[str]:
    """Cause, evidence, remedy and the next command."""
    held = [
        cause.reason.value,
        "" if cause.blocking else "ends by itself" if cause.reason in WAITING else "holds nothing back",
        plural(cause.pods, "pod") if cause.pods else "",
        f"for {ago(cause.since, now)}" if cause.since else "",
    ]
    yield sentence(cause.message)
    yield f"{INDENT}({', '.join(filter(None, held))})"
    if cause.groups:
        yield f"{INDENT}groups: {_some(cause.groups)}"
    for each in cause.evidence:
        yield f"{INDENT}- {each}"
    if cause.remedy:
        yield f"{INDENT}What to do: {cause.remedy[:1].lower()}{cause.remedy[1:]}"
    if cause.command:
        yield f"{INDENT}$ {cause.command}"


_MOST_NAMED: Final = 4


def _some(names: Sequence[str]) -> str:
    """The first names of many."""
    rest = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def is_no(gang: Readiness) -> bool:
    """Whether it does not run, and will not without a change."""
    return gang.phase is GangPhase.FAILED or gang.blocked_by is not None


def headline(gang: Readiness, now: float) -> str:
    """Name, phase and how many pods are ready."""
    since = f" for {ago(gang.since, now)}" if gang.since else ""
    counts = f"{gang.counts.ready} of {plural(gang.counts.wanted, 'pod')} ready"
    return f"Gang {gang.namespace}/{gang.name}: {gang.phase.value}{since}" + ("" if gang.phase.over else f", {counts}")


def on_cluster(gang: Readiness) -> list[str]:
    """The worker cluster of MultiKueue that a gang is on, in a sentence, if it is on one."""
    verb = "ran" if gang.phase.over else "runs"
    return [f"MultiKueue {verb} it on worker cluster {gang.cluster}."] if gang.cluster else []


def explanation(gang: Readiness, outcome: str, now: float) -> list[Section]:
    """All causes, the most likely first; for a settled gang, its phase."""
    lines = [gang.phase.sentence, *on_cluster(gang)]
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
    """What breaks the all-or-nothing guarantee of a gang that is ready."""
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
