"""``gangctl fit --worker``: a queue that dispatches to worker clusters of MultiKueue, with what these have."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from gangctl.cli.cluster import ask_cluster, connected
from gangctl.cli.fitting import Answer, Question, Subject, answer_of
from gangctl.cli.kueuecluster import read_kueue, stock_for, subjects_in
from gangctl.cli.messages import note
from gangctl.cli.options import ClusterFlags, Worker
from gangctl.client.client import Client
from gangctl.client.resources import JOBSETS, Resource
from gangctl.cluster.kinds import ADMISSION_CHECKS
from gangctl.cluster.stock import Stock
from gangctl.errors import ApiError, ClusterUnavailableError, ForbiddenError, InputError, NotFoundError
from gangctl.fit.report import WorkerFit, dispatched, unknown_worker
from gangctl.kueue.names import GROUP, MULTIKUEUE, MULTIKUEUE_ORIGIN, VERSION
from gangctl.kueue.objects import AdmissionCheck
from gangctl.kueue.reading import read_clusters

CONFIGS: Final = Resource(GROUP, VERSION, "multikueueconfigs", "MultiKueueConfig", namespaced=False)


@dataclass(frozen=True, slots=True)
class _Read:
    """A worker cluster, or why it could not be read; ``uids`` are of MultiKueue's copies of the JobSets, by key."""

    stock: Stock
    uids: Mapping[tuple[str, str], str]
    why: str = ""


def fit_with_workers(question: Question, workers: Sequence[Worker], cluster: ClusterFlags) -> list[Answer]:
    """The reports from a cluster and its worker clusters; InputError if one of these is not known to MultiKueue."""

    async def ask(client: Client, own_namespace: str) -> list[Answer]:
        subjects = await subjects_in(client, question, own_namespace)
        stock = await read_kueue(
            client, {subject.namespace for subject in subjects}, kueue_namespace=question.kueue_namespace
        )
        clusters = {name: await _clusters(client, check) for name, check in _checks(stock).items()}
        _check_names(workers, clusters, stock)
        read = await asyncio.gather(*(_read(worker, question, subjects, cluster) for worker in workers))
        there = {worker.name: each for worker, each in zip(workers, read, strict=True)}
        return [_answer(subject, question, stock, clusters, there) for subject in subjects]

    return ask_cluster(cluster, ask)


def _checks(stock: Stock) -> dict[str, AdmissionCheck]:
    """The AdmissionChecks of MultiKueue, by name."""
    return {check.name: check for check in stock.snapshot.checks() if check.controller == MULTIKUEUE}


async def _clusters(client: Client, check: AdmissionCheck) -> tuple[str, ...] | None:
    """The worker clusters of a check of MultiKueue; None if its configuration does not exist, or may not be read."""
    try:
        return read_clusters(await client.get(CONFIGS, check.parameters[2])) if check.parameters is not None else None
    except (ForbiddenError, NotFoundError):
        return None


def _check_names(workers: Iterable[Worker], clusters: Mapping[str, tuple[str, ...] | None], stock: Stock) -> None:
    if any(each is None for each in clusters.values()):
        return
    if not clusters and (unread := stock.trouble(ADMISSION_CHECKS)):
        raise InputError(f"--worker: {unread}, and they name the worker clusters")
    known = sorted({name for each in clusters.values() for name in each or ()})
    for worker in workers:
        if worker.name not in known:
            has = f"MultiKueue has {', '.join(known)}" if known else "no AdmissionCheck of this cluster is MultiKueue's"
            raise InputError(f'--worker: there is no worker cluster "{worker.name}"', hint=has)


async def _read(worker: Worker, question: Question, subjects: Sequence[Subject], cluster: ClusterFlags) -> _Read:
    try:
        async with connected(replace(cluster, context=worker.context)) as (client, _):
            stock = await stock_for(client, question, subjects)
            return _Read(stock, {key: uid for key in map(_key, subjects) if (uid := await _copy(client, *key))})
    except (ApiError, ClusterUnavailableError) as error:
        return _Read(Stock(), {}, str(error))


def _key(subject: Subject) -> tuple[str, str]:
    return subject.namespace, subject.name


async def _copy(client: Client, namespace: str, name: str) -> str:
    """UID of MultiKueue's copy of a JobSet; empty if there is none, or it may not be read."""
    try:
        metadata = (await client.get(JOBSETS, name, namespace))["metadata"] if name else {}
    except (ForbiddenError, NotFoundError):
        return ""
    return str(metadata.get("uid") or "") if MULTIKUEUE_ORIGIN in (metadata.get("labels") or {}) else ""


def _answer(
    subject: Subject,
    question: Question,
    stock: Stock,
    clusters: Mapping[str, tuple[str, ...] | None],
    there: Mapping[str, _Read],
) -> Answer:
    with _without_dispatch(stock):
        own = answer_of(_undispatched(subject), stock, fixed_nodes=False)
    queue = stock.cluster_queue(own.report["clusterQueue"])
    check = next((use.name for use in queue.checks if use.name in clusters), None) if queue is not None else None
    if check is None:
        note(f"{subject.namespace}/{subject.name}: its queue dispatches to no worker cluster")
        return answer_of(subject, stock, fixed_nodes=question.fixed_nodes)
    names = clusters[check]
    workload = next((each.name for each in stock.live_workloads() if subject.owns(each)), "")
    copy = replace(_undispatched(subject), queue=own.report["queue"], workload=workload, new=False)
    fits = [_on(copy, name, there.get(name), question) for name in names or there]
    if names is None:
        fits.append(unknown_worker("(others)", f"the MultiKueueConfig of AdmissionCheck {check} cannot be read"))
    return replace(own, report={**dispatched(own.report, fits), "workers": fits})


def _undispatched(subject: Subject) -> Subject:
    """The JobSet as its own cluster's quota counts it, and as its copy is on a worker cluster."""
    spec = {key: value for key, value in (subject.raw.get("spec") or {}).items() if key != "managedBy"}
    return replace(subject, raw={**subject.raw, "spec": spec})


@contextmanager
def _without_dispatch(stock: Stock) -> Iterator[None]:
    """Inside the block checks of MultiKueue make no verdict depend on worker clusters."""
    checks = _checks(stock).values()
    for check in checks:
        stock.take(replace(check, controller=""))
    try:
        yield
    finally:
        for check in checks:
            stock.take(check)


def _on(copy: Subject, name: str, read: _Read | None, question: Question) -> WorkerFit:
    """The verdict of one worker cluster on MultiKueue's copy of a JobSet."""
    if read is None:
        return unknown_worker(name, f"it was not asked; --worker {name}=CONTEXT does")
    if read.why:
        return unknown_worker(name, read.why)
    copy = replace(copy, uid=read.uids.get(_key(copy), copy.uid))
    report = answer_of(copy, read.stock, fixed_nodes=question.fixed_nodes).report
    return {"name": name, "verdict": report["verdict"], "reason": report["reason"], "message": report["message"]}
