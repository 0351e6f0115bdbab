"""A cluster with real nodes, as its operator sees it: kubectl, the pods of gangctl, and what it leaves behind."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.components.addon import create_namespace, remove_namespace
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.live.cluster import JOBSETS, Cluster
from tests.manifests.files import ROOT
from tests.manifests.kubectl import Kubectl

OWN = "gangctl-system"
EXAMPLE = ROOT / "examples" / "08-allreduce.yaml"
_PODS = path_of("v1", "pods", namespace=OWN)


class RealCluster:
    """What a test does with the nodes and what runs on them."""

    def __init__(self, plane: ControlPlane, home: Path) -> None:
        self.plane = plane
        self.api = plane.api
        self.home = home
        self._kubectl = Kubectl(home, plane.kubeconfig)

    async def kubectl(self, *arguments: str, given: str | None = None) -> str:
        """Run kubectl to its end; what it printed."""
        return (await self._kubectl.run(*arguments, given=given)).text

    async def nodes_ready(self) -> None:
        """Wait until all nodes take pods."""

        async def ready() -> bool:
            for node in await self.api.list(path_of("v1", "nodes")):
                if node["spec"].get("taints") or node["spec"].get("unschedulable"):
                    raise NotYet(f"{node['metadata']['name']}: {node['spec']}")
            return True

        await wait_for(ready, "the nodes to be ready")

    async def is_lost(self, name: str) -> None:
        """Wait until the cluster has noticed that a node does not answer."""

        async def noticed() -> bool:
            node = await self.api.get(path_of("v1", "nodes", name=name))
            if not any(taint["key"] == "node.kubernetes.io/unreachable" for taint in node["spec"].get("taints", [])):
                raise NotYet(str(node["spec"]))
            return True

        await wait_for(noticed, f"{name} to be missed")

    async def rolled_out(self) -> None:
        """Wait until the Deployment runs what it says, and its replicas alone answer for the Service."""
        await self.kubectl("--namespace", OWN, "rollout", "status", "deployment/gangctl", "--timeout=300s")

    async def replicas(self) -> list[Object]:
        """gangctl's pods that are not about to end."""
        return [pod for pod in await self.api.list(_PODS) if "deletionTimestamp" not in pod["metadata"]]

    async def ready(self, count: int, where: Callable[[Object], bool] = lambda _: True) -> list[Object]:
        """Wait until so many replicas are ready."""

        async def enough() -> list[Object]:
            found = [pod for pod in await self.replicas() if _is_ready(pod) and where(pod)]
            if len(found) != count:
                raise NotYet(str([_summary(pod) for pod in await self.replicas()]))
            return found

        return await wait_for(enough, f"{count} replicas to be ready")

    async def leader(self, other_than: str = "") -> str:
        """The pod that holds the Lease, once that is not ``other_than``."""

        async def holder() -> str:
            lease = await self.api.get(path_of("coordination.k8s.io/v1", "leases", namespace=OWN, name="gangctl"))
            name: str = (lease["spec"].get("holderIdentity") or "").partition("_")[0]
            if name in {"", other_than}:
                raise NotYet(str(lease["spec"]))
            return name

        return await wait_for(holder, "a leader", tolerate=(ApiFailure,))

    @asynccontextmanager
    async def namespace(self) -> AsyncIterator[Cluster]:
        """A namespace of the test's own, gone with its pods at the end."""
        name = f"real-{secrets.token_hex(3)}"
        await create_namespace(self.api, name)
        account = path_of("v1", "serviceaccounts", namespace=name, name="default")
        await wait_for(lambda: self.api.get(account), "the default ServiceAccount", tolerate=(ApiFailure,))
        cluster = Cluster(self.plane, name)
        try:
            yield cluster
        finally:
            await self.api.delete(cluster.path(JOBSETS, "jobsets"), propagation="Background")
            await remove_namespace(self.api, name)

    async def leaves_nothing(self, before: Sequence[str]) -> None:
        """Wait until the cluster has the objects that it had ``before``."""

        async def gone() -> bool:
            if left := {*await self.objects()} - {*before}:
                raise NotYet(str(sorted(left)))
            return True

        await wait_for(gone, "the last objects of gangctl to go", interval=1)

    async def objects(self) -> list[str]:
        """Every object that has to do with gangctl, of every kind that an installation has."""
        kinds = {
            *("namespaces", "clusterroles", "clusterrolebindings", "customresourcedefinitions", "priorityclasses"),
            *("mutatingwebhookconfigurations", "validatingwebhookconfigurations", "flowschemas"),
            *("mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "prioritylevelconfigurations"),
            *("validatingadmissionpolicies", "validatingadmissionpolicybindings", "podgroups", "workloads"),
            *("roles", "rolebindings", "secrets", "configmaps", "services", "deployments", "leases", "pods"),
        }
        found = await self.kubectl("get", ",".join(sorted(kinds)), "--all-namespaces", "--output=name")
        return [line for line in found.splitlines() if "gang" in line]

    async def trained(self, cluster: Cluster, result: str) -> None:
        """All four workers of the example say the same result."""
        selector = "jobset.sigs.k8s.io/jobset-name=allreduce"
        logs = await self.kubectl("--namespace", cluster.namespace, "logs", "--selector", selector, "--tail=1")
        assert logs.splitlines() == [f"trained: {result}"] * 4

    def kill_container(self, pod: Object) -> None:
        """SIGKILL to the first process of a pod's container, as the kernel does when memory is out."""
        (status,) = pod["status"]["containerStatuses"]
        container = status["containerID"].rpartition("/")[2]
        os.kill(_first_process(container), signal.SIGKILL)


def example(**environment: str) -> Object:
    """The JobSet that trains, with environment variables for its workers."""
    (raw,) = yaml.safe_load_all(EXAMPLE.read_text(encoding="utf-8"))
    (container,) = raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"]
    container["env"] = [
        *(each for each in container["env"] if each["name"] not in environment),
        *({"name": name, "value": value} for name, value in environment.items()),
    ]
    loaded: Object = raw
    return loaded


async def finished(cluster: Cluster, name: str = "allreduce") -> Object:
    """Wait until a JobSet has finished; its status."""

    async def ended() -> Object:
        status: Object = (await cluster.jobset(name)).get("status", {})
        if "terminalState" not in status:
            raise NotYet(str(status))
        return status

    return await wait_for(ended, f"{name} to finish")


def _first_process(container: str) -> int:
    """The process of a container that all others of it come from: the lowest in its cgroup."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            try:
                inside = container in (directory / "cgroup").read_text()
            except OSError:
                continue
            if inside:
                found.append(int(directory.name))
    return min(found)


def _is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _summary(pod: Object) -> str:
    states = [each.get("state") for each in pod.get("status", {}).get("containerStatuses", [])]
    return f"{pod['metadata']['name']} on {pod['spec'].get('nodeName')}: {states}"
