"""MultiKueue on loopback: a plane that dispatches, and worker planes, each with Kueue and gangctl with its gate."""

from __future__ import annotations

import base64
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.controlplane.api import Object, path_of
from tests.controlplane.components.addon import create_namespace
from tests.controlplane.components.kueue import NAMESPACE
from tests.controlplane.kubelet import Kubelet
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, read_until, wait_for
from tests.live import kueue
from tests.live.cluster import Cluster
from tests.live.gangctl import Gangctl
from tests.live.queued import Queued

MANAGER: Final = "manager"
CHECK: Final = "multikueue"
USER: Final = "multikueue"
"""Who the manager's Kueue is on the workers."""
RBAC: Final = "rbac.authorization.k8s.io/v1"
_GROUP: Final = "rbac.authorization.k8s.io"
_RULES: Final = (
    ("batch", ["jobs"], ["create", "delete", "get", "list", "watch"]),
    ("batch", ["jobs/status"], ["get"]),
    ("jobset.x-k8s.io", ["jobsets"], ["create", "delete", "get", "list", "watch"]),
    ("jobset.x-k8s.io", ["jobsets/status"], ["get"]),
    ("kueue.x-k8s.io", ["workloads"], ["create", "delete", "get", "list", "update", "watch"]),
    ("kueue.x-k8s.io", ["workloads/status"], ["get", "patch", "update"]),
)
"""Rights on a worker cluster, as Kueue's documentation grants them for Jobs and JobSets."""


@dataclass(frozen=True)
class Planes:
    """The planes by name, with MultiKueue between them."""

    planes: Mapping[str, ControlPlane]

    @classmethod
    async def start(cls, stack: AsyncExitStack, *workers: str, gates: Mapping[str, bool] | None = None) -> Planes:
        """Start them, until the stack is closed; ``gates`` are of the Kubernetes that dispatches."""
        planes = {}
        for name in (MANAGER, *workers):
            of_it = gates if name == MANAGER else None
            plane = await stack.enter_async_context(ControlPlane.start("1.37", ("jobset", "kueue"), gates=of_it))
            await kueue.configure(plane)
            await stack.enter_async_context(Gangctl(plane))
            planes[name] = plane
        made = cls(planes)
        for name in workers:
            await _let_in(planes[name])
            await made._know(name)
        await made._dispatch(workers)
        return made

    async def _know(self, name: str) -> None:
        """Give the manager's Kueue a kubeconfig for a worker."""
        kubeconfig = base64.b64encode(self.planes[name].kubeconfig_for(USER).read_bytes()).decode()
        secret: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
        secret["data"] = {"kubeconfig": kubeconfig}
        await self.planes[MANAGER].api.create(path_of("v1", "secrets", namespace=NAMESPACE), secret)
        source = {"kubeConfig": {"locationType": "Secret", "location": name}}
        await Queued(self.planes[MANAGER], "").apply("MultiKueueCluster", name, {"clusterSource": source})

    async def _dispatch(self, workers: Sequence[str]) -> None:
        """The AdmissionCheck of queues that dispatch, once it is active."""
        queued = Queued(self.planes[MANAGER], "")
        await queued.apply("MultiKueueConfig", "workers", {"clusters": list(workers)})
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "workers"}
        controller = "kueue.x-k8s.io/multikueue"
        await queued.apply("AdmissionCheck", CHECK, {"controllerName": controller, "parameters": parameters})

        async def active() -> bool:
            found = await queued.plane.api.get(queued.path("AdmissionCheck", CHECK))
            conditions = found.get("status", {}).get("conditions", [])
            if not [each for each in conditions if (each["type"], each["status"]) == ("Active", "True")]:
                raise NotYet(str(conditions))
            return True

        await wait_for(active, "the check of MultiKueue to be active")

    def kubeconfig(self, path: Path, namespace: str) -> Path:
        """One file with a context of its name for each plane; the manager's is the current one."""
        whole: Object = {"apiVersion": "v1", "kind": "Config", "current-context": MANAGER}
        whole |= {"clusters": [], "users": [], "contexts": []}
        for name, plane in self.planes.items():
            own = yaml.safe_load(plane.kubeconfig.read_text())
            whole["clusters"].append({**own["clusters"][0], "name": name})
            whole["users"].append({**own["users"][0], "name": name})
            context = {"cluster": name, "user": name, "namespace": namespace}
            whole["contexts"].append({"name": name, "context": context})
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(whole))
        return path


async def _let_in(plane: ControlPlane) -> None:
    """Grant the manager's Kueue its rights on a worker."""
    rules = [{"apiGroups": [group], "resources": names, "verbs": verbs} for group, names, verbs in _RULES]
    role: Object = {"apiVersion": RBAC, "kind": "ClusterRole", "metadata": {"name": USER}, "rules": rules}
    await plane.api.create(path_of(RBAC, "clusterroles"), role)
    binding: Object = {"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {"name": USER}}
    binding["roleRef"] = {"apiGroup": _GROUP, "kind": "ClusterRole", "name": USER}
    binding["subjects"] = [{"apiGroup": _GROUP, "kind": "User", "name": USER}]
    await plane.api.create(path_of(RBAC, "clusterrolebindings"), binding)


@dataclass(frozen=True)
class Team:
    """A namespace of the test's own in each cluster, whose queue ``main`` of the manager dispatches to the others."""

    clusters: Mapping[str, Cluster]
    kubelets: Mapping[str, Kubelet]
    kubeconfig: Path

    @property
    def namespace(self) -> str:
        """The same in each cluster."""
        return self.clusters[MANAGER].namespace

    def queued(self, name: str = MANAGER) -> Queued:
        """The queues of a cluster."""
        return Queued(self.clusters[name].plane, self.namespace)

    @classmethod
    @asynccontextmanager
    async def make(cls, planes: Planes, directory: Path, cpu: str, **workers: str) -> AsyncIterator[Team]:
        """So many CPUs of quota for the manager and for each worker; no node, and what runs pods on the workers."""
        namespace = f"team-{secrets.token_hex(3)}"
        clusters = {name: Cluster(plane, namespace) for name, plane in planes.planes.items()}
        async with AsyncExitStack() as stack:
            kubelets = {name: await stack.enter_async_context(Kubelet(clusters[name].api)) for name in workers}
            made = cls(clusters, kubelets, planes.kubeconfig(directory / "kubeconfig", namespace))
            for name, quota in {**workers, MANAGER: cpu}.items():
                await create_namespace(clusters[name].api, namespace)
                await made.queued(name).apply("ResourceFlavor", namespace, {})
                checks: dict[str, Any] = (
                    {"admissionChecksStrategy": {"admissionChecks": [{"name": CHECK}]}} if name == MANAGER else {}
                )
                await made.queued(name).queue(quota, **checks)
                await made._open(name)
            yield made

    async def _open(self, name: str) -> None:
        await read_until(
            lambda: self.queued(name).cluster_queue(),
            lambda queue: queue is not None and queue.active is not None and queue.active.status,
            f"the queue of {name} to be active",
        )
