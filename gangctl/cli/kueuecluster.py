"""Reading from a cluster what fits and queues are computed from, for people who may see only some of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing
from typing import Any, Final

from gangctl.api.jobset import read_jobset
from gangctl.cli.cluster import ask_cluster
from gangctl.cli.fitting import Answer, Question, Subject, answer_of, subjects_of
from gangctl.cli.kueuesnapshot import Stock
from gangctl.cli.messages import note
from gangctl.cli.options import ClusterFlags
from gangctl.client.client import EVERYTHING, Client, Selection
from gangctl.client.resources import JOBSETS, NAMESPACES, NODES, PODS, Resource
from gangctl.controllers.queues import kinds
from gangctl.controllers.queues.presence import podset_limit
from gangctl.errors import ClusterUnavailableError, ForbiddenError, InputError, NotFoundError
from gangctl.kueue.names import GROUP, VERSION

HINT: Final = "gangctl fit --fixed-nodes asks what the nodes can hold, without Kueue"
_RUNNING: Final = "status.phase!=Succeeded,status.phase!=Failed"
PAGE: Final = 200
"""Objects in memory as they are sent: a Workload carries whole pod templates."""


async def has_kueue(client: Client) -> bool:
    """Whether the cluster serves what Kueue needs."""
    served = {str(each.get("name")) for each in await client.discovery.resources(GROUP, VERSION)}
    return served >= kinds.ESSENTIAL


async def read_kueue(client: Client, namespaces: Iterable[str] | None, *, kueue_namespace: str) -> Stock:
    """What the cluster has; ``namespaces`` are those whose LocalQueues matter, None all.

    Raises ClusterUnavailableError where there is no Kueue. What may not be read is named in the stock; without
    ClusterQueues and LocalQueues there is no answer, and the server's refusal is raised.
    """
    if not await has_kueue(client):
        raise ClusterUnavailableError(f"the cluster does not have Kueue ({GROUP}/{VERSION})", hint=HINT)
    stock = Stock()
    places = None if namespaces is None else sorted(set(namespaces))
    await _take(client, stock, kinds.CLUSTER_QUEUES)
    for place in places if places is not None else (None,):
        await _take(client, stock, kinds.LOCAL_QUEUES, place)
    await asyncio.gather(
        _try(client, stock, kinds.COHORTS),
        _try(client, stock, kinds.RESOURCE_FLAVORS),
        _try(client, stock, kinds.ADMISSION_CHECKS),
        _priorities(client, stock),
        _of_pods(client, stock, places),
        _configuration(client, stock, kueue_namespace),
        _labels(client, stock, places),
        _workloads(client, stock, places),
        _limit(client, stock),
    )
    return stock


async def read_other_doors(client: Client, stock: Stock, namespace: str) -> None:
    """LocalQueues of other namespaces than this one: what came through them waits in the same line."""
    try:
        page = await client.list(kinds.LOCAL_QUEUES)
    except ForbiddenError as refused:
        note(f"positions count what waits in namespace {namespace} alone: {refused}")
        return
    for item in page.items:
        if item["metadata"].get("namespace") != namespace:
            stock.take({**item, "apiVersion": kinds.LOCAL_QUEUES.api_version, "kind": kinds.LOCAL_QUEUES.kind})


async def read_pod_surroundings(client: Client, namespaces: Iterable[str]) -> Stock:
    """What changes the requests of pods, where there is no Kueue."""
    stock = Stock()
    await _of_pods(client, stock, sorted(set(namespaces)))
    return stock


async def read_nodes(client: Client, stock: Stock) -> None:
    """The nodes, and what is in use on them; ForbiddenError where the nodes may not be read."""
    await _take(client, stock, NODES)
    stock.pods = []
    try:
        await _take(client, stock, PODS, selection=Selection(field_selector=_RUNNING))
    except ForbiddenError as refused:
        stock.pods = None
        note(f"what is in use on the nodes is not known: {refused}")


async def _of_pods(client: Client, stock: Stock, namespaces: list[str] | None) -> None:
    places = namespaces if namespaces is not None else (None,)
    await asyncio.gather(
        *(_try(client, stock, kinds.LIMIT_RANGES, place) for place in places), _runtime_classes(client, stock)
    )


async def _take(
    client: Client,
    stock: Stock,
    resource: Resource,
    namespace: str | None = None,
    *,
    selection: Selection = EVERYTHING,
) -> None:
    async with aclosing(client.pages(resource, namespace, selection=selection, limit=PAGE)) as pages:
        async for page in pages:
            for item in page.items:
                stock.take({**item, "apiVersion": resource.api_version, "kind": resource.kind})


async def _try(client: Client, stock: Stock, resource: Resource, namespace: str | None = None) -> bool:
    """Read a collection, or say in the stock that it is not known."""
    try:
        await _take(client, stock, resource, namespace)
    except (ForbiddenError, NotFoundError) as error:
        place = f" of namespace {namespace}" if namespace else ""
        why = "are not served" if isinstance(error, NotFoundError) else "may not be read"
        stock.unknown.append(f"{resource.plural}{place} {why}")
        return False
    return True


async def _priorities(client: Client, stock: Stock) -> None:
    """They decide who may be preempted, and nothing about never."""
    try:
        await _take(client, stock, kinds.PRIORITY_CLASSES)
    except (ForbiddenError, NotFoundError):
        stock.priority_classes_known = False


async def _runtime_classes(client: Client, stock: Stock) -> None:
    if await _try(client, stock, kinds.RUNTIME_CLASSES):
        stock.runtime_classes = stock.runtime_classes or []


async def _configuration(client: Client, stock: Stock, namespace: str) -> None:
    """Kueue's own. That it is not known is told by its being None."""
    try:
        raw = await client.get(kinds.CONFIG_MAPS, kinds.CONFIG_NAME, namespace)
    except (ForbiddenError, NotFoundError):
        return
    stock.take({**raw, "apiVersion": "v1", "kind": "ConfigMap"})


async def _labels(client: Client, stock: Stock, namespaces: list[str] | None) -> None:
    """Labels of namespaces, which a ClusterQueue selects by. Where they may not be read, they are not known."""
    if namespaces is None:
        await _try(client, stock, NAMESPACES)
        return
    for name in namespaces:
        try:
            raw: dict[str, Any] = await client.get(NAMESPACES, name)
        except (ForbiddenError, NotFoundError):
            continue
        stock.take({**raw, "apiVersion": "v1", "kind": "Namespace"})


async def _workloads(client: Client, stock: Stock, namespaces: list[str] | None) -> None:
    """Those of all namespaces, because they use the same quota; of the own ones where the others may not be read."""
    try:
        await _take(client, stock, kinds.QUEUED_WORKLOADS)
    except ForbiddenError as refused:
        if namespaces is None:
            raise
        note(f"what others have in use is not counted: {refused}")
        for name in namespaces:
            await _take(client, stock, kinds.QUEUED_WORKLOADS, name)


async def _limit(client: Client, stock: Stock) -> None:
    try:
        document = await client.discovery.openapi_v3(f"apis/{GROUP}/{VERSION}")
    except (ForbiddenError, NotFoundError):  # a size limit that is not known refuses nobody
        return
    stock.queue_limit = podset_limit(document)


def fit_in_cluster(question: Question, cluster: ClusterFlags) -> list[Answer]:
    """The answers by a cluster; ClusterUnavailableError where there is nothing that could be asked."""

    async def ask(client: Client, own_namespace: str) -> list[Answer]:
        home = question.namespace or own_namespace
        subjects = subjects_of(question, home) if question.name is None else [await _stored(client, question, home)]
        places = {subject.namespace for subject in subjects}
        stock = await _stock_for(client, question, places)
        return [answer_of(subject, stock, fixed_nodes=question.fixed_nodes) for subject in subjects]

    return ask_cluster(cluster, ask)


async def _stock_for(client: Client, question: Question, places: set[str]) -> Stock:
    """What the cluster has; without Kueue only where its nodes are asked."""
    if not question.fixed_nodes or await has_kueue(client):
        stock = await read_kueue(client, places, kueue_namespace=question.kueue_namespace)
    else:
        stock = await read_pod_surroundings(client, places)
    if question.fixed_nodes:
        await read_nodes(client, stock)
    return stock


async def _stored(client: Client, question: Question, namespace: str) -> Subject:
    """The JobSet of the cluster; InputError when there is none of this name."""
    name = question.name or ""
    try:
        raw = await client.get(JOBSETS, name, namespace)
    except NotFoundError as error:
        hint = "-n NAMESPACE looks elsewhere, -f FILE asks about one that is not created yet"
        raise InputError(f"there is no JobSet {namespace}/{name}", hint=hint) from error
    jobset, _ = read_jobset(raw)
    return Subject(raw, name, namespace, question.queue or jobset.queue, jobset.uid, new=False)
