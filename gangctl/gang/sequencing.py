"""Whether some pods of a gang are only created after others of the same gang run: a deadlock if it stays one gang."""

from __future__ import annotations

from collections.abc import Sequence

from gangctl.api.jobset import JobSet, ReplicatedJob


def is_sequenced(jobset: JobSet, members: Sequence[ReplicatedJob]) -> bool:
    """Whether JobSet creates the Jobs of ``members`` one after another.

    With startupPolicy InOrder it always does. With dependsOn it does when a member
    depends on another member, be it through ReplicatedJobs that are not in the gang;
    depending only on unlinked delays the gang without splitting it.
    """
    if jobset.in_order:
        return True
    names = {rj.name for rj in members}
    edges = {rj.name: rj.depends_on for rj in jobset.replicated_jobs}
    # Shared by all members: what led from one of them to no other leads from none.
    seen: set[str] = set()
    for rj in members:
        waiting = list(rj.depends_on)
        while waiting:
            name = waiting.pop()
            if name in names:
                return True
            if name not in seen:
                seen.add(name)
                waiting.extend(edges.get(name, ()))
    return False
