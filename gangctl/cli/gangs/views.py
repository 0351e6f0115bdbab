"""Objects of a gang as plain data, and gangs as text: rows, ages, causes, and why one is not running.

The schema is published (``docs/describe.schema.json``): every key is always present.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Final, TypedDict

from gangctl.api.jobset import JobSet
from gangctl.api.objects import Key
from gangctl.api.pods import FINISHED
from gangctl.api.reportfields import rfc3339
from gangctl.cli.messages import plural
from gangctl.cli.output import EMPTY, INDENT, Section
from gangctl.errors import one_line
from gangctl.gang.desired import JobProgress, job_pods_left
from gangctl.kueue.amounts import span
from gangctl.readiness.causes import WAITING
from gangctl.readiness.facts import NodeFacts, PodFacts, Snapshot
from gangctl.readiness.membership import Group, JobKey, members
from gangctl.readiness.result import Cause, GangPhase, Readiness


class PodDetail(TypedDict):
    """One pod."""

    name: str
    state: Annotated[str, "Ready, NotReady, Starting, Waiting, Gated, Terminating, or why it is none of these."]
    node: Annotated[str, "Empty without one."]
    since: Annotated[str, "When it came into that state: RFC 3339, empty where that is not known."]


class JobDetail(TypedDict):
    """One child Job."""

    name: str
    replicatedJob: str
    exists: Annotated[bool, "Whether it has been created."]
    wanted: Annotated[int, "Pods that should exist now."]
    ready: Annotated[int, "Pods that are ready."]
    succeeded: Annotated[int, "Pods that have finished with success."]
    failedIndexes: Annotated[int, "Indexes that failed for good (backoffLimitPerIndex): their pods are not replaced."]
    pods: list[PodDetail]


class GroupDetail(TypedDict):
    """One gang at run time, or what is scheduled pod by pod, which has no name."""

    name: Annotated[str, "As in status.groups; empty for what is in no gang."]
    template: Annotated[str, "The template of the Workload that it is made from, empty for what is in no gang."]
    jobs: list[JobDetail]


class NodeDetail(TypedDict):
    """A node that pods of the gang are on."""

    name: str
    pods: Annotated[int, "Pods of this gang that are there."]
    ready: Annotated[int, "Pods of this gang that are ready there."]
    state: Annotated[str, "Ready, Cordoned, or why the node is not ready; empty where nodes may not be read."]


class Inventory(TypedDict):
    """What a gang consists of."""

    groups: list[GroupDetail]
    nodes: Annotated[list[NodeDetail], "Those that are not as they should be first."]


def inventory_of(snapshot: Snapshot, only: str) -> Inventory:
    """All of a JobSet, or of its group ``only``, empty for all; nothing of one whose pods are not known here."""
    if snapshot.jobset.managed_elsewhere or not snapshot.pods_known:
        return {"groups": [], "nodes": []}
    groups = [group for group in members(snapshot) if only in {"", group.name}]
    details = [_group(group, snapshot.jobset) for group in groups]
    pods = [pod for group in groups for pod in _all(group)]
    covered = {name for group in groups for name in group.replicated_jobs}
    alone = [pod for pod in snapshot.pods if pod.replicated_job not in covered and pod.phase not in FINISHED]
    by_job = _by_job(alone)
    jobs = [
        _job(job.name, job.key, job, len(by_job.get(job.key, ())), by_job.get(job.key, ()))
        for job in sorted(snapshot.jobs, key=lambda each: each.key)
        if job.replicated_job not in covered
    ]
    if jobs and not only:
        details.append({"name": "", "template": "", "jobs": jobs})
        pods += alone
    return {"groups": details, "nodes": _nodes(pods, snapshot.nodes)}


def pod_state(pod: PodFacts) -> str:
    """The state of one pod, in a word."""
    if pod.deleting:
        return "Terminating"
    if pod.gates:
        return "Gated"
    if not pod.node:
        return pod.refused or "Waiting"
    if pod.ready:
        return "Ready"
    return pod.waiting or ("NotReady" if pod.phase == "Running" else "Starting")


def _since(pod: PodFacts) -> int:
    if pod.ready or (pod.phase == "Running" and pod.ready_at):
        return pod.ready_at
    return (pod.placed_at if pod.node else pod.refused_at) or pod.created


def _all(group: Group) -> list[PodFacts]:
    return [*group.pods, *group.leaving, *group.earlier]


def _group(group: Group, jobset: JobSet) -> GroupDetail:
    exist = {job.key: job for job in group.jobs}
    replicated_jobs = {rj.name: rj for rj in jobset.replicated_jobs}
    pods = _by_job(_all(group))
    jobs = []
    for planned in group.planned:
        key = planned.replicated_job, planned.index
        job = exist.get(key)
        # One that has finished gets no more pods: those of a failed Job are not missing.
        wanted = 0 if jobset.finished else max(0, job_pods_left(replicated_jobs[key[0]], job, jobset.restarts))
        jobs.append(_job(planned.name, key, job, wanted, pods.get(key, [])))
    return {"name": group.name if group.scope is not None else "", "template": group.template, "jobs": jobs}


def _job(name: str, key: JobKey, job: JobProgress | None, wanted: int, pods: Sequence[PodFacts]) -> JobDetail:
    return {
        "name": name,
        "replicatedJob": key[0],
        "exists": job is not None,
        "wanted": wanted,
        "ready": sum(pod.ready and not pod.deleting for pod in pods),
        "succeeded": job.succeeded if job is not None else 0,
        "failedIndexes": job.failed_indexes if job is not None else 0,
        "pods": [_pod(pod) for pod in pods],
    }


def _pod(pod: PodFacts) -> PodDetail:
    return {"name": pod.name, "state": pod_state(pod), "node": pod.node, "since": rfc3339(_since(pod))}


def _by_job(pods: Iterable[PodFacts]) -> Mapping[JobKey, list[PodFacts]]:
    jobs: dict[JobKey, list[PodFacts]] = {}
    for pod in sorted(pods, key=lambda each: each.name):
        jobs.setdefault((pod.replicated_job, pod.job_index), []).append(pod)
    return jobs


def _nodes(pods: Iterable[PodFacts], nodes: Mapping[str, NodeFacts] | None) -> list[NodeDetail]:
    """Nodes with problems come first."""
    placed = [pod for pod in pods if pod.node]
    count, ready = Counter(pod.node for pod in placed), Counter(pod.node for pod in placed if pod.ready)
    details: list[NodeDetail] = [
        {"name": name, "pods": count[name], "ready": ready[name], "state": _node_state(name, nodes)} for name in count
    ]
    return sorted(details, key=lambda node: (node["state"] in {"", "Ready"}, node["name"]))


def _node_state(name: str, nodes: Mapping[str, NodeFacts] | None) -> str:
    if nodes is None:
        return ""
    node = nodes.get(name)
    if node is None:
        return "Gone"
    if not node.ready:
        return node.reason or "NotReady"
    return "Cordoned" if node.unschedulable else "Ready"


HEADERS: Final = ("NAMESPACE", "NAME", "PHASE", "READY", "REASON", "QUEUE", "SINCE", "AGE")
CLUSTER: Final = ("CLUSTER",)
"""Follows these where a gang is on a worker cluster of MultiKueue."""
WIDE_HEADERS: Final = ("CLUSTERQUEUE", "RESTARTS", "GROUPS", "MESSAGE")
LEGEND: Final = (
    "READY: pods that are ready, of those that should exist now. REASON: the most likely cause of what is not ready, "
    "or why it is no gang."
)


def ago(at: int, now: float) -> str:
    """How long ago a time was; a dash for none."""
    return span(timedelta(seconds=max(0.0, now - at))) if at else EMPTY


def headers_of(gangs: Iterable[Readiness]) -> tuple[str, ...]:
    """The headers of the table of these gangs, without those of ``-o wide``."""
    return (*HEADERS, *CLUSTER) if any(gang.cluster for gang in gangs) else HEADERS


def gang_row(gang: Readiness, now: float, headers: Sequence[str] = HEADERS) -> tuple[str, ...]:
    """One gang under :func:`headers_of` and :data:`WIDE_HEADERS`."""
    return (
        gang.namespace,
        gang.name,
        gang.phase.value,
        f"{gang.counts.ready}/{gang.counts.wanted}",
        main_cause.reason.value if (main_cause := _main_cause(gang)) is not None else "",
        gang.local_queue,
        ago(gang.since, now),
        ago(gang.created_at, now),
        *((gang.cluster,) if len(headers) > len(HEADERS) else ()),
        gang.cluster_queue,
        str(gang.attempt),
        str(len(gang.groups)),
        main_cause.message if main_cause is not None else "",
    )


def _main_cause(gang: Readiness) -> Cause | None:
    """The most likely cause; of a JobSet that runs and is no gang, why it is none."""
    return gang.causes[0] if gang.causes else gang.lost


def sentence(text: str) -> str:
    """A clause as a sentence of its own."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}" if text else ""


def cause_lines(cause: Cause, now: float) -> Iterator[str]:
    """Cause, evidence, remedy and the next command."""
    held = [
        cause.reason.value,
        "" if cause.blocking else "ends by itself" if cause.reason in WAITING else "blocks nothing",
        plural(cause.pods, "pod") if cause.pods else "",
        f"for {ago(cause.since, now)}" if cause.since else "",
    ]
    yield sentence(cause.message)
    yield f"{INDENT}({', '.join(filter(None, held))})"
    if cause.groups:
        yield f"{INDENT}groups: {_some(cause.groups)}"
    for line in cause.evidence:
        yield f"{INDENT}- {line}"
    if cause.remedy:
        yield f"{INDENT}What to do: {cause.remedy[:1].lower()}{cause.remedy[1:]}"
    if cause.command:
        yield f"{INDENT}$ {cause.command}"


_MOST_NAMED: Final = 4


def _some(names: Sequence[str]) -> str:
    """The first names of many."""
    rest = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def is_no(gang: Readiness) -> bool:
    """Whether it does not run, and will not without a change."""
    return gang.phase is GangPhase.FAILED or gang.blocked_by is not None


def needs_attention(gang: Readiness) -> bool:
    """Whether something blocks it, it has failed, or it is no gang."""
    return is_no(gang) or gang.lost is not None


def in_short(
    gangs: Sequence[Readiness], total: int, now: float, on: Callable[[Key, str], str] = lambda _key, command: command
) -> list[Section]:
    """Gangs of ``total`` that need attention, each with its most likely cause and the command that says more.

    ``on`` returns a command for the cluster of a gang.
    """
    if not gangs:
        whole = "the gang" if total == 1 else f"any of {total} gangs"
        return [Section(lines=(f"Nothing blocks {whole}.",))] if total else []
    rest = total - len(gangs)
    sections = [Section(headline(gang, now), tuple(_short_lines(gang, on))) for gang in gangs]
    return [*sections, Section(lines=(f"Nothing blocks {plural(rest, 'other gang')}.",))] if rest else sections


def _short_lines(gang: Readiness, on: Callable[[Key, str], str]) -> Iterator[str]:
    cause = _main_cause(gang)
    if cause is not None:
        yield f"{cause.reason.value}: {sentence(cause.message)}"
        if cause.remedy:
            yield f"What to do: {cause.remedy[:1].lower()}{cause.remedy[1:]}"
    yield f"$ {on(gang.key, f'gangctl why {gang.name} -n {gang.namespace}')}"


def headline(gang: Readiness, now: float) -> str:
    """Name, phase and how many pods are ready."""
    since = f" for {ago(gang.since, now)}" if gang.since else ""
    counts = f"{gang.counts.ready} of {plural(gang.counts.wanted, 'pod')} ready"
    return f"Gang {gang.namespace}/{gang.name}: {gang.phase.value}{since}" + ("" if gang.phase.over else f", {counts}")


def on_cluster(gang: Readiness) -> list[str]:
    """The worker cluster of MultiKueue that a gang is on, in a sentence, if it is on one."""
    verb = "ran" if gang.phase.over else "runs"
    return [f"MultiKueue {verb} it on worker cluster {gang.cluster}."] if gang.cluster else []


def explanation(gang: Readiness, outcome: str, now: float, *further: Section) -> list[Section]:
    """All causes, the most likely first; for a settled gang, its phase, and further sections about its end."""
    lines = [gang.phase.sentence, *on_cluster(gang)]
    if outcome:
        lines.append(one_line(sentence(outcome)))
    if not gang.causes and not gang.phase.settled:
        lines.append("No cause is known.")
    if gang.phase is GangPhase.TERMINATING and gang.counts.placed:
        lines.append("Its pods hold their nodes until they are gone.")
    elif gang.phase is GangPhase.READY:
        lines.append("Nothing blocks it." if gang.lost is None else "Ready, but without the all-or-nothing guarantee.")
    sections = [Section(headline(gang, now), tuple(lines))]
    if gang.phase is GangPhase.READY and gang.lost is not None:
        sections.append(Section("Why it is no gang", tuple(cause_lines(gang.lost, now))))
    return [*sections, *cause_sections(gang, now), *further]


def cause_sections(gang: Readiness, now: float) -> list[Section]:
    """The most likely cause, and the others."""
    if not gang.causes:
        return []
    first, *others = gang.causes
    sections = [Section("Most likely", tuple(cause_lines(first, now)))]
    if others:
        lines = [line for cause in others for line in cause_lines(cause, now)]
        sections.append(Section("Also", tuple(lines)))
    return sections
