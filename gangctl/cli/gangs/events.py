"""The last events of a JobSet and of its groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from gangctl.api.objects import Key, Object
from gangctl.cli.gangs.census import Told
from gangctl.client.client import Client, Selection
from gangctl.client.resources import EVENTS
from gangctl.errors import one_line
from gangctl.readiness.reading import event_seen_at

MOST: Final = 10
_MOST_GROUPS: Final = 8
"""Groups whose events are asked for; a JobSet may have hundreds."""


async def read_events(client: Client, key: Key, groups: Sequence[str]) -> list[Told]:
    """What was told of a JobSet and of its groups; ForbiddenError where that may not be read."""
    namespace, jobset = key
    found: list[Told] = []
    for kind, name in [("JobSet", jobset), *(("PodGroup", group) for group in groups[:_MOST_GROUPS])]:
        selection = Selection(field_selector=f"regarding.kind={kind},regarding.name={name}")
        page = await client.list(EVENTS, namespace, selection=selection)
        found += map(read_event, page.items)
    return found


def read_event(raw: Object) -> Told:
    """What one event of ``events.k8s.io/v1`` tells; total."""
    about, metadata, series = (_object(raw.get(key)) for key in ("regarding", "metadata", "series"))
    count = series.get("count") or raw.get("deprecatedCount")
    return Told(
        namespace=str(about.get("namespace") or metadata.get("namespace") or ""),
        kind=str(about.get("kind") or ""),
        name=str(about.get("name") or ""),
        type=str(raw.get("type") or ""),
        reason=str(raw.get("reason") or ""),
        note=one_line(str(raw.get("note") or "")),
        at=event_seen_at(raw),
        count=count if isinstance(count, int) else 1,
    )


def modern(raw: Object) -> dict[str, Any]:
    """An event of ``v1``, which ``kubectl get events`` prints, in the words of ``events.k8s.io/v1``."""
    if "involvedObject" not in raw:
        return dict(raw)
    renamed = {
        "regarding": raw.get("involvedObject"),
        "note": raw.get("message"),
        "deprecatedLastTimestamp": raw.get("lastTimestamp"),
        "deprecatedCount": raw.get("count"),
    }
    return {**raw, **renamed}


def last(events: Iterable[Told], key: Key, groups: Sequence[str]) -> list[Told]:
    """Those of one JobSet and its groups, the latest first, at most :data:`MOST`."""
    namespace, jobset = key
    about = {("JobSet", jobset), *(("PodGroup", group) for group in groups)}
    own = [each for each in events if each.namespace == namespace and (each.kind, each.name) in about]
    return sorted(own, key=lambda each: -each.at)[:MOST]


def _object(value: object) -> Object:
    return value if isinstance(value, dict) else {}
