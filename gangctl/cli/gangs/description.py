"""Output of ``gangctl describe`` about one gang, as data and as text.

The schema is published (``docs/describe.schema.json``): every key is always present.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Annotated, Final, TypedDict

from gangctl.api.objects import Key
from gangctl.cli.gangs.inventory import Inventory, NodeDetail, inventory_of
from gangctl.cli.gangs.state import MOST, Event, GangState, last
from gangctl.cli.gangs.tree import gang_tree
from gangctl.cli.gangs.views import ago, cause_sections, headline, on_cluster, sentence
from gangctl.cli.messages import plural
from gangctl.cli.output import Section, Table
from gangctl.errors import InputError, one_line
from gangctl.readiness.report import Gang, gang_object, rfc3339
from gangctl.readiness.result import Readiness

_MOST_NODES: Final = 20


class EventDetail(TypedDict):
    """An event of the JobSet, or of one of its groups."""

    object: Annotated[str, "Kind and name of what it is about: JobSet/train."]
    type: Annotated[str, "Normal or Warning."]
    reason: str
    message: str
    count: Annotated[int, "How often it was seen."]
    lastTime: Annotated[str, "When it was seen last: RFC 3339, empty where that is not known."]


class Details(Inventory):
    """What ``gangctl describe`` adds to a Gang."""

    events: Annotated[list[EventDetail], f"The latest first, at most {MOST}."]


class DescribedGang(Gang):
    """A Gang with all that belongs to it, or to the one group of it that was asked about."""

    details: Details


@dataclass(frozen=True, slots=True)
class Description:
    """One gang, or one of its groups, with all related objects."""

    gang: Readiness
    inventory: Inventory
    events: Sequence[Event]
    outcome: str
    """The JobSet's message about its end."""
    elsewhere: bool = False
    """Whether another controller runs it, so that its groups, Jobs and pods are not in this cluster."""

    def as_object(self) -> DescribedGang:
        """The Gang, with its details."""
        events: list[EventDetail] = [
            {
                "object": f"{each.kind}/{each.name}",
                "type": each.type,
                "reason": each.reason,
                "message": each.note,
                "count": each.count,
                "lastTime": rfc3339(each.at),
            }
            for each in self.events
        ]
        return {**gang_object(self.gang), "details": {**self.inventory, "events": events}}


def describe(state: GangState, key: Key, group: str, now: float) -> Description:
    """Everything about one gang; ``group`` is the name of a group or of its template, empty for all."""
    snapshot, gang = state.snapshot(key, now), state.readiness(key, now)
    assert snapshot is not None  # noqa: S101 -- who asks has found it
    assert gang is not None  # noqa: S101
    only = _group_name(gang, group) if group else ""
    if only:
        gang = replace(
            gang,
            groups=tuple(each for each in gang.groups if each.name == only),
            causes=tuple(cause for cause in gang.causes if not cause.groups or only in cause.groups),
        )
    events = last(state.events, key, [each.name for each in gang.groups])
    elsewhere = snapshot.jobset.managed_elsewhere
    return Description(gang, inventory_of(snapshot, only), events, state.outcome(key), elsewhere)


def _group_name(gang: Readiness, wanted: str) -> str:
    """The group of a name, or the only one of a template; InputError names those there are."""
    names = [each.name for each in gang.groups]
    if wanted in names:
        return wanted
    of_template = [each.name for each in gang.groups if each.template == wanted]
    if len(of_template) == 1:
        return of_template[0]
    what = f"template {wanted} has {len(of_template)} groups" if of_template else f"there is no group {wanted}"
    hint = f"--group takes one of: {', '.join(of_template or names)}" if names else ""
    raise InputError(f"{what} in JobSet {gang.namespace}/{gang.name}", hint=one_line(hint))


def description_sections(described: Description, now: float) -> list[Section]:
    """The sections for a terminal."""
    gang, inventory = described.gang, described.inventory
    sections = [Section(headline(gang, now), tuple(_lines(described, now)))]
    if not described.elsewhere:
        sections.append(Section("Groups, Jobs and pods", tuple(gang_tree(gang, inventory, now))))
    elif gang.cluster and not gang.phase.over:
        sections.append(Section("Groups, Jobs and pods", tuple(_there(gang))))
    if inventory["nodes"]:
        sections.append(_nodes(inventory["nodes"]))
    sections += cause_sections(gang, now)
    if described.events:
        sections.append(_events(described.events, now))
    return sections


def _lines(described: Description, now: float) -> Iterator[str]:
    gang = described.gang
    yield gang.phase.sentence
    yield from on_cluster(gang)
    if described.outcome:
        yield one_line(sentence(described.outcome))
    if gang.local_queue:
        behind = f", ClusterQueue {gang.cluster_queue}" if gang.cluster_queue else ""
        yield f"LocalQueue {gang.local_queue}{behind}"
    facts = [
        "" if described.elsewhere else f"gang level {gang.level}",
        f"created {ago(gang.created_at, now)} ago" if gang.created_at else "",
        plural(gang.attempt, "restart") if gang.attempt else "",
        plural(gang.counts.stranded, "stranded pod") if gang.counts.stranded else "",
    ]
    yield ", ".join(filter(None, facts))


def _there(gang: Readiness) -> Iterator[str]:
    """How to see what a worker cluster has."""
    yield f"They are on worker cluster {gang.cluster}; --context takes the name that your kubeconfig has for it."
    yield f"$ gangctl describe {gang.name} -n {gang.namespace} --context {quote(gang.cluster)}"


def _nodes(nodes: Sequence[NodeDetail]) -> Section:
    rows = tuple((each["name"], str(each["pods"]), str(each["ready"]), each["state"]) for each in nodes[:_MOST_NODES])
    rest = len(nodes) - _MOST_NODES
    more = (f"and {rest} more: -o json has all",) if rest > 0 else ()
    return Section(plural(len(nodes), "node"), more, Table(("NODE", "PODS", "READY", "STATE"), rows))


def _events(events: Sequence[Event], now: float) -> Section:
    rows = tuple(
        (
            ago(each.at, now),
            each.type,
            f"{each.kind}/{each.name}",
            f"{each.reason} (x{each.count})" if each.count > 1 else each.reason,
            each.note,
        )
        for each in events
    )
    return Section("Last events", table=Table(("LAST", "TYPE", "OBJECT", "REASON", "MESSAGE"), rows))
