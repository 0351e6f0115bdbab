"""The JobSets for ``gangctl fit``, the report on one, by its queue and by the nodes, and that report as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from gangctl.api.jobset import read_jobset
from gangctl.api.meta import NAMESPACED_JOB
from gangctl.api.objects import Key, object_at
from gangctl.api.quantity import figure
from gangctl.cli.manifests import Problems, read_manifests
from gangctl.cli.messages import full_name, note
from gangctl.cli.names import ObjectName
from gangctl.cli.output import Section, Table
from gangctl.cluster.kinds import with_variants
from gangctl.cluster.stock import Stock
from gangctl.fit import started, verdict
from gangctl.fit.clusterstate import FitRequest
from gangctl.fit.creation import CreationRefusal, refusal
from gangctl.fit.limits import of_accounts
from gangctl.fit.members import Neighbours
from gangctl.fit.nodes import admitted, gangs_of, node_fit, partly_on_nodes
from gangctl.fit.placedpods import PlacedPod
from gangctl.fit.report import (
    DispatchedFit,
    DomainReport,
    FitReport,
    HolderReport,
    LimitReport,
    PodSetReport,
    PreemptedReport,
    StartReport,
    WorkerFit,
)
from gangctl.fit.requests import PodsLeft, succeeded_jobs
from gangctl.fit.started import Additions
from gangctl.gang.resolve import ClusterRules
from gangctl.kueue.amounts import DAY, HOUR, MINUTE, UNLIMITED, age, span
from gangctl.kueue.objects import QueuedWorkload
from gangctl.kueue.queues import current
from gangctl.kueue.states import QueuePhase, phase_of, status_of


def onto_nodes(
    request: FitRequest, stock: Stock, without: Callable[[PlacedPod], bool], additions: Additions | None = None
) -> FitReport:
    """Whether the nodes can hold a JobSet, with what Kueue adds to its pods; some pods are ignored."""
    surroundings = stock.snapshot.surroundings(request.namespace)
    jobset = request.read()
    neighbours = neighbours_of(stock, (request.namespace, jobset.name), jobset.uid, without)
    return node_fit(request, stock.nodes, surroundings, neighbours, additions or {})


def _started(request: FitRequest, stock: Stock, without: Callable[[PlacedPod], bool], queued: FitReport) -> FitReport:
    """Whether the nodes can hold a JobSet as Kueue starts it, by the report on its queue.

    With the flavors that it gets now; it never fits only if it does not with any others.
    """
    if queued["reason"] == "NotQueued":
        return onto_nodes(request, stock, without)
    names = [rj.name for rj in request.read().replicated_jobs]
    possible = started.possible(queued, names, stock.snapshot)
    if queued["reason"] not in _ADMITTED:
        return onto_nodes(request, stock, without, possible)
    chosen = started.chosen(queued, stock.snapshot)
    nodes = onto_nodes(request, stock, without, chosen)
    if nodes["verdict"] == "never" and onto_nodes(request, stock, without, possible)["verdict"] != "never":
        # Without fixed nodes the same lack is not-now: Kueue may choose the other flavors later.
        return onto_nodes(replace(request, fixed_nodes=False), stock, without, chosen)
    return nodes


def neighbours_of(
    stock: Stock, key: Key, uid: str, without: Callable[[PlacedPod], bool] = lambda _: False
) -> Neighbours:
    """What is on the nodes, but some pods, for a JobSet.

    Of one without a UID, which is not made yet, pods with its name are another one's, whose template may be an earlier
    one.
    """
    pods = None if stock.pods is None else [pod for pod in stock.pods if not without(pod)]
    devices = stock.devices(key[0], without)
    admitted = stock.admitted.get(key, {}) if uid else {}
    levels = stock.topology_levels() | {NAMESPACED_JOB}
    volume_of, classes = partial(stock.volume, key[0]), (stock.snapshot.pod_priority, stock.snapshot.preemption_policy)
    # The scheduler places the pods of a gang together, also those that it has nominated.
    nominated = [pod for pod in stock.nominated if not without(pod) and (pod.namespace, pod.jobset) != key]
    notes = stock.admission_annotations.get(key[0], {})
    return Neighbours(pods, key[0], stock.labels, volume_of, devices, admitted, levels, *classes, notes, nominated)


_ADMITTED: Final = frozenset({"Fits", "FitsReordered", "MayFit"})
"""Reasons of a report of which the flavors are those that Kueue gives now."""


def needs_domain(raw: Mapping[str, Any]) -> bool:
    """Whether a gang of a JobSet has a topologyKey, by which the scheduler places it, with Kueue or without."""
    return any(gang.topology for gang in gangs_of(read_jobset(raw)[0]))


def together(queued: FitReport, nodes: FitReport) -> FitReport:
    """One report: the worse of both verdicts, with its reason, and the limits of both."""
    limits = [*queued["limits"], *nodes["limits"]]
    domains = [*queued["domains"], *nodes["domains"]]
    queued = {**queued, "limits": limits, "domains": domains}
    message = f"{queued['message']} {nodes['message']}"
    queued = {**queued, "notLookedAt": nodes["notLookedAt"]}
    if queued["verdict"] == "never":
        return queued
    if nodes["verdict"] == "never":
        return {
            **queued,
            "verdict": "never",
            "reason": nodes["reason"],
            "message": nodes["message"],
            "holders": [],
            "preempts": [],
            "starts": None,
        }
    # The time is that of Kueue's admission: pods without room on nodes do not start then.
    if nodes["verdict"] != "fits":
        queued = {**queued, "starts": None}
    unknown = list(dict.fromkeys([*queued["unknown"], *nodes["unknown"]]))
    decisive = queued["reason"] == "MayFit" or queued["verdict"] == "fits" or nodes["reason"] == "NeedsNodes"
    if nodes["verdict"] == "not-now" and decisive:
        queued = {**queued, "verdict": "not-now", "reason": nodes["reason"]}
    if nodes["verdict"] == "unknown" and queued["verdict"] == "fits":
        queued = {**queued, "verdict": "unknown", "reason": "Unknown"}
    return {**queued, "message": message, "unknown": unknown}


def without_nodes(report: FitReport) -> FitReport:
    """The report on a gang that needs one domain of nodes, which are not known."""
    why = "whether one domain of the topologyKey has room for all pods of a gang"
    return _doubted(report, why)


def _doubted(report: FitReport, why: str) -> FitReport:
    """The report, which does not say ``fits`` while something is not known."""
    report = {**report, "unknown": [*report["unknown"], why]}
    if report["verdict"] != "fits":
        return report
    return {**report, "verdict": "unknown", "reason": "MayFit", "message": f"{report['message']} Not known: {why}."}


@dataclass(frozen=True, slots=True)
class Question:
    """Options, without the cluster."""

    name: ObjectName | None
    filenames: Sequence[str]
    queue_files: Sequence[str]
    namespace: str | None
    queue: str | None
    kueue_namespace: str
    fixed_nodes: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """One JobSet's report, and lines on its state."""

    report: DispatchedFit
    remarks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FitSubject:
    """A JobSet to check; ``new`` if it is not in the cluster yet: one with a UID is."""

    raw: dict[str, Any]
    name: str
    namespace: str
    queue: str
    uid: str = ""
    new: bool = True
    workload: str = ""
    """Name of its Workload of Kueue, of one that has no owner (MultiKueue)."""
    given: tuple[str, ...] = ()
    """The defaults that policies have given it, each with its policy."""
    unread: str = ""
    """Why policies are not known that may give it defaults."""
    left: Mapping[str, PodsLeft] = field(default_factory=dict)
    """As of :class:`~gangctl.fit.clusterstate.FitRequest`."""

    def owns(self, workload: QueuedWorkload) -> bool:
        """Whether a Workload of Kueue is this JobSet's own: its usage is ignored."""
        if not workload.owner_uid and self.workload:
            return (workload.namespace, workload.name) == (self.namespace, self.workload)
        if self.uid and workload.owner_uid:
            return workload.owner_uid == self.uid
        named = (workload.owner_kind, workload.namespace, workload.owner_name)
        return named == ("JobSet", self.namespace, self.name)

    def has(self, pod: PlacedPod) -> bool:
        """Whether a pod is one of this JobSet's."""
        return (pod.namespace, pod.jobset) == (self.namespace, self.name)


def subjects_of(question: Question, home: str) -> list[FitSubject]:
    """The JobSets of the files, in ``home`` without a namespace; InvalidInputError with all errors."""
    problems = Problems()
    subjects = []
    for manifest in read_manifests(question.filenames, question.namespace, ClusterRules()):
        if not problems.add(manifest.document, manifest.errors):
            for notice in manifest.notices:
                note(f"{manifest.title}: {notice.reason}: {notice.message}")
            jobset = manifest.jobset
            queue = question.queue or jobset.queue
            identity = jobset.name, jobset.namespace or home, queue, jobset.uid
            subjects.append(FitSubject(manifest.raw, *identity, new=not jobset.uid))
    problems.raise_if_any()
    return subjects


def answer_of(subject: FitSubject, stock: Stock, *, fixed_nodes: bool, elsewhere: bool = False) -> Answer:
    """The report on one JobSet as it is; ``fixed_nodes`` also checks the nodes, as a fixed set.

    For a gang with a topologyKey the nodes are checked in any case.
    """
    answer = started_anew(subject, stock, fixed_nodes=fixed_nodes, elsewhere=elsewhere)
    own = [] if subject.new else list(filter(subject.has, stock.pods or ()))
    if not (own and partly_on_nodes(subject.raw, own)):
        return answer
    return replace(answer, report={**answer.report, **_doubted(answer.report, _JOINING)})


_JOINING: Final = "whether the domain of the pods of a gang that are on nodes has room: the others must join them"


def started_anew(subject: FitSubject, stock: Stock, *, fixed_nodes: bool, elsewhere: bool = False) -> Answer:
    """The same of all its pods, if none of them is on a node; ``elsewhere`` is one that MultiKueue runs in a worker."""
    # A new one takes nothing from a Workload that has finished: that was of another one of its name.
    workloads: Iterable[QueuedWorkload] = stock.live_workloads() if subject.new else stock.workloads.values()
    own = [workload for workload in workloads if subject.owns(workload)]
    now, workload = stock.now(), current(own)
    request = verdict.FitRequest(
        subject.raw,
        subject.namespace,
        stock.labels(subject.namespace),
        stock.own_queue(subject.queue, read_jobset(subject.raw)[0], workload, new=subject.new),
        subject.new,
        workload,
        fixed_nodes=fixed_nodes,
        outlook=stock.outlook(now) if stock.snapshot.workloads_known else None,
        head=partial(stock.heads.of, now=now),
        left=subject.left,
    )
    with stock.snapshot.without(with_variants(stock.workloads, own)):
        report = verdict.fit(request, stock.completed(stock.snapshot, subject.has))
    # The nodes, quotas of pods and classes of the cluster in which it runs decide.
    if not (elsewhere or _runs_elsewhere(request, stock, report)):
        by_nodes = needs_domain(subject.raw)
        if fixed_nodes or (by_nodes and stock.nodes_known):
            nodes = _started(request, stock, subject.has, report)
            report = nodes if report["reason"] == "NotQueued" else together(report, nodes)
        elif by_nodes:
            report = without_nodes(report)
        report = _created(request, stock, report)
    if subject.unread:
        report = _without_policies(report, subject, kueue=stock.snapshot.queued)
    return Answer({**report, "workers": []}, (*subject.given, *(_remark(workload, now) for workload in own)))


def restarted(subject: FitSubject, stock: Stock) -> FitReport:
    """The report on a JobSet whose pods are started again, those that have succeeded perhaps too."""
    report = _restarted(subject, stock)
    restarts = object_at(object_at(subject.raw, "spec"), "failurePolicy").get("maxRestarts")
    partly = bool(subject.left) or any(succeeded_jobs(subject.raw).values())
    if report["verdict"] != "fits" or not restarts or not partly:
        return report
    # A Job makes pods that are evicted again, but JobSet all Jobs if one of them fails.
    if _restarted(replace(subject, raw={**subject.raw, "status": {}}, left={}), stock)["verdict"] == "fits":
        return report
    return _doubted(report, "whether JobSet restarts it: with its pods that have succeeded it does not surely fit")


def _restarted(subject: FitSubject, stock: Stock) -> FitReport:
    """The same of those that have not: without its queue if it keeps its quota meanwhile."""
    own = current(workload for workload in stock.live_workloads() if subject.owns(workload))
    # Kueue gives an admitted one other domains only once it has evicted it.
    if own is None or own.placements or phase_of(own) is not QueuePhase.ADMITTED:
        return started_anew(subject, stock, fixed_nodes=True).report
    labels = stock.labels(subject.namespace)
    identity = subject.raw, subject.namespace, labels, subject.queue
    request = FitRequest(*identity, new=False, fixed_nodes=True, left=subject.left)
    return _created(request, stock, onto_nodes(request, stock, subject.has))


def _runs_elsewhere(request: FitRequest, stock: Stock, report: FitReport) -> bool:
    """Whether MultiKueue runs it in another cluster."""
    queue = stock.cluster_queue(report["clusterQueue"])
    return request.read().managed_elsewhere or (queue is not None and bool(stock.snapshot.dispatcher(queue)))


def _created(request: FitRequest, stock: Stock, report: FitReport) -> FitReport:
    """The report on a JobSet by what else keeps its pods from being created, if they are in this cluster."""
    if _runs_elsewhere(request, stock, report):
        return report
    surroundings = stock.snapshot.surroundings(request.namespace).of_pods()
    # Without the pods that exist, which outrank the templates: the question is which can be created.
    podsets = admitted(request.jobset, surroundings, Neighbours(None))
    additions = started.chosen(report, stock.snapshot)
    podsets = [additions[podset.name].to(podset) if podset.name in additions else podset for podset in podsets]
    report = {**report, "notLookedAt": [*report["notLookedAt"], *of_accounts(podsets)]}
    templates = stock.claim_templates(request.namespace)
    queued = bool(report["queue"]) and stock.snapshot.queued
    about = request.jobset, podsets, stock.snapshot, request.namespace, templates
    refused = refusal(*about, new=request.new, queued=queued)
    if refused is not None:
        return _doubted(report, refused.message) if refused.unknown else _with_refusal(report, refused)
    why = stock.unread_quotas.get(request.namespace)
    return report if why is None else _doubted(report, f"what the ResourceQuotas of its namespace allow: they {why}")


def _with_refusal(report: FitReport, refused: CreationRefusal) -> FitReport:
    """The report on a JobSet of which not all pods can be created."""
    # A class of pods that does not exist also keeps Kueue from making a Workload.
    if report["verdict"] == "never" or report["blocked"]:
        return report
    message = f"{report['message']} But {refused.message}."
    if report["verdict"] == "not-now":
        return {**report, "message": message}
    reason, unknown = ("WaitsForResourceQuota", report["unknown"]) if refused.passes else ("PodsRefused", [])
    return {**report, "verdict": "not-now", "reason": reason, "message": message, "unknown": unknown}


def _without_policies(report: FitReport, subject: FitSubject, *, kueue: bool) -> FitReport:
    """The report on a new JobSet where policies are not known: one without a queue of Kueue may get one."""
    if subject.queue or not kueue:
        return {**report, "notLookedAt": [*report["notLookedAt"], f"defaults of GangPolicies: {subject.unread}"]}
    why = f"whether a GangPolicy gives it a queue: {subject.unread}"
    message = f"{report['message']} Not known: {why}."
    return {
        **report,
        "verdict": "unknown",
        "reason": "MayFit",
        "message": message,
        "unknown": [*report["unknown"], why],
    }


def _remark(workload: QueuedWorkload, now: datetime) -> str:
    """Kueue's Workload of the JobSet, which does not count as usage."""
    status = status_of(workload, now)
    since = age(status.since, now)
    text = ", ".join(part for part in (status.reason, status.message or status.phase.sentence) if part)
    return f"Kueue: {status.label}{f' for {span(since)}' if since is not None else ''} ({text})"


_VERDICTS: Final = {"never": "never fits", "not-now": "does not fit now", "fits": "fits", "unknown": "unknown"}
_LEGEND: Final = (
    "SOURCE: the flavor, or what sets the limit. MAXIMUM: the most that could ever be available, borrowing included. "
    "NOMINAL: the queue's own quota. FREE: what is available now. OVER-MAX: by how much REQUESTED exceeds MAXIMUM."
)
_CLOSED: Final = " CLOSED: on nodes that take none of its pods now: cordoned, not ready, or tainted."


def amount(resource: str, value: int) -> str:
    """An amount in the unit of its resource, or that it is unlimited."""
    return "no bound" if value >= UNLIMITED else figure(resource, value)


def amounts(values: Iterable[tuple[str, int]]) -> str:
    """Several amounts with their resources, in one cell."""
    return ", ".join(f"{resource} {amount(resource, value)}" for resource, value in values)


def fit_sections(report: FitReport, remarks: Iterable[str] = (), workers: Sequence[WorkerFit] = ()) -> list[Section]:
    """The sections to print; ``remarks`` are lines on the JobSet's present state."""
    identity = report["metadata"]
    name = full_name(identity["namespace"], identity["name"])
    lines = [report["message"]]
    if report["queue"]:
        behind = f", ClusterQueue {report['clusterQueue']}" if report["clusterQueue"] else ""
        lines.append(f"LocalQueue {report['queue']}{behind}")
    if report["starts"] is not None:
        lines.append(_starts(report["starts"]))
    unseen = [why for why in report["notLookedAt"] if why not in report["unknown"]]
    lines += [f"Not looked at: {why}" for why in unseen]
    warnings = [f"not known: {fact}" for fact in report["unknown"]]
    sections = [
        Section(
            f"JobSet {name}: {_VERDICTS[report['verdict']]} ({report['reason']})",
            (*lines, *remarks),
            warnings=tuple(warnings),
        )
    ]
    if workers:
        rows = tuple(
            (worker["name"], _VERDICTS[worker["verdict"]], worker["reason"], worker["message"]) for worker in workers
        )
        sections.append(Section("Worker clusters", table=Table(("CLUSTER", "VERDICT", "REASON", "MESSAGE"), rows)))
    if report["limits"]:
        sections.append(_limits(report["limits"]))
    if report["podSets"]:
        sections.append(_podsets(report["podSets"]))
    if report["domains"]:
        sections.append(_domains(report["domains"]))
    if report["preempts"]:
        sections.append(_preempts(report["preempts"]))
    elif report["holders"]:
        sections.append(_holders(report["holders"]))
    return sections


def _starts(starts: StartReport) -> str:
    """When it starts, in one line; the latest start is rounded up."""
    earliest, latest = starts["earliest"], starts["latest"]
    if latest is None:
        when = f"not within {span(timedelta(seconds=earliest))}"
    else:
        unit = HOUR if latest >= DAY else MINUTE if latest >= HOUR else 1
        end = span(timedelta(seconds=-(-latest // unit) * unit))
        begin = f"in {span(timedelta(seconds=earliest))} to {end}" if earliest else f"within {end}"
        when = f"{begin}, if nothing new goes before it"
    return f"Starts: {when} ({'; '.join(starts['why'])})" if starts["why"] else f"Starts: {when}"


def _limits(limits: Sequence[LimitReport]) -> Section:
    # Nodes are closed, and quotas are not.
    closed = any(limit["closed"] for limit in limits)
    rows = tuple(
        (
            limit["flavor"] or limit["limit"],
            limit["resource"],
            *(amount(limit["resource"], value) for value in (limit["requested"], limit["maximum"], limit["nominal"])),
            *(amount(limit["resource"], value) for value in (limit["used"], limit["free"])),
            *((amount(limit["resource"], limit["closed"]) if limit["closed"] else "",) if closed else ()),
            amount(limit["resource"], limit["missing"]) if limit["missing"] else "",
        )
        for limit in limits
    )
    own = ("CLOSED",) if closed else ()
    headers = ("SOURCE", "RESOURCE", "REQUESTED", "MAXIMUM", "NOMINAL", "USED", "FREE", *own, "OVER-MAX")
    return Section("Resources", table=Table(headers, rows), legend=_LEGEND + _CLOSED if closed else _LEGEND)


def _podsets(podsets: Iterable[PodSetReport]) -> Section:
    rows: list[tuple[str, ...]] = []
    for podset in podsets:
        refused = [f"not {flavor}: {why}" for flavor, why in podset["refused"].items()]
        verdict = "; ".join([*_chosen(podset), *refused])
        rows.append((podset["name"], str(podset["pods"]), amounts(podset["requests"].items()), verdict))
    return Section("Podsets", table=Table(("PODSET", "PODS", "REQUESTS-PER-POD", "FLAVORS"), tuple(rows)))


def _chosen(podset: PodSetReport) -> list[str]:
    """Resources by the flavor that Kueue would assign."""
    by_flavor: dict[str, list[str]] = {}
    for resource, flavor in podset["flavors"].items():
        by_flavor.setdefault(flavor, []).append(resource)
    return [f"{flavor}: {', '.join(resources)}" for flavor, resources in by_flavor.items()]


def _domains(domains: Iterable[DomainReport]) -> Section:
    rows = tuple(
        (
            domain["podSet"],
            domain["flavor"],
            domain["level"],
            domain["domain"],
            *(str(domain[count]) for count in ("requested", "maximum", "free")),
            str(domain["assigned"]) if domain["assigned"] else "",
        )
        for domain in domains
    )
    headers = ("PODSET", "FLAVOR", "LEVEL", "DOMAIN", "PODS", "MAXIMUM", "FREE", "ASSIGNED")
    legend = (
        "PODS: all of the podset. MAXIMUM: those that the domain has room for with nothing else on its nodes. "
        "FREE: those that it has room for now. ASSIGNED: those that would be there now."
    )
    return Section("Domains", table=Table(headers, rows), legend=legend)


def _holders(holders: Iterable[HolderReport]) -> Section:
    headers = ("NAME", "CLUSTERQUEUE", "PRIORITY", "HOLDS")
    return Section("Who holds what it waits for", table=Table(headers, tuple(map(_holder, holders))))


def _preempts(preempted: Iterable[PreemptedReport]) -> Section:
    headers = ("NAME", "CLUSTERQUEUE", "PRIORITY", "FREES", "REASON")
    rows = tuple((*_holder(holder), holder["why"]) for holder in preempted)
    return Section("What Kueue would preempt for it", table=Table(headers, rows))


def _holder(holder: HolderReport) -> tuple[str, ...]:
    return (
        f"{holder['kind']} {holder['namespace']}/{holder['name']}",
        holder["clusterQueue"],
        str(holder["priority"]),
        amounts(holder["resources"].items()),
    )
