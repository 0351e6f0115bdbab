"""The JobSets for ``gangctl fit``, and the report on one: by its queue, and by the nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from gangctl.api.jobset import read_jobset
from gangctl.cli.manifests import Problems, read_manifests
from gangctl.cli.messages import note
from gangctl.cluster.nodes import PlacedPod, in_use
from gangctl.cluster.stock import Stock
from gangctl.fit import verdict
from gangctl.fit.clusterstate import FitRequest
from gangctl.fit.nodes import gangs_of, node_fit
from gangctl.fit.report import DispatchedFit, FitReport
from gangctl.gang.report import requests_per_pod
from gangctl.gang.resolve import ClusterRules
from gangctl.kueue.amounts import age, span
from gangctl.kueue.objects import ClusterQueue, QueuedWorkload
from gangctl.kueue.queues import Head, current
from gangctl.kueue.states import status_of


def onto_nodes(request: FitRequest, stock: Stock, without: Callable[[PlacedPod], bool]) -> FitReport:
    """Whether the nodes can hold a JobSet; some pods are ignored."""
    used = None if stock.pods is None else in_use(stock.pods, without)
    surroundings = stock.snapshot.surroundings(request.namespace)
    return node_fit(request, stock.nodes, surroundings, used=used, fixed_nodes=request.fixed_nodes)


def needs_domain(raw: Mapping[str, Any]) -> bool:
    """Whether a gang of a JobSet has a topologyKey, by which the scheduler places it, with Kueue or without."""
    return any(gang.topology for gang in gangs_of(read_jobset(raw)[0]))


def together(queued: FitReport, nodes: FitReport) -> FitReport:
    """One report: the worse of both verdicts, with its reason, and the limits of both."""
    limits = [*queued["limits"], *nodes["limits"]]
    domains = [*queued["domains"], *nodes["domains"]]
    queued = {**queued, "limits": limits, "domains": domains}
    message = f"{queued['message']} {nodes['message']}"
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
    if nodes["verdict"] != "fits":
        queued = {**queued, "starts": None}
    unknown = list(dict.fromkeys([*queued["unknown"], *nodes["unknown"]]))
    decisive = queued["verdict"] == "fits" or nodes["reason"] == "NeedsNodes"
    if nodes["verdict"] == "not-now" and decisive:
        queued = {**queued, "verdict": "not-now", "reason": nodes["reason"]}
    return {**queued, "message": message, "unknown": unknown}


def without_nodes(report: FitReport) -> FitReport:
    """The report on a gang that needs one domain of nodes, which are not known."""
    why = "whether one domain of the topologyKey has room for all pods of a gang"
    message = f"{report['message']} Not known: {why}." if report["verdict"] == "fits" else report["message"]
    return {**report, "message": message, "unknown": [*report["unknown"], why]}


@dataclass(frozen=True, slots=True)
class Question:
    """Options, without the cluster."""

    name: str | None
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
class Subject:
    """A JobSet to check; ``new`` if it is not in the cluster yet."""

    raw: dict[str, Any]
    name: str
    namespace: str
    queue: str
    uid: str = ""
    new: bool = True
    workload: str = ""
    """Name of its Workload of Kueue, of one that has no owner (MultiKueue)."""

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


def subjects_of(question: Question, home: str) -> list[Subject]:
    """The JobSets of the files, in ``home`` without a namespace; InvalidInputError with all errors."""
    problems = Problems()
    subjects = []
    for manifest in read_manifests(question.filenames, question.namespace, ClusterRules()):
        wrong = requests_per_pod(manifest.raw)[1] if manifest.readable else ()
        if not problems.add(manifest.document, [*manifest.errors, *manifest.at_source(wrong)]):
            for notice in manifest.notices:
                note(f"{manifest.title}: {notice.reason}: {notice.message}")
            jobset = manifest.jobset
            queue = question.queue or jobset.queue
            subjects.append(Subject(manifest.raw, jobset.name, jobset.namespace or home, queue, jobset.uid))
    problems.raise_if_any()
    return subjects


def answer_of(subject: Subject, stock: Stock, *, fixed_nodes: bool) -> Answer:
    """The report on one JobSet; ``fixed_nodes`` also checks the nodes, as a fixed set.

    For a gang with a topologyKey the nodes are checked in any case.
    """
    own = [workload for workload in stock.live_workloads() if subject.owns(workload)]
    now = _now()

    def head(queue: ClusterQueue) -> Head | None:
        return None if stock.partial else stock.heads.of(queue, now)

    request = verdict.FitRequest(
        subject.raw,
        subject.namespace,
        stock.labels(subject.namespace),
        subject.queue,
        subject.new,
        current(own),
        fixed_nodes=fixed_nodes,
        outlook=None if stock.partial else stock.outlook(now),
        head=head,
    )
    with stock.snapshot.without(own):
        report = verdict.fit(request, stock.completed(stock.snapshot, subject.has))
    by_nodes = needs_domain(subject.raw)
    if fixed_nodes or (by_nodes and stock.nodes_known):
        nodes = onto_nodes(request, stock, subject.has)
        report = nodes if report["reason"] == "NotQueued" else together(report, nodes)
    elif by_nodes:
        report = without_nodes(report)
    return Answer({**report, "workers": []}, tuple(_remark(workload, now) for workload in own))


def _now() -> datetime:
    return datetime.now(UTC)


def _remark(workload: QueuedWorkload, now: datetime) -> str:
    """Kueue's Workload of the JobSet, which does not count as usage."""
    status = status_of(workload, now)
    since = age(status.since, now)
    text = ", ".join(part for part in (status.reason, status.message or status.phase.sentence) if part)
    return f"Kueue: {status.label}{f' for {span(since)}' if since is not None else ''} ({text})"
