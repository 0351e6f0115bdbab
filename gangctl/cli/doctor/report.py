"""The doctor's report, as a document and as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Literal, TypedDict

from gangctl.cli.doctor.outcome import Outcome, Verdict
from gangctl.cli.doctor.subjects import Area, Subject
from gangctl.cli.output import Section

VerdictWord = Literal["ok", "warning", "failed", "unknown"]


class CheckReport(TypedDict):
    """One check."""

    id: str
    area: str
    question: str
    tried: Annotated[str, "How it was looked at."]
    verdict: VerdictWord
    message: str
    evidence: list[str]
    remedy: Annotated[str, "What to do; empty where nothing is."]
    command: Annotated[str, "The next command to run; may be empty."]


class DoctorReport(TypedDict):
    """What ``gangctl doctor -o json`` prints."""

    cluster: Annotated[str, "Address of the API server."]
    namespace: Annotated[str, "Where dry runs and the canary were made."]
    gangctl: Annotated[str, "Version of the gangctl that asked."]
    verdict: Annotated[VerdictWord, "The worst of all checks; unknown only where nothing else was found."]
    checks: list[CheckReport]


def check_report(subject: Subject, outcome: Outcome) -> CheckReport:
    """One check."""
    return {
        "id": subject.id,
        "area": subject.area.value,
        "question": subject.question,
        "tried": subject.tried,
        "verdict": outcome.verdict.value,
        "message": outcome.message,
        "evidence": list(outcome.evidence),
        "remedy": outcome.remedy,
        "command": outcome.command,
    }


def sections(report: DoctorReport) -> list[Section]:
    """A heading for each area, a line for each check; all details of those that are not ok."""
    counts = Counter(each["verdict"] for each in report["checks"])
    summary = ", ".join(f"{counts[verdict.value]} {verdict.value}" for verdict in Verdict if counts[verdict.value])
    found = [Section(f"Doctor of {report['cluster']}: {summary}")]
    for area in Area:
        lines = [line for each in report["checks"] if each["area"] == area.value for line in _lines(each)]
        if lines:
            found.append(Section(area.value, tuple(lines)))
    return found


def _lines(check: CheckReport) -> Iterator[str]:
    verdict = check["verdict"]
    shown = verdict.upper() if verdict in {"warning", "failed"} else verdict
    yield f"{shown:<8} {check['id']}: {check['message']}"
    deeper = " " * 9
    if verdict != "ok":
        yield f"{deeper}tried: {check['tried']}"
    for each in check["evidence"]:
        yield f"{deeper}- {each}"
    if check["remedy"]:
        yield f"{deeper}What to do: {check['remedy']}"
    if check["command"]:
        yield f"{deeper}$ {check['command']}"
