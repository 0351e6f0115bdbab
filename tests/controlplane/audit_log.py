"""
Who wrote what, from the API server's audit log.

It is the only account of gangctl's writes that gangctl does not give itself: the budgets (no write in a second
reconcile, one Workload and N PodGroups per JobSet) are counted here.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.controlplane.api import Object, Objects

_MUTATING = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_UNCOUNTED = frozenset(
    {
        ("coordination.k8s.io", "leases"),
        ("authorization.k8s.io", "subjectaccessreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
    }
)


@dataclass(frozen=True)
class Writes:
    """A user's mutating requests; Event objects apart, because they tell and do not change anything."""

    objects: Objects = field(default_factory=list)
    events: Objects = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(describe(entry) for entry in [*self.objects, *self.events]) or "no writes"


def read(log: Path, since: int = 0) -> Objects:
    """The complete entries after a position in the log."""
    with log.open("rb") as stream:
        stream.seek(max(since - 1, 0))
        # The last line may still be being written.
        complete = stream.read().rpartition(b"\n")[0]
    if since > 0:
        # So may the line have been at which the position was taken: the entry of that line came before it.
        complete = complete.partition(b"\n")[2]
    return [json.loads(line) for line in complete.splitlines() if line]


def writes_by(user: str, entries: Iterable[Object]) -> Writes:
    """Mutating requests of a user, without dry runs, leases and access reviews."""
    writes = Writes()
    for entry in entries:
        if entry["user"].get("username") != user or not is_write(entry):
            continue
        is_event = entry.get("objectRef", {}).get("resource") == "events"
        (writes.events if is_event else writes.objects).append(entry)
    return writes


def describe(entry: Object) -> str:
    reference = entry.get("objectRef", {})
    name = "/".join(reference[key] for key in ("namespace", "resource", "name", "subresource") if key in reference)
    return f"{entry['verb']} {name} {entry.get('responseStatus', {}).get('code', '')}"


def is_write(entry: Object) -> bool:
    """Whether a request that has ended was to change something; dry runs, leases and access reviews are none."""
    reference = entry.get("objectRef", {})
    return (
        entry["verb"] in _MUTATING
        and entry.get("stage") == "ResponseComplete"
        and "dryRun=All" not in entry["requestURI"]
        and (reference.get("apiGroup", ""), reference.get("resource", "")) not in _UNCOUNTED
    )
