"""``gangctl fit`` against a cluster."""

from __future__ import annotations

from gangctl.api.jobset import read_jobset
from gangctl.cli.cluster import ask_cluster
from gangctl.cli.fitsubjects import Answer, Question, Subject, answer_of, subjects_of
from gangctl.cli.kueuecluster import has_kueue, read_kueue, read_nodes, read_pod_surroundings
from gangctl.cli.kueuesnapshot import Stock
from gangctl.cli.options import ClusterFlags
from gangctl.client.client import Client
from gangctl.client.resources import JOBSETS
from gangctl.errors import InputError, NotFoundError


def fit_in_cluster(question: Question, cluster: ClusterFlags) -> list[Answer]:
    """The answers by a cluster; ClusterUnavailableError where there is nothing that could be asked."""

    async def ask(client: Client, own_namespace: str) -> list[Answer]:
        home = question.namespace or own_namespace
        subjects = subjects_of(question, home) if question.name is None else [await _stored(client, question, home)]
        places = {subject.namespace for subject in subjects}
        stock = await _stock(client, question, places)
        return [answer_of(subject, stock, fixed_nodes=question.fixed_nodes) for subject in subjects]

    return ask_cluster(cluster, ask)


async def _stock(client: Client, question: Question, places: set[str]) -> Stock:
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
