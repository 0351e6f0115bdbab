"""Reading what a cluster has under the name of one PathwaysJob."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from gangctl.api.meta import JOBSET_NAME, REPLICATED_JOB_NAME
from gangctl.api.objects import Object
from gangctl.cli.cluster import ask_cluster
from gangctl.cli.messages import note
from gangctl.cli.options import ClusterFlags
from gangctl.cli.pathways.standing import HeadPod, Seen
from gangctl.client.client import Client, Selection
from gangctl.client.resources import JOBSETS, PODS, Resource
from gangctl.controllers.pathways.copies import PATHWAYS_JOBS
from gangctl.errors import ClusterUnavailableError, ForbiddenError, InputError, NotFoundError
from gangctl.pathways.status.projections import pathways_owner
from gangctl.pathways.words import API_VERSION, HEAD, JOB_LABEL

_OVER: Final = frozenset({"Succeeded", "Failed"})


def see(name: str, namespace: str | None, cluster: ClusterFlags) -> Seen:
    """The PathwaysJob of that name, its JobSet and the pod of its head.

    A JobSet that was rendered and then applied by hand has no PathwaysJob, and needs none. InputError where there
    is neither, ClusterUnavailableError where there are no PathwaysJobs at all.
    """

    async def ask(client: Client, own_namespace: str) -> Seen:
        home = namespace or own_namespace
        job = await _get(client, PATHWAYS_JOBS, name, home)
        jobset = await _get(client, JOBSETS, name, home)
        foreign = job is not None and jobset is not None and pathways_owner(jobset) != _uid(job)
        if job is None and jobset is not None and _label(jobset) != name:
            jobset = None
        if job is None and jobset is None:
            raise await _unknown(client, name, home)
        head = None if foreign or jobset is None else await _head(client, name, home)
        return Seen(home, name, job, None if foreign else jobset, head, foreign)

    return ask_cluster(cluster, ask)


async def _get(client: Client, resource: Resource, name: str, namespace: str) -> Object | None:
    try:
        return await client.get(resource, name, namespace)
    except NotFoundError:
        return None


async def _unknown(client: Client, name: str, namespace: str) -> InputError | ClusterUnavailableError:
    """Why there is nothing: no API, or no object of that name."""
    try:
        page = await client.list(PATHWAYS_JOBS, namespace)
    except NotFoundError:
        hint = "kubectl apply -k manifests/pathways/crds, or apply what gangctl pathways render prints"
        return ClusterUnavailableError(f"the cluster does not serve PathwaysJobs ({API_VERSION})", hint=hint)
    names = [str(item["metadata"].get("name")) for item in page.items]
    close = get_close_matches(name, names, n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else "-n NAMESPACE looks elsewhere"
    return InputError(f"there is no PathwaysJob {namespace}/{name}", hint=hint)


async def _head(client: Client, name: str, namespace: str) -> HeadPod | None:
    """The newest pod of the head, one that has not ended before one that has."""
    selection = Selection(label_selector=f"{JOBSET_NAME}={name},{REPLICATED_JOB_NAME}={HEAD}")
    try:
        page = await client.list(PODS, namespace, selection=selection)
    except ForbiddenError as refused:
        note(f"the head's pod is not known: {refused}")
        return None
    pods = sorted(page.items, key=lambda pod: (_phase(pod) not in _OVER, _created(pod)))
    if not pods:
        return None
    newest = pods[-1]
    node = newest.get("spec", {}).get("nodeName")
    return HeadPod(str(newest["metadata"].get("name")), _phase(newest), node if isinstance(node, str) else "")


def _phase(pod: Object) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "Terminating"
    return str((pod.get("status") or {}).get("phase") or "Pending")


def _created(pod: Object) -> str:
    return str(pod["metadata"].get("creationTimestamp") or "")


def _uid(raw: Object) -> str:
    return str(raw["metadata"].get("uid") or "")


def _label(raw: Object) -> str:
    return str((raw["metadata"].get("labels") or {}).get(JOB_LABEL) or "")
