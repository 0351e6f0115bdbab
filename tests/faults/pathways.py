"""PathwaysJobs in the cluster of scenarios: their definition, nodes for one, and what is seen of them at the end."""

from __future__ import annotations

from typing import Any

from gangctl.pathways.words import GKE_ACCELERATOR, GKE_TOPOLOGY, GROUP, PLURAL, TPU
from gangctl.sandbox.api import Api
from gangctl.sandbox.requests import Caller, DeleteOptions
from gangctl.sandbox.simulated import add_nodes
from tests.pathways.samples import pathways_job
from tests.pathways.upstream_definition import upstream_definition

Object = dict[str, Any]

JOBS = f"{PLURAL}.{GROUP}"
ABOUT = frozenset(
    {JOBS, *(f"{verb} jobsets.jobset.x-k8s.io" for verb in ("create", "get")), "list leases.coordination.k8s.io"}
)
"""Resources, some with a verb, that gangctl asks for because of PathwaysJobs."""


async def define(api: Api, caller: Caller) -> None:
    """Install the definition, and add a node for a head and two for its slice."""
    kind = api.kind("customresourcedefinitions.apiextensions.k8s.io")
    await api.create(kind, "", upstream_definition(), caller)
    await add_nodes(api, 1, cpu="64", memory="256Gi", prefix="head")
    labels = {GKE_ACCELERATOR: "tpu-v5p-slice", GKE_TOPOLOGY: "2x2x2"}
    taints = [{"key": TPU, "value": "present", "effect": "NoSchedule"}]
    await add_nodes(api, 2, cpu="208", labels=labels, taints=taints, extended={TPU: "4"}, prefix="tpu")


async def submit(api: Api, caller: Caller, namespace: str) -> None:
    """Create a PathwaysJob that those nodes can take."""
    raw = pathways_job(workers={"numSlices": 1}, maxRestarts=1)
    raw["metadata"]["namespace"] = namespace
    await api.create(api.kind(JOBS), namespace, raw, caller)


async def delete(api: Api, caller: Caller, namespace: str) -> None:
    """Delete it."""
    await api.delete(api.kind(JOBS), namespace, "pw", caller, DeleteOptions(propagation="Background"))


async def found(api: Api) -> dict[str, Any]:
    """The statuses by name, without their times."""
    jobs = (await api.list(api.kind(JOBS))).items
    return {each["metadata"]["name"]: _timeless(each.get("status", {})) for each in jobs}


def _timeless(status: Object) -> Object:
    conditions = [
        {key: value for key, value in each.items() if key != "lastTransitionTime"} for each in status["conditions"]
    ]
    return {**status, "conditions": conditions}
