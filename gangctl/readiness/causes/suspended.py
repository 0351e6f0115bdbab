"""A JobSet that somebody suspended, and that no queue will start."""

from __future__ import annotations

from collections.abc import Iterator

from gangctl.gang.reasons import Reason
from gangctl.readiness.causes.context import Context, Finding, some


def suspended(context: Context) -> Iterator[Finding]:
    """Suspended, with no queue that could take it up."""
    jobset = context.snapshot.jobset
    if not jobset.suspend or context.snapshot.queue is not None:
        return
    evidence = ["spec.suspend is true"]
    leaving = sum(len(group.pods) + len(group.leaving) + len(group.earlier) for group in context.groups)
    if jobset.queue:
        evidence.append(f'it names LocalQueue "{jobset.queue}", and nothing is known of Kueue here')
    if leaving:
        evidence.append(f"{some(leaving, 'pod')} of it are still there, and on their way out")
    yield context.cause(
        Reason.SUSPENDED,
        "it is suspended, and no queue will start it",
        evidence=evidence,
        remedy="set spec.suspend to false once it should run",
        command=context.kubectl(f"""patch jobset {jobset.name} --type=merge -p '{{"spec":{{"suspend":false}}}}'"""),
        pods=sum(group.wanted for group in context.groups),
    )
