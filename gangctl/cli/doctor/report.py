"""One run of the doctor, and its report as a document and as text."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Literal, TypedDict

from gangctl import __version__
from gangctl.cli.cluster import connect
from gangctl.cli.doctor.canary import run_canary
from gangctl.cli.doctor.check import Area, Check, CheckOutcome, CheckVerdict, overall
from gangctl.cli.doctor.checks import canary
from gangctl.cli.doctor.cluster import Cluster, seen_or, version
from gangctl.cli.options import ClusterFlags
from gangctl.cli.output import Section
from gangctl.client.client import Client
from gangctl.client.config import ClusterConfig

VerdictWord = Literal["ok", "warning", "failed", "unknown"]


class CheckReport(TypedDict):
    """One check."""

    id: str
    area: str
    question: str
    tried: Annotated[str, "How it was checked."]
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


def look(
    flags: ClusterFlags,
    checks: Sequence[Check],
    *,
    namespace: str | None,
    gangctl_namespace: str | None,
    kueue_namespace: str,
    canary_seconds: float | None,
    agree: Callable[[str], None],
) -> DoctorReport:
    """Check the cluster of a kubeconfig.

    ``canary_seconds`` is the timeout of each step of the canary, None without one. ``agree`` is called with its
    namespace before anything is created, and raises to stop it.
    """

    async def ask(client: Client, config: ClusterConfig) -> DoctorReport:
        home = namespace or config.namespace or "default"
        cluster = Cluster(client, home, gangctl_namespace, kueue_namespace)
        # It shows whether the cluster is reachable.
        await seen_or(version(cluster), "")
        # Of the cluster's clock, by which its Leases are renewed.
        cluster.now = client.server_time().timestamp()
        outcomes = await _outcomes(checks, cluster)
        if canary_seconds is not None:
            # All other facts were read by now: none of them is of the canary.
            agree(home)
            made = asyncio.create_task(run_canary(client, home, canary_seconds))
            cluster.facts[canary.canary] = made
            # No check awaits it yet, so Ctrl-C cancels it once, and it deletes what it has made.
            await seen_or(made, None)
            # All again: the canary decides other checks, too, and no other fact is read twice.
            outcomes = await _outcomes(checks, cluster)
        return {
            "cluster": config.origin,
            "namespace": home,
            "gangctl": __version__,
            "verdict": overall(outcome.verdict for outcome in outcomes).value,
            "checks": [_answer(check, outcome, flags) for check, outcome in zip(checks, outcomes, strict=True)],
        }

    return connect(flags, ask)


async def _outcomes(checks: Sequence[Check], cluster: Cluster) -> list[CheckOutcome]:
    return await asyncio.gather(*(check.outcome(cluster) for check in checks))


def _answer(check: Check, outcome: CheckOutcome, flags: ClusterFlags) -> CheckReport:
    return {
        "id": check.id,
        "area": check.area.value,
        "question": check.question,
        "tried": check.tried,
        "verdict": outcome.verdict.value,
        "message": outcome.message,
        "evidence": list(outcome.evidence),
        "remedy": outcome.remedy,
        "command": flags.on(outcome.command),
    }


def sections(report: DoctorReport) -> list[Section]:
    """A heading for each area, a line for each check; all details of those that are not ok."""
    counts = Counter(check["verdict"] for check in report["checks"])
    summary = ", ".join(f"{counts[verdict.value]} {verdict.value}" for verdict in CheckVerdict if counts[verdict.value])
    shown = [Section(f"Doctor of {report['cluster']}: {summary}")]
    for area in Area:
        lines = [line for check in report["checks"] if check["area"] == area for line in _lines(check)]
        if lines:
            shown.append(Section(area.value, tuple(lines)))
    return shown


def _lines(check: CheckReport) -> Iterator[str]:
    verdict = check["verdict"]
    word = verdict.upper() if verdict in {"warning", "failed"} else verdict
    yield f"{word:<8} {check['id']}: {check['message']}"
    deeper = " " * 9
    if verdict != "ok":
        yield f"{deeper}tried: {check['tried']}"
    for line in check["evidence"]:
        yield f"{deeper}- {line}"
    if check["remedy"]:
        yield f"{deeper}What to do: {check['remedy']}"
    if check["command"]:
        yield f"{deeper}$ {check['command']}"
