"""The scheduler: the pods of a group are bound once the group exists and has its quorum.

Pods that have finished do not count (kubernetes issue 142330), pods that are being deleted do until they are gone. A
group that is being deleted is used like any other. There is always room, but perhaps not a device for each group: what
a claim of a group has is free again when the group is gone.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.search.state import Job, Object, State, find, put


class Policy(NamedTuple):
    """What a group demands."""

    min_count: int
    parent: str = ""
    timely: bool = True


def policy_of(objects: tuple[Object, ...], group: str) -> Policy | None:
    """The policy of a group that pods name, None while it does not exist."""
    if "/" in group:
        name, template, _ = group.split("/")
        workload = find(objects, "Workload", name)
        count = None if workload is None else dict(workload.counts).get(template)
        return None if workload is None or count is None else Policy(count, "", workload.timely)
    one = find(objects, "PodGroup", group)
    return None if one is None else Policy(dict(one.counts).get("", 0), one.parent, one.timely)


def members(jobs: tuple[Job | None, ...], group: str) -> int:
    """Pods of a group that have not finished."""
    return sum(job.waiting + job.bound + job.ending for job in jobs if job is not None and job.group == group)


def placed(objects: tuple[Object, ...]) -> list[Object]:
    """The groups of which pods have been bound: each has a device."""
    return [one for one in objects if one.kind == "PodGroup" and one.placed]


def _has_device(objects: tuple[Object, ...], group: str, devices: int) -> bool:
    having = placed(objects)
    return not devices or len(having) < devices or any(one.name == group for one in having)


def is_ready(objects: tuple[Object, ...], jobs: tuple[Job | None, ...], group: str, devices: int = 0) -> bool:
    """Whether the scheduler places the pods of a group; of ``devices`` each group needs one, unless there are 0."""
    policy = policy_of(objects, group)
    if policy is None or members(jobs, group) < policy.min_count or not _has_device(objects, group, devices):
        return False
    if not policy.parent:
        return True
    parent = find(objects, "CompositePodGroup", policy.parent)
    if parent is None:
        return False
    children = [one for one in objects if one.kind == "PodGroup" and one.parent == policy.parent]
    ready = sum(members(jobs, one.name) >= dict(one.counts)[""] for one in children)
    return ready >= dict(parent.counts)[""]


def bind(state: State, group: str) -> State:
    """Bind all pods of a group that wait."""
    jobs = tuple(
        job._replace(bound=job.bound + job.waiting, waiting=0)
        if job is not None and job.group == group and job.waiting
        else job
        for job in state.jobs
    )
    one = find(state.objects, "PodGroup", group)
    objects = state.objects
    if one is not None and not one.placed:
        objects = put(objects, one._replace(placed=True))
    return state._replace(jobs=jobs, objects=objects)
