"""A gang as a tree; equal entries are counted, unusual ones are named."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gangctl.cli.gangs.inventory import GroupDetail, Inventory, JobDetail, PodDetail
from gangctl.cli.gangs.views import ago
from gangctl.cli.messages import plural
from gangctl.readiness.reading import unix
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
    for each in branch.below:
        is_last = each is branch.below[-1]
        yield from draw(each, following + ("└─ " if is_last else "├─ "), following + ("   " if is_last else "│  "))


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
        return f"not there, {plural(job['wanted'], 'pod')} missing"
    done = f", {job['succeeded']} succeeded" if job["succeeded"] else ""
    if failed := job["failedIndexes"]:
        done += f", {failed} failed for good"
    missing = job["wanted"] - job["succeeded"] - failed - len(job["pods"])
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
