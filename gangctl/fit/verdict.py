"""Whether a queue of Kueue can ever admit a JobSet, and whether it can now.

``never`` is a proof: every choice of flavors exceeds what the queue could ever use, with nothing else admitted. All
facts of this proof must be known; otherwise the verdict is ``unknown``. It is not ``never`` if the queue admits
nothing at present, or if Kueue's assignment of flavors misses an existing choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from gangctl.errors import one_line
from gangctl.fit import explain, preemption, report
from gangctl.fit.candidates import LOWEST, Preemptor
from gangctl.fit.clusterstate import ClusterSnapshot, FitRequest
from gangctl.fit.conditions import Conditions
from gangctl.fit.demands import Member, contradictions, needs_of, refusals, with_pods
from gangctl.fit.heads import keepers, keeping, only_choice, rank_of
from gangctl.fit.placing import Placing
from gangctl.fit.preemption import Preemption, as_it_is, decide, lacking, when_empty
from gangctl.fit.queuecase import PODSETS, QueueCase
from gangctl.fit.quotas import by_resource, capacity_of, held_pairs, with_lending_limits
from gangctl.fit.requests import (
    PodSet,
    left_after_success,
    malformed_topology,
    podsets_of,
    refused_claims,
    remainders,
    requests_of,
    unfinished,
)
from gangctl.fit.search import BUDGET, Mode, Step, pairs_of, search, taken, tries
from gangctl.fit.tree import Pair
from gangctl.fit.when import Estimate
from gangctl.gang.reasons import Reason
from gangctl.kueue.blocked import blocked, is_inactive, unresolved
from gangctl.kueue.consistency import FEWEST_PODSETS
from gangctl.kueue.names import DEFAULT_QUEUE
from gangctl.kueue.objects import ELSEWHERE, Amounts, ClusterQueue, QueuedWorkload
from gangctl.kueue.queues import MOST_PODSETS, queued_at
from gangctl.kueue.states import failed_checks

__all__ = ["FitRequest", "fit"]
_MOST_HOLDERS: Final = 50
_MOST_NAMES: Final = 8


def fit(
    request: FitRequest, cluster: ClusterSnapshot, budget: int = BUDGET, preemptions: int = preemption.BUDGET
) -> report.FitReport:
    """The report on one JobSet; total for any object.

    ``budget`` and ``preemptions`` bound the steps of the search for flavors and of the search for preemption.
    """
    jobset = request.read()
    case = QueueCase(request, cluster, jobset, Conditions(request, jobset, cluster), request.queue)
    if not case.queue and cluster.local_queue(request.namespace, DEFAULT_QUEUE) is not None:
        case.queue = DEFAULT_QUEUE if case.conditions.takes_default_queue() else ""
    if refused := case.conditions.refused(case.queue):
        case.unknown += case.conditions.unread()
        return case.never("NeverMisconfigured", refused, blocking=False)
    if held := case.conditions.held(case.queue):
        case.blocked = held
        return case.answer("not-now", "QueueBlocked", held)
    if outside := case.conditions.outside(case.queue):
        return case.answer("fits", "NotQueued", outside + case.unsure)
    case.elsewhere += case.conditions.elsewhere()
    case.unknown = list(dict.fromkeys([*cluster.unknown(), *case.conditions.unread(), *case.elsewhere]))
    local = cluster.local_queue(request.namespace, case.queue)
    queue = cluster.quotas.queue(local.cluster_queue) if local is not None else None
    case.cluster_queue = local.cluster_queue if local is not None else ""
    obstacle = blocked(case.queue, local, queue, request.namespace_labels, namespace=request.namespace)
    if obstacle is not None or queue is None:
        case.blocked = obstacle.message if obstacle is not None else "the ClusterQueue does not exist"
        if local is None:
            case.blocked += _other_queues(case.queue, request, cluster)
        return case.answer("not-now", "QueueBlocked", case.blocked)
    if cluster.quotas.cycle(queue.name):
        case.blocked = f'the cohorts of ClusterQueue "{queue.name}" form a cycle, in which nothing is admitted'
        return case.answer("not-now", "QueueBlocked", case.blocked)
    topologies = cluster.topologies() if cluster.topology_aware(queue) else None
    # A flavor or check that could not be read would look like one that does not exist.
    if not cluster.unknown() and (inactive := unresolved(queue, cluster.check, cluster.flavor, topologies)):
        case.blocked = inactive.message
        return case.answer("not-now", "QueueBlocked", case.blocked)
    case.unknown += case.conditions.partly_read(queue)
    case.missing = case.conditions.missing(queue)
    case.strict = queue.strategy == "StrictFIFO"
    if dispatcher := cluster.dispatcher(queue):
        case.elsewhere.append(f'what the clusters have to which MultiKueue (AdmissionCheck "{dispatcher}") sends it')
        case.unknown.append(case.elsewhere[-1])
    case.checks += case.conditions.checked(queue)
    case.preemptions = preemptions
    return _in_queue(case, queue, budget)


def _in_queue(case: QueueCase, queue: ClusterQueue, budget: int) -> report.FitReport:
    """The verdict on a JobSet whose queue is open."""
    configuration = case.cluster.configuration
    podsets = podsets_of(case.request.jobset)
    limit = case.cluster.queue_limit
    if limit is None and len(podsets) > FEWEST_PODSETS:
        case.unknown.append(PODSETS)
    most = MOST_PODSETS if limit is None else limit
    if len(podsets) > most:
        message = f"it has {len(podsets)} replicated jobs, and Kueue takes at most {most}; split the JobSet"
        # Kueue creates no Workload for it, so that it never blocks others.
        return case.never("NeverMisconfigured", message, blocking=False, by_podsets=True)
    if unqueued := _unqueued(case.cluster, podsets):
        return case.never("NeverMisconfigured", "; ".join(unqueued), blocking=False)
    # Of a new one the API server drops the status.
    if not case.request.new and configuration.gate("ReclaimablePods", default=True):
        podsets = tuple(unfinished(podsets, left_after_success(podsets, case.request.jobset)))
    # Doubts turn `fits` into unknown, but never hide a `never`: no quota would change that.
    case.conditions.doubts += case.conditions.unforeseen(queue)
    if case.cluster.topology_aware(queue):
        case.conditions.doubts += remainders(podsets)
    problems = _count(case, podsets, queue)
    if problems:
        return case.never("NeverMisconfigured", "; ".join(problems))
    case.needs = needs_of(
        case.members,
        queue,
        refusals(queue, case.cluster),
        lenient=configuration.ignores_undeclared,
    )
    case.capacity = capacity_of(case.cluster.quotas, queue, case.needs.demands)
    node = case.cluster.quotas.node(queue.name)
    if node is None:
        raise AssertionError(f"ClusterQueue {queue.name} is known without its quotas")
    gang = explain.GangDemands(case.members, case.needs, queue, node, case.capacity)
    if unassigned := _unassigned(gang):
        return case.never(*unassigned)
    placing = Placing(case.members, case.needs, queue, case.cluster)
    if misfit := placing.misfit():
        return case.never("NeverNoFlavor", misfit)
    return _by_quota(case, gang, placing, budget)


def _unqueued(cluster: ClusterSnapshot, podsets: Sequence[PodSet]) -> list[str]:
    """Why Kueue queues no Workload with these podsets, which then never blocks others."""
    configuration = cluster.configuration
    # Kueue's webhook rejects the JobSet.
    refused = malformed_topology(podsets) if configuration.gate("TopologyAwareScheduling", default=True) else []
    # What an older Kueue does is not known.
    if cluster.queue_limit is not None and cluster.queue_limit >= MOST_PODSETS:
        refused += refused_claims(podsets, configuration)
    return refused


def _unassigned(gang: explain.GangDemands) -> tuple[str, str] | None:
    """Reason and message for podsets to which Kueue assigns no flavor with any quota; None if there are none."""
    if gang.needs.undeclared:
        return "NeverUndeclaredResource", explain.undeclared(gang)
    if gang.needs.stop is not None:
        return "NeverNoFlavor", explain.stopped(gang, gang.needs.stop)
    if not all(demand.flavors for demand in gang.needs.demands):
        return "NeverNoFlavor", explain.no_flavor(gang)
    return None


def _count(case: QueueCase, podsets: Sequence[PodSet], queue: ClusterQueue) -> list[str]:
    """Count the requests of the podsets, and find errors that Kueue rejects with any quota."""
    surroundings = case.cluster.surroundings(case.request.namespace)
    members, problems = [], []
    for podset in podsets:
        counted = requests_of(podset, surroundings)
        members.append(Member(podset, counted, with_pods(counted.requests, queue)))
        problems += [f'"{podset.name}": {problem}' for problem in counted.problems]
        case.unknown += [why for why in counted.unknown if why not in case.unknown]
    case.members = members
    return problems


def _by_quota(case: QueueCase, gang: explain.GangDemands, placing: Placing, budget: int) -> report.FitReport:
    """The verdict on a gang without errors that Kueue rejects with any quota."""
    demands = gang.needs.demands
    # Kueue's own choice comes first: if it finds one, that is a proof, and costs less than the search.
    empty = list(tries(demands, when_empty(gang.queue, gang.node, gang.capacity)))
    choice = next((steps for steps in empty if steps is not None), None)
    if choice is None:
        failing, exhausted, left = [], False, budget
        for part in sorted({demand.part for demand in demands}):
            answer = search([demand for demand in demands if demand.part == part], gang.capacity.ceiling, left)
            left -= answer.steps
            exhausted = exhausted or answer.exhausted
            if answer.choice is None and not answer.exhausted:
                failing.append(part)
        if failing:
            # Only here, for the message: it walks the whole tree for each pair.
            case.capacity = with_lending_limits(gang.capacity, gang.node)
            gang = replace(gang, capacity=case.capacity)
            return case.never("NeverExceedsQuota", explain.exceeds(gang, failing))
        if exhausted:
            case.unknown.append("whether any of too many choices of flavors has room for it")
            return case.answer("unknown", "Unknown", f"not known: {'; '.join(case.unknown)}")
    return _when(case, gang, placing, empty, budget=budget)


def _other_queues(queue: str, request: FitRequest, cluster: ClusterSnapshot) -> str:
    """The queues that may be meant by one that does not exist: those of the namespace, and of that name elsewhere."""
    names = _open_queues(request, cluster)
    text = f": {', '.join(names)}" if names else ""
    # A reader of one namespace does not read those of others.
    homes = sorted(cluster.homes_of(queue)) if request.reader is None else []
    return f"{text}; namespace {report.quoted(map(one_line, homes))} has one of this name" if homes else text


def _open_queues(request: FitRequest, cluster: ClusterSnapshot) -> list[str]:
    """The LocalQueues of its namespace that admit JobSets from it, by name; the first few of many."""
    names = []
    for name in cluster.local_queues(request.namespace):
        local = cluster.local_queue(request.namespace, name)
        behind = cluster.quotas.queue(local.cluster_queue) if local is not None else None
        if blocked(name, local, behind, request.namespace_labels) is None:
            names.append(one_line(name))
    return [*names[:_MOST_NAMES], f"{len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else names


def _when(
    case: QueueCase,
    gang: explain.GangDemands,
    placing: Placing,
    empty: Sequence[tuple[Step, ...] | None],
    *,
    budget: int,
) -> report.FitReport:
    """The verdict on a gang that can fit; ``empty`` are Kueue's tries with nothing in use."""
    # Only after `never` was ruled out: a class that does not exist can be created, which helps only what can fit.
    if case.missing:
        case.blocked = case.missing
        return case.answer("not-now", "QueueBlocked", case.missing)
    late, first = empty[0] is None, next((steps for steps in empty if steps is not None), None)
    demands, queue = gang.needs.demands, gang.queue
    # JobSet rejects a dependency on a replicated job that follows.
    movable = not any(rj.depends_on for rj in case.jobset.replicated_jobs)
    preemptor, known = _preemptor(case, queue), case.cluster.workloads_known
    simulation = Preemption(case.cluster.quotas, preemptor, gang.node, case.preemptions, exhausted=not known)
    now = decide(demands, as_it_is(simulation, gang.capacity), simulation, placing)
    if now.fits:
        case.steps, case.domains = now.steps or (), list(now.placed.domains)
        # Nodes decide only about a gang that has quota; for others they would make a certain answer unknown.
        case.unknown += placing.unknown(case.jobset, case.steps)
        case.unknown += _domains_kept(case, queue, [step.flavor for step in case.steps])
        flavors = [step.flavor for step in case.steps]
        case.conditions.doubts += contradictions(gang.members, gang.needs, flavors, case.cluster.flavor)
        case.conditions.doubts += case.conditions.unlisted(queue, taken(demands, flavors))
    # Kueue tries nothing behind the head of a StrictFIFO queue, whatever quota is free.
    if (now.fits or now.preempted) and (behind := _behind(case, gang, simulation.preemptor, fits=now.fits)) is not None:
        return behind
    if now.fits:
        where = f": {now.placed.where}" if now.placed.where else ""
        if late:
            message = explain.late(gang, [step.flavor for step in case.steps], movable=movable)
            return case.answer("fits", "FitsReordered", message + where + case.unsure, reorder=True)
        return case.answer("fits", "Fits", f'it fits into ClusterQueue "{queue.name}" now{where}{case.unsure}')
    if (needs := _needs_nodes(case, placing, [steps for steps in empty if steps is not None])) is not None:
        return needs
    if first is None:
        choice = search(demands, gang.capacity.ceiling, budget).choice or ()
        case.steps = tuple(Step(flavor, Mode.FIT) for flavor in choice)
        message = explain.missed(gang, choice, movable=movable)
        return case.answer("not-now", "FitsReordered", message, blocking=case.strict, reorder=True)
    case.steps = first if now.steps is None else now.steps
    short, problem = lacking(demands, case.steps, gang.capacity), now.placed.problem
    holding = now.placed.holders if problem and not short else case.cluster.quotas.holders(queue.name, short.keys())
    if not known and (own := _held_unseen(case, queue, explain.waiting(short, problem, (), None))) is not None:
        return own
    reader = case.request.reader
    case.holders = [_holder(holder, amounts, reader) for holder, amounts in holding[:_MOST_HOLDERS]]
    case.domains = list(now.placed.domains) if problem else []
    case.preempts = [{**_holder(one.workload, by_resource(one.held), reader), "why": one.why} for one in now.preempted]
    if now.preempted:
        message = explain.preempting(short, problem, now.preempted, reader) + case.unsure
        return case.answer("not-now", "NeedsPreemption", message, reorder=late)
    reason = "WaitsForTopology" if problem and not short else "WaitsForQuota"
    case.starts = _starts(case, gang, simulation.preemptor, short) if reason == "WaitsForQuota" else None
    message = explain.waiting(short, problem, holding, reader) + _unsure_of_preemption(case, simulation) + case.unsure
    return case.answer("not-now", reason, message, reorder=late)


def _held_unseen(case: QueueCase, queue: ClusterQueue, waits: str) -> report.FitReport | None:
    """The verdict on a gang that waits, where it may hold itself what only the status of a ClusterQueue counts."""
    if not (case.request.new or case.request.workload or case.jobset.suspend):
        case.unknown.append(f"how much of what is in use it holds itself: {case.cluster.unseen}")
        return case.answer("unknown", "Unknown", f"{waits}, but not known: {'; '.join(case.not_known)}")
    preempting = ", and whether Kueue would preempt some of them" if queue.preempts else ""
    case.conditions.doubts.append(f"who else holds what it waits for{preempting}: {case.cluster.unseen}")
    return None


def _behind(case: QueueCase, gang: explain.GangDemands, preemptor: Preemptor, *, fits: bool) -> report.FitReport | None:
    """The verdict on a gang that has room, or would get it by preemption, if nothing else held it up."""
    without = "there is quota for it now" if fits else "Kueue would preempt others for it"
    if (held := case.conditions.held_back()) is not None:
        reason, why = held
        return case.answer("not-now", str(reason), f"{without}, but {why}{case.unsure}")
    first = case.request.head(preemptor.queue)
    # Kueue creates the Workload of a new JobSet after all that are there.
    # "~" is behind every UID.
    own = case.request.workload or QueuedWorkload("", "", "~", priority=preemptor.priority)
    head = None
    if first is not None and first.precedes(own):
        head = first.effect(case.request.reader, joined=case.request.workload is None)
        if head is not None and case.conditions.priority() is None:
            title = f'"{first.workload.title_for(case.request.reader)}"'
            queue = f'StrictFIFO ClusterQueue "{preemptor.queue.name}"'
            case.unknown.append(f"its priority, by which {title}, the head of {queue}, may go first")
            head = None
    if head is None:
        if not fits:
            return None
        _doubt_order(case, preemptor.queue)
        return _unready(case) or _kept(case, gang, preemptor)
    if fits:
        case.starts = _starts(case, gang, preemptor, dict.fromkeys(pairs_of(gang.needs.demands), 0))
    return case.answer("not-now", str(head.reason), f"{without}, but {head.evidence}{case.unsure}")


def _doubt_order(case: QueueCase, queue: ClusterQueue) -> None:
    """Doubt the verdict on a gang that has room, if it is not known which Workload of its queue is tried first."""
    own = int(case.request.workload is not None)
    if not case.strict or queue.pending <= own:
        return
    if setting := _unordered(case.cluster, queue):
        which = f'which of the workloads in StrictFIFO ClusterQueue "{queue.name}" Kueue tries first'
        case.unknown.append(f"{which}{setting}")


def _unordered(cluster: ClusterSnapshot, queue: ClusterQueue) -> str:
    """Why it is not known what a queue tries first, behind a colon or in parentheses; empty if it is known."""
    if setting := cluster.configuration.unordered(queue):
        return f" ({setting})"
    return "" if cluster.heads_known else f": {cluster.heads_unseen}"


def _unready(case: QueueCase) -> report.FitReport | None:
    """The verdict on a gang that has room, if Kueue waits for the pods of others first, in any queue."""
    cluster, reader = case.cluster, case.request.reader
    if not cluster.configuration.wait_for_pods_ready.blocks:
        return None
    unready = [workload for workload in cluster.quotas.workloads() if not workload.holds("PodsReady")]
    if not unready:
        if not cluster.workloads_known:
            case.unknown.append(f"for whose pods Kueue waits first (waitForPodsReady.blockAdmission): {cluster.unseen}")
        return None
    unready.sort(key=lambda workload: (workload.namespace, workload.name))
    case.holders = [_holder(one, by_resource(held_pairs(one)), reader) for one in unready[:_MOST_HOLDERS]]
    names = report.quoted(one.title_for(reader) for one in unready)
    message = f"there is quota for it now, but Kueue admits nothing before the pods of {names} are ready"
    setting = "waitForPodsReady.blockAdmission of its configuration"
    return case.answer("not-now", "WaitsForPodsReady", f"{message} ({setting}){case.unsure}")


def _domains_kept(case: QueueCase, own: ClusterQueue, flavors: Iterable[str]) -> Iterator[str]:
    """Heads of other StrictFIFO queues, of any cohort, for which Kueue keeps domains in each of its cycles.

    Their quota fits, a domain does not (``reserveCapacityForUnreclaimablePreempt``, with the usage of topologies).
    """
    placing = {name for name in flavors if case.cluster.levels(name)} if case.cluster.topology_aware(own) else set()
    for queue in case.cluster.quotas.queues() if placing else ():
        shared = placing & {quota.name for group in queue.groups for quota in group.flavors}
        if not shared or queue.name == own.name or queue.reclaim == "Any" or is_inactive(queue):
            continue
        head = case.request.head(queue)
        if head is not None and not failed_checks(head.workload) and head.effect(None, joined=True) is not None:
            yield (
                f'whether Kueue keeps domains of flavor "{min(shared)}" for '
                f'"{head.workload.title_for(case.request.reader)}", the head of StrictFIFO ClusterQueue "{queue.name}"'
            )


def _kept(case: QueueCase, gang: explain.GangDemands, preemptor: Preemptor) -> report.FitReport | None:
    """The verdict on a gang that has room, if Kueue keeps it for the heads of other queues of its cohort."""
    pairs = only_choice(gang.needs.demands)
    # Another flavor would do.
    if pairs is None:
        return None
    for other, _ in keepers(case.cluster.quotas, gang.queue.name, pairs):
        if other.pending and (setting := _unordered(case.cluster, other)):
            which = f'which of the workloads in StrictFIFO ClusterQueue "{other.name}" Kueue tries first'
            case.unknown.append(f"{which}, and whether it keeps the quota for that{setting}")
    unknown = preemptor.ordering.by_priority and case.conditions.priority() is None
    unsure = "fairSharing" if preemptor.strategies is not None else "by its priority" if unknown else ""
    # A new one is behind all of its priority.
    since = preemptor.since or datetime.max.replace(tzinfo=UTC)
    rank = None if unsure else rank_of(gang.node, pairs, preemptor.priority, since, preemptor.ordering)
    quotas, ordering = case.cluster.quotas, preemptor.ordering
    before = keeping(quotas, gang.queue, pairs, rank, case.request.head, ordering=ordering)
    if not before:
        return None
    reader = case.request.reader
    names = report.quoted(one.head.workload.title_for(reader) for one in before)
    queues = report.quoted(one.head.queue.name for one in before)
    if unsure:
        case.unknown.append(
            f"whether Kueue ({unsure}) tries {names}, the head of StrictFIFO ClusterQueue {queues}, before it, and "
            "keeps the quota for that"
        )
        return None
    message = (
        f"there is quota for it now, but Kueue keeps it for {names}, at the head of StrictFIFO ClusterQueue {queues}, "
        "until that fits; with reclaimWithinCohort Any there, others could borrow it"
    )
    return case.answer("not-now", str(Reason.HEAD_BLOCKS_QUEUE), message + case.unsure)


def _starts(
    case: QueueCase, gang: explain.GangDemands, preemptor: Preemptor, short: dict[Pair, int]
) -> report.StartReport | None:
    """When it starts, if it is asked and all is known."""
    # One that Kueue does not try starts at no time, whatever ends.
    if case.request.outlook is None or case.not_known or case.conditions.held_back() is not None:
        return None
    placed = any(member.podset.topology for member in case.members)
    uid = case.request.workload.uid if case.request.workload is not None else ""
    return Estimate(case.cluster, case.request.outlook, preemptor, gang.needs.demands, short, uid, placed).report()


def _preemptor(case: QueueCase, queue: ClusterQueue) -> Preemptor:
    configuration = case.cluster.configuration
    priority, workload = case.conditions.priority(), case.request.workload
    ordering = configuration.ordering
    return Preemptor(
        queue,
        LOWEST if priority is None else priority,
        queued_at(workload, ordering) if workload is not None else None,
        configuration.fair_sharing,
        within_nominal=configuration.gate("FairSharingPreemptWithinNominal", default=True),
        ordering=ordering,
    )


def _unsure_of_preemption(case: QueueCase, simulation: Preemption) -> str:
    """Why Kueue may preempt others nevertheless."""
    queue = simulation.preemptor.queue
    if not case.cluster.workloads_known:
        # A doubt says it.
        return ""
    if simulation.exhausted:
        return "; whether Kueue would preempt some of the many workloads is not known"
    if case.conditions.priority() is None and {queue.within_queue, queue.reclaim} - {"Never", "Any"}:
        return "; its priority is not known, so neither is whether Kueue would preempt others for it"
    return ""


def _needs_nodes(case: QueueCase, placing: Placing, empty: Sequence[tuple[Step, ...]]) -> report.FitReport | None:
    """The verdict on a gang that finds no domain at any try with nothing in use; None otherwise."""
    ever = placing.ever()
    if ever.problem and case.request.fixed_nodes:
        case.domains = list(ever.domains)
        return case.never("NeverExceedsTopology", f"{ever.problem}; ask for fewer pods, smaller ones, or a wider level")
    if not ever.problem:
        attempts = [placing.place(steps, ever=True) for steps in empty] if placing.units else []
        if not attempts or not all(attempt.problem for attempt in attempts):
            return None
        ever = attempts[0]
    case.domains = list(ever.domains)
    message = f"{ever.problem}; it waits until there are other nodes"
    return case.answer("not-now", "NeedsNodes", message + case.unsure, blocking=case.strict)


def _holder(holder: QueuedWorkload, amounts: Amounts, reader: str | None) -> report.HolderReport:
    hidden = holder.is_hidden_from(reader)
    return {
        "name": ELSEWHERE if hidden else holder.owner_name or holder.name,
        "namespace": "" if hidden else holder.namespace,
        "kind": (not hidden and holder.owner_kind) or "Workload",
        "clusterQueue": holder.cluster_queue,
        "priority": holder.priority,
        "resources": {resource: report.bounded(amount) for resource, amount in amounts.items()},
    }
