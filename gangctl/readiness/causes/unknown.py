"""What is said where nothing was found: what there is, and what was looked at."""

from __future__ import annotations

from collections.abc import Iterator

from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import LATE, Context, Finding, Until, some


def unknown(context: Context) -> Iterator[Finding]:
    """The last resort. What another controller runs is not known here, and is nobody's trouble."""
    snapshot, jobset = context.snapshot, context.snapshot.jobset
    if jobset.managed_elsewhere:
        yield context.cause(
            Reason.UNKNOWN,
            "another controller runs it, perhaps on another cluster: nothing is known of its pods here",
            evidence=[f"spec.managedBy is {jobset.managed_by}"],
            remedy="look where that controller runs it",
            command=context.kubectl(f"describe jobset {jobset.name}"),
            blocking=False,
        )
        return
    counts, phase = context.readiness.counts, context.readiness.phase
    looked = [
        "the JobSet and its queue",
        some(len(snapshot.jobs), "Job"),
        some(len(snapshot.pods), "pod"),
        some(len(snapshot.groups), "PodGroup") if snapshot.groups_known else "no PodGroups, which may not be read",
        some(len(snapshot.nodes), "node") if snapshot.nodes is not None else "no nodes",
        some(len(snapshot.refused), "refusal"),
    ]
    late = context.now - context.readiness.since >= LATE
    if not late:
        yield Until(context.readiness.since + LATE)
    yield context.cause(
        Reason.UNKNOWN,
        f"it is {phase.value}, and nothing that was looked at says why",
        evidence=[
            f"{counts.wanted} pods wanted, {counts.created} created, {counts.placed} on nodes, {counts.ready} ready",
            f"looked at: {', '.join(looked)}",
        ],
        remedy="read the events of the JobSet, its Jobs and pods",
        command=context.events(jobset.name),
        pods=max(0, counts.wanted - counts.ready),
        since=context.readiness.since,
        blocking=late,
    )
