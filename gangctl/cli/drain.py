"""``gangctl drain --dry-run``: which gangs a drain of nodes stops, what they lose, and whether others have room."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypedDict

import click

from gangctl.api.reportfields import rfc3339
from gangctl.cli import options
from gangctl.cli.gangs import asking
from gangctl.cli.messages import full_name, plural
from gangctl.cli.names import NameArgument, ObjectName, ObjectNotFoundError, names_argument
from gangctl.cli.output import Section, Table, print_answer
from gangctl.errors import ClusterUnavailableError, InputError

if TYPE_CHECKING:
    from gangctl.api.jobset import JobSet
    from gangctl.cli.fitting import FitSubject
    from gangctl.cli.gangs.cluster import ScopeReader
    from gangctl.cli.gangs.state import GangState
    from gangctl.cluster.stock import Stock
    from gangctl.fit.requests import PodsLeft
    from gangctl.gang.desired import JobProgress
    from gangctl.readiness.drain import Stopped

KIND: Final = "DrainPlan"


class DrainedGang(TypedDict):
    """A JobSet with gangs from which a drain takes pods."""

    name: str
    namespace: str
    groups: Annotated[list[str], "Those that stop as a whole; those that continue with their minCount are left out."]
    podsOnNodes: Annotated[int, "Its pods on the nodes."]
    pods: Annotated[int, "Pods with a node that stop; of a gang that continues those on the nodes."]
    runningSince: Annotated[str, "When the first of them was whole: RFC 3339, empty if none was."]
    lostPodSeconds: Annotated[int, "Seconds that these pods have run since they were whole, summed."]
    fits: Annotated[Literal["never", "not-now", "fits", "unknown"], "Whether the other nodes have room for it, alone."]
    reason: Annotated[str, "As that of gangctl fit."]
    message: Annotated[str, "One sentence, as that of gangctl fit."]


class DrainPlan(TypedDict):
    """What a drain of nodes would stop."""

    apiVersion: Literal["gangctl.dev/v1alpha1"]
    kind: Literal["DrainPlan"]
    nodes: list[str]
    gangs: Annotated[list[DrainedGang], "In the order to stop them: those that fit elsewhere first, then by loss."]
    otherPods: Annotated[int, "Pods on the nodes that are of no gang, daemons included."]


def _complete(ctx: click.Context, incomplete: str) -> list[str]:
    from gangctl.cli.cluster import names_of  # noqa: PLC0415 -- only while completing
    from gangctl.client.resources import NODES  # noqa: PLC0415

    return names_of(ctx, NODES, incomplete)


@click.command()
@names_argument("nodes", NameArgument("Node", complete=_complete), "NODE...", required=True)
@click.option("--dry-run", is_flag=True, help="Say what a drain stops. Needed: gangctl drains no node.")
@asking.files
@options.kueue_namespace
@options.output("table", "yaml", "json")
@options.cluster
@options.colour
def drain(*, nodes: tuple[ObjectName, ...], dry_run: bool, form: str, **flags: Any) -> None:
    """Say which gangs a drain of nodes stops, and what they lose.

    A gang that loses a pod stops as a whole, unless enough are left for a minCount of its own and
    its Jobs survive the evictions (backoffLimit, podFailurePolicy).
    For each: how many pods stop, for how long they have run, and whether the other nodes and its
    queue have room for it, as "gangctl fit" answers it for this gang alone. The order is that in
    which least is lost: gangs that fit elsewhere first, and of these the ones that have run for
    the shortest time. Nothing is evicted or written.

    Exit code 0, 1 if there is no such node, 2 for bad input, 3 when the cluster cannot be reached,
    or its nodes or pods may not be read.

    \b
    Examples:
      gangctl drain node-7 --dry-run
      gangctl drain node-7 node-8 --dry-run -o json
      gangctl drain node-7 --dry-run -f dump.yaml
    """  # noqa: D301 -- \b keeps the lines of a paragraph apart
    if not dry_run:
        raise click.UsageError("gangctl drains no node: add --dry-run to see what stops, and drain with kubectl drain")
    names = list(dict.fromkeys(node.name for node in nodes))
    # A drain stops pods of all namespaces.
    question = asking.asked(everywhere=True, **flags)
    plan, now = _of_files(question, names) if question.offline else asking.live(question, _Cluster(names))
    print_answer(form, [plan], lambda: _sections(plan, now))


class _Cluster:
    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    async def __call__(self, reader: ScopeReader, keys: Sequence[tuple[str, str]]) -> tuple[DrainPlan, float]:
        """Read what ``gangctl fit`` reads of a cluster, beside the gangs; the plan, and its time."""
        from gangctl.cli.kueuecluster import read_fixed_nodes, read_without_kueue  # noqa: PLC0415 -- --help does without

        now = reader.state.now()
        losses = _losses(reader.state, keys, self._names, now)
        subjects = [subject for subject, _ in losses]
        stock = reader.state.queues
        if not stock.queues_known:
            stock = await read_without_kueue(reader.client, {subject.namespace for subject in subjects})
        await read_fixed_nodes(reader.client, stock, subjects)
        if stock.pods is None:
            hint = "a drain stops pods of all namespaces: get the right to list pods cluster-wide"
            raise ClusterUnavailableError("what is on the nodes is not known: pods may not be read", hint=hint)
        return _plan(losses, stock, self._names), now


def _of_files(question: asking.Asking, names: Sequence[str]) -> tuple[DrainPlan, float]:
    selection = asking.find(question)
    if not selection.state.queues.nodes:
        raise InputError("the files have no Node", hint="kubectl get nodes -o yaml")
    if selection.state.queues.pods is None:
        raise InputError("the files have no Pod", hint="kubectl get pods -A -o yaml")
    state = selection.state
    now = state.now()
    return _plan(_losses(state, selection.keys, names, now), state.queues, names), now


def _losses(
    state: GangState, keys: Iterable[tuple[str, str]], names: Iterable[str], now: float
) -> list[tuple[FitSubject, Stopped]]:
    """The JobSets of which something stops."""
    from gangctl.cli.fitting import FitSubject  # noqa: PLC0415 -- --help does without
    from gangctl.readiness.drain import stopped  # noqa: PLC0415

    drained = set(names)
    losses = []
    for key in keys:
        stored, snapshot, readiness = state.jobsets.get(*key), state.snapshot(key, now), state.readiness(key, now)
        if stored is None or snapshot is None or readiness is None:
            continue
        loss = stopped(snapshot, readiness, drained, now)
        if loss is not None:
            jobset = stored.jobset
            identity = jobset.name, jobset.namespace, jobset.queue, jobset.uid
            left = _left(jobset, state.jobs.by_index("jobset", key))
            losses.append((FitSubject(stored.raw, *identity, new=False, left=left), loss))
    return losses


def _left(jobset: JobSet, jobs: Iterable[JobProgress]) -> dict[str, PodsLeft]:
    """By name of the replicated job, without those of which no pod has ended."""
    from gangctl.fit.requests import PodsLeft  # noqa: PLC0415 -- --help does without
    from gangctl.gang.desired import job_pods_left  # noqa: PLC0415
    from gangctl.gang.plan import job_pods  # noqa: PLC0415

    own = [job for job in jobs if job.jobset_uid == jobset.uid]
    left: dict[str, PodsLeft] = {}
    for rj in jobset.replicated_jobs:
        pods = [job_pods_left(rj, job, jobset.restarts) for job in own if job.replicated_job == rj.name]
        # Of Jobs that are not there, or may not be read, none has ended.
        others = max(0, rj.replicas - len(pods))
        if any(count < job_pods(rj) for count in pods):
            left[rj.name] = PodsLeft(sum(pods) + others * job_pods(rj), job_pods(rj) if others else max(pods))
    return left


def _plan(losses: Iterable[tuple[FitSubject, Stopped]], stock: Stock, names: Sequence[str]) -> DrainPlan:
    from gangctl.api.meta import API_VERSION  # noqa: PLC0415
    from gangctl.cli.fitting import restarted  # noqa: PLC0415 -- --help does without

    there = [node.name for node in stock.nodes]
    for name in names:
        if name not in there:
            raise ObjectNotFoundError("Node", name, others=there)
    drained = set(names)
    # Once for all gangs: each is compared with the nodes that stay, as if it were the only one that moves.
    stock.nodes = [node for node in stock.nodes if node.name not in drained]
    gangs: list[DrainedGang] = []
    in_gangs = 0
    for subject, loss in losses:
        in_gangs += loss.there + loss.leaving
        if not loss.there:
            continue
        fit = restarted(subject, stock)
        gangs.append(
            {
                "name": subject.name,
                "namespace": subject.namespace,
                "groups": list(loss.groups),
                "podsOnNodes": loss.there,
                "pods": loss.pods,
                "runningSince": rfc3339(loss.since),
                "lostPodSeconds": loss.lost,
                "fits": fit["verdict"],
                "reason": fit["reason"],
                "message": fit["message"],
            }
        )
    gangs.sort(key=lambda gang: (gang["fits"] != "fits", gang["lostPodSeconds"], gang["namespace"], gang["name"]))
    others = sum(pod.node in drained for pod in stock.pods or ()) - in_gangs
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "nodes": list(names),
        "gangs": gangs,
        # Gangs and nodes are read one after the other: a pod that ends in between is counted of gangs alone.
        "otherPods": max(0, others),
    }


_FITS: Final = {"never": "no", "not-now": "not now", "fits": "yes", "unknown": "unknown"}
_LEGEND: Final = (
    "In the order to stop them. HERE: pods on the nodes. STOPS: pods that stop. RUNNING: since it was whole. "
    "ELSEWHERE: whether its queue and the other nodes have room for all of it now, if it is the only one that moves."
)


def _sections(plan: DrainPlan, now: float) -> list[Section]:
    from datetime import UTC, datetime  # noqa: PLC0415 -- as above

    from gangctl.kueue.amounts import span  # noqa: PLC0415

    rows = []
    for gang in plan["gangs"]:
        since = datetime.fromisoformat(gang["runningSince"]) if gang["runningSince"] else None
        running = span(datetime.fromtimestamp(now, UTC) - since) if since is not None else ""
        why = gang["message"] if gang["fits"] != "fits" else ""
        counts = str(gang["podsOnNodes"]), str(gang["pods"])
        rows.append((full_name(gang["namespace"], gang["name"]), *counts, running, _FITS[gang["fits"]], why))
    stopping = [gang for gang in plan["gangs"] if gang["groups"]]
    pods = sum(gang["pods"] for gang in stopping)
    lost = timedelta(seconds=sum(gang["lostPodSeconds"] for gang in plan["gangs"]))
    continuing = [gang for gang in plan["gangs"] if not gang["groups"]]
    title = f"Drain of {', '.join(plan['nodes'])}: stops {plural(len(stopping), 'gang')} with {plural(pods, 'pod')}"
    lines = [f"Continues with its minCount: {full_name(gang['namespace'], gang['name'])}" for gang in continuing]
    lines += [f"Running time of the pods that stop: {span(lost)} in all"] if rows else []
    lines.append(f"Pods there that are of no gang: {plan['otherPods']}")
    headers = ("GANG", "HERE", "STOPS", "RUNNING", "ELSEWHERE", "WHY")
    return [Section(title, tuple(lines), table=Table(headers, tuple(rows)) if rows else None, legend=_LEGEND)]
