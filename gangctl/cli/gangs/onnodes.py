"""What the pods of a JobSet and the nodes give, where the scheduler has rejected pods: commands compare both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gangctl.api.objects import Key, object_at
from gangctl.api.requests import pod_requests
from gangctl.cli.fitting import neighbours_of, onto_nodes
from gangctl.cli.gangs.state import GangState, StoredJobSet
from gangctl.cluster.stock import Stock
from gangctl.fit import limits
from gangctl.fit.admitted import changes
from gangctl.fit.clusterstate import FitRequest
from gangctl.fit.members import Neighbours
from gangctl.fit.nodecase import without_plugins
from gangctl.fit.nodes import admitted
from gangctl.fit.report import never_of
from gangctl.fit.requests import PodSet, requests_of
from gangctl.fit.room import room_now
from gangctl.fit.scheduling import Floor, Together
from gangctl.fit.started import labels_of
from gangctl.gang.plan import GangPlan
from gangctl.kueue.objects import Amounts
from gangctl.kueue.queues import current
from gangctl.readiness.facts import PodFacts, unix
from gangctl.readiness.holders import Holder, holders_of
from gangctl.readiness.onnodes import OnNodes


def compare_with_nodes(state: GangState, key: Key, stock: Stock) -> None:
    """Store what its pods and the nodes tell of a JobSet of which the scheduler rejected pods."""
    stored, made = state.jobsets.get(*key), stock.admitted.get(key)
    if stored is None or not state.refused([key]):
        return
    if made is None:
        # Its own pods are read with those of all namespaces.
        state.on_nodes[key] = OnNodes(holders=None if stock.pods is None else {})
        return
    workload = current(state.queues.workloads_of(stored.jobset.uid))
    changed, labels = tuple(changes(stored.raw, made)), labels_of(workload, state.queues.snapshot)
    held: Mapping[str, Sequence[Holder]] | None = None if stock.pods is None else {}
    without: Sequence[str] = ()
    # No template is like all of its pods where these differ: only the scheduler knows.
    if key in stock.varied or not stock.nodes:
        state.on_nodes[key] = OnNodes(changes=changed, flavors=labels, holders=held)
    else:
        fits, never = fits_now(state, key, stock), never_on_nodes(state, key, stock)
        if (floor := _floor(stored, stock)) is not None:
            held = held if held is None else holders(floor, key)
            without = without_plugins(floor)
        came = newcomers(state, key, stock)
        state.on_nodes[key] = OnNodes(fits, never, changed, labels, came, held, tuple(without))


def newcomers(state: GangState, key: Key, stock: Stock) -> Mapping[str, Sequence[str]]:
    """Pods that came after the first of a JobSet was placed, by what they have of its resources, the newest first."""
    placed = [pod.placed_at for pod in state.pods.by_index("jobset", key) if pod.node and pod.placed_at]
    asked = {name for pod in stock.admitted[key].values() for name in pod_requests(object_at(pod, "spec"))[0]}
    came: dict[str, list[str]] = {}
    for pod in sorted(stock.pods or (), key=lambda pod: pod.created, reverse=True) if placed else ():
        if (pod.namespace, pod.jobset) != key and unix(pod.created) > min(placed):
            for name in asked & pod.requests.keys():
                came.setdefault(name, []).append(f"{pod.namespace}/{pod.name} on {pod.node}")
    return came


def never_on_nodes(state: GangState, key: Key, stock: Stock) -> str:
    """The message of ``gangctl fit --fixed-nodes`` if that is ``never``; otherwise empty."""
    stored = state.jobsets.get(*key)
    # A stage that has finished needs no nodes any more, and fit does not leave it out.
    if stored is None or any(job.complete for job in state.jobs.by_index("jobset", key)):
        return ""
    request = FitRequest(stored.raw, key[0], None, stored.jobset.queue, new=False, fixed_nodes=True)
    report = onto_nodes(request, stock, lambda pod: (pod.namespace, pod.jobset) == key)
    never = never_of(report)
    return never.message if never is not None else ""


def fits_now(state: GangState, key: Key, stock: Stock) -> Mapping[str, bool]:
    """By group of a JobSet; without unknown ones, and those that were not rejected."""
    stored = state.jobsets.get(*key)
    plan = state.assessment(stored.jobset).plan if stored is not None else None
    made = _as_made(stored, stock) if stored is not None else None
    if stored is None or plan is None or stock.pods is None or made is None:
        return {}
    podsets, requests, neighbours = made
    index = {rj.name: rj.index for rj in stored.jobset.replicated_jobs}
    gangs = {
        group: Together(
            dict(Counter(index[pod.replicated_job] for pod in pods if pod.replicated_job in index)),
            _topology(plan, group),
        )
        for group, pods in _pods_without_node(state, key, plan).items()
    }

    def fit(together: list[Together]) -> bool | None:
        waiting = Counter[int]()
        for gang in together:
            waiting.update(gang.pods)
        sets = [replace(podset, pods=waiting[podset.index]) for podset in podsets]
        present = [podset for podset in sets if podset.pods]
        if any(
            any((*limits.deciding(stored.jobset, one, neighbours), *limits.of_labels(one, neighbours)))
            for one in present
        ):
            return None
        # Without hope: the answer may contradict the scheduler, which has refused these pods.
        floor = Floor(sets, requests, stock.nodes, neighbours, jobset=key[1], hopeful=False)
        return room_now(floor, together).answer.certain

    # The gangs of a CompositePodGroup start together: there is one answer for all.
    if plan.composite is not None:
        answers = dict.fromkeys(gangs, fit(list(gangs.values())))
    else:
        answers = {group: fit([gang]) for group, gang in gangs.items()}
    return {group: answer for group, answer in answers.items() if answer is not None}


def _as_made(stored: StoredJobSet, stock: Stock) -> tuple[list[PodSet], list[Amounts], Neighbours] | None:
    """The podsets as their pods are stored, what one of each requests, and what is on the nodes; None if unknown."""
    jobset = stored.jobset
    # Their requests have all defaults already.
    surroundings = replace(stock.snapshot.surroundings(jobset.namespace).of_pods(), limit_ranges=())
    # The pods that wait, each for the node that Kueue chose for it, or nodes of its Job.
    neighbours = replace(neighbours_of(stock, jobset.key, jobset.uid), levels=frozenset())
    podsets = admitted(stored.raw, surroundings, neighbours)
    counted = [requests_of(podset, surroundings) for podset in podsets]
    if any(requests.unknown for requests in counted):
        return None
    return podsets, [count.requests for count in counted], neighbours


def _floor(stored: StoredJobSet, stock: Stock) -> Floor | None:
    """All its pods and the nodes; None if unknown."""
    made = _as_made(stored, stock)
    if made is None:
        return None
    podsets, requests, neighbours = made
    return Floor(podsets, requests, stock.nodes, neighbours, jobset=stored.jobset.name)


def holders(floor: Floor, key: Key) -> Mapping[str, Sequence[Holder]]:
    """By resource that pods of a JobSet request: who has it on the nodes that these may be placed on, most first."""
    nodes = {node.name for number, node in enumerate(floor.nodes) if floor.takers_now(number)}
    others = [pod for pod in floor.members.others if (pod.namespace, pod.jobset) != key and pod.node in nodes]
    return {name: tuple(holders_of(others, name)) for name in floor.resources}


def _pods_without_node(state: GangState, key: Key, plan: GangPlan) -> dict[str, list[PodFacts]]:
    """Pods without a node of groups of which the scheduler rejected some.

    If some pods of a group with a topology have nodes, the others must join them, which is not checked here.
    """
    names = {group.name for group in plan.groups}
    unplaced: dict[str, list[PodFacts]] = {}
    placed: set[str] = set()
    refused: set[str] = set()
    group_of = {(job.replicated_job, job.index): job.reference.group for job in plan.jobs() if job.reference}
    for pod in state.pods.by_index("jobset", key):
        group = pod.group if pod.group in names else group_of.get((pod.replicated_job, pod.job_index), "")
        if not group or pod.deleting or pod.gates:
            continue
        if pod.node:
            placed.add(group)
            continue
        unplaced.setdefault(group, []).append(pod)
        if pod.refused:
            refused.add(group)
    return {
        group: pods
        for group, pods in unplaced.items()
        if group in refused and not (group in placed and _topology(plan, group))
    }


def _topology(plan: GangPlan, name: str) -> str:
    return next((group.template.topology_key for group in plan.groups if group.name == name), "")
