"""Who wrote what to the JobSets and Jobs of a namespace, and what was stored: from the bodies in the audit log."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from tests.controlplane.api import Object
from tests.controlplane.audit_log import is_write
from tests.controlplane.wait import NotYet, wait_for
from tests.jobsets import REF
from tests.live.cluster import Cluster, reference_of

BODIES: Final[Mapping[str, Sequence[str]]] = {"batch": ["jobs"], "jobset.x-k8s.io": ["jobsets"]}
"""What a plane needs as ``audit_bodies``."""


@dataclass(frozen=True)
class Write:
    """One accepted write, and the object that it left."""

    user: str
    what: str
    """Verb and resource: ``update jobs``."""
    name: str
    sent: Object
    stored: Object

    @property
    def lost(self) -> str:
        """What the stored object lacks of a gang: of a JobSet the stamp of a template, of a Job stamp or reference."""
        if self.stored["kind"] == "JobSet":
            templates = [each["template"] for each in self.stored["spec"]["replicatedJobs"]]
            return "" if all(_stamp(each["metadata"]) for each in templates) else "stamp"
        if not _stamp(self.stored["metadata"]):
            return "stamp"
        return "" if reference_of(self.stored) else "reference"

    def __str__(self) -> str:
        """A line of a transcript."""
        return f"{self.user}: {self.what} {self.name}" + (f" without {self.lost}" if self.lost else "")


@asynccontextmanager
async def keeps_its_gang(cluster: Cluster, *expected: str) -> AsyncIterator[None]:
    """
    Check that no write to a JobSet or Job of this namespace, of what happens in this context, loses stamp or reference.

    ``expected`` are writes that must be among them: ``jobset-controller: update jobs``.
    """
    since = cluster.plane.audit_position
    yield

    async def logged() -> list[Write]:
        written = writes(cluster, since)
        if missing := {*expected} - {f"{each.user}: {each.what}" for each in written}:
            raise NotYet(f"without {missing}: {', '.join(map(str, written))}")
        return written

    lost = [str(each) for each in await wait_for(logged, what="the audit log to have these writes") if each.lost]
    assert not lost, lost


def writes(cluster: Cluster, since: int = 0) -> list[Write]:
    """Accepted writes after a position in the audit log that left a JobSet or Job in this namespace, in their order."""
    return list(_writes(cluster, since))


def _writes(cluster: Cluster, since: int) -> Iterator[Write]:
    entries = [entry for entry in cluster.plane.audit(since) if is_write(entry)]
    for entry in sorted(entries, key=lambda each: str(each["requestReceivedTimestamp"])):
        reference = entry["objectRef"]
        stored = entry.get("responseObject", {})
        if reference.get("namespace") == cluster.namespace and stored.get("kind") in {"Job", "JobSet"}:
            parts = [reference[key] for key in ("resource", "subresource") if key in reference]
            yield Write(
                user=entry["user"]["username"],
                what=f"{entry['verb']} {'/'.join(parts)}",
                name=stored["metadata"]["name"],
                sent=entry.get("requestObject", {}),
                stored=stored,
            )


def _stamp(metadata: Object) -> str:
    return str(metadata.get("annotations", {}).get(REF, ""))
