"""Whether the pods that the scheduler rejected would fit now, or ever, by the nodes and their usage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from gangctl.api.objects import Key
from gangctl.cli.fitting import onto_nodes
from gangctl.cli.gangs.state import GangState
from gangctl.cluster.nodes import in_use
from gangctl.cluster.stock import Stock
from gangctl.fit.clusterstate import FitRequest
from gangctl.fit.floor import Floor, Together
from gangctl.fit.podsets import podsets_of
from gangctl.fit.requests import requests_of
from gangctl.gang.plan import GangPlan
from gangctl.kueue.configuration import KueueConfiguration
from gangctl.readiness.facts import PodFacts


def compare_with_nodes(state: GangState, key: Key, stock: Stock) -> None:
    """Store whether the groups of a JobSet fit now, and why the nodes never hold it, if the scheduler rejected pods."""
    if any(pod.refused for pod in state.pods.by_index("jobset", key)):
        state.fits_now[key] = fits_now(state, key, stock)
        state.never_on_nodes[key] = never_on_nodes(state, key, stock)


def never_on_nodes(state: GangState, key: Key, stock: Stock) -> str:
    """The message of ``gangctl fit --fixed-nodes`` if that is ``never``; otherwise empty."""
    found = state.jobsets.get(*key)
    # A stage that has finished needs no nodes any more, and fit does not leave it out.
    if found is None or not stock.nodes or any(job.complete for job in state.jobs.by_index("jobset", key)):
        return ""
    request = FitRequest(found.raw, key[0], None, found.jobset.queue, new=False, fixed_nodes=True)
    report = onto_nodes(request, stock, lambda pod: (pod.namespace, pod.jobset) == key)
    return report["message"].rstrip(".") if report["verdict"] == "never" else ""


def fits_now(state: GangState, key: Key, stock: Stock) -> Mapping[str, bool]:
    """By group of a JobSet; without unknown ones, and those that were not rejected."""
    found = state.jobsets.get(*key)
    plan = state.assessment(found.jobset).plan if found is not None else None
    if found is None or plan is None or stock.pods is None:
        return {}
    podsets = podsets_of(found.raw)
    surroundings = replace(stock.snapshot.surroundings(key[0]), configuration=KueueConfiguration())
    counted = [requests_of(podset, surroundings) for podset in podsets]
    if any(each.unknown for each in counted):
        return {}
    used = in_use(stock.pods, lambda _: False)
    index = {rj.name: rj.index for rj in found.jobset.replicated_jobs}
    gangs = {
        group: Together(
            dict(Counter(index[pod.replicated_job] for pod in pods if pod.replicated_job in index)),
            _topology(plan, group),
        )
        for group, pods in _pods_without_node(state, key, plan).items()
    }

    def fit(together: list[Together]) -> bool:
        waiting = Counter[int]()
        for gang in together:
            waiting.update(gang.pods)
        sets = [replace(podset, pods=waiting[podset.index]) for podset in podsets]
        floor = Floor(sets, [each.requests for each in counted], stock.nodes, used)
        return floor.placed_now(together) is not None

    if plan.composite is not None:
        return dict.fromkeys(gangs, fit(list(gangs.values())))
    return {group: fit([gang]) for group, gang in gangs.items()}


def _pods_without_node(state: GangState, key: Key, plan: GangPlan) -> dict[str, list[PodFacts]]:
    """Pods without a node of groups of which the scheduler rejected some.

    If some pods of a group with a topology have nodes, the others must join them, which is not checked here.
    """
    names = {group.name for group in plan.groups}
    found: dict[str, list[PodFacts]] = {}
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
        found.setdefault(group, []).append(pod)
        if pod.refused:
            refused.add(group)
    return {
        group: pods
        for group, pods in found.items()
        if group in refused and not (group in placed and _topology(plan, group))
    }


def _topology(plan: GangPlan, name: str) -> str:
    return next((group.template.topology_key for group in plan.groups if group.name == name), "")
