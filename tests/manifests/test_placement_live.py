"""Where the real scheduler puts the replicas of manifests/base: never two on one node where there are two."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy

import yaml

from tests.controlplane.api import Object, path_of
from tests.controlplane.nodes import add_nodes, remove_nodes
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.manifests.files import MANIFESTS

GPU_TAINT: Object = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
MINE = "tests.gangctl.dev/own"


def deployment(namespace: str) -> Object:
    """As it is shipped, but for what depends on the rest of the installation, on nodes of the test alone."""
    shipped: Object = yaml.safe_load((MANIFESTS / "base" / "deployment.yaml").read_text(encoding="utf-8"))
    shipped["metadata"]["namespace"] = namespace
    pod = shipped["spec"]["template"]["spec"]
    del pod["serviceAccountName"], pod["priorityClassName"]
    pod["automountServiceAccountToken"] = False
    pod["nodeSelector"][MINE] = namespace
    for labels in (shipped["spec"]["selector"]["matchLabels"], shipped["spec"]["template"]["metadata"]["labels"]):
        labels["app.kubernetes.io/name"] = "gangctl"
    return shipped


async def placed(plane: ControlPlane, namespace: str, revision: str) -> list[int]:
    """How many replicas of a revision are on each node that has some."""

    async def all_bound() -> list[str]:
        pods = await plane.api.list(path_of("v1", "pods", namespace=namespace))
        own = [pod for pod in pods if pod["metadata"]["labels"].get("revision") == revision]
        nodes = [pod["spec"].get("nodeName", "") for pod in own]
        if len(nodes) != 2 or not all(nodes):
            raise NotYet(nodes)
        return nodes

    return sorted(Counter(await wait_for(all_bound, "two replicas to have nodes")).values())


async def test_two_replicas_are_on_two_nodes_that_they_can_use(plane_1_37: ControlPlane, namespace: str) -> None:
    api, labels = plane_1_37.api, {MINE: namespace, "kubernetes.io/os": "linux"}
    place = path_of("apps/v1", "deployments", namespace=namespace)
    tainted = await add_nodes(api, 1, labels=labels, taints=[GPU_TAINT])
    # A large node, which the scheduler's scores would prefer twice.
    nodes = await add_nodes(api, 1, cpu="64", memory="512Gi", labels=labels)
    try:
        for revision, expected in (("one-node", [2]), ("two-nodes", [1, 1])):
            wanted = deepcopy(deployment(namespace))
            wanted["metadata"]["name"] = revision
            for labelled in (
                wanted["spec"]["selector"]["matchLabels"],
                wanted["spec"]["template"]["metadata"]["labels"],
            ):
                labelled["revision"] = revision
            await api.create(place, wanted)
            assert await placed(plane_1_37, namespace, revision) == expected
            await api.delete(f"{place}/{revision}")
            nodes += await add_nodes(api, 1, labels=labels) if revision == "one-node" else []
    finally:
        await remove_nodes(api, [*tainted, *nodes])
