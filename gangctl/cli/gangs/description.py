"""Output of ``gangctl describe`` about one gang: as data, and as a tree in which equal entries are counted.

The schema is published (``docs/describe.schema.json``): every key is always present.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final

from gangctl.api.objects import Key
from gangctl.cli.gangs.costs import GangCosts, costs_of, costs_section
from gangctl.cli.gangs.state import MOST, EventDetail, GangState, latest_first, of_groups, of_jobset
from gangctl.cli.gangs.views import (
    GroupDetail,
    Inventory,
    JobDetail,
    NodeDetail,
    PodDetail,
    ago,
    cause_sections,
    headline,
    inventory_of,
    on_cluster,
    sentence,
)
from gangctl.cli.messages import plural
from gangctl.cli.options import ClusterFlags
from gangctl.cli.output import Section, Table
from gangctl.errors import InputError, one_line
from gangctl.readiness.facts import unix
from gangctl.readiness.report import GangStanding, gang_object
from gangctl.readiness.result import GroupReadiness, Readiness

FEW: Final = 3
"""Up to this number equal pods or Jobs are named; more are only counted."""
MOST_GROUPS: Final = 32


@dataclass(slots=True)
class Branch:
    """A line, and those below it."""

    text: str
    below: list[Branch] = field(default_factory=list)


def gang_tree(gang: Readiness, inventory: Inventory, now: float) -> list[str]:
    """The lines of the whole tree: JobSet, groups, Jobs, pods."""
    phases = {group.name: group for group in gang.groups}
    groups = inventory["groups"]
    branches = [_group(group, phases, now) for group in groups[:MOST_GROUPS]]
    if len(groups) > MOST_GROUPS:
        branches.append(Branch(f"and {len(groups) - MOST_GROUPS} more groups: --group shows one"))
    return list(draw(Branch(f"JobSet {gang.name}", branches)))


def draw(branch: Branch, first: str = "", following: str = "") -> Iterator[str]:
    """A branch and everything below it, one line each."""
    yield first + branch.text
    for child in branch.below:
        is_last = child is branch.below[-1]
        yield from draw(child, following + ("└─ " if is_last else "├─ "), following + ("   " if is_last else "│  "))


def _group(group: GroupDetail, phases: Mapping[str, GroupReadiness], now: float) -> Branch:
    jobs = list(_jobs(group["jobs"], now))
    state = phases.get(group["name"])
    if not group["name"] or state is None:
        return Branch("in no gang, scheduled one by one", jobs)
    counts = state.counts
    return Branch(
        f"group {group['name']}: {state.phase.value} for {ago(state.since, now)}, {counts.ready} of {counts.wanted} "
        f"ready, minCount {counts.minimum}",
        jobs,
    )


def _jobs(jobs: Sequence[JobDetail], now: float) -> Iterator[Branch]:
    """Jobs that are alike in everything but their names are one line."""
    shapes: dict[tuple[object, ...], list[JobDetail]] = {}
    for job in jobs:
        shapes.setdefault(_shape(job), []).append(job)
    for alike in shapes.values():
        if len(alike) <= FEW:
            for job in alike:
                yield Branch(f"Job {job['name']}: {_progress(job)}", list(_pods(job["pods"], now)))
            continue
        first = alike[0]
        title = f"{len(alike)} Jobs {first['name']} ... {alike[-1]['name']}: each {_progress(first)}"
        states = Counter(pod["state"] for job in alike for pod in job["pods"])
        yield Branch(title, [Branch(f"{plural(count, 'pod')}: {state}") for state, count in states.items()])


def _shape(job: JobDetail) -> tuple[object, ...]:
    states = Counter(pod["state"] for pod in job["pods"])
    ended = job["succeeded"], job["failedIndexes"]
    return job["replicatedJob"], job["exists"], job["wanted"], ended, tuple(sorted(states.items()))


def _progress(job: JobDetail) -> str:
    if not job["exists"] and not job["pods"]:
        return "not there" + (f", {plural(job['wanted'], 'pod')} missing" if job["wanted"] else "")
    done = f", {job['succeeded']} succeeded" if job["succeeded"] else ""
    if failed := job["failedIndexes"]:
        done += f", {failed} failed for good"
    missing = job["wanted"] - len(job["pods"])
    return f"{job['ready']} of {job['wanted']} ready{done}" + (f", {missing} missing" if missing > 0 else "")


def _pods(pods: Sequence[PodDetail], now: float) -> Iterator[Branch]:
    states: dict[str, list[PodDetail]] = {}
    for pod in pods:
        states.setdefault(pod["state"], []).append(pod)
    for state, alike in states.items():
        if len(alike) <= FEW:
            for pod in alike:
                where = f" on {pod['node']}" if pod["node"] else ""
                yield Branch(f"{pod['name']}: {state}{where} for {ago(unix(pod['since']), now)}")
            continue
        nodes = len({pod["node"] for pod in alike} - {""})
        where = f" on {plural(nodes, 'node')}" if nodes else ""
        oldest = min(unix(pod["since"]) for pod in alike)
        yield Branch(f"{len(alike)} pods: {state}{where} for up to {ago(oldest, now)}")


_MOST_NODES: Final = 20


class Details(Inventory):
    """What ``gangctl describe`` adds to a Gang."""

    costs: Annotated[GangCosts, "What it took and lost, as far as the objects that exist have it."]
    events: Annotated[list[EventDetail], f"The latest first, at most {MOST}."]


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGang(GangStanding):
    """A Gang with all that belongs to it, or to the one group of it that was asked about."""

    details: Details


@dataclass(frozen=True, slots=True)
class Description:
    """One gang, or one of its groups, with all related objects."""

    gang: Readiness
    inventory: Inventory
    costs: GangCosts
    events: list[EventDetail]
    older_events: int
    """Events of earlier JobSets of its name, which are left out."""
    outcome: str
    """The JobSet's message about its end."""
    elsewhere: bool
    """Whether another controller runs it, so that its groups, Jobs and pods are not in this cluster."""
    flags: ClusterFlags
    """Those that select its cluster."""

    def as_object(self) -> dict[str, Any]:
        """The Gang, with its details."""
        return {**gang_object(self.gang), "details": {**self.inventory, "costs": self.costs, "events": self.events}}


def describe(state: GangState, key: Key, group: str, now: float) -> Description:
    """Everything about one gang; ``group`` is the name of a group or of its template, empty for all."""
    snapshot, gang = state.snapshot(key, now), state.readiness(key, now)
    assert snapshot is not None  # noqa: S101 -- who asks has found it
    assert gang is not None  # noqa: S101
    only = _group_name(gang, group) if group else ""
    if only:
        gang = replace(
            gang,
            groups=tuple(group for group in gang.groups if group.name == only),
            causes=tuple(cause for cause in gang.causes if not cause.groups or only in cause.groups),
        )
    own, older = of_jobset(state.events, snapshot.jobset)
    events = latest_first([*own, *of_groups(state.events, key[0], [group.name for group in gang.groups])])
    elsewhere = snapshot.jobset.managed_elsewhere
    costs = costs_of(snapshot, gang, own, state.ended_of(key), only=only, now=now)
    inventory, outcome = inventory_of(snapshot, only), state.outcome(key)
    return Description(gang, inventory, costs, events, older, outcome, elsewhere, state.flags)


def _group_name(gang: Readiness, wanted: str) -> str:
    """The group of a name, or the only one of a template; InputError names those there are."""
    names = [group.name for group in gang.groups]
    if wanted in names:
        return wanted
    of_template = [group.name for group in gang.groups if group.template == wanted]
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
        sections.append(Section("Groups, Jobs and pods", tuple(_there(gang, described.flags))))
    sections.append(costs_section(described.costs, now))
    if inventory["nodes"]:
        sections.append(_nodes(inventory["nodes"]))
    sections += cause_sections(gang, now)
    if described.events or described.older_events:
        sections.append(_events(described.events, described.older_events, now))
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


def _there(gang: Readiness, flags: ClusterFlags) -> Iterator[str]:
    """How to see what a worker cluster has."""
    yield f"They are on worker cluster {gang.cluster}; --context takes the name that your kubeconfig has for it."
    going = replace(flags, context=gang.cluster).on(f"gangctl describe {gang.name} -n {gang.namespace}")
    yield f"$ {going}"


def _nodes(nodes: Sequence[NodeDetail]) -> Section:
    rows = tuple((node["name"], str(node["pods"]), str(node["ready"]), node["state"]) for node in nodes[:_MOST_NODES])
    rest = len(nodes) - _MOST_NODES
    more = (f"and {rest} more: -o json has all",) if rest > 0 else ()
    return Section(plural(len(nodes), "node"), more, Table(("NODE", "PODS", "READY", "STATE"), rows))


def _events(events: Sequence[EventDetail], older: int, now: float) -> Section:
    rows = tuple(
        (
            ago(unix(event["lastTime"]), now),
            event["type"],
            event["object"],
            f"{event['reason']} (x{event['count']})" if event["count"] > 1 else event["reason"],
            event["message"],
        )
        for event in events
    )
    left_out = (f"left out: {plural(older, 'event')} of an earlier JobSet of this name",) if older else ()
    table = Table(("LAST", "TYPE", "OBJECT", "REASON", "MESSAGE"), rows) if rows else None
    return Section("Last events", left_out, table)
