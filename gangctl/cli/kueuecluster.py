"""Read the objects for fits and queues from clusters, worker clusters too, for users who may read only some of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from gangctl.api.jobset import read_jobset
from gangctl.api.pods import UNFINISHED
from gangctl.api.volumes import volume_claims
from gangctl.cli.cluster import ask_cluster, connected, no_jobsets
from gangctl.cli.fitting import Answer, FitSubject, Question, answer_of, needs_domain, subjects_of
from gangctl.cli.messages import note
from gangctl.cli.names import ObjectName, ObjectNotFoundError, hint_of_maker
from gangctl.cli.options import ClusterFlags, Worker
from gangctl.client.client import EVERYTHING, Client, Selection
from gangctl.client.resources import JOBSETS, NAMESPACES, NODES, PODS, RESOURCE_QUOTAS, Resource
from gangctl.cluster import kinds
from gangctl.cluster.kinds import ADMISSION_CHECKS
from gangctl.cluster.stock import Stock
from gangctl.controllers.queues.sources import podset_limit
from gangctl.errors import ApiError, ClusterUnavailableError, ForbiddenError, InputError, NotFoundError
from gangctl.fit.report import WorkerFit, dispatched, unknown_worker
from gangctl.fit.requests import podsets_of
from gangctl.kueue.names import GROUP, MULTIKUEUE, MULTIKUEUE_ORIGIN, VERSION
from gangctl.kueue.objects import AdmissionCheck
from gangctl.kueue.reading import read_clusters

HINT: Final = "gangctl fit --fixed-nodes asks what the nodes can hold, without Kueue"
PAGE: Final = 200
"""Objects in memory as they are sent: a Workload carries whole pod templates."""
FORBIDDEN: Final = "may not be read"


async def has_kueue(client: Client) -> bool:
    """Whether the cluster serves Kueue's API."""
    served = {str(resource.get("name")) for resource in await client.discovery.resources(GROUP, VERSION)}
    return served >= kinds.ESSENTIAL


async def read_kueue(client: Client, namespaces: Iterable[str] | None, *, kueue_namespace: str) -> Stock:
    """The objects of the cluster; ``namespaces`` are those whose LocalQueues are read, None all.

    Raises ClusterUnavailableError without Kueue. Objects that may not be read are named in the stock; for
    ClusterQueues and LocalQueues the server's error is raised.
    """
    if not await has_kueue(client):
        raise ClusterUnavailableError(f"the cluster does not have Kueue ({GROUP}/{VERSION})", hint=HINT)
    stock = Stock(client.server_time)
    stock.note_presence(True)
    places = None if namespaces is None else sorted(set(namespaces))
    # Before the others, not together with them: without these two there is no answer, and their error is raised.
    await take(client, stock, kinds.CLUSTER_QUEUES)
    for place in places if places is not None else (None,):
        await take(client, stock, kinds.LOCAL_QUEUES, place)
    await asyncio.gather(
        _other_doors(client, stock, places or ()),
        _try(client, stock, kinds.COHORTS),
        _try(client, stock, kinds.RESOURCE_FLAVORS),
        _try(client, stock, kinds.ADMISSION_CHECKS),
        _topologies(client, stock),
        _priorities(client, stock),
        _of_pods(client, stock, places),
        _configuration(client, stock, kueue_namespace),
        _labels(client, stock, places),
        _workloads(client, stock, places),
        _limit(client, stock),
    )
    return stock


async def _other_doors(client: Client, stock: Stock, places: Collection[str]) -> None:
    """LocalQueues of other namespaces, if they may be read: their Workloads wait in the same ClusterQueues."""
    if places and await why_unread(take(client, stock, kinds.LOCAL_QUEUES, but=places)):
        stock.heads_known = False


async def read_pod_surroundings(client: Client, namespaces: Iterable[str]) -> Stock:
    """Objects that change the requests of pods, without Kueue."""
    stock = Stock(client.server_time)
    await _of_pods(client, stock, sorted(set(namespaces)))
    return stock


async def read_without_kueue(client: Client, namespaces: Iterable[str]) -> Stock:
    """The same, the namespaces, and classes of priority.

    A class that was not read counts as missing, and pods that name it as refused.
    """
    places = sorted(set(namespaces))
    stock = await read_pod_surroundings(client, places)
    await _priorities(client, stock)
    await _labels(client, stock, places)
    return stock


async def read_nodes(client: Client, stock: Stock) -> None:
    """The nodes, their usage, and what they may have besides; ForbiddenError if the nodes may not be read."""
    await take(client, stock, NODES)
    # Both also where the cluster has none: until an object is taken they count as unknown.
    stock.nodes_known = True
    stock.pods = []
    try:
        await take(client, stock, PODS, selection=Selection(field_selector=UNFINISHED))
    except ForbiddenError as refused:
        stock.pods = None
        note(f"what is in use on the nodes is not known: {refused}")
    await read_device_classes(client, stock)


async def read_device_classes(client: Client, stock: Stock) -> None:
    """A DeviceClass may serve an extended resource that no node has (KEP-5004)."""
    stock.classes_unread = await why_unread(take(client, stock, kinds.DEVICE_CLASSES)) == FORBIDDEN


async def _of_pods(client: Client, stock: Stock, namespaces: list[str] | None) -> None:
    places = namespaces if namespaces is not None else (None,)
    await asyncio.gather(
        *(_try(client, stock, kinds.LIMIT_RANGES, place) for place in places), _runtime_classes(client, stock)
    )


async def take(
    client: Client,
    stock: Stock,
    resource: Resource,
    namespace: str | None = None,
    *,
    selection: Selection = EVERYTHING,
    but: Container[str] = (),
) -> None:
    """Read the objects of a collection, ``but`` those of some namespaces, into the stock."""
    async with aclosing(client.pages(resource, namespace, selection=selection, limit=PAGE)) as pages:
        async for page in pages:
            for item in page.items:
                if item["metadata"].get("namespace") not in but:
                    # Items of a list have no apiVersion and kind.
                    stock.take_raw({**item, "apiVersion": resource.api_version, "kind": resource.kind})


async def why_unread(reading: Awaitable[None]) -> str:
    """Read a collection if it may be read, and return in a few words why not."""
    try:
        await reading
    except ForbiddenError:
        return FORBIDDEN
    except NotFoundError:
        return "are not served"
    return ""


async def _try(client: Client, stock: Stock, resource: Resource, namespace: str | None = None) -> bool:
    """Read a collection, or mark it as unknown in the stock."""
    why = await why_unread(take(client, stock, resource, namespace))
    if why:
        place = f" of namespace {namespace}" if namespace else ""
        stock.note_unread(resource, f"{resource.plural}{place} {why}", namespace)
    return not why


async def _topologies(client: Client, stock: Stock) -> None:
    """They decide only about pods that ask for one."""
    stock.topologies_known = not await why_unread(take(client, stock, kinds.TOPOLOGIES))


async def _priorities(client: Client, stock: Stock) -> None:
    """They decide about preemption, not about ``never``."""
    await _try(client, stock, kinds.PRIORITY_CLASSES)
    await _try(client, stock, kinds.POD_PRIORITY_CLASSES)


async def _runtime_classes(client: Client, stock: Stock) -> None:
    if await _try(client, stock, kinds.RUNTIME_CLASSES):
        # An empty list, too: it is known then that there are none.
        stock.take_runtime_classes(stock.runtime_classes or [])


async def _configuration(client: Client, stock: Stock, namespace: str) -> None:
    """Kueue's own configuration; None if it is unknown."""
    try:
        raw = await client.get(kinds.CONFIG_MAPS, kinds.CONFIG_NAME, namespace)
    except (ForbiddenError, NotFoundError):
        return
    stock.take_raw({**raw, "apiVersion": "v1", "kind": "ConfigMap"})


async def _labels(client: Client, stock: Stock, namespaces: list[str] | None) -> None:
    """Namespaces, for the selectors of ClusterQueues and for admission; unknown if they may not be read."""
    if namespaces is None:
        await _try(client, stock, NAMESPACES)
        return
    for name in namespaces:
        try:
            # By its name, which takes no right to list all Namespaces.
            raw: dict[str, Any] = await client.get(NAMESPACES, name)
        except (ForbiddenError, NotFoundError):
            continue
        stock.take_raw({**raw, "apiVersion": "v1", "kind": "Namespace"})


async def _workloads(client: Client, stock: Stock, namespaces: list[str] | None) -> None:
    """Workloads of all namespaces, because they share quota; of the own ones if others may not be read."""
    try:
        await take(client, stock, kinds.QUEUED_WORKLOADS)
    except ForbiddenError as refused:
        if namespaces is None:
            raise
        note(f"who holds quota in other namespaces is not known: {refused}")
        for name in namespaces:
            await take(client, stock, kinds.QUEUED_WORKLOADS, name)
        stock.take_reservations()


async def _limit(client: Client, stock: Stock) -> None:
    try:
        document = await client.discovery.openapi_v3(f"apis/{GROUP}/{VERSION}")
    except (ForbiddenError, NotFoundError):  # an unknown size limit rejects nothing
        return
    stock.note_presence(True, podset_limit(document))


T = TypeVar("T")


def answers_in_cluster(question: Question, cluster: ClusterFlags, answer: Callable[[FitSubject, Stock], T]) -> list[T]:
    """An answer about each JobSet from a cluster; ClusterUnavailableError without Kueue and nodes."""

    async def ask(client: Client, own_namespace: str) -> list[T]:
        subjects = await subjects_in(client, question, own_namespace)
        stock = await stock_for(client, question, subjects)
        return [answer(subject, stock) for subject in subjects]

    return ask_cluster(cluster, ask)


async def subjects_in(client: Client, question: Question, own_namespace: str) -> list[FitSubject]:
    """The JobSets to check: of the cluster, or of files; ``own_namespace`` is the context's."""
    home = question.namespace or own_namespace
    if question.name is not None:
        return [await _stored(client, question, question.name, home)]
    from gangctl.cli.policy.defaulting import defaulted  # noqa: PLC0415 -- the compiler is large: stored ones do without

    return await defaulted(client, subjects_of(question, home), question.queue)


async def stock_for(client: Client, question: Question, subjects: Sequence[FitSubject]) -> Stock:
    """The objects of a cluster; without Kueue only if its nodes are checked."""
    places = {subject.namespace for subject in subjects}
    if not question.fixed_nodes or await has_kueue(client):
        stock = await read_kueue(client, places, kueue_namespace=question.kueue_namespace)
        # What only an estimate of a start needs: what JobSets declare.
        await why_unread(take(client, stock, JOBSETS))
    else:
        stock = await read_without_kueue(client, places)
    # What Kueue has placed has the defaults of its namespace.
    if stock.snapshot.has_topologies() and await why_unread(take(client, stock, kinds.LIMIT_RANGES, but=places)):
        stock.snapshot.limits_of = places
    if question.fixed_nodes:
        await read_fixed_nodes(client, stock, subjects)
        return stock
    await _quotas(client, stock, places)
    if stock.snapshot.has_topologies() or any(needs_domain(subject.raw) for subject in subjects):
        try:
            await read_nodes(client, stock)
        except ForbiddenError as refused:
            note(f"the nodes are not known: {refused}")
    return stock


async def read_fixed_nodes(client: Client, stock: Stock, subjects: Sequence[FitSubject]) -> None:
    """All that decides about these JobSets besides queues; ForbiddenError if the nodes may not be read."""
    await _quotas(client, stock, {subject.namespace for subject in subjects})
    await read_nodes(client, stock)
    claiming = {
        one.namespace for one in subjects for podset in podsets_of(one.raw) if any(volume_claims(podset.pod_spec))
    }
    for resource, home in [*((kinds.CLAIMS, namespace) for namespace in claiming), (kinds.VOLUMES, None)]:
        if claiming and (why := await why_unread(take(client, stock, resource, home))):
            note(f"{resource.plural} {why}")
    await _devices(client, stock, subjects)


async def _quotas(client: Client, stock: Stock, namespaces: Iterable[str]) -> None:
    """Kueue does not look at ResourceQuotas: they may refuse pods of what it admits."""
    for namespace in sorted(namespaces):
        # A server that does not serve them has none.
        if (why := await why_unread(take(client, stock, RESOURCE_QUOTAS, namespace))) == FORBIDDEN:
            stock.unread_quotas[namespace] = why


async def _devices(client: Client, stock: Stock, subjects: Sequence[FitSubject]) -> None:
    """Devices, if any pod claims some."""
    specs = [(one.namespace, podset.pod_spec) for one in subjects for podset in podsets_of(one.raw)]
    homes = {namespace for namespace, spec in specs if spec.get("resourceClaims")}
    if not homes:
        return
    for home in homes:
        await why_unread(take(client, stock, kinds.CLAIM_TEMPLATES, home))
    # None stands for unknown, and a cluster may have no devices.
    stock.slices, stock.resource_claims = [], []
    if why := await why_unread(take(client, stock, kinds.RESOURCE_SLICES)):
        stock.slices = None
        note(f"{kinds.RESOURCE_SLICES.plural} {why}")
    if why := await why_unread(take(client, stock, kinds.RESOURCE_CLAIMS)):
        stock.resource_claims = None
        note(f"{kinds.RESOURCE_CLAIMS.plural} {why}")
    await _taint_rules(client, stock)


async def _taint_rules(client: Client, stock: Stock) -> None:
    """The rules, in the first version that has them: older minors have none, or in another version."""
    for version in await client.discovery.group_versions(kinds.TAINT_RULES.group):
        rules = replace(kinds.TAINT_RULES, version=version)
        # First whether there are any: an API server forbids also what it does not serve.
        if not await client.discovery.serves(rules):
            continue
        try:
            await take(client, stock, rules)
        except ForbiddenError as refused:
            stock.tainted = True
            note(f"which devices are tainted is not known: {refused}")
        return


async def _stored(client: Client, question: Question, named: ObjectName, namespace: str) -> FitSubject:
    """The JobSet of the cluster; ObjectNotFoundError if it does not exist, ClusterUnavailableError without the API."""
    try:
        raw = await client.get(JOBSETS, named.name, namespace)
    except NotFoundError as error:
        if not await client.discovery.serves(JOBSETS):
            raise no_jobsets() from error
        hint = hint_of_maker(named.typed, named.name, namespace)
        hint = hint or "-n NAMESPACE looks elsewhere, -f FILE asks about one that is not created yet"
        raise ObjectNotFoundError("JobSet", named.name, namespace, hint=hint) from error
    jobset, _ = read_jobset(raw)
    return FitSubject(raw, named.name, namespace, question.queue or jobset.queue, jobset.uid, new=False)


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
        there = {worker.name: reading for worker, reading in zip(workers, read, strict=True)}
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
    # A MultiKueueConfig that cannot be read may name any worker cluster.
    if any(cluster is None for cluster in clusters.values()):
        return
    if not clusters and (unread := stock.trouble(ADMISSION_CHECKS)):
        raise InputError(f"--worker: {unread}, and they name the worker clusters")
    known = sorted({name for cluster in clusters.values() for name in cluster or ()})
    for worker in workers:
        if worker.name not in known:
            has = f"MultiKueue has {', '.join(known)}" if known else "no AdmissionCheck of this cluster is MultiKueue's"
            raise InputError(f'--worker: there is no worker cluster "{worker.name}"', hint=has)


async def _read(worker: Worker, question: Question, subjects: Sequence[FitSubject], cluster: ClusterFlags) -> _Read:
    try:
        async with connected(replace(cluster, context=worker.context)) as (client, _):
            stock = await stock_for(client, question, subjects)
            return _Read(stock, {key: uid for key in map(_key, subjects) if (uid := await _copy(client, *key))})
    except (ApiError, ClusterUnavailableError) as error:
        # One worker cluster that does not answer must not hide the verdicts of the others.
        return _Read(Stock(), {}, str(error))


def _key(subject: FitSubject) -> tuple[str, str]:
    return subject.namespace, subject.name


async def _copy(client: Client, namespace: str, name: str) -> str:
    """UID of MultiKueue's copy of a JobSet; empty if there is none, or it may not be read."""
    try:
        metadata = (await client.get(JOBSETS, name, namespace))["metadata"] if name else {}
    except (ForbiddenError, NotFoundError):
        return ""
    return str(metadata.get("uid") or "") if MULTIKUEUE_ORIGIN in (metadata.get("labels") or {}) else ""


def _answer(
    subject: FitSubject,
    question: Question,
    stock: Stock,
    clusters: Mapping[str, tuple[str, ...] | None],
    there: Mapping[str, _Read],
) -> Answer:
    with _without_dispatch(stock):
        own = answer_of(_undispatched(subject), stock, fixed_nodes=False, elsewhere=True)
    queue = stock.cluster_queue(own.report["clusterQueue"])
    check = next((use.name for use in queue.checks if use.name in clusters), None) if queue is not None else None
    if check is None:
        note(f"{subject.namespace}/{subject.name}: its queue dispatches to no worker cluster")
        return answer_of(subject, stock, fixed_nodes=question.fixed_nodes)
    names = clusters[check]
    workload = next((live_workload.name for live_workload in stock.live_workloads() if subject.owns(live_workload)), "")
    copy = replace(_undispatched(subject), queue=own.report["queue"], workload=workload, new=False)
    # Where the MultiKueueConfig cannot be read, only those of --worker are known.
    fits = [_on(copy, name, there.get(name), question) for name in names or there]
    if names is None:
        fits.append(unknown_worker("(others)", f"the MultiKueueConfig of AdmissionCheck {check} cannot be read"))
    return replace(own, report={**dispatched(own.report, fits), "workers": fits})


def _undispatched(subject: FitSubject) -> FitSubject:
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


def _on(copy: FitSubject, name: str, read: _Read | None, question: Question) -> WorkerFit:
    """The verdict of one worker cluster on MultiKueue's copy of a JobSet."""
    if read is None:
        return unknown_worker(name, f"it was not asked; --worker {name}=CONTEXT does")
    if read.why:
        return unknown_worker(name, read.why)
    copy = replace(copy, uid=read.uids.get(_key(copy), copy.uid))
    report = answer_of(copy, read.stock, fixed_nodes=question.fixed_nodes).report
    return {"name": name, "verdict": report["verdict"], "reason": report["reason"], "message": report["message"]}
