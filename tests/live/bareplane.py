"""A plane without gangctl that many tests use, one after the other: each finds it as the first one found it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from gangctl.api.meta import API_VERSION
from tests.controlplane.api import ApiFailure, Object, path_of
from tests.controlplane.plane import ControlPlane
from tests.controlplane.wait import NotYet, wait_for
from tests.live.cluster import JOBSETS
from tests.live.definitions import serve
from tests.live.gangctl import OWN_NAMESPACE, create_namespaces, prepare
from tests.live.observe import webhooks_noticed
from tests.manifests.definitions.policies import EXCEPTIONS, POLICIES, definitions

_REGISTRATIONS: Final = tuple(
    path_of("admissionregistration.k8s.io/v1", plural)
    for plural in (
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    )
)
_DEFINITIONS: Final = path_of("apiextensions.k8s.io/v1", "customresourcedefinitions")
_NAMESPACES: Final = path_of("v1", "namespaces")
_PERMANENT: Final = {"default", "kube-system", "kube-public", "kube-node-lease", "jobset-system", OWN_NAMESPACE}
_OF_THE_CLUSTER: Final = (
    path_of("admissionregistration.k8s.io/v1", "validatingadmissionpolicybindings"),
    path_of("admissionregistration.k8s.io/v1", "validatingadmissionpolicies"),
    path_of("rbac.authorization.k8s.io/v1", "clusterrolebindings"),
    path_of("rbac.authorization.k8s.io/v1", "clusterroles"),
    path_of("flowcontrol.apiserver.k8s.io/v1", "flowschemas"),
    path_of("flowcontrol.apiserver.k8s.io/v1", "prioritylevelconfigurations"),
    _DEFINITIONS,
)
_OF_GANGCTLS_NAMESPACE: Final = tuple(
    path_of(version, plural, namespace=OWN_NAMESPACE)
    for version, plural in (
        ("apps/v1", "deployments"),
        ("v1", "services"),
        ("v1", "serviceaccounts"),
        ("v1", "secrets"),
        ("v1", "resourcequotas"),
        ("coordination.k8s.io/v1", "leases"),
        ("policy/v1", "poddisruptionbudgets"),
        ("networking.k8s.io/v1", "networkpolicies"),
        ("rbac.authorization.k8s.io/v1", "rolebindings"),
        ("rbac.authorization.k8s.io/v1", "roles"),
    )
)
_POLICIES: Final = tuple(path_of(API_VERSION, plural) for plural in (POLICIES, EXCEPTIONS))
"""They outlive the gangctl that went by them, and the next one would."""
_SCHEDULING: Final = "scheduling.k8s.io/v1beta1"
_WORK: Final = (
    (JOBSETS, "jobsets"),
    ("batch/v1", "jobs"),
    ("apps/v1", "deployments"),
    ("apps/v1", "replicasets"),
    ("v1", "pods"),
    (_SCHEDULING, "podgroups"),
    (_SCHEDULING, "workloads"),
)
"""What runs, or would: none of it is there at first."""


@dataclass(frozen=True)
class BarePlane:
    """The plane, and the paths of what it had at first."""

    plane: ControlPlane
    inventory: frozenset[str]

    @classmethod
    async def start(cls) -> BarePlane:
        """With the rights of gangctl's manifests and the definitions of policies, as where gangctl is installed."""
        plane = await ControlPlane.start("1.37", ("jobset",), scheduler=False)
        await _equip(plane)
        return cls(plane, frozenset([*await _listed(plane, _REGISTRATIONS), *await _equipment(plane)]))

    async def clean(self) -> None:
        """Have everything as it was at first. No gangctl may run any more.

        Namespaces of a test are about to go then, and empty: that they are gone takes Kubernetes some seconds.
        """
        plane = self.plane
        # Webhooks without a server would refuse what comes next.
        await self._remove(await _listed(plane, _REGISTRATIONS))
        await webhooks_noticed(plane)
        for each in await plane.api.list(_NAMESPACES):
            await self._empty(each)
        await self._remove(await _equipment(plane))
        await wait_for(self._is_empty, what="the plane to be empty")
        await wait_for(self._may_be_equipped, what="what is about to go to be gone")
        await _equip(plane)
        for collection in _POLICIES:
            await plane.api.delete(collection)
        await wait_for(self._is_as_before, what="the plane to be as it was")

    async def _remove(self, paths: Iterable[str]) -> None:
        for path in paths:
            if path not in self.inventory:
                await _deleted(self.plane, path)

    async def _empty(self, namespace: Object) -> None:
        """Take away what runs in it, and itself unless it is Kubernetes' or gangctl's."""
        meta = namespace["metadata"]
        if "deletionTimestamp" in meta:
            return
        for version, plural in _WORK:
            path = path_of(version, plural, namespace=meta["name"])
            # Pods without a node need no kubelet to end them.
            await self.plane.api.delete(path, propagation="Background", grace=0 if plural == "pods" else None)
        if meta["name"] not in _PERMANENT:
            await self.plane.api.delete(f"{_NAMESPACES}/{meta['name']}")

    async def _is_empty(self) -> bool:
        left = await _listed(self.plane, [path_of(version, plural) for version, plural in _WORK])
        if left:
            raise NotYet(f"{len(left)} objects are left, {sorted(left)[:5]}")
        return True

    async def _may_be_equipped(self) -> bool:
        """Whether nothing that is needed is about to go: neither would be there for long."""
        found = [*await self.plane.api.list(_NAMESPACES), *await self.plane.api.list(_DEFINITIONS)]
        going = {each["metadata"]["name"] for each in found if "deletionTimestamp" in each["metadata"]}
        kept = {OWN_NAMESPACE, *(each["metadata"]["name"] for each in definitions().values())}
        if going & kept:
            raise NotYet(f"{going & kept} are about to go")
        return True

    async def _is_as_before(self) -> bool:
        there = {*await _listed(self.plane, _REGISTRATIONS), *await _equipment(self.plane)}
        there |= {*await _listed(self.plane, _POLICIES)}
        if there != self.inventory:
            raise NotYet(f"left {sorted(there - self.inventory)}, missing {sorted(self.inventory - there)}")
        return True


async def _equip(plane: ControlPlane) -> None:
    await create_namespaces(plane, [OWN_NAMESPACE])
    await prepare(plane)
    await serve(plane.api, definitions().values())


async def _equipment(plane: ControlPlane) -> list[str]:
    """Paths of what an installation consists of."""
    return await _listed(plane, (*_OF_THE_CLUSTER, *_OF_GANGCTLS_NAMESPACE))


async def _listed(plane: ControlPlane, collections: Iterable[str]) -> list[str]:
    """Paths of objects; of those of several namespaces that of their collection, and their names."""
    return [
        f"{collection}/{each['metadata']['name']}"
        for collection in collections
        for each in await plane.api.list(collection)
    ]


async def _deleted(plane: ControlPlane, path: str) -> None:
    try:
        await plane.api.delete(path)
    except ApiFailure as failure:
        if failure.status != HTTPStatus.NOT_FOUND:
            raise
