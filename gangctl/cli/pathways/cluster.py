"""PathwaysJobs in a cluster: the objects with the name of one, and the inputs of renderings."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from gangctl.api.meta import JOBSET_NAME, REPLICATED_JOB_NAME
from gangctl.api.objects import Object, object_at, text_at
from gangctl.api.pods import FINISHED
from gangctl.cli.cluster import ask_cluster, discover_rules, names_in
from gangctl.cli.kueuecluster import has_kueue, read_kueue
from gangctl.cli.messages import note
from gangctl.cli.names import ObjectNotFoundError
from gangctl.cli.options import ClusterFlags
from gangctl.cli.pathways.report import HeadReport, SeenObjects
from gangctl.client.client import Client, Selection
from gangctl.client.resources import JOBSETS, NODES, PODS, Resource
from gangctl.cluster.stock import Stock
from gangctl.controllers.pathways.plan import PATHWAYS_JOBS
from gangctl.errors import ClusterUnavailableError, ForbiddenError, NotFoundError
from gangctl.fit.floor import NodeShape, read_node
from gangctl.gang.resolve import ClusterRules
from gangctl.pathways.status import pathways_owner
from gangctl.pathways.words import API_VERSION, HEAD, JOB_LABEL

T = TypeVar("T")


def look_up(name: str, namespace: str | None, cluster: ClusterFlags) -> SeenObjects:
    """The PathwaysJob of that name, its JobSet and the pod of its head.

    A JobSet that was rendered and then applied manually has no PathwaysJob. ObjectNotFoundError if there is neither,
    ClusterUnavailableError if the API is not served.
    """

    async def ask(client: Client, own_namespace: str) -> SeenObjects:
        home = namespace or own_namespace
        job = await _found(client, PATHWAYS_JOBS, client.get(PATHWAYS_JOBS, name, home))
        jobset = await _found(client, JOBSETS, client.get(JOBSETS, name, home))
        foreign = job is not None and jobset is not None and pathways_owner(jobset) != text_at(job["metadata"], "uid")
        # Without a PathwaysJob, only the label distinguishes a JobSet of Pathways from others.
        if job is None and jobset is not None and object_at(jobset["metadata"], "labels").get(JOB_LABEL) != name:
            jobset = None
        if job is None and jobset is None:
            raise await _unknown(client, name, home)
        head: HeadReport | None = None
        known = True
        if jobset is not None and not foreign:
            try:
                head = await _head(client, name, home)
            except ForbiddenError as refused:
                known = False
                note(f"the head's pod is not known: {refused}")
        return SeenObjects(home, name, job, None if foreign else jobset, head, foreign, known)

    return ask_cluster(cluster, ask)


async def _found(client: Client, resource: Resource, request: Awaitable[T]) -> T | None:
    """What a request finds; None where there is nothing, also because the resource is not served."""
    try:
        return await request
    except NotFoundError:
        return None
    except ForbiddenError:
        # An API server forbids also what it does not serve.
        if await client.discovery.serves(resource):
            raise
        return None


async def _unknown(client: Client, name: str, namespace: str) -> ObjectNotFoundError | ClusterUnavailableError:
    """Why there are no objects: no API, or none of that name."""
    names = await _found(client, PATHWAYS_JOBS, names_in(client, PATHWAYS_JOBS, namespace))
    if names is None:
        hint = "kubectl apply -k manifests/pathways/crds, or apply what gangctl pathways render prints"
        return ClusterUnavailableError(f"the cluster does not serve PathwaysJobs ({API_VERSION})", hint=hint)
    return ObjectNotFoundError("PathwaysJob", name, namespace, others=names, hint="-n NAMESPACE looks elsewhere")


async def _head(client: Client, name: str, namespace: str) -> HeadReport | None:
    """The newest pod of the head, running ones first."""
    selection = Selection(label_selector=f"{JOBSET_NAME}={name},{REPLICATED_JOB_NAME}={HEAD}")
    page = await client.list(PODS, namespace, selection=selection)
    pods = sorted(
        page.items, key=lambda pod: (_phase(pod) not in FINISHED, text_at(pod["metadata"], "creationTimestamp"))
    )
    if not pods:
        return None
    newest = pods[-1]
    node = newest.get("spec", {}).get("nodeName")
    name = str(newest["metadata"].get("name"))
    return {"pod": name, "phase": _phase(newest), "node": node if isinstance(node, str) else ""}


def _phase(pod: Object) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    return str((pod.get("status") or {}).get("phase") or "Pending")


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Facts of the cluster. ``nodes`` is None if they may not be read, ``stock`` without Kueue."""

    rules: ClusterRules | None
    """None if the cluster does not support gangs."""
    namespace: str
    """That of ``-n``, else the context's."""
    nodes: tuple[NodeShape, ...] | None
    stock: Stock | None


def cluster_facts(
    cluster: ClusterFlags, namespace: str | None, *, namespaces: Iterable[str] | None, kueue_namespace: str
) -> ClusterFacts:
    """Read a cluster. Its queues are read for ``namespaces``; an empty one is the context's; None for none."""

    async def ask(client: Client, own_namespace: str) -> ClusterFacts:
        home = namespace or own_namespace
        rules = await _rules(client, home)
        nodes = await _nodes(client)
        stock = None
        if namespaces is not None:
            if await has_kueue(client):
                places = {name or home for name in namespaces}
                stock = await read_kueue(client, places, kueue_namespace=kueue_namespace)
            else:
                note("the cluster does not have Kueue: whether a queue covers the head is not asked")
        return ClusterFacts(rules, home, nodes, stock)

    return ask_cluster(cluster, ask)


async def _rules(client: Client, namespace: str) -> ClusterRules | None:
    try:
        return await discover_rules(client, namespace)
    except ClusterUnavailableError as error:
        note(f"rendered for a cluster without gangs: {error}")
        return None


async def _nodes(client: Client) -> tuple[NodeShape, ...] | None:
    try:
        page = await client.list(NODES)
    except ForbiddenError as refused:
        note(f"whether a node is large enough for the head is not known: {refused}")
        return None
    return tuple(map(read_node, page.items))
